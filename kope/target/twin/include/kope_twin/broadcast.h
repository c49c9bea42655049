// Broadcast: a row over rows, a column over columns, one element over a vector.
#ifndef KOPE_TWIN_BROADCAST_H
#define KOPE_TWIN_BROADCAST_H

#include "kope_twin/tensor.h"

namespace AscendC {

// dim 1: [1] to [n]. dim 2, axis 0: [1, n] to [m, n], n * sizeof(T) a multiple of 32. dim 2, axis 1: [m, 1] to [m, n].
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
KOPE_TWIN_API void Broadcast(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const uint32_t dstShape[dim],
    const uint32_t srcShape[dim], LocalTensor<uint8_t>& sharedTmpBuffer, Site site = Site::here())
{
    static_assert(dim == 1 || dim == 2, "Broadcast takes one or two dimensions on this chip");
    static_assert(axis == 0 || (axis == 1 && dim == 2), "Broadcast: axis 0 or 1, inside the dimensions");
    static_assert(kope_twin::is_one_of<T, int8_t, uint8_t, half, float>, "Broadcast takes int8_t, uint8_t, half or float on this chip");
    const uint32_t to[2] = {dim == 2 ? dstShape[0] : 1U, dstShape[dim - 1]};
    const uint32_t from[2] = {dim == 2 ? srcShape[0] : 1U, srcShape[dim - 1]};
    kope_twin::api::broadcast(dstLocal.view(), srcLocal.view(), kope_twin::dtype_of<T>, to, from, site);
    (void)sharedTmpBuffer;
}

template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
KOPE_TWIN_API void Broadcast(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const uint32_t dstShape[dim],
    const uint32_t srcShape[dim], Site site = Site::here())
{
    LocalTensor<uint8_t> none;
    Broadcast<T, dim, axis, isReuseSource>(dstLocal, srcLocal, dstShape, srcShape, none, site);
}
// The same under the spelling of older kernels.
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
KOPE_TWIN_API void BroadCast(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const uint32_t dstShape[dim],
    const uint32_t srcShape[dim], LocalTensor<uint8_t>& sharedTmpBuffer, Site site = Site::here())
{
    Broadcast<T, dim, axis, isReuseSource>(dstLocal, srcLocal, dstShape, srcShape, sharedTmpBuffer, site);
}
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
KOPE_TWIN_API void BroadCast(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const uint32_t dstShape[dim],
    const uint32_t srcShape[dim], Site site = Site::here())
{
    Broadcast<T, dim, axis, isReuseSource>(dstLocal, srcLocal, dstShape, srcShape, site);
}

} // namespace AscendC

#endif
