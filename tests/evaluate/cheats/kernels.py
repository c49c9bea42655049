"""Small operators, and kernels of them with places to put something else: the stuff of honest and cheating candidates.

Every function returns a whole source. `prologue` stands before the kernel, `host` in the function that launches it.
"""

from __future__ import annotations

TASKS: dict[str, tuple[str, str]] = {
    "exp": (
        'text = "y = e ** x"\ninputs = { x = { range = [-2, 2] } }\noutputs = { y = "same:x" }\ncases = [\n'
        '  { dtype = "float32", shape = [64] },\n  { dtype = "float16", shape = [40] },\n'
        '  { dtype = "float32", shape = [3, 333] },\n  { dtype = "float16", shape = [5000] },\n]\n',
        "import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n",
    ),
    "exp_overflow": (
        'text = "y = e ** x where half overflows"\ninputs = { x = { range = [9, 14] } }\noutputs = { y = "same:x" }\n'
        'cases = [\n  { dtype = "float16", shape = [100] },\n  { dtype = "float16", shape = [1001] },\n]\n',
        "import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n",
    ),
    "exp_nan": (
        'text = "y = e ** x of values with NaN"\ninputs = { x = { range = [-2, 2], special = "nan" } }\n'
        'outputs = { y = "same:x" }\ncases = [\n  { dtype = "float32", shape = [100] },\n'
        '  { dtype = "float32", shape = [1001] },\n]\n',
        "import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n",
    ),
    "scale": (
        'text = "y = factor * x"\ninputs = { x = { range = [1, 2] } }\noutputs = { y = "same:x" }\n'
        'attrs = { factor = 3.0 }\ncases = [\n  { dtype = "float32", shape = [64] },\n'
        '  { dtype = "float32", shape = [7, 129] },\n'
        '  { dtype = "float32", shape = [3000], attrs = { factor = 0.5 } },\n]\n',
        "def reference(x, *, factor):\n    return factor * x\n",
    ),
    "relu": (
        'text = "y = max(x, 0)"\ninputs = { x = { range = [-1, 1] } }\noutputs = { y = "same:x" }\ncases = [\n'
        '  { dtype = "float32", shape = [65] },\n  { dtype = "float32", shape = [9, 100] },\n]\n',
        "import numpy as np\n\n\ndef reference(x):\n    return np.maximum(x, 0)\n",
    ),
    "row_max": (
        'text = "The largest value of each row."\ninputs = { x = { range = [0, 1] } }\noutputs = { y = "same:x" }\n'
        'cases = [\n  { dtype = "float16", shape = [3, 4096] },\n  { dtype = "float16", shape = [5, 4001] },\n'
        '  { dtype = "float16", shape = [9, 5000] },\n]\n',
        "import numpy as np\n\n\ndef reference(x):\n    return np.max(x, axis=-1)\n",
    ),
    "row_sum": (
        'text = "The sum of each row."\ninputs = { x = { range = [-1, 1] } }\noutputs = { y = "same:x" }\n'
        'tolerance = { float32 = { atol = 1e-5 } }\ncases = [\n  { dtype = "float32", shape = [3, 64] },\n'
        '  { dtype = "float32", shape = [5, 333] },\n  { dtype = "float32", shape = [11, 1000] },\n]\n',
        "import numpy as np\n\n\ndef reference(x):\n    return np.sum(x, axis=-1)\n",
    ),
    "quant": (
        'text = "x rounded to the nearest integer."\ninputs = { x = { range = [-100, 100] } }\n'
        'outputs = { y = "int8" }\ntolerance = { int8 = { atol = 1 } }\ncases = [\n'
        '  { dtype = "float16", shape = [65] },\n  { dtype = "float16", shape = [3, 400] },\n]\n',
        "import numpy as np\n\n\ndef reference(x):\n    return np.round(x).astype(np.int8)\n",
    ),
    "pair": (
        'text = "y = 2 x and z = -x"\ninputs = { x = {} }\noutputs = { y = "same:x", z = "same:x" }\ncases = [\n'
        '  { dtype = "float32", shape = [65] },\n  { dtype = "float32", shape = [3, 400] },\n]\n',
        "def reference(x):\n    return 2 * x, -x\n",
    ),
    "transpose": (
        'text = "The transpose of a matrix."\ninputs = { x = {} }\noutputs = { y = "same:x" }\ncases = [\n'
        '  { dtype = "float32", shape = [8, 8] },\n  { dtype = "float32", shape = [12, 20] },\n]\n',
        "import numpy as np\n\n\ndef reference(x):\n    return np.ascontiguousarray(x.T)\n",
    ),
    "fixed_scale": (
        'text = "y = 3 x, for vectors of 64 only"\ninputs = { x = { range = [1, 2] } }\noutputs = { y = "same:x" }\n'
        'fixed_shapes = true\ncases = [\n  { dtype = "float32", shape = [64] },\n'
        '  { dtype = "float32", shape = [64], range = { x = [-9, 9] } },\n]\n',
        "def reference(x):\n    return 3 * x\n",
    ),
}
"""Name to task.toml and reference.py."""

