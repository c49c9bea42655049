// Conversions between element types with the rounding modes of Cast. Integer results saturate, NaN becomes 0.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "float_math.h"
#include "loops.h"

namespace kope_twin {
namespace runtime {

namespace {

// AscendC::RoundMode; CAST_NONE is CAST_RINT where anything is lost.
enum Mode { None, Rint, Floor, Ceil, Round, Trunc, Odd };

template <Mode mode> float to_integer(float x)
{
    switch (mode) {
        case Floor:
            return __builtin_floorf(x);
        case Ceil:
            return __builtin_ceilf(x);
        case Trunc:
            return __builtin_truncf(x);
        case Round: { // halves away from zero; adding 0.5 would be wrong just below one half
            const float whole = __builtin_truncf(x);
            const float away = __builtin_copysignf(1.0F, x);
            return __builtin_fabsf(x - whole) >= 0.5F ? whole + away : whole;
        }
        case Odd: {
            const float whole = __builtin_truncf(x);
            const float half_of = whole * 0.5F;
            const bool even = half_of == __builtin_truncf(half_of);
            return whole != x && even ? whole + __builtin_copysignf(1.0F, x) : whole;
        }
        default:
            return __builtin_rintf(x);
    }
}

template <typename T> T saturated(float x)
{
    constexpr double low = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double high = static_cast<double>(std::numeric_limits<T>::max());
    const double value = x;
    // 2^63 - 1 is no double: anything from 2^63 up saturates.
    const T limited = value >= high ? std::numeric_limits<T>::max() : value <= low ? std::numeric_limits<T>::min() : static_cast<T>(value);
    return x != x ? T(0) : limited;
}

// The spacing of half around x: rounding x / spacing to an integer rounds x to half.
template <Mode mode> float to_half_grid(float x)
{
    const int32_t exponent = static_cast<int32_t>(float_bits(x) >> 23 & 0xffU) - 127;
    const int32_t spacing = (exponent < -14 ? -14 : exponent > 16 ? 16 : exponent) - 10;
    const float up = bits_float(static_cast<uint32_t>(127 - spacing) << 23);
    const float down = bits_float(static_cast<uint32_t>(127 + spacing) << 23);
    const float rounded = to_integer<mode>(x * up) * down;
    return exponent > 16 ? x : rounded; // large, infinite or NaN: the conversion decides
}

template <Mode mode> uint16_t to_bfloat16(float x)
{
    const uint32_t bits = float_bits(x);
    const uint32_t lost = bits & 0xffffU;
    const bool negative = (bits >> 31) != 0;
    const uint32_t kept = bits >> 16;
    uint32_t up = 0;
    switch (mode) {
        case Floor:
            up = negative && lost != 0 ? 1 : 0;
            break;
        case Ceil:
            up = !negative && lost != 0 ? 1 : 0;
            break;
        case Round:
            up = lost >= 0x8000U ? 1 : 0;
            break;
        case Trunc:
            break;
        case Odd:
            up = lost != 0 && (kept & 1U) == 0 ? 1 : 0;
            break;
        default:
            up = lost > 0x8000U || (lost == 0x8000U && (kept & 1U) != 0) ? 1 : 0;
            break;
    }
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const bool infinite = (bits & 0x7fffffffU) == 0x7f800000U;
    return static_cast<uint16_t>(nan ? kept | 0x40U : infinite ? kept : kept + up);
}

// An integer to the nearest float in the mode's direction: keep 24 significant bits.
template <Mode mode> float from_integer(int64_t value)
{
    const bool negative = value < 0;
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    const int length = magnitude == 0 ? 0 : 64 - __builtin_clzll(magnitude);
    const int drop = length > 24 ? length - 24 : 0;
    if (drop > 0) {
        const uint64_t lost = magnitude & ((1ULL << drop) - 1);
        const uint64_t half_way = 1ULL << (drop - 1);
        uint64_t kept = magnitude >> drop;
        bool up = false;
        switch (mode) {
            case Floor:
                up = negative && lost != 0;
                break;
            case Ceil:
                up = !negative && lost != 0;
                break;
            case Round:
                up = lost >= half_way;
                break;
            case Trunc:
                break;
            default:
                up = lost > half_way || (lost == half_way && (kept & 1) != 0);
                break;
        }
        kept += up ? 1 : 0;
        magnitude = kept << drop;
    }
    const float result = static_cast<float>(magnitude);
    return negative ? -result : result;
}

constexpr size_t kPiece = 512;

// --- float and its neighbours ----------------------------------------------------------------------------------------

template <Mode mode, typename T> void float_to_int(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    T* to = static_cast<T*>(dst);
    const float* from = static_cast<const float*>(a);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = saturated<T>(to_integer<mode>(from[k]));
    }
}

template <Mode mode> void float_to_float(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    float* to = static_cast<float*>(dst);
    const float* from = static_cast<const float*>(a);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = to_integer<mode>(from[k]);
    }
}

template <Mode mode> void float_to_half_by(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    const float* from = static_cast<const float*>(a);
    half* to = static_cast<half*>(dst);
    if (mode == Rint || mode == None) {
        float_to_half(from, to, count);
        return;
    }
    float values[kPiece];
    for (size_t at = 0; at < count; at += kPiece) {
        const size_t piece = std::min(kPiece, count - at);
        for (size_t k = 0; k < piece; ++k) {
            values[k] = to_half_grid<mode>(from[at + k]);
        }
        float_to_half(values, to + at, piece);
    }
}

template <Mode mode> void float_to_bf16(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    uint16_t* to = static_cast<uint16_t*>(dst);
    const float* from = static_cast<const float*>(a);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = to_bfloat16<mode>(from[k]);
    }
}

