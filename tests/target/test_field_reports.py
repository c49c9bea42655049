"""What went wrong for people who write kernels, each as a test of its whole kind: the wrong form is named with its cause,
the right form stays silent, and the values are those that were reported."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.model import Built, CaseRun, LaunchCase, RunMode, TensorFile, TensorSpec
from kope.target.twin import TwinTarget

from .launching import Call, build, launch_case, read_output

KERNELS = """
#include "kernel_operator.h"
#include "kope_candidate.h"
using namespace AscendC;

struct P { int64_t n; int64_t rows; int64_t variant; };
template <typename T> __aicore__ inline GlobalTensor<T> gm(GM_ADDR address) { GlobalTensor<T> t; t.SetGlobalBuffer((__gm__ T*)address); return t; }
template <typename T> __aicore__ inline DataCopyPadExtParams<T> none() { return {false, 0, 0, T(0)}; }

// a constant made by the vector unit, copied out; variant 1 waits in between
__global__ __vector__ void constant(GM_ADDR, GM_ADDR y, P p)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, p.n * 4);
    LocalTensor<float> t = buf.Get<float>();
    Duplicate(t, 1.0f, (int32_t)p.n);
    if (p.variant == 1) {
        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    } else if (p.variant == 2) {
        SetFlag<HardEvent::S_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::S_MTE3>(EVENT_ID0);
    }
    DataCopyPad(gm<float>(y)[GetBlockIdx() * p.n], t, DataCopyExtParams(1, p.n * 4, 0, 0, 0));
}

// every block writes, all meet, every block reads its neighbour's; variant 0 forgets to meet, 2 meets in every block but one
__global__ __vector__ void neighbour(GM_ADDR, GM_ADDR y, GM_ADDR scratch, P p)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 64);
    LocalTensor<float> t = buf.Get<float>();
    Duplicate(t, (float)GetBlockIdx(), 8);
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm<float>(scratch)[GetBlockIdx() * 8], t, 8);
    PipeBarrier<PIPE_ALL>();
    if (p.variant == 1 || (p.variant == 2 && GetBlockIdx() != 0)) {
        SyncAll();
    }
    DataCopy(t, gm<float>(scratch)[(GetBlockIdx() + 1) % GetBlockNum() * 8], 8);
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm<float>(y)[GetBlockIdx() * 8], t, 8);
}

// sixteen row maxima that lie end to end; variant 0 stores them as sixteen bursts of four bytes, 1 as one of 64
__global__ __vector__ void maxima(GM_ADDR x, GM_ADDR y, P p)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> in, out;
    pipe.InitBuffer(in, 16 * 128 * 4);
    pipe.InitBuffer(out, 64);
    LocalTensor<float> a = in.Get<float>(), m = out.Get<float>();
    DataCopy(a, gm<float>(x), 16 * 128);
    PipeBarrier<PIPE_ALL>();
    Max(a, a, a[64], 64, 16, BinaryRepeatParams(1, 1, 1, 16, 16, 16));
    PipeBarrier<PIPE_V>();
    WholeReduceMax(m, a, 64, 16, 1, 1, 16, ReduceOrder::ORDER_ONLY_VALUE);
    PipeBarrier<PIPE_ALL>();
    const uint16_t bursts = p.variant == 0 ? 16 : 1;
    DataCopyPad(gm<float>(y), m, DataCopyExtParams(bursts, 64 / bursts, 0, 0, 0));
}

// tiles of 256; variant 0 gives the last one n % 256 elements even when that is none
__global__ __vector__ void tiles(GM_ADDR x, GM_ADDR y, P p)
{
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 2, 1024);
    const int64_t loops = (p.n + 255) / 256;
    for (int64_t k = 0; k < loops; ++k) {
        const int64_t left = p.n - k * 256;
        const int64_t tail = p.variant == 0 ? p.n % 256 : left;
        const uint32_t count = k + 1 < loops ? 256 : (uint32_t)tail;
        LocalTensor<float> t = queue.AllocTensor<float>();
        DataCopyPad(t, gm<float>(x)[k * 256], DataCopyExtParams(1, count * 4, 0, 0, 0), none<float>());
        queue.EnQue(t);
        t = queue.DeQue<float>();
        DataCopyPad(gm<float>(y)[k * 256], t, DataCopyExtParams(1, count * 4, 0, 0, 0));
        queue.FreeTensor(t);
    }
}