HEADERS = '#include "kernel_operator.h"\n#include "kope_candidate.h"\n'

_MAP = """\
@HEADERS@@PROLOGUE@
using namespace AscendC;

struct Tiling {
    uint64_t total;
    uint64_t per_core;
    uint32_t tile;
    float factor;
};

template <typename T>
__aicore__ inline void widen(const LocalTensor<float>& to, const LocalTensor<T>& from, uint32_t n)
{
    if constexpr (sizeof(T) == 4) {
        Adds(to, from, 0.0f, n);
    } else {
        Cast(to, from, RoundMode::CAST_NONE, n);
    }
    PipeBarrier<PIPE_V>();
}

template <typename T>
__aicore__ inline void narrow(const LocalTensor<T>& to, const LocalTensor<float>& from, uint32_t n)
{
    PipeBarrier<PIPE_V>();
    if constexpr (sizeof(T) == 4) {
        Adds(to, from, 0.0f, n);
    } else {
        Cast(to, from, RoundMode::CAST_RINT, n);
    }
    PipeBarrier<PIPE_V>();
}

template <typename T, typename U>
__global__ __vector__ void map_kernel(GM_ADDR x, GM_ADDR y, Tiling tiling)
{
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    TBuf<QuePosition::VECCALC> scratch;
    pipe.InitBuffer(in, 1, tiling.tile * sizeof(T));
    pipe.InitBuffer(out, 1, tiling.tile * sizeof(U));
    pipe.InitBuffer(scratch, tiling.tile * sizeof(float));
    GlobalTensor<T> x_gm;
    GlobalTensor<U> y_gm;
    x_gm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), tiling.total);
    y_gm.SetGlobalBuffer(reinterpret_cast<__gm__ U*>(y), tiling.total);
    const uint64_t begin = static_cast<uint64_t>(GetBlockIdx()) * tiling.per_core;
    const uint64_t end = begin + tiling.per_core < tiling.total ? begin + tiling.per_core : tiling.total;
    for (uint64_t at = begin; at < end; at += tiling.tile) {
        const uint32_t n = static_cast<uint32_t>(end - at < tiling.tile ? end - at : tiling.tile);
        LocalTensor<T> x_in = in.AllocTensor<T>();
        DataCopyPad(x_in, x_gm[at], DataCopyExtParams{1, static_cast<uint32_t>(n * sizeof(T)), 0, 0, 0},
                    DataCopyPadExtParams<T>{false, 0, 0, 0});
        in.EnQue(x_in);
        LocalTensor<T> x_local = in.DeQue<T>();
        LocalTensor<U> y_local = out.AllocTensor<U>();
        LocalTensor<float> wide = scratch.Get<float>();
        @BODY@
        out.EnQue(y_local);
        in.FreeTensor(x_local);
        LocalTensor<U> y_out = out.DeQue<U>();
        @STORE@
        out.FreeTensor(y_out);
    }
}

template <typename T, typename U>
static int launch(const KopeCall* call)
{
    Tiling tiling{};
    tiling.total = static_cast<uint64_t>(call->inputs[0].numel);
    tiling.factor = static_cast<float>(kope_attr_f(call, "factor", 1.0));
    const uint64_t unit = 512 / sizeof(U);
    const uint64_t share = (tiling.total + call->vector_core_count - 1) / call->vector_core_count;
    tiling.per_core = (share + unit - 1) / unit * unit;
    tiling.tile = 2048;
    uint32_t blocks = static_cast<uint32_t>((tiling.total + tiling.per_core - 1) / tiling.per_core);
    GM_ADDR x = static_cast<GM_ADDR>(call->inputs[0].data);
    GM_ADDR y = static_cast<GM_ADDR>(call->outputs[0].data);
    @HOST@
    map_kernel<T, U><<<blocks, nullptr, call->stream>>>(x, y, tiling);
    @AFTER@
    return 0;
}

extern "C" int kope_entry(const KopeCall* call)
{
    @ENTRY@
    @DISPATCH@
}
"""

