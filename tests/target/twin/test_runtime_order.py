"""Pairs of variants of which one is known to be faster: the model puts them in the order of a cited rule.

Sources are pages of the vendor's Ascend C documentation: its performance guide, and its table of theoretical throughput
per instruction. Every pair moves or computes the same, on the 910B2.
"""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from kope.target.twin import parameters

from .programs import Bench, Program

KERNELS = """
struct Plan { uint32_t n, tile, buffers, blocks, variant, offset, gap, rounds; };

// --- whole kernels: copy in, compute, copy out ---------------------------------------------------------------------------

class Stream {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const Plan& plan)
    {
        TPipe pipe;
        pipe.InitBuffer(in, plan.buffers, plan.tile * sizeof(float));
        pipe.InitBuffer(out, plan.buffers, plan.tile * sizeof(float));
        const uint32_t share = plan.n / plan.blocks, tiles = share / plan.tile;
        const uint32_t more = plan.variant == 1 ? (GetBlockIdx() == 0 ? tiles : 0) : 0; // one core with twice the work
        GlobalTensor<float> from, to;
        from.SetGlobalBuffer((__gm__ float*)x);
        to.SetGlobalBuffer((__gm__ float*)y);
        for (uint32_t k = 0; k < tiles + more; ++k) {
            const uint32_t at = GetBlockIdx() * share + (k % tiles) * plan.tile + plan.offset;
            LocalTensor<float> a = in.AllocTensor<float>();
            DataCopy(a, from[at], plan.tile);
            in.EnQue(a);
            a = in.DeQue<float>();
            LocalTensor<float> b = out.AllocTensor<float>();
            for (uint32_t round = 0; round < plan.rounds; ++round) {
                Exp(b, a, plan.tile);
            }
            if (plan.variant == 2) {
                PipeBarrier<PIPE_ALL>();
            }
            out.EnQue(b);
            in.FreeTensor(a);
            b = out.DeQue<float>();
            DataCopy(to[at], b, plan.tile);
            out.FreeTensor(b);
            if (plan.variant == 2) {
                PipeBarrier<PIPE_ALL>();
            }
        }
    }

private:
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
};
__global__ __aicore__ void stream(GM_ADDR x, GM_ADDR y, Plan plan)
{
    Stream op;
    op.Run(x, y, plan);
}

// Copies alone, in as much UB. 0: bound queue; 1: from queue to queue.
__global__ __aicore__ void forward(GM_ADDR x, GM_ADDR y, Plan plan)
{
    TPipe pipe;
    TQueBind<QuePosition::VECIN, QuePosition::VECOUT, 1> bound;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x + GetBlockIdx() * (plan.n / plan.blocks));
    to.SetGlobalBuffer((__gm__ float*)y + GetBlockIdx() * (plan.n / plan.blocks));
    if (plan.variant == 0) {
        pipe.InitBuffer(bound, 2, plan.tile * sizeof(float));
    } else {
        pipe.InitBuffer(in, 1, plan.tile * sizeof(float));
        pipe.InitBuffer(out, 1, plan.tile * sizeof(float));
    }
    for (uint32_t at = 0; at < plan.n / plan.blocks; at += plan.tile) {
        if (plan.variant == 0) {
            LocalTensor<float> a = bound.AllocTensor<float>();
            DataCopy(a, from[at], plan.tile);
            bound.EnQue(a);
            a = bound.DeQue<float>();
            DataCopy(to[at], a, plan.tile);
            bound.FreeTensor(a);
            continue;
        }
        LocalTensor<float> a = in.AllocTensor<float>();
        DataCopy(a, from[at], plan.tile);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        DataCopy(b, a, plan.tile);
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.DeQue<float>();
        DataCopy(to[at], b, plan.tile);
        out.FreeTensor(b);
    }
}

// One direction only, `rounds` times: 0 in, 1 out, in transfers of `tile` elements; 2 in, 3 out: 8192 elements in rows of
// `tile`, `gap` elements apart, in one transfer; 4, 5: the same row by row.
__global__ __aicore__ void moves(GM_ADDR x, GM_ADDR y, Plan plan)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 65536);
    LocalTensor<float> local = buffer.Get<float>();
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x + plan.offset);
    to.SetGlobalBuffer((__gm__ float*)y + plan.offset);
    if (plan.variant % 2 == 1) {
        Duplicate(local, 1.0f, 16384);
        PipeBarrier<PIPE_ALL>();
    }
    const uint16_t rows = 8192 / plan.tile, row = plan.tile * sizeof(float) / 32, gap = plan.gap * sizeof(float) / 32;
    for (uint32_t round = 0; round < plan.rounds; ++round) {
        switch (plan.variant) {
            case 0:
            case 1:
                for (uint32_t at = 0; at < 16384; at += plan.tile) {
                    if (plan.variant == 0) {
                        DataCopy(local[at], from[at], plan.tile);
                    } else {
                        DataCopy(to[at], local[at], plan.tile);
                    }
                }
                break;
            case 2: DataCopy(local, from, DataCopyParams(rows, row, gap, 0)); break;
            case 3: DataCopy(to, local, DataCopyParams(rows, row, 0, gap)); break;
            default:
                for (uint32_t k = 0; k < rows; ++k) {
                    if (plan.variant == 4) {
                        DataCopy(local[k * plan.tile], from[k * (plan.tile + plan.gap)], plan.tile);
                    } else {
                        DataCopy(to[k * (plan.tile + plan.gap)], local[k * plan.tile], plan.tile);
                    }
                }
        }
        PipeBarrier<PIPE_ALL>();
    }
}

// Reads of a core's part, twice. 0: all of it, then all of it again; 1: every piece twice before the next one.
__global__ __aicore__ void twice(GM_ADDR x, GM_ADDR y, Plan plan)
{
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    pipe.InitBuffer(in, 2, plan.tile * sizeof(float));
    GlobalTensor<float> from;
    const uint32_t share = plan.n / plan.blocks, pieces = plan.variant == 0 ? 1 : plan.rounds;
    from.SetGlobalBuffer((__gm__ float*)x + GetBlockIdx() * share);
    for (uint32_t piece = 0; piece < pieces; ++piece) {
        for (uint32_t pass = 0; pass < 2; ++pass) {
            for (uint32_t at = 0; at < share / pieces; at += plan.tile) {
                LocalTensor<float> a = in.AllocTensor<float>();
                DataCopy(a, from[piece * (share / pieces) + at], plan.tile);
                in.EnQue(a);
                a = in.DeQue<float>();
                in.FreeTensor(a);
            }
        }
    }
}

// --- the vector unit and the scalar unit alone ----------------------------------------------------------------------------

template <typename T> __aicore__ inline void Compute(const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<T>& c, uint32_t n, uint32_t variant)
{
    constexpr uint32_t kLanes = 256 / sizeof(T);
    switch (variant) {
        case 0: Add(a, b, c, n); break;
        case 1: Exp(a, b, n); break;
        case 2: Div(a, b, c, n); break;
        case 3: Muls(a, b, (T)0.5f, n); break;
        case 6: Axpy(a, b, (T)0.5f, n); break;
        case 7: Muls(c, b, (T)0.5f, n); PipeBarrier<PIPE_V>(); Add(a, a, c, n); break;
        case 8: AddRelu(a, b, c, n); break;
        case 9: Add(a, b, c, n); PipeBarrier<PIPE_V>(); Relu(a, a, n); break;
        case 10: for (uint32_t k = 0; k < n; k += kLanes) { Add(a[k], b[k], c[k], kLanes); } break;
        case 11: // main part and tail, each with its mask
            SetMaskNorm();
            SetVectorMask<T, MaskMode::NORMAL>(kLanes);
            Add<T, false>(a, b, c, MASK_PLACEHOLDER, n / kLanes, BinaryRepeatParams(1, 1, 1, 8, 8, 8));
            SetVectorMask<T, MaskMode::NORMAL>(kLanes / 2);
            Add<T, false>(a[n / kLanes * kLanes], b[n / kLanes * kLanes], c[n / kLanes * kLanes], MASK_PLACEHOLDER, 1, BinaryRepeatParams(1, 1, 1, 8, 8, 8));
            ResetMask();
            break;
        case 12: // the same elements by count
            SetMaskCount();
            SetVectorMask<T, MaskMode::COUNTER>(n + kLanes / 2);
            Add<T, false>(a, b, c, MASK_PLACEHOLDER, 1, BinaryRepeatParams(1, 1, 1, 8, 8, 8));
            SetMaskNorm();
            ResetMask();
            break;
        case 13: // halving by additions down to one repeat, then one reduction
            for (uint32_t m = n / 2; m >= kLanes; m /= 2) { Add(b, b, b[m], m); PipeBarrier<PIPE_V>(); }
            WholeReduceSum<T>(a, b, kLanes, 1, 1, 1, 8);
            break;
        case 14: // reductions alone
            WholeReduceSum<T>(a, b, kLanes, n / kLanes, 1, 1, 8);
            PipeBarrier<PIPE_V>();
            WholeReduceSum<T>(a, a, n / kLanes, 1, 1, 1, 8);
            break;
        case 15: ReduceSum(a, b, c, n); break;
        case 16: BlockReduceSum<T>(a, b, n / kLanes, kLanes, 1, 1, 8); break;
        case 17: PairReduceSum<T>(a, b, n / kLanes, kLanes, 1, 1, 8); break;
        case 18: Duplicate(a, (T)1.0f, n); break;
        case 19: for (uint32_t k = 0; k < n; ++k) { a.SetValue(k, (T)1.0f); } break;
        case 20: Adds(a, b, (T)1.0f, n); break;
        case 21: for (uint32_t k = 0; k < n; ++k) { a.SetValue(k, (T)((float)b.GetValue(k) + 1.0f)); } break;
        case 22: Gather(a, b, c.template ReinterpretCast<uint32_t>(), 0U, n); break;
        case 23: Sqrt(a, b, n); break;
        case 24: Rsqrt(a, b, n); break;
        case 25: Adds(a, b, (T)1.0f, n); PipeBarrier<PIPE_V>(); Adds(a, a, (T)1.0f, n); break;
        case 26: WholeReduceSum<T>(a, b, kLanes, n / kLanes, 1, 1, 8); break;
        default: break;
    }
}

template <typename T> __aicore__ inline void Units(const Plan& plan)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffers[3];
    LocalTensor<T> locals[3];
    for (int k = 0; k < 3; ++k) {
        pipe.InitBuffer(buffers[k], 32768);
        locals[k] = buffers[k].template Get<T>();
        Duplicate(locals[k], (T)0.0f, 32768 / sizeof(T));
    }
    PipeBarrier<PIPE_ALL>();
    for (uint32_t round = 0; round < plan.rounds; ++round) {
        Compute<T>(locals[0], locals[1], locals[2], plan.tile, plan.variant);
        PipeBarrier<PIPE_V>();
    }
}
__global__ __aicore__ void units_float(GM_ADDR x, GM_ADDR y, Plan plan) { Units<float>(plan); }
__global__ __aicore__ void units_half(GM_ADDR x, GM_ADDR y, Plan plan) { Units<half>(plan); }

extern "C" int kope_entry(const KopeCall* call)
{
    const auto attr = [&](const char* name, int64_t value) { return (uint32_t)kope_attr_i(call, name, value); };
    const Plan plan = {(uint32_t)attr("n", 48 * 32768), attr("tile", 4096), attr("buffers", 2), attr("blocks", 48), attr("variant", 0),
        attr("offset", 0), attr("gap", 0), attr("rounds", 1)};
    const auto x = (GM_ADDR)call->inputs[0].data;
    const auto y = (GM_ADDR)call->outputs[0].data;
    const auto one = [&](auto kernel, const char* name, uint32_t blocks) { kope_twin::launch(name, kernel, blocks, nullptr, call->stream)(x, y, plan); };
    switch (attr("kernel", 0)) {
        case 0: for (uint32_t k = 0; k < attr("launches", 1); ++k) { one(stream, "stream", plan.blocks); } break;
        case 1: one(forward, "forward", plan.blocks); break;
        case 2: one(moves, "moves", 1); break;
        case 3: one(twice, "twice", plan.blocks); break;
        case 4: one(units_float, "units_float", 1); break;
        default: one(units_half, "units_half", 1); break;
    }
    return 0;
}
"""
STREAM, FORWARD, MOVES, TWICE, FLOAT, HALF = range(6)
COUNT = 48 * 32768 + 64