// each block copies the first element of its row of n; variant 0 works the offset out in 32 bits
__global__ __vector__ void rows(GM_ADDR x, GM_ADDR y, P p)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 32);
    LocalTensor<half> t = buf.Get<half>();
    const int64_t narrow = (int32_t)((uint32_t)GetBlockIdx() * (uint32_t)p.rows * (uint32_t)p.n);
    const int64_t offset = p.variant == 0 ? narrow : GetBlockIdx() * p.rows * p.n;
    DataCopyPad(t, gm<half>(x)[offset], DataCopyExtParams(1, 2, 0, 0, 0), none<half>());
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(gm<half>(y)[GetBlockIdx()], t, DataCopyExtParams(1, 2, 0, 0, 0));
}

// softmax of one row of 100 in 104; variant 0 fills the rest with zeros, 1 with minus infinity
__global__ __vector__ void softmax(GM_ADDR x, GM_ADDR y, P p)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf, work, one;
    pipe.InitBuffer(buf, 416);
    pipe.InitBuffer(work, 1024);
    pipe.InitBuffer(one, 32);
    LocalTensor<float> t = buf.Get<float>(), w = work.Get<float>(), s = one.Get<float>();
    const float fill = p.variant == 0 ? 0.0f : -__builtin_inff();
    DataCopyPad(t, gm<float>(x), DataCopyExtParams(1, 400, 0, 0, 0), DataCopyPadExtParams<float>{true, 0, 4, fill});
    PipeBarrier<PIPE_ALL>();
    ReduceMax(s, t, w, 104);
    PipeBarrier<PIPE_ALL>();
    Adds(t, t, -s.GetValue(0), 104);
    PipeBarrier<PIPE_V>();
    Exp(t, t, 104);
    PipeBarrier<PIPE_V>();
    ReduceSum(s, t, w, 104);
    PipeBarrier<PIPE_ALL>();
    Muls(t, t, 1.0f / s.GetValue(0), 104);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(gm<float>(y), t, DataCopyExtParams(1, 400, 0, 0, 0));
}

// a sum of n halfs in half, in tiles of `rows`
__global__ __vector__ void half_sum(GM_ADDR x, GM_ADDR y, P p)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf, work, one;
    pipe.InitBuffer(buf, p.rows * 2);
    pipe.InitBuffer(work, 2048);
    pipe.InitBuffer(one, 64);
    LocalTensor<half> t = buf.Get<half>(), w = work.Get<half>(), s = one.Get<half>();
    half total = 0;
    for (int64_t at = 0; at < p.n; at += p.rows) {
        DataCopy(t, gm<half>(x)[at], p.rows);
        PipeBarrier<PIPE_ALL>();
        ReduceSum(s, t, w, (int32_t)p.rows);
        PipeBarrier<PIPE_ALL>();
        total = total + s.GetValue(0);
    }
    Duplicate(s, total, 16);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(gm<half>(y), s, DataCopyExtParams(1, 2, 0, 0, 0));
}

// n bytes of buffers, and a selection by a mask tensor; variant 0 without the selection
__global__ __vector__ void reserved(GM_ADDR, GM_ADDR y, P p)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf, mask, out;
    pipe.InitBuffer(mask, 32);
    pipe.InitBuffer(out, 256);
    pipe.InitBuffer(buf, p.n - 288);
    LocalTensor<float> t = buf.Get<float>(), d = out.Get<float>();
    LocalTensor<uint16_t> m = mask.Get<uint16_t>();
    Duplicate(m, (uint16_t)0xffff, 16);
    Duplicate(t, 1.0f, 64);
    Duplicate(d, 2.0f, 64);
    PipeBarrier<PIPE_V>();
    if (p.variant == 1) {
        Select(d, m.ReinterpretCast<uint8_t>(), t, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
    }
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm<float>(y), d, 64);
}

