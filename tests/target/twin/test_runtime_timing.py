"""The timing model moves the right way, agrees between the modes, never beats the memory, leaves no work free."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .programs import Bench, Program, Shown

KERNELS = """
struct Plan { uint32_t n, per_block, tile, buffers, work; };

// y = work on x, tile by tile. Work 0: exp; 1: eight exps; 2: one branch on data; 3: branches on the plan only.
class Tiled {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const Plan& plan)
    {
        const uint32_t start = GetBlockIdx() * plan.per_block;
        if (start >= plan.n) {
            return;
        }
        const uint32_t count = plan.n - start < plan.per_block ? plan.n - start : plan.per_block;
        GlobalTensor<float> x_gm, y_gm;
        x_gm.SetGlobalBuffer((__gm__ float*)x + start);
        y_gm.SetGlobalBuffer((__gm__ float*)y + start);
        TPipe pipe;
        pipe.InitBuffer(in, plan.buffers, plan.tile * sizeof(float));
        pipe.InitBuffer(out, plan.buffers, plan.tile * sizeof(float));
        for (uint32_t at = 0; at < count; at += plan.tile) {
            const uint32_t now = count - at < plan.tile ? count - at : plan.tile;
            LocalTensor<float> a = in.AllocTensor<float>();
            DataCopyPad(a, x_gm[at], DataCopyExtParams(1, now * 4, 0, 0, 0), DataCopyPadExtParams<float>(false, 0, 0, 0));
            in.EnQue(a);
            a = in.DeQue<float>();
            LocalTensor<float> b = out.AllocTensor<float>();
            Exp(b, a, now);
            for (uint32_t k = 0; plan.work == 1 && k < 7; ++k) {
                Exp(b, a, now);
            }
            if (plan.work == 2 && a.GetValue(0) > 0.5f) {
                Exp(b, a, now);
            }
            if (plan.work == 3) {
                Exp(b, a, now);
            }
            out.EnQue(b);
            in.FreeTensor(a);
            b = out.DeQue<float>();
            DataCopyPad(y_gm[at], b, DataCopyExtParams(1, now * 4, 0, 0, 0));
            out.FreeTensor(b);
        }
    }

private:
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
};
__global__ __aicore__ void tiled(GM_ADDR x, GM_ADDR y, Plan plan)
{
    Tiled op;
    op.Run(x, y, plan);
}

// The same by single elements: 0 through UB, 1 straight from and to device memory, 2 with a library function per element.
__global__ __aicore__ void scalar(GM_ADDR x, GM_ADDR y, Plan plan)
{
    const uint32_t start = GetBlockIdx() * plan.per_block;
    const uint32_t count = start >= plan.n ? 0 : (plan.n - start < plan.per_block ? plan.n - start : plan.per_block);
    GlobalTensor<float> x_gm, y_gm;
    x_gm.SetGlobalBuffer((__gm__ float*)x + start);
    y_gm.SetGlobalBuffer((__gm__ float*)y + start);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, plan.tile * sizeof(float));
    LocalTensor<float> local = buffer.Get<float>();
    for (uint32_t at = 0; at < count; at += plan.tile) {
        const uint32_t now = count - at < plan.tile ? count - at : plan.tile;
        if (plan.work != 1) {
            DataCopyPad(local, x_gm[at], DataCopyExtParams(1, now * 4, 0, 0, 0), DataCopyPadExtParams<float>(false, 0, 0, 0));
            PipeBarrier<PIPE_ALL>();
            for (uint32_t k = 0; k < now; ++k) {
                const float v = local.GetValue(k);
                local.SetValue(k, plan.work == 2 ? __builtin_expf(v) : 1.0f + v * (1.0f + v * 0.5f));
            }
            PipeBarrier<PIPE_ALL>();
            DataCopyPad(y_gm[at], local, DataCopyExtParams(1, now * 4, 0, 0, 0));
            PipeBarrier<PIPE_ALL>();
        } else {
            for (uint32_t k = 0; k < now; ++k) {
                y_gm.SetValue(at + k, x_gm.GetValue(at + k) + 1.0f);
            }
        }
    }
}

