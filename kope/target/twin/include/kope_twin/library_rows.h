// Library functions over rows: softmax and its parts, Sum, Mean, LayerNorm, RmsNorm. Data is ND: [rows, padded length].
#ifndef KOPE_TWIN_LIBRARY_ROWS_H
#define KOPE_TWIN_LIBRARY_ROWS_H

#include "kope_twin/library_tiling.h"
#include "kope_twin/tensor.h"

namespace AscendC {

// srcK: elements of a row with its padding; oriSrcK: those that count.
struct SoftMaxShapeInfo {
    uint32_t srcM = 0;
    uint32_t srcK = 0;
    uint32_t oriSrcM = 0;
    uint32_t oriSrcK = 0;
};
enum class SoftmaxMode { SOFTMAX_NORMAL = 0, SOFTMAX_OUTPUT_WITHOUT_BRC = 1 };
struct SoftmaxConfig {
    bool isCheckTiling = true;
    uint32_t oriSrcM = 0;
    uint32_t oriSrcK = 0;
    SoftmaxMode mode = SoftmaxMode::SOFTMAX_NORMAL;
};
inline constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {};

// inner: elements of a row with its padding; n: those that count.
struct SumParams {
    uint32_t outter = 1;
    uint32_t inner = 0;
    uint32_t n = 0;
};
struct MeanParams {
    uint32_t outter = 1;
    uint32_t inner = 0;
    uint32_t n = 0;
};

} // namespace AscendC

namespace kope_twin {

template <typename T>
KOPE_TWIN_INLINE RowsCall rows_call(const char* name, RowsOp op, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, Site site)
{
    static_assert(is_one_of<T, half, float>, "this library function takes half or float on this chip; Cast other types to float first");
    RowsCall call{};
    call.name = name;
    call.op = op;
    call.dtype = dtype_of<T>;
    call.stat_dtype = dtype_of<T>;
    call.dst = &dst.view();
    call.src = &src.view();
    call.site = site;
    return call;
}

// The shape of a softmax: given with the call, else in its tiling.
KOPE_TWIN_INLINE void set_shape(RowsCall& call, const SoftMaxTiling& tiling, const AscendC::SoftMaxShapeInfo& shape)
{
    call.rows = shape.srcM != 0 ? shape.srcM : tiling.srcM;
    call.pitch = shape.srcK != 0 ? shape.srcK : tiling.srcK;
    call.columns = shape.oriSrcK != 0 ? shape.oriSrcK : call.pitch;
}

template <typename T> KOPE_TWIN_INLINE const UbView* view_or_null(const AscendC::LocalTensor<T>& tensor)
{
    return tensor.view().limit == 0 ? nullptr : &tensor.view();
}

} // namespace kope_twin

namespace AscendC {

#define KOPE_TWIN_ND_ONLY(NZ, NAME) static_assert(!(NZ), NAME ": the twin has the ND format only (isDataFormatNZ = false)")
#define KOPE_TWIN_SOFTMAX_TEMPLATE                                                                                                         \
    template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,                              \
        const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename S>

// sum and max hold one block of 32 bytes per row. They are float for half data, or of the data's type.
KOPE_TWIN_SOFTMAX_TEMPLATE
KOPE_TWIN_API void SoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max, const LocalTensor<T>& src,
    const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    KOPE_TWIN_ND_ONLY(isDataFormatNZ, "SoftMax");
    static_assert(kope_twin::is_one_of<S, T, float>, "SoftMax: sum and max are float, or of the data's type");
    kope_twin::RowsCall call = kope_twin::rows_call("SoftMax", kope_twin::RowsOp::SoftMax, dst, src, site);
    kope_twin::set_shape(call, tiling, shape);
    call.stat_dtype = kope_twin::dtype_of<S>;
    call.out[0] = &sum.view();
    call.out[1] = &max.view();
    call.work = kope_twin::view_or_null(sharedTmpBuffer);
    kope_twin::api::library_rows(call);
}
KOPE_TWIN_SOFTMAX_TEMPLATE
KOPE_TWIN_API void SoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max, const LocalTensor<T>& src,
    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    SoftMax<T, isReuseSource, isBasicBlock, isDataFormatNZ, config>(dst, sum, max, src, work, tiling, shape, site);
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
KOPE_TWIN_API void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    kope_twin::RowsCall call = kope_twin::rows_call("SoftMax", kope_twin::RowsOp::SoftMax, dst, src, site);
    kope_twin::set_shape(call, tiling, shape);
    call.work = kope_twin::view_or_null(sharedTmpBuffer);
    kope_twin::api::library_rows(call);
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
KOPE_TWIN_API void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {},
    Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    SoftMax<T, isReuseSource, isBasicBlock, config>(dst, src, work, tiling, shape, site);
}