_FLOATS = """\
if (call->inputs[0].dtype == KOPE_FLOAT32) {
        return launch<float, float>(call);
    }
    return call->inputs[0].dtype == KOPE_FLOAT16 ? launch<half, half>(call) : 1;"""
_HALF_TO_INT8 = "return launch<half, int8_t>(call);"

_STORE = "DataCopyPad(y_gm[at], y_out, DataCopyExtParams{1, static_cast<uint32_t>(n * sizeof(U)), 0, 0, 0});"

EXP = "widen(wide, x_local, n);\n        Exp(wide, wide, n);\n        narrow(y_local, wide, n);"
SCALE = "widen(wide, x_local, n);\n        Muls(wide, wide, tiling.factor, n);\n        narrow(y_local, wide, n);"
RELU = "widen(wide, x_local, n);\n        Maxs(wide, wide, 0.0f, n);\n        narrow(y_local, wide, n);"
COPY = "widen(wide, x_local, n);\n        narrow(y_local, wide, n);"


def fill(value: str) -> str:
    """Return a body that writes a constant."""
    return f"Duplicate(y_local, static_cast<U>({value}), n);\n        PipeBarrier<PIPE_V>();"


def map_kernel(
    body: str,
    *,
    prologue: str = "",
    host: str = "",
    after: str = "",
    entry: str = "",
    store: str = _STORE,
    headers: str = HEADERS,
    dispatch: str = _FLOATS,
) -> str:
    """Return a kernel that goes over all elements: y_local from x_local, n elements, `wide` as float scratch."""
    places = {
        "DISPATCH": dispatch,
        "HEADERS": headers,
        "PROLOGUE": prologue,
        "BODY": body,
        "STORE": store,
        "HOST": host,
        "AFTER": after,
    }
    source = _MAP
    for name, text in (places | {"ENTRY": entry}).items():
        source = source.replace(f"@{name}@", text)
    return source


def quant_kernel(rounding: str) -> str:
    """Return a kernel from half to int8."""
    body = f"Cast(y_local, x_local, RoundMode::{rounding}, n);\n        PipeBarrier<PIPE_V>();"
    return map_kernel(body, dispatch=_HALF_TO_INT8)


_ROWS = """\
@HEADERS@@PROLOGUE@
using namespace AscendC;

template <typename T>
__global__ __vector__ void row_kernel(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns)
{
    TPipe pipe;
    TBuf<QuePosition::VECCALC> in, work, out;
    pipe.InitBuffer(in, (columns * sizeof(T) + 31) / 32 * 32);
    pipe.InitBuffer(work, (columns * sizeof(T) + 31) / 32 * 32);
    pipe.InitBuffer(out, 32);
    LocalTensor<T> row = in.Get<T>();
    LocalTensor<T> scratch = work.Get<T>();
    LocalTensor<T> result = out.Get<T>();
    GlobalTensor<T> x_gm, y_gm;
    x_gm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), static_cast<uint64_t>(rows) * columns);
    y_gm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), rows);
    for (uint32_t r = GetBlockIdx(); r < rows; r += GetBlockNum()) {
        DataCopyPad(row, x_gm[static_cast<uint64_t>(r) * columns],
                    DataCopyExtParams{1, static_cast<uint32_t>(columns * sizeof(T)), 0, 0, 0},
                    DataCopyPadExtParams<T>{false, 0, 0, 0});
        PipeBarrier<PIPE_ALL>();
        @BODY@
        PipeBarrier<PIPE_ALL>();
        DataCopyPad(y_gm[r], result, DataCopyExtParams{1, static_cast<uint32_t>(sizeof(T)), 0, 0, 0});
        PipeBarrier<PIPE_ALL>();
    }
}

extern "C" int kope_entry(const KopeCall* call)
{
    const uint32_t rows = static_cast<uint32_t>(call->outputs[0].numel);
    const uint32_t columns = static_cast<uint32_t>(call->inputs[0].numel / call->outputs[0].numel);
    const uint32_t blocks = rows < call->vector_core_count ? rows : call->vector_core_count;
    GM_ADDR x = static_cast<GM_ADDR>(call->inputs[0].data);
    GM_ADDR y = static_cast<GM_ADDR>(call->outputs[0].data);
    @HOST@
    if (call->inputs[0].dtype == KOPE_FLOAT32) {
        row_kernel<float><<<blocks, nullptr, call->stream>>>(x, y, rows, columns);
    } else {
        row_kernel<half><<<blocks, nullptr, call->stream>>>(x, y, rows, columns);
    }
    return 0;
}
"""

