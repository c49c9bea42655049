// What the operator build defines around a kernel: tiling data, tiling keys, task types, template tiling. A launch of
// `kope twin run` sets tiling and key; a kernel that is only compiled never looks at them.
#ifndef KOPE_FOREIGN_OP_KERNEL_H
#define KOPE_FOREIGN_OP_KERNEL_H

#include <cmath>
#include <tuple>
#include <type_traits>

#include "kernel_operator.h"
#include "kope_candidate.h"
#include "kope_foreign/bridge.h"
#include "kope_foreign/tiling_data.h"

// Device code has these by their bare names.
template <typename A, typename B> constexpr std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <typename A, typename B> constexpr std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }

namespace kope_foreign {

inline uint64_t tiling_key = 0;

// Copies tiling data from where the launch left it; the scalar unit does it, eight bytes at a time.
template <typename T> KOPE_TWIN_API void fetch(T& to, const void* from)
{
    std::memcpy(&to, from, sizeof(T));
    kope_twin::api::charge_scalar(static_cast<uint32_t>(4 * (1 + sizeof(T) / 8)));
}

// Tensor lists: a table of addresses behind an offset, as kernels parse it and as ListTensorDesc reads it.
struct List {
    uint64_t words[2 + 2 * 256] = {};
};

inline void* make_list(List& list, const KopeTensor* tensors, int32_t count)
{
    list.words[0] = 2 * sizeof(uint64_t);
    list.words[1] = static_cast<uint64_t>(count);
    for (int32_t k = 0; k < count && k < 256; ++k) {
        list.words[2 + k] = reinterpret_cast<uint64_t>(tensors[k].data);
        list.words[2 + 256 + k] = reinterpret_cast<uint64_t>(&tensors[k]);
    }
    return list.words;
}

} // namespace kope_foreign

#define GET_TILING_DATA(NAME, FROM)                                                                                                        \
    KopeTiling NAME;                                                                                                                       \
    ::kope_foreign::fetch(NAME, FROM)
#define GET_TILING_DATA_WITH_STRUCT(TYPE, NAME, FROM)                                                                                      \
    TYPE NAME;                                                                                                                             \
    ::kope_foreign::fetch(NAME, FROM)
#define GET_TILING_DATA_PTR_WITH_STRUCT(TYPE, NAME, FROM) const TYPE* NAME = reinterpret_cast<const TYPE*>(FROM)
#define GET_TILING_DATA_MEMBER(TYPE, MEMBER, NAME, FROM)                                                                                   \
    decltype(TYPE::MEMBER) NAME;                                                                                                           \
    ::kope_foreign::fetch(NAME, &reinterpret_cast<const TYPE*>(FROM)->MEMBER)
#define COPY_TILING_WITH_STRUCT(TYPE, FROM, TO) const TYPE* TO = reinterpret_cast<const TYPE*>(FROM)
#define REGISTER_TILING_DEFAULT(TYPE) using KopeTiling [[maybe_unused]] = TYPE
#define REGISTER_TILING_FOR_TILINGKEY(CONDITION, TYPE) static_assert(sizeof(TYPE) > 0, "")
#define REGISTER_NONE_TILING
#define TILING_KEY_IS(KEY) (::kope_foreign::tiling_key == static_cast<uint64_t>(KEY))
#define TILING_KEY_VAR (::kope_foreign::tiling_key)
#define KERNEL_TASK_TYPE(KEY, TYPE) ((void)0)
#define REGISTER_TILINGDATA_SIZE(TYPE, SIZE)

// Template tiling: what the host chooses from becomes arguments of the kernel's template, which the launch gives.
#define ASCENDC_TPL_ARGS_DECL(...)
#define ASCENDC_TPL_SEL(...)
#define ASCENDC_TPL_SEL_PARAM(...)

#endif
