// Moving data between device memory and the unified buffer (MTE2, MTE3), and inside the unified buffer (vector unit).
#ifndef KOPE_TWIN_COPY_H
#define KOPE_TWIN_COPY_H

#include "kope_twin/tensor.h"

namespace kope_twin {

KOPE_TWIN_INLINE Transfer whole_blocks(const char* name, uint32_t bytes, uint32_t element_bytes, Site site)
{
    Transfer transfer;
    transfer.name = name;
    transfer.block_bytes = bytes;
    transfer.element_bytes = static_cast<uint8_t>(element_bytes);
    transfer.site = site;
    return transfer;
}

// The UB side is the destination when moving in, the source when moving out.
KOPE_TWIN_INLINE Transfer strided(const AscendC::DataCopyParams& params, bool in, uint32_t element_bytes, Site site)
{
    Transfer transfer = whole_blocks("DataCopy", params.blockLen * 32U, element_bytes, site);
    transfer.block_count = params.blockCount;
    transfer.gm_gap_bytes = (in ? params.srcGap : params.dstGap) * 32U;
    transfer.ub_gap_blocks = in ? params.dstGap : params.srcGap;
    return transfer;
}

KOPE_TWIN_INLINE Transfer padded(const AscendC::DataCopyExtParams& params, bool in, uint32_t element_bytes, Site site)
{
    Transfer transfer = whole_blocks("DataCopyPad", params.blockLen, element_bytes, site);
    transfer.padded = true;
    transfer.block_count = params.blockCount;
    transfer.gm_gap_bytes = in ? params.srcStride : params.dstStride;
    transfer.ub_gap_blocks = in ? params.dstStride : params.srcStride;
    return transfer;
}

// Walks the pieces of a slice: calls `move(offset in dst, offset in src)`, in elements, for every row of pieces.
template <typename Move>
KOPE_TWIN_INLINE void each_row(const AscendC::SliceInfo dst[], const AscendC::SliceInfo src[], uint32_t rank, const Move& move)
{
    uint32_t steps[8] = {};
    for (bool more = true; more;) {
        uint64_t to = dst[0].startIndex, from = src[0].startIndex, to_row = dst[0].shapeValue, from_row = src[0].shapeValue;
        for (uint32_t axis = 1; axis < rank; ++axis) {
            to += to_row * (dst[axis].startIndex + uint64_t(steps[axis]) * (1 + dst[axis].stride));
            from += from_row * (src[axis].startIndex + uint64_t(steps[axis]) * (1 + src[axis].stride));
            to_row *= dst[axis].shapeValue;
            from_row *= src[axis].shapeValue;
        }
        move(to, from);
        more = false;
        for (uint32_t axis = 1; axis < rank && !more; ++axis) {
            const AscendC::SliceInfo& along = src[axis];
            more = uint64_t(along.startIndex) + uint64_t(++steps[axis]) * (1 + along.stride) <= along.endIndex;
            steps[axis] = more ? steps[axis] : 0;
        }
    }
}

// All pieces of one row as one copy.
KOPE_TWIN_INLINE Transfer pieces(const AscendC::SliceInfo& ub, const AscendC::SliceInfo& gm, uint32_t element_bytes, Site site)
{
    const uint32_t piece = gm.burstLen * 32U / element_bytes;
    Transfer transfer = whole_blocks("DataCopy", gm.burstLen * 32U, element_bytes, site);
    transfer.padded = true; // any address in device memory
    transfer.block_count = piece == 0 ? 0 : (gm.endIndex - gm.startIndex + 1 + gm.stride) / (piece + gm.stride);
    transfer.gm_gap_bytes = gm.stride * element_bytes;
    transfer.ub_gap_blocks = ub.stride * element_bytes / 32U;
    return transfer;
}

} // namespace kope_twin

namespace AscendC {

// Slices of tensors of up to 8 axes; burstLen of both sides must agree.
template <typename T>
KOPE_TWIN_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const SliceInfo dstSliceInfo[], const SliceInfo srcSliceInfo[],
    const uint32_t dimValue = 1, Site site = Site::here())
{
    const kope_twin::Transfer row = kope_twin::pieces(dstSliceInfo[0], srcSliceInfo[0], sizeof(T), site);
    kope_twin::each_row(dstSliceInfo, srcSliceInfo, dimValue,
        [&](uint64_t to, uint64_t from) { kope_twin::api::copy_in(dst[uint32_t(to)].view(), src[from].GetPhyAddr(), row); });
}
template <typename T>
KOPE_TWIN_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const SliceInfo dstSliceInfo[], const SliceInfo srcSliceInfo[],
    const uint32_t dimValue = 1, Site site = Site::here())
{
    const kope_twin::Transfer row = kope_twin::pieces(srcSliceInfo[0], dstSliceInfo[0], sizeof(T), site);
    kope_twin::each_row(dstSliceInfo, srcSliceInfo, dimValue,
        [&](uint64_t to, uint64_t from) { kope_twin::api::copy_out(const_cast<T*>(dst[to].GetPhyAddr()), src[uint32_t(from)].view(), row); });
}

