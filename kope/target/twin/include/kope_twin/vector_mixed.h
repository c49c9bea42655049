// Elementwise instructions whose source and destination types differ: Cast, Axpy, MulAddDst, MulCast, AddReluCast, SubReluCast.
#ifndef KOPE_TWIN_VECTOR_MIXED_H
#define KOPE_TWIN_VECTOR_MIXED_H

#include "kope_twin/form.h"

namespace kope_twin {

constexpr int pair_of(Dtype dst, Dtype src) { return static_cast<int>(dst) * 16 + static_cast<int>(src); }

// The conversions of the 910B. int32_t to half is scaled by SetDeqScale.
template <typename T, typename U> constexpr bool castable()
{
    using D = Dtype;
    constexpr int pairs[] = {pair_of(D::F16, D::I8), pair_of(D::F16, D::U8), pair_of(D::F16, D::I16), pair_of(D::F32, D::I16),
        pair_of(D::I8, D::F16), pair_of(D::U8, D::F16), pair_of(D::I16, D::F16), pair_of(D::I32, D::F16), pair_of(D::F32, D::F16),
        pair_of(D::I32, D::BF16), pair_of(D::F32, D::BF16), pair_of(D::I16, D::I32), pair_of(D::F16, D::I32), pair_of(D::F32, D::I32),
        pair_of(D::I64, D::I32), pair_of(D::I16, D::F32), pair_of(D::F16, D::F32), pair_of(D::BF16, D::F32), pair_of(D::I32, D::F32),
        pair_of(D::F32, D::F32), pair_of(D::I64, D::F32), pair_of(D::I32, D::I64), pair_of(D::F32, D::I64)};
    for (const int pair : pairs) {
        if (pair == pair_of(dtype_of<T>, dtype_of<U>)) {
            return true;
        }
    }
    return false;
}

constexpr size_t larger(size_t a, size_t b) { return a > b ? a : b; }

template <typename T, typename U>
KOPE_TWIN_INLINE void run_cast(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, AscendC::RoundMode mode,
    const Form& form, Site site)
{
    static_assert(castable<T, U>(),
        "Cast: this chip does not convert between these two types; go through float (bfloat16_t, half, int16_t, int32_t, int64_t) or half (int8_t, uint8_t)");
    VectorCall call = call_of("Cast", Op::Cast, dtype_of<T>, dtype_of<U>, site);
    call.dst = &dst.view();
    call.src0 = &src.view();
    call.mode = static_cast<uint8_t>(mode);
    call.form = form;
    api::vector(call);
}

} // namespace kope_twin

namespace AscendC {

template <typename T, typename U>
KOPE_TWIN_API void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint32_t count,
    Site site = Site::here())
{
    kope_twin::run_cast(dst, src, roundMode, kope_twin::first_elements(count), site);
}
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask[],
    const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, Site site = Site::here())
{
    kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, kope_twin::larger(sizeof(T), sizeof(U)));
    kope_twin::run_cast(dst, src, roundMode, kope_twin::with(form, repeatParams), site);
}
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, Site site = Site::here())
{
    kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);
    kope_twin::run_cast(dst, src, roundMode, kope_twin::with(form, repeatParams), site);
}

// Scale applied by Cast from int32_t to half.
KOPE_TWIN_API inline void SetDeqScale(half scale) { kope_twin::api::set_deq_scale(static_cast<double>(static_cast<float>(scale))); }

#define KOPE_TWIN_ACCUMULATES(T, U, NAME)                                                                                                  \
    static_assert((std::is_same_v<T, U> && kope_twin::is_one_of<T, half, float>) || (std::is_same_v<T, float> && std::is_same_v<U, half>), \
        NAME " takes half, float, or half sources with a float destination on this chip")

// dst = scalar * src + dst
template <typename T, typename U>
KOPE_TWIN_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count, Site site = Site::here())
{
    KOPE_TWIN_ACCUMULATES(T, U, "Axpy");
    kope_twin::run_scalar("Axpy", kope_twin::Op::Axpy, dst, src, scalarValue, kope_twin::first_elements(count), site);
}
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask[],
    const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, Site site = Site::here())
{
    KOPE_TWIN_ACCUMULATES(T, U, "Axpy");
    kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T));
    kope_twin::run_scalar("Axpy", kope_twin::Op::Axpy, dst, src, scalarValue, kope_twin::with(form, repeatParams), site);
}
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, Site site = Site::here())
{
    KOPE_TWIN_ACCUMULATES(T, U, "Axpy");
    kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);
    kope_twin::run_scalar("Axpy", kope_twin::Op::Axpy, dst, src, scalarValue, kope_twin::with(form, repeatParams), site);
}

#define KOPE_TWIN_MIXED_BINARY(NAME, REQUIRE)                                                                                              \
    template <typename T, typename U>                                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, const int32_t& count,       \
        Site site = Site::here())                                                                                                          \
    {                                                                                                                                      \
        REQUIRE(T, U, #NAME);                                                                                                              \
        kope_twin::run_binary(#NAME, kope_twin::Op::NAME, dst, src0, src1, kope_twin::first_elements(count), site);                        \
    }                                                                                                                                      \
    template <typename T, typename U, bool isSetMask = true>                                                                               \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, const uint64_t mask[],      \
        const uint8_t repeatTime, const BinaryRepeatParams& repeatParams, Site site = Site::here())                                        \
    {                                                                                                                                      \
        REQUIRE(T, U, #NAME);                                                                                                              \
        kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, kope_twin::larger(sizeof(T), sizeof(U)));               \
        kope_twin::run_binary(#NAME, kope_twin::Op::NAME, dst, src0, src1, kope_twin::with(form, repeatParams), site);                     \
    }                                                                                                                                      \
    template <typename T, typename U, bool isSetMask = true>                                                                               \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, const uint64_t mask,        \
        const uint8_t repeatTime, const BinaryRepeatParams& repeatParams, Site site = Site::here())                                        \
    {                                                                                                                                      \
        REQUIRE(T, U, #NAME);                                                                                                              \
        kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);                                                             \
        kope_twin::run_binary(#NAME, kope_twin::Op::NAME, dst, src0, src1, kope_twin::with(form, repeatParams), site);                     \
    }

#define KOPE_TWIN_MULCAST(T, U, NAME)                                                                                                      \
    static_assert(std::is_same_v<U, half> && kope_twin::is_one_of<T, int8_t, uint8_t>, NAME " takes half sources and an int8_t or uint8_t destination")
#define KOPE_TWIN_RELUCAST(T, U, NAME)                                                                                                     \
    static_assert((std::is_same_v<U, float> && std::is_same_v<T, half>) || (kope_twin::is_one_of<U, half, int16_t> && std::is_same_v<T, int8_t>), \
        NAME " converts float to half, half to int8_t, or int16_t to int8_t")

KOPE_TWIN_MIXED_BINARY(MulAddDst, KOPE_TWIN_ACCUMULATES) // dst = src0 * src1 + dst
KOPE_TWIN_MIXED_BINARY(MulCast, KOPE_TWIN_MULCAST)
KOPE_TWIN_MIXED_BINARY(AddReluCast, KOPE_TWIN_RELUCAST)
KOPE_TWIN_MIXED_BINARY(SubReluCast, KOPE_TWIN_RELUCAST)

} // namespace AscendC

#undef KOPE_TWIN_MIXED_BINARY

#endif
