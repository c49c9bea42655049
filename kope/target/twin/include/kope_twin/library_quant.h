// Quantisation: AscendQuant (float or half to int8_t), AscendDequant (int32_t to half or float), AscendAntiQuant (int8_t to half).
#ifndef KOPE_TWIN_LIBRARY_QUANT_H
#define KOPE_TWIN_LIBRARY_QUANT_H

#include "kope_twin/library_math.h"

namespace AscendC {

// round(src * scale + offset), halves to even, kept inside int8_t.
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
    const float scale, const float offset, const uint32_t calCount, Site site = Site::here())
{
    static_assert(kope_twin::is_one_of<T, half, float>, "AscendQuant takes half or float on this chip; Cast other types to float first");
    const LocalTensor<T>* none = nullptr;
    kope_twin::LibraryCall call =
        kope_twin::library_call("AscendQuant", kope_twin::LibraryOp::Quant, dst, &src, none, &sharedTmpBuffer, calCount, site);
    call.scalar[0] = kope_twin::as_double(scale);
    call.scalar[1] = kope_twin::as_double(offset);
    kope_twin::api::library(call);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const float scale, const float offset,
    const uint32_t calCount, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    AscendQuant<T, isReuseSource>(dst, src, work, scale, offset, calCount, site);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
    const float scale, const float offset, Site site = Site::here())
{
    AscendQuant<T, isReuseSource>(dst, src, sharedTmpBuffer, scale, offset, src.GetSize(), site);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const float scale, const float offset, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    AscendQuant<T, isReuseSource>(dst, src, work, scale, offset, src.GetSize(), site);
}

// src * scale, by one scale or by one for each of calCount columns.
template <typename dstT, typename scaleT>
KOPE_TWIN_API void AscendDequant(const LocalTensor<dstT>& dst, const LocalTensor<int32_t>& src, const LocalTensor<scaleT>& deqScale,
    const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount, Site site = Site::here())
{
    static_assert(kope_twin::is_one_of<dstT, half, float, bfloat16_t> && kope_twin::is_one_of<scaleT, float, bfloat16_t>,
        "AscendDequant makes half, float or bfloat16_t, with scales of float or bfloat16_t; the uint64_t form is not in the twin");
    const LocalTensor<int32_t>* none = nullptr;
    kope_twin::LibraryCall call = kope_twin::library_call("AscendDequant", kope_twin::LibraryOp::DequantBy, dst, &src, none, &sharedTmpBuffer,
        src.GetSize() / calCount * calCount, site);
    call.src1 = &deqScale.view();
    call.src1_type = kope_twin::dtype_of<scaleT>;
    call.src1_period = calCount;
    kope_twin::api::library(call);
}
template <typename dstT, typename scaleT>
KOPE_TWIN_API void AscendDequant(const LocalTensor<dstT>& dst, const LocalTensor<int32_t>& src, const LocalTensor<scaleT>& deqScale,
    const uint32_t calCount, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    AscendDequant<dstT, scaleT>(dst, src, deqScale, work, calCount, site);
}
template <typename dstT, typename scaleT>
KOPE_TWIN_API void AscendDequant(const LocalTensor<dstT>& dst, const LocalTensor<int32_t>& src, const LocalTensor<scaleT>& deqScale,
    const LocalTensor<uint8_t>& sharedTmpBuffer, Site site = Site::here())
{
    AscendDequant<dstT, scaleT>(dst, src, deqScale, sharedTmpBuffer, deqScale.GetSize(), site);
}

// scale * (src + offset) with one scale and one offset.
template <typename InputDataType, typename OutputDataType, bool isTranspose>
KOPE_TWIN_API void AscendAntiQuant(const LocalTensor<OutputDataType>& dst, const LocalTensor<InputDataType>& src, const OutputDataType offset,
    const OutputDataType scale, const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t k, Site site = Site::here())
{
    static_assert(std::is_same_v<InputDataType, int8_t> && kope_twin::is_one_of<OutputDataType, half, bfloat16_t>,
        "AscendAntiQuant converts int8_t to half or bfloat16_t in the twin");
    const LocalTensor<int8_t>* none = nullptr;
    kope_twin::LibraryCall call = kope_twin::library_call("AscendAntiQuant", kope_twin::LibraryOp::AntiQuant, dst, &src, none, &sharedTmpBuffer,
        src.GetSize(), site);
    call.scalar[0] = kope_twin::as_double(scale);
    call.scalar[1] = kope_twin::as_double(offset);
    kope_twin::api::library(call);
    (void)k;
}

} // namespace AscendC

#endif
