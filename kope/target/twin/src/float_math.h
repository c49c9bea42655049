// Elementary functions of float without branches or calls, so that loops over them vectorise. Errors against exact
// results are below 2 units in the last place over the whole range, special values included.
#ifndef KOPE_TWIN_SRC_FLOAT_MATH_H
#define KOPE_TWIN_SRC_FLOAT_MATH_H

#include <cstdint>

namespace kope_twin {
namespace runtime {

inline uint32_t float_bits(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits;
}

inline float bits_float(uint32_t bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}

// e^x: x = n ln2 + r, |r| <= ln2 / 2, a polynomial in r times 2^n. The scale is applied in two steps for subnormal results.
inline float exp_of(float x)
{
    const float bounded = x > 89.0F ? 89.0F : x < -104.0F ? -104.0F : x;
    const float n = __builtin_rintf(bounded * 1.44269504088896341F);
    const float r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F; // ln2 in two parts
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    const int32_t exponent = static_cast<int32_t>(n);
    const int32_t low = exponent / 2;
    const int32_t high = exponent - low;
    const float scaled = p * bits_float(static_cast<uint32_t>(low + 127) << 23) * bits_float(static_cast<uint32_t>(high + 127) << 23);
    return x != x ? x : scaled;
}

// ln x: x = m 2^e with m around 1, a polynomial in m - 1.
inline float ln_of(float x)
{
    const bool tiny = x < 1.17549435e-38F;
    const float normal = tiny ? x * 8388608.0F : x;
    const uint32_t bits = float_bits(normal);
    // The mantissa is taken around sqrt(1/2) .. sqrt(2).
    const int32_t e = static_cast<int32_t>(bits - 0x3f3504f3U) >> 23;
    const float m = bits_float(bits - (static_cast<uint32_t>(e) << 23));
    const float exponent = static_cast<float>(e) - (tiny ? 23.0F : 0.0F);
    const float f = m - 1.0F;
    const float z = f * f;
    float p = 7.0376836292e-2F;
    p = p * f - 1.1514610310e-1F;
    p = p * f + 1.1676998740e-1F;
    p = p * f - 1.2420140846e-1F;
    p = p * f + 1.4249322787e-1F;
    p = p * f - 1.6668057665e-1F;
    p = p * f + 2.0000714765e-1F;
    p = p * f - 2.4999993993e-1F;
    p = p * f + 3.3333331174e-1F;
    float y = p * f * z;
    y += exponent * -2.12194440e-4F;
    y += -0.5F * z;
    const float finite = (f + y) + exponent * 0.693359375F;
    const float infinity = bits_float(0x7f800000U);
    float result = x == infinity ? infinity : finite;
    result = x == 0.0F ? -infinity : result;
    return x < 0.0F || x != x ? bits_float(0x7fc00000U) : result;
}

} // namespace runtime
} // namespace kope_twin

#endif
