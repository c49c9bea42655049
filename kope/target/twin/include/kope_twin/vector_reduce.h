// Reductions: over everything, per repeat (256 bytes), per block (32 bytes), per pair; under their old and current names.
#ifndef KOPE_TWIN_VECTOR_REDUCE_H
#define KOPE_TWIN_VECTOR_REDUCE_H

#include "kope_twin/form.h"

namespace kope_twin {

template <typename T>
KOPE_TWIN_INLINE void run_fold(const char* name, Op op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, Form form,
    int32_t dst_repeat, int32_t src_block, int32_t src_repeat, AscendC::ReduceOrder order, Site site)
{
    static_assert(is_one_of<T, half, float>, "reductions take half or float on this chip; Cast other types first");
    VectorCall call = call_of(name, op, dtype_of<T>, dtype_of<T>, site);
    call.mode = static_cast<uint8_t>(order);
    call.dst = &dst.view();
    call.src0 = &src.view();
    form.repeat_stride[0] = static_cast<uint16_t>(dst_repeat);
    form.block_stride[1] = static_cast<uint16_t>(src_block);
    form.repeat_stride[1] = static_cast<uint16_t>(src_repeat);
    call.form = form;
    api::vector(call);
}

template <typename T>
KOPE_TWIN_INLINE void run_reduce(const char* name, Op op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
    const AscendC::LocalTensor<T>& work, Form form, int32_t src_repeat, bool index, Site site)
{
    static_assert(is_one_of<T, half, float>, "reductions take half or float on this chip; Cast other types first");
    VectorCall call = call_of(name, op, dtype_of<T>, dtype_of<T>, site);
    call.mode = index ? 1 : 0;
    call.dst = &dst.view();
    call.src0 = &src.view();
    call.mask = &work.view();
    form.repeat_stride[1] = static_cast<uint16_t>(src_repeat);
    call.form = form;
    api::vector(call);
}

template <AscendC::ReduceType type> constexpr Op repeat_fold()
{
    return type == AscendC::ReduceType::SUM ? Op::RepeatSum : type == AscendC::ReduceType::MAX ? Op::RepeatMax : Op::RepeatMin;
}
template <AscendC::ReduceType type> constexpr Op block_fold()
{
    return type == AscendC::ReduceType::SUM ? Op::BlockSum : type == AscendC::ReduceType::MAX ? Op::BlockMax : Op::BlockMin;
}

} // namespace kope_twin

namespace AscendC {

// Old names: the repeat count and the mask change places between WholeReduce* and BlockReduce*/PairReduceSum.
#define KOPE_TWIN_WHOLE(NAME, OP, ORDER_PARAMETER, ORDER)                                                                                  \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTime,            \
        const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride ORDER_PARAMETER, Site site = Site::here())      \
    {                                                                                                                                      \
        kope_twin::run_fold(#NAME, kope_twin::Op::OP, dst, src, kope_twin::masked(mask, isSetMask, repeatTime), dstRepStride,              \
            srcBlkStride, srcRepStride, ORDER, site);                                                                                      \
    }                                                                                                                                      \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const int32_t repeatTime,         \
        const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride ORDER_PARAMETER, Site site = Site::here())      \
    {                                                                                                                                      \
        kope_twin::run_fold(#NAME, kope_twin::Op::OP, dst, src, kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T)),            \
            dstRepStride, srcBlkStride, srcRepStride, ORDER, site);                                                                        \
    }
#define KOPE_TWIN_ORDER_PARAMETER , ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX

KOPE_TWIN_WHOLE(WholeReduceSum, RepeatSum, , ReduceOrder::ORDER_ONLY_VALUE)
KOPE_TWIN_WHOLE(WholeReduceMax, RepeatMax, KOPE_TWIN_ORDER_PARAMETER, order)
KOPE_TWIN_WHOLE(WholeReduceMin, RepeatMin, KOPE_TWIN_ORDER_PARAMETER, order)

