// Instructions that write without an elementwise source: Duplicate, CreateVecIndex, Brcb, Copy, Gather; and the mask registers.
#ifndef KOPE_TWIN_VECTOR_FILL_H
#define KOPE_TWIN_VECTOR_FILL_H

#include "kope_twin/vector_arith.h"

namespace kope_twin {

template <typename T>
KOPE_TWIN_INLINE void run_fill(const char* name, Op op, const AscendC::LocalTensor<T>& dst, T value, const Form& form, Site site)
{
    VectorCall call = call_of(name, op, dtype_of<T>, dtype_of<T>, site);
    call.dst = &dst.view();
    call.scalar = Scalar::of(value);
    call.form = form;
    api::vector(call);
}

KOPE_TWIN_INLINE Form& with_dst(Form& form, uint16_t block_stride, uint16_t repeat_stride)
{
    form.block_stride[0] = block_stride;
    form.repeat_stride[0] = repeat_stride;
    return form;
}

} // namespace kope_twin

namespace AscendC {

#define KOPE_TWIN_WIDE(T, NAME)                                                                                                            \
    static_assert(kope_twin::is_one_of<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,                                  \
        NAME " takes 16-bit and 32-bit elements on this chip; ReinterpretCast others (int8_t pairs to uint16_t)")
#define KOPE_TWIN_INDEXABLE(T, NAME)                                                                                                       \
    static_assert(kope_twin::is_one_of<T, int16_t, half, int32_t, float>, NAME " takes int16_t, half, int32_t or float on this chip")

template <typename T> KOPE_TWIN_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count, Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "Duplicate");
    kope_twin::run_fill("Duplicate", kope_twin::Op::Duplicate, dst, scalarValue, kope_twin::first_elements(count), site);
}
template <typename T, bool isSetMask = true>
KOPE_TWIN_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[], const uint8_t repeatTime,
    const uint16_t dstBlockStride, const uint8_t dstRepeatStride, Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "Duplicate");
    kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T));
    kope_twin::run_fill("Duplicate", kope_twin::Op::Duplicate, dst, scalarValue, kope_twin::with_dst(form, dstBlockStride, dstRepeatStride), site);
}
template <typename T, bool isSetMask = true>
KOPE_TWIN_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, const uint8_t repeatTime,
    const uint16_t dstBlockStride, const uint8_t dstRepeatStride, Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "Duplicate");
    kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);
    kope_twin::run_fill("Duplicate", kope_twin::Op::Duplicate, dst, scalarValue, kope_twin::with_dst(form, dstBlockStride, dstRepeatStride), site);
}

// firstValue, firstValue + 1, ...
template <typename T> KOPE_TWIN_API void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count, Site site = Site::here())
{
    KOPE_TWIN_INDEXABLE(T, "CreateVecIndex");
    kope_twin::run_fill("CreateVecIndex", kope_twin::Op::CreateVecIndex, dst, firstValue, kope_twin::first_elements(count), site);
}
template <typename T>
KOPE_TWIN_API void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask[], uint8_t repeatTime, uint16_t dstBlkStride,
    uint8_t dstRepStride, Site site = Site::here())
{
    KOPE_TWIN_INDEXABLE(T, "CreateVecIndex");
    kope_twin::Form form = kope_twin::masked_bits(mask, true, repeatTime, sizeof(T));
    kope_twin::run_fill("CreateVecIndex", kope_twin::Op::CreateVecIndex, dst, firstValue, kope_twin::with_dst(form, dstBlkStride, dstRepStride), site);
}
template <typename T>
KOPE_TWIN_API void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask, uint8_t repeatTime, uint16_t dstBlkStride,
    uint8_t dstRepStride, Site site = Site::here())
{
    KOPE_TWIN_INDEXABLE(T, "CreateVecIndex");
    kope_twin::Form form = kope_twin::masked(mask, true, repeatTime);
    kope_twin::run_fill("CreateVecIndex", kope_twin::Op::CreateVecIndex, dst, firstValue, kope_twin::with_dst(form, dstBlkStride, dstRepStride), site);
}

// Every repeat spreads 8 elements over 8 blocks of 32 bytes.
template <typename T>
KOPE_TWIN_API void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTime, const BrcbRepeatParams& repeatParams,
    Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "Brcb");
    kope_twin::VectorCall call = kope_twin::call_of("Brcb", kope_twin::Op::Brcb, kope_twin::dtype_of<T>, kope_twin::dtype_of<T>, site);
    call.dst = &dst.view();
    call.src0 = &src.view();
    call.form.repeat = repeatTime;
    call.form.block_stride[0] = repeatParams.dstBlkStride == 0 ? 1 : repeatParams.dstBlkStride;
    call.form.repeat_stride[0] = repeatParams.dstRepStride;
    kope_twin::api::vector(call);
}

