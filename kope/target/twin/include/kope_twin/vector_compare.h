// Compare, CompareScalar (Compares) and Select. Results and selections are bits, least significant first.
#ifndef KOPE_TWIN_VECTOR_COMPARE_H
#define KOPE_TWIN_VECTOR_COMPARE_H

#include "kope_twin/form.h"

namespace kope_twin {

template <typename T, typename U>
KOPE_TWIN_INLINE void run_compare(const char* name, const AscendC::LocalTensor<U>& dst, const AscendC::LocalTensor<T>& src0,
    const AscendC::LocalTensor<T>* src1, T scalar, AscendC::CMPMODE mode, const Form& form, Site site)
{
    static_assert(is_one_of<T, half, float, int32_t>, "Compare takes half or float on this chip, and int32_t for EQ; Cast other types first");
    static_assert(is_one_of<U, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t>, "Compare writes bits into a tensor of integers");
    VectorCall call = call_of(name, src1 != nullptr ? Op::Compare : Op::CompareScalar, dtype_of<U>, dtype_of<T>, site);
    call.mode = static_cast<uint8_t>(mode);
    call.dst = &dst.view();
    call.src0 = &src0.view();
    call.src1 = src1 != nullptr ? &src1->view() : nullptr;
    call.scalar = Scalar::of(scalar);
    call.form = form;
    api::vector(call);
}

template <typename T, typename U>
KOPE_TWIN_INLINE void run_select(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& bits, const AscendC::LocalTensor<T>& src0,
    const AscendC::LocalTensor<T>* src1, T scalar, AscendC::SELMODE mode, const Form& form, Site site)
{
    static_assert(is_one_of<T, half, float>, "Select takes half or float on this chip; Cast or ReinterpretCast other types");
    static_assert(is_one_of<U, int8_t, uint8_t, uint16_t, uint32_t, uint64_t>,
        "Select reads its bits from uint8_t (or int8_t), uint16_t, uint32_t or uint64_t");
    VectorCall call = call_of("Select", src1 != nullptr ? Op::Select : Op::SelectScalar, dtype_of<T>, dtype_of<T>, site);
    call.mode = static_cast<uint8_t>(mode);
    call.dst = &dst.view();
    call.src0 = &src0.view();
    call.src1 = src1 != nullptr ? &src1->view() : nullptr;
    call.mask = &bits.view();
    call.scalar = Scalar::of(scalar);
    call.form = form;
    api::vector(call);
}

} // namespace kope_twin

namespace AscendC {

// count * sizeof(T) must be a multiple of 256: elements past the last whole repeat are not compared.
template <typename T, typename U>
KOPE_TWIN_API void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, uint32_t count,
    Site site = Site::here())
{
    kope_twin::run_compare("Compare", dst, src0, &src1, T(0), cmpMode, kope_twin::first_elements(count), site);
}
// The masks of the other two forms have no effect on this chip.
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
    const uint64_t[], uint8_t repeatTime, const BinaryRepeatParams& repeatParams, Site site = Site::here())
{
    kope_twin::Form form = kope_twin::masked(256 / sizeof(T), true, repeatTime);
    kope_twin::run_compare("Compare", dst, src0, &src1, T(0), cmpMode, kope_twin::with(form, repeatParams), site);
}
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
    const uint64_t, uint8_t repeatTime, const BinaryRepeatParams& repeatParams, Site site = Site::here())
{
    kope_twin::Form form = kope_twin::masked(256 / sizeof(T), true, repeatTime);
    kope_twin::run_compare("Compare", dst, src0, &src1, T(0), cmpMode, kope_twin::with(form, repeatParams), site);
}

#define KOPE_TWIN_COMPARE_SCALAR(NAME)                                                                                                     \
    template <typename T, typename U>                                                                                                      \
    KOPE_TWIN_API void NAME(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, uint32_t count,    \
        Site site = Site::here())                                                                                                          \
    {                                                                                                                                      \
        const LocalTensor<T>* none = nullptr;                                                                                              \
        kope_twin::run_compare(#NAME, dst, src0, none, src1Scalar, cmpMode, kope_twin::first_elements(count), site);                       \
    }                                                                                                                                      \
    template <typename T, typename U, bool isSetMask = true>                                                                               \
    KOPE_TWIN_API void NAME(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,                    \
        const uint64_t[], uint8_t repeatTime, const UnaryRepeatParams& repeatParams, Site site = Site::here())                             \
    {                                                                                                                                      \
        const LocalTensor<T>* none = nullptr;                                                                                              \
        kope_twin::Form form = kope_twin::masked(256 / sizeof(T), true, repeatTime);                                                       \
        kope_twin::run_compare(#NAME, dst, src0, none, src1Scalar, cmpMode, kope_twin::with(form, repeatParams), site);                    \
    }                                                                                                                                      \
    template <typename T, typename U, bool isSetMask = true>                                                                               \
    KOPE_TWIN_API void NAME(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,                    \
        const uint64_t, uint8_t repeatTime, const UnaryRepeatParams& repeatParams, Site site = Site::here())                               \
    {                                                                                                                                      \
        const LocalTensor<T>* none = nullptr;                                                                                              \
        kope_twin::Form form = kope_twin::masked(256 / sizeof(T), true, repeatTime);                                                       \
        kope_twin::run_compare(#NAME, dst, src0, none, src1Scalar, cmpMode, kope_twin::with(form, repeatParams), site);                    \
    }

KOPE_TWIN_COMPARE_SCALAR(CompareScalar)
KOPE_TWIN_COMPARE_SCALAR(Compares)
#undef KOPE_TWIN_COMPARE_SCALAR

// A set bit takes src0, a clear one src1.
template <typename T, typename U>
KOPE_TWIN_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
    SELMODE selMode, uint32_t count, Site site = Site::here())
{
    kope_twin::run_select(dst, selMask, src0, &src1, T(0), selMode, kope_twin::first_elements(count), site);
}
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
    SELMODE selMode, uint64_t mask[], uint8_t repeatTime, const BinaryRepeatParams& repeatParams, Site site = Site::here())
{
    kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T));
    kope_twin::run_select(dst, selMask, src0, &src1, T(0), selMode, kope_twin::with(form, repeatParams), site);
}
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
    SELMODE selMode, uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& repeatParams, Site site = Site::here())
{
    kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);
    kope_twin::run_select(dst, selMask, src0, &src1, T(0), selMode, kope_twin::with(form, repeatParams), site);
}
template <typename T, typename U>
KOPE_TWIN_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE selMode,
    uint32_t count, Site site = Site::here())
{
    const LocalTensor<T>* none = nullptr;
    kope_twin::run_select(dst, selMask, src0, none, src1, selMode, kope_twin::first_elements(count), site);
}
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE selMode,
    uint64_t mask[], uint8_t repeatTime, const BinaryRepeatParams& repeatParams, Site site = Site::here())
{
    const LocalTensor<T>* none = nullptr;
    kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T));
    kope_twin::run_select(dst, selMask, src0, none, src1, selMode, kope_twin::with(form, repeatParams), site);
}
template <typename T, typename U, bool isSetMask = true>
KOPE_TWIN_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE selMode,
    uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& repeatParams, Site site = Site::here())
{
    const LocalTensor<T>* none = nullptr;
    kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);
    kope_twin::run_select(dst, selMask, src0, none, src1, selMode, kope_twin::with(form, repeatParams), site);
}

} // namespace AscendC

#endif