#define KOPE_TWIN_BLOCKWISE(NAME, OP)                                                                                                      \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,            \
        const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride, Site site = Site::here())                      \
    {                                                                                                                                      \
        kope_twin::run_fold(#NAME, kope_twin::Op::OP, dst, src, kope_twin::masked(mask, isSetMask, repeatTime), dstRepStride,              \
            srcBlkStride, srcRepStride, ReduceOrder::ORDER_ONLY_VALUE, site);                                                              \
    }                                                                                                                                      \
    template <typename T, bool isSetMask = true>                                                                                           \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],         \
        const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride, Site site = Site::here())                      \
    {                                                                                                                                      \
        kope_twin::run_fold(#NAME, kope_twin::Op::OP, dst, src, kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T)),            \
            dstRepStride, srcBlkStride, srcRepStride, ReduceOrder::ORDER_ONLY_VALUE, site);                                                \
    }

KOPE_TWIN_BLOCKWISE(BlockReduceSum, BlockSum)
KOPE_TWIN_BLOCKWISE(BlockReduceMax, BlockMax)
KOPE_TWIN_BLOCKWISE(BlockReduceMin, BlockMin)
KOPE_TWIN_BLOCKWISE(PairReduceSum, PairSum)

// Current names.
#define KOPE_TWIN_TYPED_FOLD(NAME, OP, ORDER_PARAMETER, ORDER)                                                                             \
    template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                                                        \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<U>& src, const int32_t mask, const int32_t repeatTime,            \
        const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride ORDER_PARAMETER, Site site = Site::here())      \
    {                                                                                                                                      \
        static_assert(std::is_same_v<T, U>, #NAME ": source and destination have the same type on this chip");                             \
        kope_twin::run_fold(#NAME, OP, dst, src, kope_twin::masked(mask, isSetMask, repeatTime), dstRepStride, srcBlkStride,               \
            srcRepStride, ORDER, site);                                                                                                    \
    }                                                                                                                                      \
    template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                                                        \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint64_t mask[], const int32_t repeatTime,         \
        const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride ORDER_PARAMETER, Site site = Site::here())      \
    {                                                                                                                                      \
        static_assert(std::is_same_v<T, U>, #NAME ": source and destination have the same type on this chip");                             \
        kope_twin::run_fold(#NAME, OP, dst, src, kope_twin::masked_bits(mask, isSetMask, repeatTime, sizeof(T)), dstRepStride,             \
            srcBlkStride, srcRepStride, ORDER, site);                                                                                      \
    }

KOPE_TWIN_TYPED_FOLD(ReduceRepeat, kope_twin::repeat_fold<reduceType>(), KOPE_TWIN_ORDER_PARAMETER,
    reduceType == ReduceType::SUM ? ReduceOrder::ORDER_ONLY_VALUE : order)
KOPE_TWIN_TYPED_FOLD(ReduceDataBlock, kope_twin::block_fold<reduceType>(), , ReduceOrder::ORDER_ONLY_VALUE)
KOPE_TWIN_TYPED_FOLD(ReducePairElem, kope_twin::Op::PairSum, , ReduceOrder::ORDER_ONLY_VALUE)

// Over all `count` elements: the tree inside a repeat, the repeats in order.
template <typename T, bool isSetMask = true>
KOPE_TWIN_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t count,
    Site site = Site::here())
{
    kope_twin::run_reduce("ReduceSum", kope_twin::Op::ReduceSum, dst, src, sharedTmpBuffer, kope_twin::first_elements(count, isSetMask), 8, false, site);
}
template <typename T>
KOPE_TWIN_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t mask,
    const int32_t repeatTime, const int32_t srcRepStride, Site site = Site::here())
{
    kope_twin::run_reduce("ReduceSum", kope_twin::Op::ReduceSum, dst, src, sharedTmpBuffer, kope_twin::masked(mask, true, repeatTime), srcRepStride,
        false, site);
}
template <typename T>
KOPE_TWIN_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
    const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride, Site site = Site::here())
{
    kope_twin::run_reduce("ReduceSum", kope_twin::Op::ReduceSum, dst, src, sharedTmpBuffer,
        kope_twin::masked_bits(mask, true, repeatTime, sizeof(T)), srcRepStride, false, site);
}

