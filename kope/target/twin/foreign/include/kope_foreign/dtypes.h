// Type numbers as the preprocessor sees them in kernels of operator projects (ORIG_DTYPE_X == DT_FLOAT16).
// Included after everything that declares enumerators of the same names.
#ifndef KOPE_FOREIGN_DTYPES_H
#define KOPE_FOREIGN_DTYPES_H

#define DT_FLOAT 0
#define DT_FLOAT16 1
#define DT_INT8 2
#define DT_INT32 3
#define DT_UINT8 4
#define DT_INT16 6
#define DT_UINT16 7
#define DT_UINT32 8
#define DT_INT64 9
#define DT_UINT64 10
#define DT_DOUBLE 11
#define DT_BOOL 12
#define DT_BF16 27
#define DT_INT4 29
#define FORMAT_NCHW 0
#define FORMAT_NHWC 1
#define FORMAT_ND 2
#define FORMAT_NC1HWC0 3
#define FORMAT_FRACTAL_NZ 29

#endif
