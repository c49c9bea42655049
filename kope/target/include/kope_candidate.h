/* The interface between KOPE and a candidate: typed tensors, attributes, workspace and stream for one host entry.
 *
 * A candidate is one source file that includes kernel_operator.h and this header, defines device kernels, and exports
 *
 *     extern "C" int kope_entry(const KopeCall* call);                 0: launched; anything else: refused
 *     extern "C" size_t kope_workspace_bytes(const KopeCall* call);    optional; called first, default 0
 *
 * kope_entry computes the tiling on the host and launches with kernel<<<blocks, nullptr, call->stream>>>(...). It does not
 * wait: the caller synchronises the stream and checks its return code. Plain C++17, nothing in it depends on a target.
 */
#ifndef KOPE_CANDIDATE_H
#define KOPE_CANDIDATE_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#define KOPE_CANDIDATE_VERSION 1

enum KopeDtype : int32_t {
    KOPE_FLOAT32 = 0,
    KOPE_FLOAT16 = 1,
    KOPE_BFLOAT16 = 2,
    KOPE_INT8 = 3,
    KOPE_UINT8 = 4,
    KOPE_INT32 = 5,
    KOPE_INT64 = 6,
    KOPE_BOOL = 7,
    KOPE_INT16 = 8,
};

/* A contiguous tensor in device memory, outermost axis first. data == nullptr: an optional input that was omitted. */
struct KopeTensor {
    void* data;
    const int64_t* shape;
    int32_t rank;
    KopeDtype dtype;
    int64_t numel;
};

enum KopeAttrKind : int32_t {
    KOPE_ATTR_BOOL = 0,  /* in i, 0 or 1 */
    KOPE_ATTR_INT = 1,   /* in i */
    KOPE_ATTR_FLOAT = 2, /* in f */
    KOPE_ATTR_STRING = 3, /* in s, UTF-8, zero-terminated */
    KOPE_ATTR_LIST = 4    /* count numbers, in ints (cut off) and in floats */
};

struct KopeAttr {
    const char* name;
    KopeAttrKind kind;
    int64_t i;
    double f;
    const char* s;
    const int64_t* ints;
    const double* floats;
    int32_t count;
};

/* One call. inputs and outputs stand in the order of the task; outputs are allocated, their content is undefined. */
struct KopeCall {
    const KopeTensor* inputs;
    int32_t input_count;
    const KopeTensor* outputs;
    int32_t output_count;
    const KopeAttr* attrs;
    int32_t attr_count;
    void* workspace; /* device memory of workspace_bytes, 512-byte aligned, nullptr when 0 */
    size_t workspace_bytes;
    uint32_t vector_core_count; /* AIV cores of this chip */
    uint32_t ub_bytes;          /* unified buffer per core that a kernel may use */
    void* stream;               /* aclrtStream */
};

extern "C" int kope_entry(const KopeCall* call);
extern "C" size_t kope_workspace_bytes(const KopeCall* call) __attribute__((weak));

/* Bytes of one element. */
inline size_t kope_dtype_bytes(KopeDtype dtype)
{
    switch (dtype) {
        case KOPE_FLOAT32:
        case KOPE_INT32:
            return 4;
        case KOPE_FLOAT16:
        case KOPE_BFLOAT16:
        case KOPE_INT16:
            return 2;
        case KOPE_INT64:
            return 8;
        default:
            return 1;
    }
}

/* The attribute called name, or nullptr. */
inline const KopeAttr* kope_attr(const KopeCall* call, const char* name)
{
    for (int32_t k = 0; k < call->attr_count; ++k) {
        if (strcmp(call->attrs[k].name, name) == 0) {
            return &call->attrs[k];
        }
    }
    return nullptr;
}

/* A number as float64; fallback when there is no such attribute or it is no number. */
inline double kope_attr_f(const KopeCall* call, const char* name, double fallback)
{
    const KopeAttr* attr = kope_attr(call, name);
    if (attr == nullptr || attr->kind >= KOPE_ATTR_STRING) {
        return fallback;
    }
    return attr->kind == KOPE_ATTR_FLOAT ? attr->f : static_cast<double>(attr->i);
}

/* An integer or bool; fallback when there is no such attribute or it is neither. */
inline int64_t kope_attr_i(const KopeCall* call, const char* name, int64_t fallback)
{
    const KopeAttr* attr = kope_attr(call, name);
    return attr != nullptr && attr->kind <= KOPE_ATTR_INT ? attr->i : fallback;
}

/* A string; fallback when there is no such attribute or it is not a string. */
inline const char* kope_attr_s(const KopeCall* call, const char* name, const char* fallback)
{
    const KopeAttr* attr = kope_attr(call, name);
    return attr != nullptr && attr->kind == KOPE_ATTR_STRING ? attr->s : fallback;
}

/* How many numbers a list holds; 0 when there is no such attribute or it is not a list. */
inline int32_t kope_attr_count(const KopeCall* call, const char* name)
{
    const KopeAttr* attr = kope_attr(call, name);
    return attr != nullptr && attr->kind == KOPE_ATTR_LIST ? attr->count : 0;
}

/* Number k of a list as an integer; fallback when the list is shorter or there is none. */
inline int64_t kope_attr_list_i(const KopeCall* call, const char* name, int32_t k, int64_t fallback)
{
    return k >= 0 && k < kope_attr_count(call, name) ? kope_attr(call, name)->ints[k] : fallback;
}

/* Number k of a list as float64; fallback when the list is shorter or there is none. */
inline double kope_attr_list_f(const KopeCall* call, const char* name, int32_t k, double fallback)
{
    return k >= 0 && k < kope_attr_count(call, name) ? kope_attr(call, name)->floats[k] : fallback;
}

#endif