// UB to UB through the vector unit.
template <typename T> KOPE_TWIN_API void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "Copy");
    kope_twin::run_unary("Copy", kope_twin::Op::Copy, dst, src, kope_twin::first_elements(count), site);
}
template <typename T, bool isSetMask = true>
KOPE_TWIN_API void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const uint8_t repeatTime,
    const CopyRepeatParams& repeatParams, Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "Copy");
    kope_twin::Form form = kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T));
    kope_twin::with_dst(form, repeatParams.dstStride, repeatParams.dstRepeatSize);
    form.block_stride[1] = repeatParams.srcStride;
    form.repeat_stride[1] = repeatParams.srcRepeatSize;
    kope_twin::run_unary("Copy", kope_twin::Op::Copy, dst, src, form, site);
}
template <typename T, bool isSetMask = true>
KOPE_TWIN_API void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const uint8_t repeatTime,
    const CopyRepeatParams& repeatParams, Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "Copy");
    kope_twin::Form form = kope_twin::masked(mask, isSetMask, repeatTime);
    kope_twin::with_dst(form, repeatParams.dstStride, repeatParams.dstRepeatSize);
    form.block_stride[1] = repeatParams.srcStride;
    form.repeat_stride[1] = repeatParams.srcRepeatSize;
    kope_twin::run_unary("Copy", kope_twin::Op::Copy, dst, src, form, site);
}

// dst[i] = the element at byte srcOffset[i] + srcBaseAddr of src.
template <typename T>
KOPE_TWIN_API void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
    const uint32_t srcBaseAddr, const uint32_t count, Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "Gather");
    kope_twin::VectorCall call = kope_twin::call_of("Gather", kope_twin::Op::Gather, kope_twin::dtype_of<T>, kope_twin::dtype_of<T>, site);
    call.dst = &dst.view();
    call.src0 = &src.view();
    call.mask = &srcOffset.view();
    call.scalar = kope_twin::Scalar::of(static_cast<int64_t>(srcBaseAddr));
    call.form = kope_twin::first_elements(count);
    kope_twin::api::vector(call);
}

// Keeps the elements whose bit is set, closed up, in dst; rsvdCnt is how many. A pattern is a number (1, 2: even or odd indices;
// 3 to 6: one of four; 7: all) or bits in UB. reduceMode: `mask` elements a repeat instead of 256 bytes.
template <typename T>
KOPE_TWIN_API void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern, const bool reduceMode,
    const uint32_t mask, const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt, Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "GatherMask");
    kope_twin::VectorCall call = kope_twin::call_of("GatherMask", kope_twin::Op::GatherMask, kope_twin::dtype_of<T>, kope_twin::dtype_of<T>, site);
    call.dst = &dst.view();
    call.src0 = &src0.view();
    call.mode = src1Pattern;
    call.form.count = reduceMode ? mask : 256 / sizeof(T);
    call.form.repeat = gatherMaskParams.repeatTimes;
    call.form.block_stride[1] = gatherMaskParams.src0BlockStride;
    call.form.repeat_stride[1] = gatherMaskParams.src0RepeatStride;
    rsvdCnt = kope_twin::api::gather_mask(call);
}
template <typename T, typename U>
KOPE_TWIN_API void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern, const bool reduceMode,
    const uint32_t mask, const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt, Site site = Site::here())
{
    KOPE_TWIN_WIDE(T, "GatherMask");
    static_assert(kope_twin::is_one_of<U, uint16_t, uint32_t> && sizeof(U) == sizeof(T),
        "GatherMask reads its bits from uint16_t for 16-bit elements and uint32_t for 32-bit elements");
    kope_twin::VectorCall call = kope_twin::call_of("GatherMask", kope_twin::Op::GatherMask, kope_twin::dtype_of<T>, kope_twin::dtype_of<T>, site);
    call.dst = &dst.view();
    call.src0 = &src0.view();
    call.mask = &src1Pattern.view();
    call.form.count = reduceMode ? mask : 256 / sizeof(T);
    call.form.repeat = gatherMaskParams.repeatTimes;
    call.form.block_stride[1] = gatherMaskParams.src0BlockStride;
    call.form.repeat_stride[1] = gatherMaskParams.src0RepeatStride;
    call.form.repeat_stride[2] = gatherMaskParams.src1RepeatStride;
    rsvdCnt = kope_twin::api::gather_mask(call);
}

KOPE_TWIN_API inline void SetMaskCount() { kope_twin::api::set_mask_mode(true); }
KOPE_TWIN_API inline void SetMaskNorm() { kope_twin::api::set_mask_mode(false); }
KOPE_TWIN_API inline void ResetMask() { kope_twin::api::set_mask(~0ULL, ~0ULL); }

template <typename T, MaskMode mode = MaskMode::NORMAL> KOPE_TWIN_API void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow)
{
    kope_twin::api::set_mask(maskHigh, maskLow);
}
// NORMAL: the first `len` elements of every repeat. COUNTER: `len` elements in all.
template <typename T, MaskMode mode = MaskMode::NORMAL> KOPE_TWIN_API void SetVectorMask(int32_t len)
{
    if constexpr (mode == MaskMode::COUNTER) {
        kope_twin::api::set_mask(0, static_cast<uint64_t>(len));
    } else {
        const uint64_t low = len >= 64 ? ~0ULL : (1ULL << len) - 1;
        const uint64_t high = len >= 128 ? ~0ULL : len > 64 ? (1ULL << (len - 64)) - 1 : 0;
        kope_twin::api::set_mask(high, low);
    }
}

} // namespace AscendC

#endif