// exp(src - max) / sum with sum and max of before.
KOPE_TWIN_SOFTMAX_TEMPLATE
KOPE_TWIN_API void SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& inSum, const LocalTensor<S>& inMax, const LocalTensor<T>& src,
    const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    KOPE_TWIN_ND_ONLY(isDataFormatNZ, "SimpleSoftMax");
    kope_twin::RowsCall call = kope_twin::rows_call("SimpleSoftMax", kope_twin::RowsOp::SimpleSoftMax, dst, src, site);
    kope_twin::set_shape(call, tiling, shape);
    call.stat_dtype = kope_twin::dtype_of<S>;
    call.in[0] = &inSum.view();
    call.in[1] = &inMax.view();
    call.work = kope_twin::view_or_null(sharedTmpBuffer);
    kope_twin::api::library_rows(call);
}
KOPE_TWIN_SOFTMAX_TEMPLATE
KOPE_TWIN_API void SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& inSum, const LocalTensor<S>& inMax, const LocalTensor<T>& src,
    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    SimpleSoftMax<T, isReuseSource, isBasicBlock, isDataFormatNZ, config>(dst, inSum, inMax, src, work, tiling, shape, site);
}

// One step of an online softmax: dst = exp(src - max), not divided. isUpdate takes up sum and max of the steps before.
template <typename T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
    const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename S>
KOPE_TWIN_API void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<S>& expSum, const LocalTensor<S>& max, const LocalTensor<T>& src,
    const LocalTensor<T>& expMax, const LocalTensor<S>& inExpSum, const LocalTensor<S>& inMax, const LocalTensor<uint8_t>& sharedTmpBuffer,
    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    KOPE_TWIN_ND_ONLY(isDataFormatNZ, "SoftmaxFlashV2");
    const kope_twin::RowsOp op = isUpdate ? kope_twin::RowsOp::SoftmaxFlashUpdate : kope_twin::RowsOp::SoftmaxFlash;
    kope_twin::RowsCall call = kope_twin::rows_call("SoftmaxFlashV2", op, dst, src, site);
    kope_twin::set_shape(call, tiling, shape);
    call.stat_dtype = kope_twin::dtype_of<S>;
    call.out[0] = &expSum.view();
    call.out[1] = &max.view();
    if (isUpdate) {
        call.in[0] = &inExpSum.view();
        call.in[1] = &inMax.view();
        call.out[2] = &expMax.view();
    }
    call.work = kope_twin::view_or_null(sharedTmpBuffer);
    kope_twin::api::library_rows(call);
}
template <typename T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
    const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename S>
KOPE_TWIN_API void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<S>& expSum, const LocalTensor<S>& max, const LocalTensor<T>& src,
    const LocalTensor<T>& expMax, const LocalTensor<S>& inExpSum, const LocalTensor<S>& inMax, const SoftMaxTiling& tiling,
    const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    SoftmaxFlashV2<T, isUpdate, isReuseSource, isBasicBlock, isDataFormatNZ, config>(
        dst, expSum, max, src, expMax, inExpSum, inMax, work, tiling, shape, site);
}

// dst = (grad - rowsum(grad * src)) * src; isFront: the row sums alone, one block per row.
template <typename T, bool isReuseSource = false, bool isDataFormatNZ = false>
KOPE_TWIN_API void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
    const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, bool isFront = false, const SoftMaxShapeInfo& shape = {},
    Site site = Site::here())
{
    KOPE_TWIN_ND_ONLY(isDataFormatNZ, "SoftmaxGrad");
    const kope_twin::RowsOp op = isFront ? kope_twin::RowsOp::SoftmaxGradFront : kope_twin::RowsOp::SoftmaxGrad;
    kope_twin::RowsCall call = kope_twin::rows_call("SoftmaxGrad", op, dst, src, site);
    kope_twin::set_shape(call, tiling, shape);
    call.in[0] = &grad.view();
    call.work = kope_twin::view_or_null(sharedTmpBuffer);
    kope_twin::api::library_rows(call);
}
template <typename T, bool isReuseSource = false, bool isDataFormatNZ = false>
KOPE_TWIN_API void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src, const SoftMaxTiling& tiling,
    bool isFront = false, const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    SoftmaxGrad<T, isReuseSource, isDataFormatNZ>(dst, grad, src, work, tiling, isFront, shape, site);
}
template <typename T, bool isBasicBlock = false, bool isDataFormatNZ = false>
KOPE_TWIN_API void SoftmaxGradFront(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
    const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    SoftmaxGrad<T, false, isDataFormatNZ>(dst, grad, src, sharedTmpBuffer, tiling, true, shape, site);
}
template <typename T, bool isBasicBlock = false, bool isDataFormatNZ = false>
KOPE_TWIN_API void SoftmaxGradFront(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src, const SoftMaxTiling& tiling,
    const SoftMaxShapeInfo& shape = {}, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    SoftmaxGrad<T, false, isDataFormatNZ>(dst, grad, src, work, tiling, true, shape, site);
}