// count * sizeof(T) is rounded down to a multiple of 32 bytes.
template <typename T>
KOPE_TWIN_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count, Site site = Site::here())
{
    kope_twin::api::copy_in(dst.view(), src.GetPhyAddr(), kope_twin::whole_blocks("DataCopy", count * uint32_t(sizeof(T)), sizeof(T), site));
}

template <typename T>
KOPE_TWIN_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, Site site = Site::here())
{
    kope_twin::api::copy_out(const_cast<T*>(dst.GetPhyAddr()), src.view(),
        kope_twin::whole_blocks("DataCopy", count * uint32_t(sizeof(T)), sizeof(T), site));
}

template <typename T>
KOPE_TWIN_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, Site site = Site::here())
{
    kope_twin::api::copy_local(dst.view(), src.view(), kope_twin::whole_blocks("DataCopy", count * uint32_t(sizeof(T)), sizeof(T), site));
}

template <typename T>
KOPE_TWIN_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params, Site site = Site::here())
{
    kope_twin::api::copy_in(dst.view(), src.GetPhyAddr(), kope_twin::strided(params, true, sizeof(T), site));
}

template <typename T>
KOPE_TWIN_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params, Site site = Site::here())
{
    kope_twin::api::copy_out(const_cast<T*>(dst.GetPhyAddr()), src.view(), kope_twin::strided(params, false, sizeof(T), site));
}

template <typename T>
KOPE_TWIN_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params, Site site = Site::here())
{
    kope_twin::Transfer transfer = kope_twin::strided(params, true, sizeof(T), site);
    transfer.gm_gap_bytes = params.srcGap * 32U;
    kope_twin::api::copy_local(dst.view(), src.view(), transfer);
}

// Any number of bytes; every block starts at a 32-byte boundary of UB and is filled up to one.
template <typename T>
KOPE_TWIN_API void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& params,
    const DataCopyPadExtParams<T>& pad, Site site = Site::here())
{
    kope_twin::Transfer transfer = kope_twin::padded(params, true, sizeof(T), site);
    transfer.fill = pad.isPad;
    transfer.left_elements = pad.leftPadding;
    transfer.right_elements = pad.rightPadding;
    transfer.pad_bits = kope_twin::bits_of(pad.paddingValue);
    kope_twin::api::copy_in(dst.view(), src.GetPhyAddr(), transfer);
}

template <typename T>
KOPE_TWIN_API void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& params, Site site = Site::here())
{
    kope_twin::api::copy_out(const_cast<T*>(dst.GetPhyAddr()), src.view(), kope_twin::padded(params, false, sizeof(T), site));
}

// The older form with 16-bit parameters: blockLen and the GM stride in bytes, the UB stride in 32-byte blocks.
template <typename T>
KOPE_TWIN_API void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params,
    const DataCopyPadParams& pad, Site site = Site::here())
{
    kope_twin::Transfer transfer =
        kope_twin::padded(DataCopyExtParams(params.blockCount, params.blockLen, params.srcGap, params.dstGap, 0), true, sizeof(T), site);
    transfer.fill = pad.isPad;
    transfer.left_elements = pad.leftPadding;
    transfer.right_elements = pad.rightPadding;
    transfer.pad_bits = pad.paddingValue;
    kope_twin::api::copy_in(dst.view(), src.GetPhyAddr(), transfer);
}

template <typename T>
KOPE_TWIN_API void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params, Site site = Site::here())
{
    kope_twin::api::copy_out(const_cast<T*>(dst.GetPhyAddr()), src.view(),
        kope_twin::padded(DataCopyExtParams(params.blockCount, params.blockLen, params.srcGap, params.dstGap, 0), false, sizeof(T), site));
}

template <typename T> KOPE_TWIN_API void SetAtomicAdd(Site site = Site::here())
{
    static_assert(kope_twin::is_one_of<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>,
        "SetAtomicAdd takes float, half, bfloat16_t, int32_t, int16_t or int8_t");
    kope_twin::api::set_atomic(1, kope_twin::dtype_of<T>, site);
}
template <typename T> KOPE_TWIN_API void SetAtomicMax(Site site = Site::here())
{
    static_assert(kope_twin::is_one_of<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>,
        "SetAtomicMax takes float, half, bfloat16_t, int32_t, int16_t or int8_t");
    kope_twin::api::set_atomic(2, kope_twin::dtype_of<T>, site);
}
template <typename T> KOPE_TWIN_API void SetAtomicMin(Site site = Site::here())
{
    static_assert(kope_twin::is_one_of<T, float, half, bfloat16_t, int32_t, int16_t, int8_t>,
        "SetAtomicMin takes float, half, bfloat16_t, int32_t, int16_t or int8_t");
    kope_twin::api::set_atomic(3, kope_twin::dtype_of<T>, site);
}
KOPE_TWIN_API inline void SetAtomicNone(Site site = Site::here()) { kope_twin::api::set_atomic(0, kope_twin::Dtype::None, site); }
KOPE_TWIN_API inline void DisableDmaAtomic(Site site = Site::here()) { kope_twin::api::set_atomic(0, kope_twin::Dtype::None, site); }

template <typename T, TPosition position = TPosition::MAX> KOPE_TWIN_API void SetPadValue(T value)
{
    kope_twin::api::set_pad_value(kope_twin::bits_of(value));
}

} // namespace AscendC

#endif