// calIndex: the index of the first extreme element follows its value, its bits as an integer in an element of type T.
#define KOPE_TWIN_EXTREME(NAME)                                                                                                            \
    template <typename T>                                                                                                                  \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,                   \
        const int32_t count, bool calIndex = 0, Site site = Site::here())                                                                  \
    {                                                                                                                                      \
        kope_twin::run_reduce(#NAME, kope_twin::Op::NAME, dst, src, sharedTmpBuffer, kope_twin::first_elements(count), 8, calIndex, site); \
    }                                                                                                                                      \
    template <typename T>                                                                                                                  \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,                   \
        const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0, Site site = Site::here())             \
    {                                                                                                                                      \
        kope_twin::run_reduce(#NAME, kope_twin::Op::NAME, dst, src, sharedTmpBuffer, kope_twin::masked(mask, true, repeatTime),            \
            srcRepStride, calIndex, site);                                                                                                 \
    }                                                                                                                                      \
    template <typename T>                                                                                                                  \
    KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,                   \
        const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0, Site site = Site::here())          \
    {                                                                                                                                      \
        kope_twin::run_reduce(#NAME, kope_twin::Op::NAME, dst, src, sharedTmpBuffer,                                                       \
            kope_twin::masked_bits(mask, true, repeatTime, sizeof(T)), srcRepStride, calIndex, site);                                      \
    }

KOPE_TWIN_EXTREME(ReduceMax)
KOPE_TWIN_EXTREME(ReduceMin)

// What the last reduction left in the scalar unit's registers.
template <typename T> KOPE_TWIN_API T GetReduceRepeatSumSpr() { return kope_twin::from_bits<T>(kope_twin::api::last_reduction(0)); }
KOPE_TWIN_API inline uint64_t GetAccVal() { return kope_twin::api::last_reduction(0); }
template <typename T> KOPE_TWIN_API T GetAccVal() { return kope_twin::from_bits<T>(kope_twin::api::last_reduction(0)); }
template <typename T> KOPE_TWIN_API void GetReduceRepeatMaxMinSpr(T& value, T& index)
{
    value = kope_twin::from_bits<T>(kope_twin::api::last_reduction(1));
    index = kope_twin::from_bits<T>(kope_twin::api::last_reduction(2));
}
template <typename T> KOPE_TWIN_API void GetReduceRepeatMaxMinSpr(T& value) { value = kope_twin::from_bits<T>(kope_twin::api::last_reduction(1)); }
template <typename T> KOPE_TWIN_API void GetReduceMaxMinCount(T& value, T& index) { GetReduceRepeatMaxMinSpr(value, index); }
template <typename T> KOPE_TWIN_API void GetReduceMaxMinCount(T& value) { GetReduceRepeatMaxMinSpr(value); }

} // namespace AscendC

// The instruction behind ReduceRepeat by its own name: the mask is that of SetVectorMask. mode: the sum over all repeats goes
// to the accumulator as well, where GetAccVal finds it; dst may be nullptr then.
template <typename T>
KOPE_TWIN_API void vcadd(std::common_type_t<T>* dst, T* src, uint8_t repeat, uint16_t dst_repeat, uint16_t src_block, uint16_t src_repeat,
    bool mode = false, kope_twin::Site site = kope_twin::Site::here())
{
    static_assert(kope_twin::is_one_of<T, half, float>, "vcadd takes half or float");
    const kope_twin::UbView to = kope_twin::api::raw_view(reinterpret_cast<uint64_t>(dst), site);
    const kope_twin::UbView from = kope_twin::api::raw_view(reinterpret_cast<uint64_t>(src), site);
    kope_twin::VectorCall call = kope_twin::call_of(
        "vcadd", mode ? kope_twin::Op::RepeatSumAll : kope_twin::Op::RepeatSum, kope_twin::dtype_of<T>, kope_twin::dtype_of<T>, site);
    call.mode = static_cast<uint8_t>(AscendC::ReduceOrder::ORDER_ONLY_VALUE);
    call.dst = dst == nullptr ? nullptr : &to;
    call.src0 = &from;
    call.form = kope_twin::masked(0, false, repeat);
    call.form.repeat_stride[0] = dst_repeat;
    call.form.block_stride[1] = src_block;
    call.form.repeat_stride[1] = src_repeat;
    kope_twin::api::vector(call);
}

#undef KOPE_TWIN_WHOLE
#undef KOPE_TWIN_ORDER_PARAMETER
#undef KOPE_TWIN_BLOCKWISE
#undef KOPE_TWIN_TYPED_FOLD
#undef KOPE_TWIN_EXTREME

#endif
