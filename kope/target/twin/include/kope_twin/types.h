// Element types: half, bfloat16_t, and the tag every element type has in the runtime.
#ifndef KOPE_TWIN_TYPES_H
#define KOPE_TWIN_TYPES_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kope_twin/attributes.h"

using half = _Float16; // rounds to nearest even after every operation, as the scalar unit does

using float32_t = float;
using float16_t = half;

struct bfloat16_t {
    uint16_t bits;

    bfloat16_t() = default;
    KOPE_TWIN_INLINE bfloat16_t(float value) : bits(round(value)) {}
    KOPE_TWIN_INLINE operator float() const
    {
        const uint32_t wide = static_cast<uint32_t>(bits) << 16;
        float value;
        __builtin_memcpy(&value, &wide, sizeof(value));
        return value;
    }

    // Round to nearest, ties to even; a NaN stays a (quiet) NaN.
    static KOPE_TWIN_INLINE uint16_t round(float value)
    {
        uint32_t wide;
        __builtin_memcpy(&wide, &value, sizeof(wide));
        const uint32_t rounded = wide + 0x7fffU + ((wide >> 16) & 1U);
        const uint32_t quiet = (wide | 0x400000U);
        return static_cast<uint16_t>(((wide & 0x7fffffffU) > 0x7f800000U ? quiet : rounded) >> 16);
    }
};

namespace kope_twin {

enum class Dtype : uint8_t { F32, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64, F64, None };

template <typename T> inline constexpr Dtype dtype_of = Dtype::None;
template <> inline constexpr Dtype dtype_of<float> = Dtype::F32;
template <> inline constexpr Dtype dtype_of<half> = Dtype::F16;
template <> inline constexpr Dtype dtype_of<bfloat16_t> = Dtype::BF16;
template <> inline constexpr Dtype dtype_of<int8_t> = Dtype::I8;
template <> inline constexpr Dtype dtype_of<uint8_t> = Dtype::U8;
template <> inline constexpr Dtype dtype_of<bool> = Dtype::U8;
template <> inline constexpr Dtype dtype_of<int16_t> = Dtype::I16;
template <> inline constexpr Dtype dtype_of<uint16_t> = Dtype::U16;
template <> inline constexpr Dtype dtype_of<int32_t> = Dtype::I32;
template <> inline constexpr Dtype dtype_of<uint32_t> = Dtype::U32;
template <> inline constexpr Dtype dtype_of<int64_t> = Dtype::I64;
template <> inline constexpr Dtype dtype_of<uint64_t> = Dtype::U64;
template <> inline constexpr Dtype dtype_of<long long> = Dtype::I64;
template <> inline constexpr Dtype dtype_of<unsigned long long> = Dtype::U64;
template <> inline constexpr Dtype dtype_of<double> = Dtype::F64;

template <typename T, typename... Candidates> inline constexpr bool is_one_of = (std::is_same_v<T, Candidates> || ...);

// A scalar operand on its way to the runtime: exactly representable in one of the two.
struct Scalar {
    double real = 0.0;
    int64_t integer = 0;

    template <typename T> static KOPE_TWIN_INLINE Scalar of(T value)
    {
        if constexpr (std::is_integral_v<T>) {
            return {static_cast<double>(value), static_cast<int64_t>(value)};
        } else {
            return {static_cast<double>(static_cast<float>(value)), 0};
        }
    }
};

// Where in the source an API was called. The defaults are taken at the call.
struct Site {
    const char* file;
    int line;
    const void* caller = nullptr; // instead of file and line: the address the call returns to

    static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

} // namespace kope_twin

#endif