// casts: to half upwards, to int8 in the given mode
__global__ __vector__ void casts(GM_ADDR x, GM_ADDR y, P p)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> in, out;
    pipe.InitBuffer(in, 64);
    pipe.InitBuffer(out, 64);
    LocalTensor<float> a = in.Get<float>();
    LocalTensor<half> h = out.Get<half>();
    DataCopy(a, gm<float>(x), 8);
    PipeBarrier<PIPE_ALL>();
    constexpr RoundMode modes[] = {RoundMode::CAST_RINT, RoundMode::CAST_CEIL, RoundMode::CAST_TRUNC, RoundMode::CAST_ROUND};
    Cast(h, a, p.variant == 1 ? RoundMode::CAST_CEIL : RoundMode::CAST_RINT, 8);
    PipeBarrier<PIPE_ALL>();
    LocalTensor<float> f = in.Get<float>();
    if (p.variant != 1) {
        Cast(out.Get<int32_t>(), a, modes[p.variant], 8);
        PipeBarrier<PIPE_ALL>();
        Cast(f, out.Get<int32_t>(), RoundMode::CAST_RINT, 8);
    } else {
        Cast(f, h, RoundMode::CAST_NONE, 8);
    }
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm<float>(y), f, 8);
}

// reads as float what may be halfs
__global__ __vector__ void as_float(GM_ADDR x, GM_ADDR y, P p)
{
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 2, p.n * 4);
    LocalTensor<float> t = queue.AllocTensor<float>();
    DataCopyPad(t, gm<float>(x), DataCopyExtParams(1, p.n * 4, 0, 0, 0), none<float>());
    queue.EnQue(t);
    t = queue.DeQue<float>();
    DataCopyPad(gm<float>(y), t, DataCopyExtParams(1, p.n * 4, 0, 0, 0));
    queue.FreeTensor(t);
}

// every block stores n elements, any number; variant 1 rounds the store up to 32 bytes
__global__ __vector__ void any_length(GM_ADDR x, GM_ADDR y, P p)
{
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 2, 256);
    pipe.InitBuffer(out, 2, 256);
    for (int k = 0; k < 3; ++k) {
        const int64_t at = (GetBlockIdx() * 3 + k) * p.n;
        LocalTensor<float> a = in.AllocTensor<float>();
        DataCopyPad(a, gm<float>(x)[at], DataCopyExtParams(1, p.n * 4, 0, 0, 0), none<float>());
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        Adds(b, a, (float)GetBlockIdx(), 64);
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.DeQue<float>();
        const uint32_t bytes = p.variant == 1 ? (p.n * 4 + 31) / 32 * 32 : p.n * 4;
        DataCopyPad(gm<float>(y)[at], b, DataCopyExtParams(1, bytes, 0, 0, 0));
        out.FreeTensor(b);
    }
}