void bf16_to_float_loop(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    float* to = static_cast<float*>(dst);
    const uint16_t* from = static_cast<const uint16_t*>(a);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = bits_float(static_cast<uint32_t>(from[k]) << 16);
    }
}

void half_to_float_loop(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    half_to_float(static_cast<const half*>(a), static_cast<float*>(dst), count);
}

// --- through float, piece by piece --------------------------------------------------------------------------------------

template <Loop first, Loop second, typename From, typename To>
void through_float(void* dst, const void* a, const void*, size_t count, const Scalar& scalar)
{
    float values[kPiece];
    for (size_t at = 0; at < count; at += kPiece) {
        const size_t piece = std::min(kPiece, count - at);
        first(values, static_cast<const From*>(a) + at, nullptr, piece, scalar);
        second(static_cast<To*>(dst) + at, values, nullptr, piece, scalar);
    }
}

template <typename T> void small_to_float(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    float* to = static_cast<float*>(dst);
    const T* from = static_cast<const T*>(a);
    KOPE_TWIN_INDEPENDENT
    for (size_t k = 0; k < count; ++k) {
        to[k] = static_cast<float>(from[k]);
    }
}

template <Mode mode, typename T> void int_to_float(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    float* to = static_cast<float*>(dst);
    const T* from = static_cast<const T*>(a);
    if (mode == Rint || mode == None) { // the processor rounds like this itself
        small_to_float<T>(dst, a, nullptr, count, Scalar());
        return;
    }
    for (size_t k = 0; k < count; ++k) {
        to[k] = from_integer<mode>(from[k]);
    }
}

// src / 2^17 * scale * 2^17, which is scale * src unless the middle overflows.
void int32_scaled(void* dst, const void* a, const void*, size_t count, const Scalar& scalar)
{
    float* to = static_cast<float*>(dst);
    const int32_t* from = static_cast<const int32_t*>(a);
    for (size_t k = 0; k < count; ++k) {
        to[k] = static_cast<float>(static_cast<double>(from[k]) * scalar.real);
    }
}

