// The Ascend C vector API as the twin understands it: one header for kernels, as with the vendor's compiler.
#ifndef KOPE_TWIN_KERNEL_OPERATOR_H
#define KOPE_TWIN_KERNEL_OPERATOR_H

#include "kope_twin/attributes.h"
#include "kope_twin/broadcast.h"
#include "kope_twin/copy.h"
#include "kope_twin/debug.h"
#include "kope_twin/enums.h"
#include "kope_twin/expressions.h"
#include "kope_twin/launch.h"
#include "kope_twin/legacy.h"
#include "kope_twin/library_math.h"
#include "kope_twin/library_quant.h"
#include "kope_twin/library_rows.h"
#include "kope_twin/pipe.h"
#include "kope_twin/pool.h"
#include "kope_twin/sort.h"
#include "kope_twin/sync.h"
#include "kope_twin/tensor.h"
#include "kope_twin/tensor_list.h"
#include "kope_twin/transpose.h"
#include "kope_twin/vector_arith.h"
#include "kope_twin/vector_compare.h"
#include "kope_twin/vector_fill.h"
#include "kope_twin/vector_reduce.h"

#endif