extern "C" size_t kope_workspace_bytes(const KopeCall*) { return 65536; }
extern "C" int kope_entry(const KopeCall* call)
{
    const P p = {kope_attr_i(call, "n", 0), kope_attr_i(call, "rows", 0), kope_attr_i(call, "variant", 0)};
    const uint32_t blocks = kope_attr_i(call, "blocks", 1);
    const auto x = (GM_ADDR)call->inputs[0].data;
    const auto y = (GM_ADDR)call->outputs[0].data;
    const auto w = (GM_ADDR)call->workspace;
    switch (kope_attr_i(call, "which", -1)) {
        case 0: constant<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
        case 1: neighbour<<<blocks, nullptr, call->stream>>>(x, y, w, p); return 0;
        case 2: maxima<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
        case 3: tiles<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
        case 4: rows<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
        case 5: softmax<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
        case 6: half_sum<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
        case 7: reserved<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
        case 8: casts<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
        case 9: as_float<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
        case 10: any_length<<<blocks, nullptr, call->stream>>>(x, y, p); return 0;
    }
    return 1;
}
"""
NAMES = [
    "constant",
    "neighbour",
    "maxima",
    "tiles",
    "rows",
    "softmax",
    "half_sum",
    "reserved",
    "casts",
    "as_float",
    "any_length",
]
ONE = np.zeros(1, np.float32)


class Reports:
    """Runs the kernels above, one case each."""

    def __init__(self, twin: TwinTarget, built: Built, folder: Path) -> None:
        self._twin, self._built, self._folder, self._count = twin, built, folder, 0

    def run(
        self,
        name: str,
        x: np.ndarray[Any, Any] = ONE,
        y: Sequence[int] = (8,),
        dtype: str = "float32",
        *,
        mode: RunMode = "verify",
        **attrs: int,
    ) -> tuple[CaseRun, LaunchCase]:
        self._count += 1
        call = Call([x], [(tuple(y), dtype)], {"which": NAMES.index(name), **attrs})
        case = launch_case(call, self._folder / str(self._count), "c")
        return self.launch(case, mode), case

    def launch(self, case: LaunchCase, mode: RunMode) -> CaseRun:
        (one,) = self._twin.run(self._built, [case], mode, self._folder / "run", time_limit_s=60).cases
        return one


@pytest.fixture(scope="module")
def reports(twin: TwinTarget, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    folder = tmp_path_factory.mktemp("reports")
    return Reports(twin, build(twin, KERNELS, folder), folder)


def kinds(one: CaseRun) -> list[str]:
    return [found.kind for found in one.diagnostics if found.severity == "error"]


@pytest.mark.parametrize(("n", "blocks"), [(8, 1), (4096, 40)])
def test_a_constant_copied_out_at_once_lacks_the_flag_at_any_size(reports: Reports, n: int, blocks: int) -> None:
    wrong, _ = reports.run("constant", y=(n * blocks,), n=n, blocks=blocks, variant=0)
    assert kinds(wrong) == ["missing-sync"]
    assert "V_MTE3" in wrong.diagnostics[0].remedy and "RAW" in wrong.diagnostics[0].message
    right, _ = reports.run("constant", y=(n * blocks,), n=n, blocks=blocks, variant=1)
    assert right.diagnostics == ()


def test_a_flag_on_the_wrong_pipe_does_not_order_the_store(reports: Reports) -> None:
    wrong, _ = reports.run("constant", n=8, variant=2)
    assert kinds(wrong) == ["missing-sync"]
    assert "HardEvent::V_MTE3" in wrong.diagnostics[0].remedy


def test_a_barrier_of_all_cores_takes_one_block_per_core(reports: Reports) -> None:
    full, case = reports.run("neighbour", y=(48 * 8,), blocks=48, variant=1)
    assert full.diagnostics == ()
    np.testing.assert_array_equal(read_output(case)[::8], np.roll(np.arange(48, dtype=np.float32), -1))
    more, _ = reports.run("neighbour", y=(49 * 8,), blocks=49, variant=1)
    assert kinds(more) == ["deadlock"]
    fewer, _ = reports.run("neighbour", y=(24 * 8,), blocks=24, variant=1)
    assert (fewer.ok, [found.kind for found in fewer.diagnostics]) == (True, ["sync-blocks"])


def test_a_barrier_left_out_is_a_race_and_one_that_not_all_reach_a_deadlock(reports: Reports) -> None:
    without, _ = reports.run("neighbour", y=(48 * 8,), blocks=48, variant=0)
    assert kinds(without) == ["gm-race"]
    (race,) = [found for found in without.diagnostics if found.kind == "gm-race"]
    assert "SyncAll" in race.remedy and "workspace" in race.message
    partly, _ = reports.run("neighbour", y=(48 * 8,), blocks=48, variant=2)
    assert "deadlock" in kinds(partly)


def test_bursts_of_four_bytes_start_32_bytes_apart_in_ub(reports: Reports) -> None:
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    wrong, _ = reports.run("maxima", x, (16,), variant=0)
    assert kinds(wrong)[0] == "ub-oob"
    right, case = reports.run("maxima", x, (16,), variant=1)
    assert right.diagnostics == ()
    np.testing.assert_array_equal(read_output(case), x.max(axis=1))


@pytest.mark.parametrize("n", [512, 513, 700])
def test_a_last_tile_of_no_elements_leaves_the_output_open(reports: Reports, n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    wrong, _ = reports.run("tiles", x, (n,), n=n, variant=0)
    assert kinds(wrong) == (["unwritten-output"] if n % 256 == 0 else [])
    if n % 256 == 0:
        assert "256 of 512 elements never written, the first at [256]" in wrong.diagnostics[0].message
    right, _ = reports.run("tiles", x, (n,), n=n, variant=1)
    assert right.diagnostics == ()


def test_an_offset_in_32_bits_is_found_without_the_memory_it_needs(reports: Reports, tmp_path: Path) -> None:
    rows, n = 8_449_694, 327.68  # offset of block 1: 2,768,895,872
    assert int(rows * n) > 1 << 31
    shape = (2, 2_768_895_872)
    for variant, want in ((0, ["gm-oob"]), (1, [])):
        inputs = (TensorFile(TensorSpec("x", shape, "float16"), tmp_path / "x"),)
        outputs = (TensorFile(TensorSpec("y", (2,), "float16"), tmp_path / "y"),)
        attrs = {"which": NAMES.index("rows"), "n": 2_768_895_872, "rows": 1, "variant": variant, "blocks": 2}
        one = reports.launch(LaunchCase("c", inputs, outputs, attrs), "time")
        assert kinds(one) == want
        if want:
            assert f"bytes {-1_526_071_424 * 2} to" in one.diagnostics[0].message


def test_a_softmax_row_padded_with_zeros_is_wrong_and_with_minus_infinity_right(reports: Reports) -> None:
    x = np.full(100, -5.0, np.float32)
    zeros, case = reports.run("softmax", x, (100,), variant=0)
    assert zeros.ok
    np.testing.assert_allclose(read_output(case), 0.00144, atol=5e-6)
    right, case = reports.run("softmax", x, (100,), variant=1)
    assert right.ok
    np.testing.assert_allclose(read_output(case), 0.01, rtol=1e-5)


@pytest.mark.parametrize(
    ("count", "tile", "value", "want"),
    [(16_384, 16_384, 0.1, 1654.0), (65_536, 65_536, 0.1, 6292.0), (131_072, 65_536, 1.0, np.inf)],
)
def test_a_sum_in_half_drifts_as_reported(reports: Reports, count: int, tile: int, value: float, want: float) -> None:
    one, case = reports.run("half_sum", np.full(count, value, np.float16), (1,), "float16", n=count, rows=tile)
    assert one.ok
    assert read_output(case)[0] == want


@pytest.mark.parametrize(("kilobytes", "variant", "want"), [(190, 1, ["ub-reserved"]), (190, 0, []), (183, 1, [])])
def test_the_last_8_kb_of_ub_are_lost_to_selections_by_a_mask(
    reports: Reports, kilobytes: int, variant: int, want: list[str]
) -> None:
    one, _ = reports.run("reserved", y=(64,), n=kilobytes * 1024, variant=variant)
    assert kinds(one) == want


@pytest.mark.parametrize(
    ("value", "variant", "want"),
    [(np.sqrt(2), 1, 1.4150391), (2.6, 2, 2.0), (2.5, 3, 3.0), (2.5, 0, 2.0)],
    ids=["sqrt(2) upwards to half", "2.6 cut off", "2.5 away from zero", "2.5 to even"],
)
def test_rounding_modes_give_the_values_reported(reports: Reports, value: float, variant: int, want: float) -> None:
    one, case = reports.run("casts", np.full(8, value, np.float32), (8,), variant=variant)
    assert one.ok
    np.testing.assert_allclose(read_output(case), want, atol=1e-7)


def test_a_buffer_read_as_a_wider_type_is_out_of_its_bounds(reports: Reports) -> None:
    wrong, _ = reports.run("as_float", np.ones(64, np.float16), (64,), n=64)
    assert "gm-oob" in kinds(wrong)
    assert "reads bytes 0 to 256 of x0, which has 128" in wrong.diagnostics[0].message
    right, _ = reports.run("as_float", np.ones(64, np.float32), (64,), n=64)
    assert right.diagnostics == ()


@pytest.mark.parametrize("n", [1, 5, 8])
def test_stores_of_any_length_to_any_address_through_queues_of_depth_1_are_fine(reports: Reports, n: int) -> None:
    x = np.arange(4 * 3 * n, dtype=np.float32)
    one, case = reports.run("any_length", x, (4 * 3 * n,), n=n, blocks=4, variant=0)
    assert one.diagnostics == ()
    np.testing.assert_array_equal(read_output(case), x + np.repeat(np.arange(4, dtype=np.float32), 3 * n))


def test_a_store_rounded_up_runs_into_the_next_block_or_out_of_the_output(reports: Reports) -> None:
    one, _ = reports.run("any_length", np.arange(60, dtype=np.float32), (60,), n=5, blocks=4, variant=1)
    assert {"gm-race", "gm-oob"} <= set(kinds(one))
