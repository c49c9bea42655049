// Sorting on the vector unit: Sort32, MrgSort, Sort, Concat, Extract. Scores fall, equal ones keep their order.
#ifndef KOPE_TWIN_SORT_H
#define KOPE_TWIN_SORT_H

#include "kope_twin/tensor.h"

namespace AscendC {

#define KOPE_TWIN_SORTABLE(T, NAME) static_assert(kope_twin::is_one_of<T, half, float>, NAME " takes half or float on this chip; Cast other types first")

template <typename T> struct MrgSortSrcList {
    MrgSortSrcList() = default;
    KOPE_TWIN_INLINE MrgSortSrcList(const LocalTensor<T>& first, const LocalTensor<T>& second, const LocalTensor<T>& third,
        const LocalTensor<T>& fourth)
        : src1(first), src2(second), src3(third), src4(fourth)
    {
    }
    LocalTensor<T> src1;
    LocalTensor<T> src2;
    LocalTensor<T> src3;
    LocalTensor<T> src4;
};

// Lengths count pairs of 8 bytes.
struct MrgSort4Info {
    MrgSort4Info() = default;
    KOPE_TWIN_INLINE MrgSort4Info(const uint16_t lengths[4], bool stop, uint16_t valid, uint16_t repeats)
        : ifExhaustedSuspension(stop), validBit(valid), repeatTimes(static_cast<uint8_t>(repeats))
    {
        for (int k = 0; k < 4; ++k) {
            elementLengths[k] = lengths[k];
        }
    }
    uint16_t elementLengths[4] = {0, 0, 0, 0};
    bool ifExhaustedSuspension = false;
    uint16_t validBit = 0;
    uint8_t repeatTimes = 1;
};

// Every repeat sorts 32 scores; dst holds pairs of score and index.
template <typename T>
KOPE_TWIN_API void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1, const int32_t repeatTime,
    Site site = Site::here())
{
    KOPE_TWIN_SORTABLE(T, "Sort32");
    kope_twin::api::sort32(dst.view(), src0.view(), src1.view(), kope_twin::dtype_of<T>, repeatTime, false, "Sort32", site);
}

// Merges two to four sorted queues of pairs.
template <typename T>
KOPE_TWIN_API void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params, Site site = Site::here())
{
    KOPE_TWIN_SORTABLE(T, "MrgSort");
    const kope_twin::UbView* const queues[4] = {&src.src1.view(), &src.src2.view(), &src.src3.view(), &src.src4.view()};
    const uint32_t lengths[4] = {params.elementLengths[0], params.elementLengths[1], params.elementLengths[2], params.elementLengths[3]};
    uint32_t taken[4];
    kope_twin::api::merge_sorted(dst.view(), queues, lengths, kope_twin::dtype_of<T>, params.validBit, params.repeatTimes,
        params.ifExhaustedSuspension, taken, site);
}
template <typename T, bool isExhaustedSuspension = false>
KOPE_TWIN_API void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sortList, const uint16_t elementCountList[4], uint32_t sortedNum[4],
    uint16_t validBit, const int32_t repeatTime, Site site = Site::here())
{
    KOPE_TWIN_SORTABLE(T, "MrgSort");
    const kope_twin::UbView* const queues[4] = {&sortList.src1.view(), &sortList.src2.view(), &sortList.src3.view(), &sortList.src4.view()};
    const uint32_t lengths[4] = {elementCountList[0], elementCountList[1], elementCountList[2], elementCountList[3]};
    kope_twin::api::merge_sorted(dst.view(), queues, lengths, kope_twin::dtype_of<T>, validBit, repeatTime, isExhaustedSuspension, sortedNum, site);
}

// On this chip scores need no bringing into shape: the result is the source itself.
template <typename T>
KOPE_TWIN_API void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>& tmp, const int32_t repeatTime)
{
    KOPE_TWIN_SORTABLE(T, "Concat");
    concat = src;
    (void)tmp;
    (void)repeatTime;
}
template <typename T, bool isFullSort>
KOPE_TWIN_API void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat, const LocalTensor<uint32_t>& index, LocalTensor<T>& tmp,
    const int32_t repeatTime, Site site = Site::here())
{
    KOPE_TWIN_SORTABLE(T, "Sort");
    kope_twin::api::sort32(dst.view(), concat.view(), index.view(), kope_twin::dtype_of<T>, repeatTime, isFullSort, "Sort", site);
    (void)tmp;
}
template <typename T>
KOPE_TWIN_API void Extract(const LocalTensor<T>& dstValue, const LocalTensor<uint32_t>& dstIndex, const LocalTensor<T>& sorted,
    const int32_t repeatTime, Site site = Site::here())
{
    KOPE_TWIN_SORTABLE(T, "Extract");
    kope_twin::api::extract_sorted(dstValue.view(), dstIndex.view(), sorted.view(), kope_twin::dtype_of<T>, repeatTime, site);
}

// Elements of T that pairs take.
template <typename T> KOPE_TWIN_INLINE uint32_t GetSortLen(const uint32_t elemCount) { return elemCount * 8U / static_cast<uint32_t>(sizeof(T)); }
template <typename T> KOPE_TWIN_INLINE uint32_t GetSortOffset(const uint32_t elemOffset) { return elemOffset * 8U / static_cast<uint32_t>(sizeof(T)); }

} // namespace AscendC

#endif
