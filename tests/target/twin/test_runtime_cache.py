"""The L2 cache of the model: what it holds is read faster, what it keeps need not be written, and nothing else changes."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

import numpy as np
import pytest

from .programs import Bench, Program

KERNELS = """
struct Plan { uint32_t per_block, tile, passes, shared, launches; };

// Every block reads its part, or all blocks the same part, `passes` times, and writes one tile per pass.
__global__ __aicore__ void passes(GM_ADDR x, GM_ADDR y, Plan plan)
{
    const uint32_t first = plan.shared ? 0 : GetBlockIdx() * plan.per_block;
    GlobalTensor<float> x_gm, y_gm;
    x_gm.SetGlobalBuffer((__gm__ float*)x + first);
    y_gm.SetGlobalBuffer((__gm__ float*)y + GetBlockIdx() * plan.per_block);
    TPipe pipe;
    TQueBind<QuePosition::VECIN, QuePosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 2, plan.tile * sizeof(float));
    for (uint32_t pass = 0; pass < plan.passes; ++pass) {
        for (uint32_t at = 0; at < plan.per_block; at += plan.tile) {
            LocalTensor<float> a = queue.AllocTensor<float>();
            DataCopy(a, x_gm[at], plan.tile);
            queue.EnQue(a);
            a = queue.DeQue<float>();
            if (pass == 0) {
                DataCopy(y_gm[at], a, plan.tile);
            }
            queue.FreeTensor(a);
        }
    }
}

extern "C" int kope_entry(const KopeCall* call)
{
    const auto attr = [&](const char* name, int64_t value) { return (uint32_t)kope_attr_i(call, name, value); };
    const uint32_t n = call->inputs[0].numel / 4, blocks = 48;
    const Plan plan = {n / blocks, attr("tile", 4096), attr("passes", 1), attr("shared", 0), attr("launches", 1)};
    for (uint32_t k = 0; k < plan.launches; ++k) {
        kope_twin::launch("passes", passes, blocks, nullptr, call->stream)((GM_ADDR)call->inputs[0].data, (GM_ADDR)call->outputs[0].data, plan);
    }
    return 0;
}
"""
COUNT = 48 * 4096 * 8
BYTES = 4 * COUNT
ON = {"l2_gbps": 8000.0, "l2_bytes": float(64 << 20), "l2_write_back_bytes": 0.0}
LAUNCH_US = 3.0


@pytest.fixture(scope="module")
def program(bench: Bench) -> Program:
    return bench.program(KERNELS)


def time_us(program: Program, parameters: dict[str, float], mode: str = "time", **attrs: int) -> float:
    x = np.zeros(COUNT, np.float32)
    shown = program.run([x], [BYTES], mode=mode, attrs=attrs, parameters=parameters)
    assert shown.errors == []
    return shown.duration_us


def test_without_a_cache_its_size_does_not_matter(program: Program) -> None:
    times = {time_us(program, {"l2_bytes": size, "l2_write_back_bytes": size}, passes=3) for size in (0.0, 1e6, 1e9)}
    assert len(times) == 1


def test_the_first_touch_of_everything_comes_from_device_memory(program: Program) -> None:
    assert time_us(program, ON) == pytest.approx(time_us(program, {}), rel=0.02)


@pytest.mark.parametrize("attrs", [{"passes": 8}, {"launches": 8}, {"shared": 1, "passes": 8}])
def test_what_is_read_again_comes_from_the_cache(program: Program, attrs: dict[str, int]) -> None:
    cold, cached = (time_us(program, on, **attrs) for on in ({}, ON))
    assert cached < 0.8 * cold


def test_what_no_longer_fits_is_read_from_device_memory_again(program: Program) -> None:
    times = [time_us(program, {**ON, "l2_bytes": float(size)}, passes=8) for size in (64 << 20, BYTES // 2)]
    assert times[1] > 1.25 * times[0]
    assert times[1] == pytest.approx(time_us(program, {}, passes=8), rel=0.02)


def test_one_read_by_all_blocks_is_one_read(program: Program) -> None:
    own, shared = (time_us(program, ON, shared=shared) for shared in (0, 1))
    assert shared < own


def test_written_bytes_the_cache_keeps_are_not_written_and_no_more(program: Program) -> None:
    times = [time_us(program, {**ON, "l2_write_back_bytes": kept}) for kept in (0.0, BYTES / 2, BYTES, 4.0 * BYTES)]
    assert times[0] > times[1] > times[2] == times[3]
    assert times[2] >= LAUNCH_US + BYTES / 1750e3
    twice = time_us(program, {**ON, "l2_write_back_bytes": float(BYTES)}, launches=2)
    assert twice > time_us(program, {**ON, "l2_write_back_bytes": 4.0 * BYTES}, launches=2)


@pytest.mark.parametrize("tile", [8, 32, 64, 256])
def test_short_transfers_do_not_get_what_nobody_has_read(program: Program, tile: int) -> None:
    """Neighbours share cache lines; every byte still comes from memory once."""
    on = {**ON, "gm_bandwidth_gbps": 2.0}  # so slow that nothing else counts
    read_us = BYTES / 2e3
    taken_us = time_us(program, {**on, "l2_write_back_bytes": float(BYTES)}, tile=tile) - LAUNCH_US
    assert read_us * (1.0 - 1e-6) < taken_us < 1.02 * read_us


def test_both_modes_and_every_order_of_blocks_give_the_same_time(program: Program) -> None:
    on = {**ON, "l2_write_back_bytes": BYTES / 2}
    assert time_us(program, on, passes=3) == time_us(program, on, mode="verify", passes=3)
    x = np.zeros(COUNT, np.float32)
    times = {
        program.run([x], [BYTES], parameters=on, attrs={"passes": 3}, environment={"TWIN_ORDER": order}).duration_us
        for order in ("0", "1", "99")
    }
    assert len(times) == 1
