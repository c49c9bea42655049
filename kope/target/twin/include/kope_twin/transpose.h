// Transpose of 16 x 16 blocks, and TransDataTo5HD, which transposes 16 blocks of 32 bytes taken from anywhere.
#ifndef KOPE_TWIN_TRANSPOSE_H
#define KOPE_TWIN_TRANSPOSE_H

#include "kope_twin/tensor.h"

namespace AscendC {

inline constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16;

struct TransDataTo5HDParams {
    TransDataTo5HDParams() = default;
    KOPE_TWIN_INLINE TransDataTo5HDParams(bool dst_high, bool src_high, uint8_t repeats, uint16_t dst_stride, uint16_t src_stride)
        : dstHighHalf(dst_high), srcHighHalf(src_high), repeatTimes(repeats), dstRepStride(dst_stride), srcRepStride(src_stride)
    {
    }
    bool dstHighHalf = false; // 8-bit elements: which half of a block
    bool srcHighHalf = false;
    uint8_t repeatTimes = 1;
    uint16_t dstRepStride = 0; // in blocks of 32 bytes
    uint16_t srcRepStride = 0;
};

#define KOPE_TWIN_TRANSPOSABLE(T, NAME)                                                                                                    \
    static_assert(kope_twin::is_one_of<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>,                             \
        NAME " takes int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t or float on this chip")

template <typename T>
KOPE_TWIN_API void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE], const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
    const TransDataTo5HDParams& params, Site site = Site::here())
{
    KOPE_TWIN_TRANSPOSABLE(T, "TransDataTo5HD");
    const kope_twin::UbView* to[16];
    const kope_twin::UbView* from[16];
    for (int k = 0; k < 16; ++k) {
        to[k] = &dstList[k].view();
        from[k] = &srcList[k].view();
    }
    kope_twin::api::transpose_blocks(to, from, kope_twin::dtype_of<T>, params.dstHighHalf, params.srcHighHalf, params.repeatTimes, params.dstRepStride,
        params.srcRepStride, "TransDataTo5HD", site);
}
// Lists of addresses as GetPhyAddr gives them.
template <typename T>
KOPE_TWIN_API void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
    const TransDataTo5HDParams& params, Site site = Site::here())
{
    KOPE_TWIN_TRANSPOSABLE(T, "TransDataTo5HD");
    kope_twin::UbView views[32];
    const kope_twin::UbView* to[16];
    const kope_twin::UbView* from[16];
    for (int k = 0; k < 16; ++k) {
        views[k] = kope_twin::api::raw_view(dstList[k], site);
        views[16 + k] = kope_twin::api::raw_view(srcList[k], site);
        to[k] = &views[k];
        from[k] = &views[16 + k];
    }
    kope_twin::api::transpose_blocks(to, from, kope_twin::dtype_of<T>, params.dstHighHalf, params.srcHighHalf, params.repeatTimes, params.dstRepStride,
        params.srcRepStride, "TransDataTo5HD", site);
}

template <typename T> KOPE_TWIN_API void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, Site site = Site::here())
{
    static_assert(kope_twin::is_one_of<T, int16_t, uint16_t, half>, "Transpose takes int16_t, uint16_t or half on this chip; for others see TransDataTo5HD");
    kope_twin::UbView views[32];
    const kope_twin::UbView* to[16];
    const kope_twin::UbView* from[16];
    for (int k = 0; k < 16; ++k) {
        views[k] = dst[k * 16].view();
        views[16 + k] = src[k * 16].view();
        to[k] = &views[k];
        from[k] = &views[16 + k];
    }
    kope_twin::api::transpose_blocks(to, from, kope_twin::dtype_of<T>, false, false, 1, 0, 0, "Transpose", site);
}

} // namespace AscendC

#endif