// One result per row, end to end.
#define KOPE_TWIN_ROW_SUM(NAME, OP, PARAMS, TEMPLATE)                                                                                      \
    TEMPLATE KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,    \
        const PARAMS& params, Site site = Site::here())                                                                                    \
    {                                                                                                                                      \
        kope_twin::RowsCall call = kope_twin::rows_call(#NAME, kope_twin::RowsOp::OP, dst, src, site);                                     \
        call.rows = params.outter;                                                                                                         \
        call.pitch = params.inner;                                                                                                         \
        call.columns = params.n;                                                                                                           \
        call.work = kope_twin::view_or_null(sharedTmpBuffer);                                                                              \
        kope_twin::api::library_rows(call);                                                                                                \
    }                                                                                                                                      \
    TEMPLATE KOPE_TWIN_API void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const PARAMS& params, Site site = Site::here()) \
    {                                                                                                                                      \
        kope_twin::RowsCall call = kope_twin::rows_call(#NAME, kope_twin::RowsOp::OP, dst, src, site);                                     \
        call.rows = params.outter;                                                                                                         \
        call.pitch = params.inner;                                                                                                         \
        call.columns = params.n;                                                                                                           \
        kope_twin::api::library_rows(call);                                                                                                \
    }
#define KOPE_TWIN_SUM_TEMPLATE template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
#define KOPE_TWIN_MEAN_TEMPLATE                                                                                                            \
    template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
KOPE_TWIN_ROW_SUM(Sum, Sum, SumParams, KOPE_TWIN_SUM_TEMPLATE)
KOPE_TWIN_ROW_SUM(Mean, Mean, MeanParams, KOPE_TWIN_MEAN_TEMPLATE)

// (x - mean) / sqrt(variance + epsilon) * gamma + beta over the last axis of [B, S, H]; mean and variance one per row.
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
    const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta, const LocalTensor<uint8_t>& sharedTmpBuffer,
    const T epsilon, const LayerNormTiling& tiling, Site site = Site::here())
{
    kope_twin::RowsCall call = kope_twin::rows_call("LayerNorm", kope_twin::RowsOp::LayerNorm, output, inputX, site);
    call.rows = tiling.bLength * tiling.sLength;
    call.pitch = tiling.hLength;
    call.columns = tiling.originalHLength != 0 ? tiling.originalHLength : tiling.hLength;
    call.epsilon = static_cast<double>(static_cast<float>(epsilon));
    call.in[0] = &gamma.view();
    call.in[1] = &beta.view();
    call.out[0] = &outputMean.view();
    call.out[1] = &outputVariance.view();
    call.work = kope_twin::view_or_null(sharedTmpBuffer);
    kope_twin::api::library_rows(call);
}
template <typename T, bool isReuseSource = false>
KOPE_TWIN_API void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
    const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta, const T epsilon, const LayerNormTiling& tiling,
    Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    LayerNorm<T, isReuseSource>(output, outputMean, outputVariance, inputX, gamma, beta, work, epsilon, tiling, site);
}

// x / sqrt(mean(x^2) + epsilon) * gamma over the last axis of [B, S, H].
template <typename T, bool isBasicBlock = false>
KOPE_TWIN_API void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,
    const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const RmsNormTiling& tiling, Site site = Site::here())
{
    kope_twin::RowsCall call = kope_twin::rows_call("RmsNorm", kope_twin::RowsOp::RmsNorm, dst, src, site);
    call.rows = tiling.bLength * tiling.sLength;
    call.pitch = tiling.hLength;
    call.columns = tiling.originalHLength != 0 ? tiling.originalHLength : tiling.hLength;
    call.epsilon = static_cast<double>(static_cast<float>(epsilon));
    call.in[0] = &gamma.view();
    call.work = kope_twin::view_or_null(sharedTmpBuffer);
    kope_twin::api::library_rows(call);
}
template <typename T, bool isBasicBlock = false>
KOPE_TWIN_API void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma, const T epsilon,
    const RmsNormTiling& tiling, Site site = Site::here())
{
    const LocalTensor<uint8_t> work;
    RmsNorm<T, isBasicBlock>(dst, src, gamma, work, epsilon, tiling, site);
}

} // namespace AscendC

#undef KOPE_TWIN_SOFTMAX_TEMPLATE
#undef KOPE_TWIN_ND_ONLY
#undef KOPE_TWIN_ROW_SUM
#undef KOPE_TWIN_SUM_TEMPLATE
#undef KOPE_TWIN_MEAN_TEMPLATE

#endif
