// Elementwise arithmetic of the vector unit: one source, one source and a scalar, two sources.
#ifndef KOPE_TWIN_VECTOR_ARITH_H
#define KOPE_TWIN_VECTOR_ARITH_H

#include "kope_twin/form.h"

namespace kope_twin {

template <typename T, typename U>
KOPE_TWIN_INLINE void run_unary(const char* name, Op op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src,
    const Form& form, Site site)
{
    VectorCall call = call_of(name, op, dtype_of<T>, dtype_of<U>, site);
    call.dst = &dst.view();
    call.src0 = &src.view();
    call.form = form;
    api::vector(call);
}

template <typename T, typename U>
KOPE_TWIN_INLINE void run_scalar(const char* name, Op op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, U scalar,
    const Form& form, Site site)
{
    VectorCall call = call_of(name, op, dtype_of<T>, dtype_of<U>, site);
    call.dst = &dst.view();
    call.src0 = &src.view();
    call.scalar = Scalar::of(scalar);
    call.form = form;
    api::vector(call);
}

template <typename T, typename U>
KOPE_TWIN_INLINE void run_binary(const char* name, Op op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src0,
    const AscendC::LocalTensor<U>& src1, const Form& form, Site site)
{
    VectorCall call = call_of(name, op, dtype_of<T>, dtype_of<U>, site);
    call.dst = &dst.view();
    call.src0 = &src0.view();
    call.src1 = &src1.view();
    call.form = form;
    api::vector(call);
}

} // namespace kope_twin

namespace AscendC {

// Every API below comes in three forms: the first `count` elements; a mask of bits per repeat; a mask that counts elements
// per repeat. REQUIRE is the dtypes of the 910B, with the words a user gets for any other.
#define KOPE_TWIN_UNARY(NAME, REQUIRE)                                                                                                     \
    template <typename T>                                                                                                                  \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count KOPE_TWIN_SITE_PARAMETER)          \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::run_unary(#NAME, kope_twin::Op::NAME, dst, src, kope_twin::first_elements(count), KOPE_TWIN_SITE);                                \
    }                                                                                                                                      \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[], const uint8_t repeatTime,               \
        const UnaryRepeatParams& repeatParams KOPE_TWIN_SITE_PARAMETER)                                                                   \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T));                                             \
        kope_twin::run_unary(#NAME, kope_twin::Op::NAME, dst, src, kope_twin::with(form, repeatParams), KOPE_TWIN_SITE);                             \
    }                                                                                                                                      \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const uint8_t repeatTime,                 \
        const UnaryRepeatParams& repeatParams KOPE_TWIN_SITE_PARAMETER)                                                                   \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);                                                             \
        kope_twin::run_unary(#NAME, kope_twin::Op::NAME, dst, src, kope_twin::with(form, repeatParams), KOPE_TWIN_SITE);                             \
    }

#define KOPE_TWIN_SCALAR(NAME, REQUIRE)                                                                                                    \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count KOPE_TWIN_SITE_PARAMETER)                                                                                                          \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::run_scalar(#NAME, kope_twin::Op::NAME, dst, src, scalarValue, kope_twin::first_elements(count, isSetMask), KOPE_TWIN_SITE);       \
    }                                                                                                                                      \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[],                   \
        const uint8_t repeatTime, const UnaryRepeatParams& repeatParams KOPE_TWIN_SITE_PARAMETER)                                         \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T));                                             \
        kope_twin::run_scalar(#NAME, kope_twin::Op::NAME, dst, src, scalarValue, kope_twin::with(form, repeatParams), KOPE_TWIN_SITE);               \
    }                                                                                                                                      \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,                     \
        const uint8_t repeatTime, const UnaryRepeatParams& repeatParams KOPE_TWIN_SITE_PARAMETER)                                         \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);                                                             \
        kope_twin::run_scalar(#NAME, kope_twin::Op::NAME, dst, src, scalarValue, kope_twin::with(form, repeatParams), KOPE_TWIN_SITE);               \
    }