template <typename From, typename To> void int_to_int(void* dst, const void* a, const void*, size_t count, const Scalar&)
{
    To* to = static_cast<To*>(dst);
    const From* from = static_cast<const From*>(a);
    for (size_t k = 0; k < count; ++k) {
        const int64_t value = from[k];
        to[k] = static_cast<To>(std::clamp<int64_t>(value, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
    }
}

template <Mode mode> Loop by_types(Dtype dst, Dtype src)
{
    constexpr Loop widen = half_to_float_loop;
    constexpr Loop narrow = float_to_half_by<mode>;
    switch (src) {
        case Dtype::F32:
            switch (dst) {
                case Dtype::F16:
                    return float_to_half_by<mode>;
                case Dtype::BF16:
                    return float_to_bf16<mode>;
                case Dtype::I16:
                    return float_to_int<mode, int16_t>;
                case Dtype::I32:
                    return float_to_int<mode, int32_t>;
                case Dtype::I64:
                    return float_to_int<mode, int64_t>;
                case Dtype::F32:
                    return float_to_float<mode>;
                default:
                    return nullptr;
            }
        case Dtype::F16:
            switch (dst) {
                case Dtype::F32:
                    return half_to_float_loop;
                case Dtype::I8:
                    return through_float<widen, float_to_int<mode, int8_t>, half, int8_t>;
                case Dtype::U8:
                    return through_float<widen, float_to_int<mode, uint8_t>, half, uint8_t>;
                case Dtype::I16:
                    return through_float<widen, float_to_int<mode, int16_t>, half, int16_t>;
                case Dtype::I32:
                    return through_float<widen, float_to_int<mode, int32_t>, half, int32_t>;
                default:
                    return nullptr;
            }
        case Dtype::BF16:
            return dst == Dtype::F32 ? Loop(bf16_to_float_loop)
                : dst == Dtype::I32  ? Loop(through_float<bf16_to_float_loop, float_to_int<mode, int32_t>, uint16_t, int32_t>)
                                     : nullptr;
        case Dtype::I8:
            return dst == Dtype::F16 ? Loop(through_float<small_to_float<int8_t>, narrow, int8_t, half>) : nullptr;
        case Dtype::U8:
            return dst == Dtype::F16 ? Loop(through_float<small_to_float<uint8_t>, narrow, uint8_t, half>) : nullptr;
        case Dtype::I16:
            return dst == Dtype::F16 ? Loop(through_float<small_to_float<int16_t>, narrow, int16_t, half>)
                : dst == Dtype::F32  ? Loop(small_to_float<int16_t>)
                                     : nullptr;
        case Dtype::I32:
            switch (dst) {
                case Dtype::F32:
                    return int_to_float<mode, int32_t>;
                case Dtype::F16:
                    return through_float<int32_scaled, float_to_half_by<Rint>, int32_t, half>;
                case Dtype::I16:
                    return int_to_int<int32_t, int16_t>;
                case Dtype::I64:
                    return int_to_int<int32_t, int64_t>;
                default:
                    return nullptr;
            }
        case Dtype::I64:
            return dst == Dtype::F32 ? Loop(int_to_float<mode, int64_t>) : dst == Dtype::I32 ? Loop(int_to_int<int64_t, int32_t>) : nullptr;
        default:
            return nullptr;
    }
}

} // namespace

Loop cast_loop(Dtype dst, Dtype src, int mode)
{
    switch (mode) {
        case Floor:
            return by_types<Floor>(dst, src);
        case Ceil:
            return by_types<Ceil>(dst, src);
        case Round:
            return by_types<Round>(dst, src);
        case Trunc:
            return by_types<Trunc>(dst, src);
        case Odd:
            return by_types<Odd>(dst, src);
        default:
            return by_types<Rint>(dst, src);
    }
}

} // namespace runtime
} // namespace kope_twin
