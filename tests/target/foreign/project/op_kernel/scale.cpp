// y = factor * x, as an operator project holds it. The kernel's name is one the C library has too.
#include "../scale/scale_parts.h"

using namespace AscendC;

template <typename T> __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const optiling::ScaleTilingData& tiling)
{
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 2, optiling::TILE * sizeof(T));
    pipe.InitBuffer(out, 2, optiling::TILE * sizeof(T));
    const uint32_t begin = GetBlockIdx() * tiling.perCore;
    const uint32_t end = begin + tiling.perCore < tiling.total ? begin + tiling.perCore : tiling.total;
    GlobalTensor<T> source, target;
    source.SetGlobalBuffer((__gm__ T*)x, tiling.total);
    target.SetGlobalBuffer((__gm__ T*)y, tiling.total);
    for (uint32_t at = begin; at < end; at += optiling::TILE) {
        const uint32_t n = end - at < optiling::TILE ? end - at : optiling::TILE;
        const DataCopyExtParams copy{1, static_cast<uint32_t>(n * sizeof(T)), 0, 0, 0};
        LocalTensor<T> a = in.AllocTensor<T>();
        DataCopyPad(a, source[at], copy, DataCopyPadExtParams<T>{false, 0, 0, 0});
        in.EnQue(a);
        a = in.DeQue<T>();
        LocalTensor<T> b = out.AllocTensor<T>();
        Muls(b, a, static_cast<T>(tiling.factor), n);
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.DeQue<T>();
        DataCopyPad(target[at], b, copy);
        out.FreeTensor(b);
    }
}

extern "C" __global__ __aicore__ void round(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GET_TILING_DATA(data, tiling);
#if ORIG_DTYPE_X == DT_FLOAT16
    if (TILING_KEY_IS(1)) {
        Run<DTYPE_X>(x, y, data);
    }
#else
    if (TILING_KEY_IS(2)) {
        Run<DTYPE_X>(x, y, data);
    }
#endif
}