#define KOPE_TWIN_BINARY_AS(NAME, OP, REQUIRE)                                                                                                  \
    template <typename T>                                                                                                                  \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count KOPE_TWIN_SITE_PARAMETER)                                                                                                          \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::run_binary(#NAME, kope_twin::Op::OP, dst, src0, src1, kope_twin::first_elements(count), KOPE_TWIN_SITE);                        \
    }                                                                                                                                      \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask[],            \
        const uint8_t repeatTime, const BinaryRepeatParams& repeatParams KOPE_TWIN_SITE_PARAMETER)                                        \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T));                                             \
        kope_twin::run_binary(#NAME, kope_twin::Op::OP, dst, src0, src1, kope_twin::with(form, repeatParams), KOPE_TWIN_SITE);                     \
    }                                                                                                                                      \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask,              \
        const uint8_t repeatTime, const BinaryRepeatParams& repeatParams KOPE_TWIN_SITE_PARAMETER)                                        \
    {                                                                                                                                      \
        REQUIRE(T, #NAME);                                                                                                                 \
        kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);                                                             \
        kope_twin::run_binary(#NAME, kope_twin::Op::OP, dst, src0, src1, kope_twin::with(form, repeatParams), KOPE_TWIN_SITE);                     \
    }
#define KOPE_TWIN_BINARY(NAME, REQUIRE) KOPE_TWIN_BINARY_AS(NAME, NAME, REQUIRE)

#define KOPE_TWIN_FLOATS(T, NAME)                                                                                                          \
    static_assert(kope_twin::is_one_of<T, half, float>, NAME " takes half or float on this chip; Cast other types to float first")
#define KOPE_TWIN_FLOATS_INT32(T, NAME)                                                                                                    \
    static_assert(kope_twin::is_one_of<T, half, float, int32_t>, NAME " takes half, float or int32_t on this chip; Cast other types first")
#define KOPE_TWIN_FLOATS_INT16(T, NAME)                                                                                                    \
    static_assert(kope_twin::is_one_of<T, half, float, int16_t>, NAME " takes half, float or int16_t on this chip; Cast other types first")
#define KOPE_TWIN_ARITH(T, NAME)                                                                                                           \
    static_assert(kope_twin::is_one_of<T, half, float, int16_t, int32_t>,                                                                  \
        NAME " takes half, float, int16_t or int32_t on this chip; Cast other types first (bfloat16_t and int8_t: to float or half)")
#define KOPE_TWIN_BITS16(T, NAME)                                                                                                          \
    static_assert(kope_twin::is_one_of<T, int16_t, uint16_t>,                                                                              \
        NAME " takes int16_t or uint16_t on this chip; ReinterpretCast wider integers to uint16_t and give twice the count")
#define KOPE_TWIN_SHIFTABLE(T, NAME)                                                                                                       \
    static_assert(kope_twin::is_one_of<T, int16_t, uint16_t, int32_t, uint32_t>,                                                           \
        NAME " takes int16_t, uint16_t, int32_t or uint32_t on this chip")

KOPE_TWIN_UNARY(Abs, KOPE_TWIN_FLOATS)
KOPE_TWIN_UNARY(Exp, KOPE_TWIN_FLOATS)
KOPE_TWIN_UNARY(Ln, KOPE_TWIN_FLOATS)
KOPE_TWIN_UNARY(Sqrt, KOPE_TWIN_FLOATS)
KOPE_TWIN_UNARY(Rsqrt, KOPE_TWIN_FLOATS)
KOPE_TWIN_UNARY(Reciprocal, KOPE_TWIN_FLOATS)
KOPE_TWIN_UNARY(Relu, KOPE_TWIN_FLOATS_INT32)
KOPE_TWIN_UNARY(Not, KOPE_TWIN_BITS16)

KOPE_TWIN_SCALAR(Adds, KOPE_TWIN_ARITH)
KOPE_TWIN_SCALAR(Muls, KOPE_TWIN_ARITH)
KOPE_TWIN_SCALAR(Maxs, KOPE_TWIN_ARITH)
KOPE_TWIN_SCALAR(Mins, KOPE_TWIN_ARITH)
KOPE_TWIN_SCALAR(LeakyRelu, KOPE_TWIN_FLOATS)
KOPE_TWIN_SCALAR(ShiftLeft, KOPE_TWIN_SHIFTABLE)

KOPE_TWIN_BINARY(Add, KOPE_TWIN_ARITH)
KOPE_TWIN_BINARY(Sub, KOPE_TWIN_ARITH)
KOPE_TWIN_BINARY(Mul, KOPE_TWIN_ARITH)
KOPE_TWIN_BINARY(Div, KOPE_TWIN_FLOATS)
KOPE_TWIN_BINARY(Max, KOPE_TWIN_ARITH)
KOPE_TWIN_BINARY(Min, KOPE_TWIN_ARITH)
KOPE_TWIN_BINARY(And, KOPE_TWIN_BITS16)
KOPE_TWIN_BINARY(Or, KOPE_TWIN_BITS16)
KOPE_TWIN_BINARY(AddRelu, KOPE_TWIN_FLOATS_INT16)
KOPE_TWIN_BINARY(SubRelu, KOPE_TWIN_FLOATS_INT16)
KOPE_TWIN_BINARY(FusedMulAdd, KOPE_TWIN_FLOATS)     // dst = src0 * dst + src1
KOPE_TWIN_BINARY(FusedMulAddRelu, KOPE_TWIN_FLOATS) // dst = relu(src0 * dst + src1)
KOPE_TWIN_BINARY_AS(MulAddRelu, FusedMulAddRelu, KOPE_TWIN_FLOATS) // its current name

// ShiftRight: arithmetic for signed types. roundEn adds the last bit shifted out (int16_t, int32_t).
template <typename T, bool isSetMask = true>
KOPE_TWIN_API void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count,
    Site site = Site::here())
{
    KOPE_TWIN_SHIFTABLE(T, "ShiftRight");
    kope_twin::run_scalar("ShiftRight", kope_twin::Op::ShiftRight, dst, src, scalarValue, kope_twin::first_elements(count, isSetMask), site);
}
template <typename T, bool isSetMask = true>
KOPE_TWIN_API void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[],
    const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn = false, Site site = Site::here())
{
    KOPE_TWIN_SHIFTABLE(T, "ShiftRight");
    kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T));
    const kope_twin::Op op = roundEn ? kope_twin::Op::ShiftRightRound : kope_twin::Op::ShiftRight;
    kope_twin::run_scalar("ShiftRight", op, dst, src, scalarValue, kope_twin::with(form, repeatParams), site);
}
template <typename T, bool isSetMask = true>
KOPE_TWIN_API void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn = false, Site site = Site::here())
{
    KOPE_TWIN_SHIFTABLE(T, "ShiftRight");
    kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);
    const kope_twin::Op op = roundEn ? kope_twin::Op::ShiftRightRound : kope_twin::Op::ShiftRight;
    kope_twin::run_scalar("ShiftRight", op, dst, src, scalarValue, kope_twin::with(form, repeatParams), site);
}

} // namespace AscendC

#include "kope_twin/vector_mixed.h"

#undef KOPE_TWIN_UNARY
#undef KOPE_TWIN_SCALAR
#undef KOPE_TWIN_BINARY
#undef KOPE_TWIN_BINARY_AS

#endif