GUIDE = "performance guide: "
THROUGHPUT = "table of theoretical throughput of vector instructions, architecture 2201: "


@dataclass(frozen=True)
class Pair:
    """faster, slower: attributes of the program. rule, source: why, and who says so. chip: a set with an L2 cache."""

    faster: Mapping[str, int]
    slower: Mapping[str, int]
    rule: str
    source: str
    chip: str = "910b2"
    parameters: Mapping[str, float] = field(default_factory=dict)


def units(variant: int, kernel: int = FLOAT, **attrs: int) -> dict[str, int]:
    return {"kernel": kernel, "variant": variant, "tile": 4096, "rounds": 8, **attrs}


def moved(variant: int, **attrs: int) -> dict[str, int]:
    return {"kernel": MOVES, "variant": variant, "rounds": 4, **attrs}


BALANCED = {"rounds": 4, "tile": 2048}
PAIRS = {
    "double buffer": Pair({"buffers": 2, **BALANCED}, {"buffers": 1, **BALANCED}, "copies run beside the vector unit", GUIDE + "DoubleBuffer"),
    "double buffer, little compute": Pair({"buffers": 2}, {"buffers": 1}, "copies in and out run beside each other", GUIDE + "DoubleBuffer"),
    "16 KB tiles": Pair({"tile": 4096}, {"tile": 512}, "one transfer of 16 KB or more", GUIDE + "move large blocks at once"),
    "2 KB tiles": Pair({"tile": 512, "buffers": 1}, {"tile": 128, "buffers": 1}, "larger transfers use the bandwidth better", GUIDE + "move large blocks at once"),
    "large reads": Pair(moved(0, tile=4096), moved(0, tile=256), "larger transfers use the bandwidth better", GUIDE + "move large blocks at once, figure for GM to UB"),
    "large writes": Pair(moved(1, tile=4096), moved(1, tile=256), "larger transfers use the bandwidth better", GUIDE + "move large blocks at once, figure for UB to GM"),
    "aligned reads": Pair(moved(0, tile=4096), moved(0, tile=4096, offset=8), "start at 512 bytes, not at 32", GUIDE + "align GM addresses to 512 bytes, figure for GM to UB"),
    "aligned writes": Pair(moved(1, tile=4096), moved(1, tile=4096, offset=8), "start at 512 bytes, not at 32", GUIDE + "align GM addresses to 512 bytes, figure for UB to GM"),
    "aligned parts of cores": Pair({"blocks": 4}, {"blocks": 4, "offset": 8}, "start at 512 bytes, not at 32", GUIDE + "align GM addresses to 512 bytes"),
    "strided read": Pair(moved(2, tile=512, gap=3584), moved(4, tile=512, gap=3584), "one transfer with stride, not a loop over rows of 2 KB in 16 KB", GUIDE + "use the copy interfaces efficiently"),
    "strided write": Pair(moved(3, tile=512, gap=3584), moved(5, tile=512, gap=3584), "one transfer with stride, not a loop over rows of 2 KB in 16 KB", GUIDE + "use the copy interfaces efficiently"),
    "long rows": Pair(moved(2, tile=512, gap=512), moved(2, tile=64, gap=64), "the same bytes in longer pieces", GUIDE + "move large blocks at once"),
    "bound queue": Pair({"kernel": FORWARD, "blocks": 1}, {"kernel": FORWARD, "blocks": 1, "variant": 1}, "no copy from queue to queue", GUIDE + "let VECIN and VECOUT be one queue where data is only moved"),
    "pieces that fit the cache": Pair({"kernel": TWICE, "variant": 1, "rounds": 8}, {"kernel": TWICE, "variant": 0}, "finish a piece that fits the L2 cache before the next", GUIDE + "split for the L2 cache", "910b2:2", {"l2_bytes": 2e6}),
    "a cache that holds it all": Pair({"kernel": TWICE}, {"kernel": TWICE, "l2_bytes": 1}, "the L2 cache has about four times the bandwidth", GUIDE + "split for the L2 cache", "910b2:2"),
    "even work": Pair({"rounds": 4}, {"rounds": 4, "variant": 1}, "no core with a tail the others wait for", GUIDE + "balance the load of the cores"),
    "all cores": Pair({"rounds": 8}, {"rounds": 8, "blocks": 24}, "use every core", GUIDE + "choose number of cores and kernel type"),
    "no more blocks than cores": Pair({"rounds": 8, "blocks": 48}, {"rounds": 8, "blocks": 64, "tile": 2048}, "blocks beyond the cores wait for a second turn", GUIDE + "choose number of cores and kernel type"),
    "fused in UB": Pair({"rounds": 2, "tile": 2048}, {"rounds": 1, "tile": 2048, "launches": 2}, "keep the result of one vector operation in UB for the next", GUIDE + "fuse consecutive vector computation in UB"),
    "no barrier over all pipes": Pair({"rounds": 4}, {"rounds": 4, "variant": 2}, "pipes that wait for each other do not run beside each other", GUIDE + "DoubleBuffer"),
    "counter mode": Pair(units(12, tile=3840), units(11, tile=3840), "one instruction by count, not main part and tail with a mask each", GUIDE + "use counter mode"),
    "one instruction": Pair(units(0), units(10), "one instruction over many repeats", GUIDE + "use counter mode"),
    "reduce by halving": Pair(units(13), units(14), "additions of halves, then one ReduceRepeat; measured 172 against 242 cycles", GUIDE + "choose instructions of low latency for reductions"),
    "halving against ReduceSum": Pair(units(13), units(15), "additions of halves are faster than ReduceSum for much data", GUIDE + "choose instructions of low latency for reductions"),
    "half addition": Pair(units(0, HALF), units(0, FLOAT), "128 against 64 elements a cycle", THROUGHPUT + "Add"),
    "Add against Exp": Pair(units(0), units(1), "64 against 32 elements a cycle", THROUGHPUT + "Add, Exp"),
    "multiply, not divide": Pair(units(3), units(2), "64 against 32 elements a cycle", THROUGHPUT + "Muls, Div"),
    "Rsqrt against Sqrt": Pair(units(24), units(23), "64 against 32 elements a cycle", THROUGHPUT + "Rsqrt, Sqrt"),
    "Axpy": Pair(units(6), units(7), "one instruction at 64 elements a cycle, not two", THROUGHPUT + "Axpy, Muls, Add"),
    "AddRelu": Pair(units(8), units(9), "one instruction at 64 elements a cycle, not two", THROUGHPUT + "AddRelu, Add, Relu"),
    "block reduction of float": Pair(units(16, FLOAT), units(16, HALF), "64 against 128/7 elements a cycle", THROUGHPUT + "ReduceDataBlock"),
    "pairs before repeats": Pair(units(17), units(26), "64 against 64/7 elements a cycle", THROUGHPUT + "ReducePairElem, ReduceRepeat"),
    "in order, not gathered": Pair(units(20), units(22), "64 against 5 elements a cycle", THROUGHPUT + "Adds, Gather"),
    "Duplicate, not SetValue": Pair(units(18), units(19), "fill with the vector unit", "API reference: LocalTensor SetValue"),
    "Adds, not GetValue": Pair(units(20), units(21), "compute with the vector unit", "API reference: LocalTensor SetValue, GetValue"),
    "fewer instructions": Pair(units(20), units(25), "a constant folded into one instruction", THROUGHPUT + "Adds"),
}  # fmt: skip


@pytest.fixture(scope="module")
def program(bench: Bench) -> Program:
    return bench.program(KERNELS)


def time_us(program: Program, pair: Pair, attrs: Mapping[str, int]) -> float:
    given = dict(attrs)
    values = {**parameters.load(pair.chip).values, **pair.parameters}
    values.pop("ub_kernel_bytes")
    if "l2_bytes" in given:
        values["l2_bytes"] = float(given.pop("l2_bytes"))
    x = np.zeros(COUNT, np.float32)
    shown = program.run([x], [x.nbytes], mode="time", attrs=given, parameters=values)
    assert shown.errors == []
    return shown.duration_us


def test_there_are_thirty_pairs_and_each_has_its_rule() -> None:
    assert len(PAIRS) >= 30
    assert all(pair.rule and pair.source and pair.faster != pair.slower for pair in PAIRS.values())


@pytest.mark.parametrize("name", PAIRS)
def test_the_faster_variant_is_faster(program: Program, name: str) -> None:
    pair = PAIRS[name]
    assert time_us(program, pair, pair.faster) < 0.99 * time_us(program, pair, pair.slower), pair.rule