// Scalar work without any API call: long chains of arithmetic, 0 in registers, 1 with library calls.
__global__ __aicore__ void busy(GM_ADDR x, GM_ADDR y, Plan plan)
{
    float v = 1.0f;
    for (uint32_t k = 0; k < plan.n; ++k) {
        v = plan.work == 1 ? __builtin_sinf(v) : v * 1.0001f + 0.5f;
    }
    GlobalTensor<float> y_gm;
    y_gm.SetGlobalBuffer((__gm__ float*)y);
    y_gm.SetValue(0, v);
    (void)x;
}

extern "C" int kope_entry(const KopeCall* call)
{
    const auto attr = [&](const char* name, int64_t value) { return (uint32_t)kope_attr_i(call, name, value); };
    const uint32_t n = attr("n", call->inputs[0].numel / 4), blocks = attr("blocks", 48), used = attr("used", blocks);
    const Plan plan = {n, ((n + used - 1) / used + 127) / 128 * 128, attr("tile", 4096), attr("buffers", 2), attr("work", 0)};
    const auto x = (GM_ADDR)call->inputs[0].data;
    const auto y = (GM_ADDR)call->outputs[0].data;
    switch (attr("kernel", 0)) {
        case 0: kope_twin::launch("tiled", tiled, blocks, nullptr, call->stream)(x, y, plan); return 0;
        case 1: kope_twin::launch("scalar", scalar, blocks, nullptr, call->stream)(x, y, plan); return 0;
        default: kope_twin::launch("busy", busy, blocks, nullptr, call->stream)(x, y, plan); return 0;
    }
}
"""
LAUNCH_US = 3.0
GM_BYTES_PER_US = 1750e3


@pytest.fixture(scope="module")
def program(bench: Bench) -> Program:
    return bench.program(KERNELS)


def timed(
    program: Program, count: int, mode: str = "time", parameters: dict[str, float] | None = None, **attrs: int
) -> Shown:
    x = np.linspace(-1, 1, count, dtype=np.float32)
    shown = program.run([x], [x.nbytes], mode=mode, attrs=attrs, parameters=parameters)
    assert shown.errors == []
    return shown


def test_a_memory_bound_kernel_comes_close_to_the_bandwidth_and_never_beats_it(program: Program) -> None:
    count = 1 << 22
    floor = LAUNCH_US + 2 * 4 * count / GM_BYTES_PER_US
    assert floor <= timed(program, count, tile=8192).duration_us < 1.1 * floor


@pytest.mark.parametrize("tile", [256, 1024, 4096])
def test_a_second_buffer_helps(program: Program, tile: int) -> None:
    one, two = (timed(program, 1 << 20, tile=tile, buffers=buffers).duration_us for buffers in (1, 2))
    assert two < 0.8 * one if tile < 4096 else two < one


def test_longer_tiles_help(program: Program) -> None:
    times = [timed(program, 1 << 20, tile=tile, buffers=1).duration_us for tile in (64, 256, 1024, 4096)]
    assert times == sorted(times, reverse=True) and times[0] > 4 * times[-1]


def test_more_cores_help_until_the_memory_is_full(program: Program) -> None:
    times = [timed(program, 1 << 21, blocks=blocks).duration_us - LAUNCH_US for blocks in (1, 2, 4, 8, 24, 48)]
    assert times[0] / times[1] == pytest.approx(2, rel=0.1) and times[1] / times[2] == pytest.approx(2, rel=0.1)
    assert times == sorted(times, reverse=True)
    assert times[-2] / times[-1] < 1.5


def test_blocks_beyond_the_cores_take_turns(program: Program) -> None:
    fitting = timed(program, 1 << 22, work=1, blocks=48, parameters={"gm_bandwidth_gbps": 1e5}).duration_us
    one_more = timed(program, 1 << 22, work=1, blocks=49, parameters={"gm_bandwidth_gbps": 1e5}).duration_us
    assert one_more - LAUNCH_US > 1.7 * (fitting - LAUNCH_US)


def test_idle_blocks_take_no_bandwidth(program: Program) -> None:
    alone = timed(program, 1 << 18, blocks=4).duration_us
    beside_idle = timed(program, 1 << 18, blocks=48, used=4).duration_us
    assert beside_idle == pytest.approx(alone, rel=0.02)


def test_vector_work_is_hidden_behind_the_copies_until_it_is_more(program: Program) -> None:
    plain, more = (timed(program, 1 << 22, work=work) for work in (0, 1))
    assert plain.busy_us("vec") * 7 < more.busy_us("vec") < 8.1 * plain.busy_us("vec")
    assert plain.duration_us < more.duration_us < 2 * plain.duration_us


def test_work_of_the_vector_unit_follows_the_published_rates(program: Program) -> None:
    """Exp: 32 floats a cycle and core at 1.8 GHz, plus a head per instruction."""
    count, tile = 48 * 8192 * 4, 8192
    busy = timed(program, count, tile=tile).busy_us("vec")
    cycles = count / 32 + (count / tile) * 16
    assert busy == pytest.approx(cycles / 1800, rel=1e-6)


def test_half_the_bandwidth_doubles_the_time(program: Program) -> None:
    full = timed(program, 1 << 22).duration_us - LAUNCH_US
    half = timed(program, 1 << 22, parameters={"gm_bandwidth_gbps": 875.0}).duration_us - LAUNCH_US
    assert half == pytest.approx(2 * full, rel=0.1)


@pytest.mark.parametrize(
    "attrs", [{}, {"tile": 100}, {"work": 3}, {"blocks": 7, "buffers": 1}, {"kernel": 2, "n": 1000, "blocks": 2}]
)
def test_both_modes_give_the_same_time_and_path(program: Program, attrs: dict[str, Any]) -> None:
    count = attrs.pop("n", 50_001)
    quick, full = (timed(program, count, mode=mode, **attrs) for mode in ("time", "verify"))
    for name in ("duration_us", "flow", "read", "written"):
        assert quick.result[name] == full.result[name]
    assert not quick.result["scalar_read"]


def test_another_path_has_another_hash(program: Program) -> None:
    assert timed(program, 5000, work=0).result["flow"] != timed(program, 5000, work=3).result["flow"]


def test_the_hash_does_not_depend_on_the_order_of_blocks(program: Program) -> None:
    x = np.zeros(50_000, np.float32)
    flows = {
        program.run([x], [x.nbytes], environment={"TWIN_ORDER": order}).result["flow"] for order in ("0", "1", "99")
    }
    assert len(flows) == 1


def test_control_flow_on_data_is_flagged_in_time_mode(program: Program) -> None:
    assert timed(program, 5000, work=2).result["scalar_read"]
    assert not timed(program, 5000, mode="verify", work=2).result["scalar_read"]


@pytest.mark.parametrize("work", [0, 1, 2])
def test_a_scalar_loop_cannot_beat_the_vector_unit(program: Program, work: int) -> None:
    count = 1 << 16
    vector = timed(program, count).duration_us - LAUNCH_US
    single = timed(program, count, mode="verify", kernel=1, work=work).duration_us - LAUNCH_US
    assert single > 10 * vector


def test_scalar_work_without_the_api_takes_time(program: Program) -> None:
    attrs = {"kernel": 2, "blocks": 1}
    few, many = (timed(program, 10, mode="verify", n=n, **attrs).duration_us for n in (1_000, 101_000))
    assert (many - few) * 1800 / 100_000 >= 6  # cycles per turn of the loop
    library = timed(program, 10, mode="verify", n=101_000, work=1, **attrs).duration_us
    assert (library - few) * 1800 / 100_000 >= 46


def test_times_of_pipes_fit_into_the_launch(program: Program) -> None:
    shown = timed(program, 1 << 20)
    (launch,) = shown.result["launches"]
    assert launch["kernel"] == "tiled" and launch["blocks"] == launch["cores"] == 48
    for pipe in ("scalar", "vec", "mte2", "mte3"):
        assert 0 < shown.busy_us(pipe) <= 48 * launch["duration_us"]
    assert shown.result["read"] == shown.result["written"] == 4 << 20
    assert launch["ub_peak"] == 4 * 4096 * 4