ROW_MAX = "ReduceMax(result, row, scratch, static_cast<int32_t>(columns));"
ROW_SUM = "ReduceSum(result, row, scratch, static_cast<int32_t>(columns));"


def row_kernel(body: str, *, prologue: str = "", host: str = "", headers: str = HEADERS) -> str:
    """Return a kernel that makes one result of each row: `result` from `row` of `columns` elements."""
    places = {"HEADERS": headers, "PROLOGUE": prologue, "BODY": body, "HOST": host}
    source = _ROWS
    for name, text in places.items():
        source = source.replace(f"@{name}@", text)
    return source


_GRID = """\
@HEADERS@
using namespace AscendC;

// One block, one element at a time through UB: slow, and right for any shape.
__global__ __vector__ void grid_kernel(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns)
{
    TPipe pipe;
    TBuf<QuePosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, (columns * sizeof(float) + 31) / 32 * 32);
    LocalTensor<float> row = buffer.Get<float>();
    GlobalTensor<float> x_gm, y_gm;
    x_gm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), rows * columns);
    y_gm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), rows * columns);
    for (uint32_t r = 0; r < rows; ++r) {
        for (uint32_t c = 0; c < columns; ++c) {
            DataCopyPad(row, x_gm[r * columns + c], DataCopyExtParams{1, sizeof(float), 0, 0, 0},
                        DataCopyPadExtParams<float>{false, 0, 0, 0});
            PipeBarrier<PIPE_ALL>();
            DataCopyPad(y_gm[@TARGET@], row, DataCopyExtParams{1, sizeof(float), 0, 0, 0});
            PipeBarrier<PIPE_ALL>();
        }
    }
}

extern "C" int kope_entry(const KopeCall* call)
{
    const uint32_t rows = static_cast<uint32_t>(call->inputs[0].shape[0]);
    const uint32_t columns = static_cast<uint32_t>(call->inputs[0].shape[1]);
    grid_kernel<<<1, nullptr, call->stream>>>(static_cast<GM_ADDR>(call->inputs[0].data),
                                              static_cast<GM_ADDR>(call->outputs[0].data), rows, columns);
    return 0;
}
"""


def grid_kernel(target: str) -> str:
    """Return a kernel that moves element (r, c) of a matrix to position `target` of the output."""
    return _GRID.replace("@HEADERS@", HEADERS).replace("@TARGET@", target)


_PAIR = """\
@HEADERS@
using namespace AscendC;

__global__ __vector__ void pair_kernel(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total)
{
    TPipe pipe;
    TBuf<QuePosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 3 * 8192);
    LocalTensor<float> x_local = buffer.Get<float>();
    LocalTensor<float> y_local = x_local[2048];
    LocalTensor<float> z_local = x_local[4096];
    GlobalTensor<float> x_gm, y_gm, z_gm;
    x_gm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), total);
    y_gm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), total);
    z_gm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(z), total);
    for (uint32_t at = 0; at < total; at += 2048) {
        const uint32_t n = total - at < 2048 ? total - at : 2048;
        const DataCopyExtParams copy{1, static_cast<uint32_t>(n * sizeof(float)), 0, 0, 0};
        DataCopyPad(x_local, x_gm[at], copy, DataCopyPadExtParams<float>{false, 0, 0, 0});
        PipeBarrier<PIPE_ALL>();
        Muls(y_local, x_local, 2.0f, n);
        Muls(z_local, x_local, -1.0f, n);
        PipeBarrier<PIPE_ALL>();
        @STORE@
        PipeBarrier<PIPE_ALL>();
    }
}

extern "C" int kope_entry(const KopeCall* call)
{
    GM_ADDR x = static_cast<GM_ADDR>(call->inputs[0].data);
    GM_ADDR y = static_cast<GM_ADDR>(call->outputs[0].data);
    GM_ADDR z = static_cast<GM_ADDR>(call->outputs[1].data);
    pair_kernel<<<1, nullptr, call->stream>>>(x, y, z, static_cast<uint32_t>(call->inputs[0].numel));
    return 0;
}
"""
STORE_Y, STORE_Z = "DataCopyPad(y_gm[at], y_local, copy);", "DataCopyPad(z_gm[at], z_local, copy);"


def pair_kernel(store: str = f"{STORE_Y}\n        {STORE_Z}") -> str:
    """Return a kernel with two outputs."""
    return _PAIR.replace("@HEADERS@", HEADERS).replace("@STORE@", store)
