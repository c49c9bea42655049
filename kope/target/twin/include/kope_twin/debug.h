// What a kernel shows and asserts: printf, PRINTF, DumpTensor, assert.
#ifndef KOPE_TWIN_DEBUG_H
#define KOPE_TWIN_DEBUG_H

#include <cstdio>
#include <type_traits>

#include "kope_twin/tensor.h"

namespace kope_twin {

// What printf can take: narrow floating point travels as double, elements of tensors as their value.
template <typename T> KOPE_TWIN_INLINE auto printable(const T& value)
{
    if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>) {
        return static_cast<double>(static_cast<float>(value));
    } else if constexpr (std::is_enum_v<T>) {
        return static_cast<long long>(value);
    } else if constexpr (std::is_array_v<T>) {
        return static_cast<const std::remove_extent_t<T>*>(value);
    } else {
        return value;
    }
}

} // namespace kope_twin

namespace AscendC {

// A shape for DumpTensor.
struct ShapeInfo {
    ShapeInfo() = default;
    KOPE_TWIN_INLINE ShapeInfo(const uint8_t rank, const uint32_t extents[]) : shapeDim(rank)
    {
        for (int axis = 0; axis < rank && axis < 8; ++axis) {
            shape[axis] = extents[axis];
        }
    }
    uint8_t shapeDim = 0;
    uint32_t shape[8] = {};
    uint8_t originalShapeDim = 0;
    uint32_t originalShape[8] = {};
};

template <typename... Args> KOPE_TWIN_API void printf(const char* format, Args&&... args)
{
    char text[1024];
    if constexpr (sizeof...(Args) == 0) {
        kope_twin::api::print(format);
    } else {
        std::snprintf(text, sizeof(text), format, kope_twin::printable(args)...);
        kope_twin::api::print(text);
    }
}
template <typename... Args> KOPE_TWIN_API void PRINTF(const char* format, Args&&... args) { AscendC::printf(format, args...); }

template <typename T> KOPE_TWIN_API void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, Site site = Site::here())
{
    kope_twin::api::dump_ub(tensor.view(), kope_twin::dtype_of<T>, desc, dumpSize, site);
}
template <typename T> KOPE_TWIN_API void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, Site site = Site::here())
{
    kope_twin::api::dump_gm(tensor.GetPhyAddr(), kope_twin::dtype_of<T>, desc, dumpSize, site);
}
template <typename T>
KOPE_TWIN_API void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, const ShapeInfo&, Site site = Site::here())
{
    kope_twin::api::dump_ub(tensor.view(), kope_twin::dtype_of<T>, desc, dumpSize, site);
}
template <typename T>
KOPE_TWIN_API void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, const ShapeInfo&, Site site = Site::here())
{
    kope_twin::api::dump_gm(tensor.GetPhyAddr(), kope_twin::dtype_of<T>, desc, dumpSize, site);
}
template <typename T>
KOPE_TWIN_API void DumpAccChkPoint(const LocalTensor<T>& tensor, uint32_t index, uint32_t countOff, uint32_t dumpSize, Site site = Site::here())
{
    kope_twin::api::dump_ub(tensor[countOff].view(), kope_twin::dtype_of<T>, index, dumpSize, site);
}

KOPE_TWIN_API inline void Trap(Site site = Site::here()) { kope_twin::api::device_abort("Trap", site); }

} // namespace AscendC

// A check that fails ends the launch, as it does on the device with asserts on.
#define KOPE_TWIN_ASSERT(CONDITION, ...)                                                                                                   \
    do {                                                                                                                                   \
        if (!(CONDITION)) {                                                                                                                \
            ::kope_twin::api::device_abort("assertion failed: " #CONDITION, ::kope_twin::Site::here());                                    \
        }                                                                                                                                  \
    } while (0)
#define ascendc_assert(...) KOPE_TWIN_ASSERT(__VA_ARGS__)
#define ASCENDC_ASSERT(CONDITION, ...) KOPE_TWIN_ASSERT(CONDITION)
// ASSERT is compiled out unless asserts are asked for (-D ASCENDC_DEBUG), as on the device: kernels have it in places, and
// with words, that only pass because of that.
#ifndef ASSERT
#ifdef ASCENDC_DEBUG
#define ASSERT(...) KOPE_TWIN_ASSERT(__VA_ARGS__);
#else
#define ASSERT(...)
#endif
#endif
#define ASSERT_MSG(CONDITION, ...) KOPE_TWIN_ASSERT(CONDITION)
#define ASCENDC_REPORT_NOT_SUPPORT(...)
#define ASCENDC_DEBUG_ASSERT(...)

#endif
