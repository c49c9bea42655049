"""Seeded defects in small kernels: each is found with kind, line and remedy; the kernels without them stay silent."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from .programs import Bench, Program, Shown, variants

SIZE = 4096

# z = x + y in tiles of 512 floats over 2 blocks, with queues.
QUEUES = """
class Adder {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z)
    {
        const uint32_t start = GetBlockIdx() * 2048;
        x_gm.SetGlobalBuffer((__gm__ float*)x + start, 2048);
        y_gm.SetGlobalBuffer((__gm__ float*)y + start, 2048);
        z_gm.SetGlobalBuffer((__gm__ float*)z + start, 2048);
        pipe.InitBuffer(x_in, 2, 512 * sizeof(float));
        pipe.InitBuffer(y_in, 2, 512 * sizeof(float));
        pipe.InitBuffer(z_out, 2, 512 * sizeof(float));
    }
    __aicore__ inline void Process()
    {
        for (uint32_t tile = 0; tile < 4; ++tile) {
            CopyIn(tile);
            Compute();
            CopyOut(tile);
        }
    }

private:
    __aicore__ inline void CopyIn(uint32_t tile)
    {
        LocalTensor<float> x = x_in.AllocTensor<float>();
        LocalTensor<float> y = y_in.AllocTensor<float>();
        DataCopy(x, x_gm[tile * 512], 512);
        DataCopy(y, y_gm[tile * 512], 512);
        x_in.EnQue(x);
        y_in.EnQue(y);
    }
    __aicore__ inline void Compute()
    {
        LocalTensor<float> x = x_in.DeQue<float>();
        LocalTensor<float> y = y_in.DeQue<float>();
        LocalTensor<float> z = z_out.AllocTensor<float>();
        Add(z, x, y, 512);
        z_out.EnQue(z);
        x_in.FreeTensor(x);
        y_in.FreeTensor(y);
    }
    __aicore__ inline void CopyOut(uint32_t tile)
    {
        LocalTensor<float> z = z_out.DeQue<float>();
        DataCopy(z_gm[tile * 512], z, 512);
        z_out.FreeTensor(z);
    }
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> x_in, y_in;
    TQue<QuePosition::VECOUT, 1> z_out;
    GlobalTensor<float> x_gm, y_gm, z_gm;
};
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    Adder op;
    op.Init(x, y, z);
    op.Process();
}
"""
# The same with fixed addresses and flags, one tile at a time.
FLAGS = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    InitSocState();
    const uint32_t start = block_idx * 2048;
    GlobalTensor<float> x_gm, y_gm, z_gm;
    x_gm.SetGlobalBuffer((__gm__ float*)x + start, 2048);
    y_gm.SetGlobalBuffer((__gm__ float*)y + start, 2048);
    z_gm.SetGlobalBuffer((__gm__ float*)z + start, 2048);
    LocalMemAllocator<Hardware::UB> memory;
    LocalTensor<float> x_ub = memory.Alloc<float, 512>();
    LocalTensor<float> y_ub = memory.Alloc<float, 512>();
    LocalTensor<float> z_ub = memory.Alloc<float, 512>();
    SetFlag<HardEvent::V_MTE2>(EVENT_ID0);
    SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
    for (uint32_t tile = 0; tile < 4; ++tile) {
        WaitFlag<HardEvent::V_MTE2>(EVENT_ID0);
        DataCopy(x_ub, x_gm[tile * 512], 512);
        DataCopy(y_ub, y_gm[tile * 512], 512);
        SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
        WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
        WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
        Add(z_ub, x_ub, y_ub, 512);
        SetFlag<HardEvent::V_MTE2>(EVENT_ID0);
        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
        DataCopy(z_gm[tile * 512], z_ub, 512);
        SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
    }
    WaitFlag<HardEvent::V_MTE2>(EVENT_ID0);
    WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
}
"""


def run(program: Program, which: int, **options: Any) -> Shown:
    """Run a variant on two random inputs; when nothing is found the output must be their sum."""
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-1, 1, SIZE).astype(np.float32) for _ in range(2)]
    shown = program.run(inputs, [SIZE * 4], attrs={"which": which}, **options)
    if not shown.result["findings"] and shown.outputs:
        np.testing.assert_array_equal(np.frombuffer(shown.outputs[0], np.float32), inputs[0] + inputs[1])
        assert shown.result["unwritten"] == [0]
    return shown


def line_of(kernel: str, text: str) -> int:
    return next(number for number, line in enumerate(kernel.splitlines(), 1) if text in line)


@dataclass(frozen=True)
class Defect:
    """A change to a kernel, what must be found, in which line, and words of message or remedy."""

    name: str
    kernel: str
    old: str
    new: str
    kind: str
    at: str
    says: str = ""

    def __str__(self) -> str:
        return self.name


DEFECTS = [
    # --- queues
    Defect("DeQue replaced by AllocTensor", QUEUES, "x_in.DeQue<float>()", "x_in.AllocTensor<float>()", "queue-full", "x_in.EnQue(x)", "DeQue before the next EnQue"),
    Defect("EnQue missing", QUEUES, "        x_in.EnQue(x);\n", "", "deque-empty", "x_in.DeQue", "EnQue a tensor before every DeQue"),
    Defect("FreeTensor missing", QUEUES, "        x_in.FreeTensor(x);\n", "", "alloc-none", "x_in.AllocTensor", "none of the queue's 2 buffers"),
    Defect("FreeTensor twice", QUEUES, "x_in.FreeTensor(x);", "x_in.FreeTensor(x); x_in.FreeTensor(x);", "double-free", "x_in.FreeTensor(x);", "exactly once"),
    Defect("freed to another queue", QUEUES, "x_in.FreeTensor(x);", "y_in.FreeTensor(x);", "wrong-queue", "y_in.FreeTensor(x);"),
    Defect("queue without buffers", QUEUES, "        pipe.InitBuffer(z_out, 2, 512 * sizeof(float));\n", "", "queue-uninitialised", "z_out.AllocTensor", "InitBuffer"),
    Defect("used after FreeTensor", QUEUES, "        Add(z, x, y, 512);\n        z_out.EnQue(z);\n        x_in.FreeTensor(x);\n",
           "        x_in.FreeTensor(x);\n        Add(z, x, y, 512);\n        z_out.EnQue(z);\n", "use-after-free", "Add(z, x, y", "src0 of Add"),
    Defect("copied out before EnQue", QUEUES, "        z_out.EnQue(z);\n        x_in",
           "        DataCopy(z_gm, z, 512);\n        z_out.EnQue(z);\n        x_in", "missing-sync", "DataCopy(z_gm, z", "RAW"),
    Defect("left in the queue", QUEUES, "CopyOut(tile);", "if (tile < 3) CopyOut(tile);", "tensor-leak", "z_out.EnQue(z)", "never taken with DeQue"),
    # --- UB and transfers
    Defect("UB overflow", QUEUES, "InitBuffer(z_out, 2, 512 * sizeof(float))", "InitBuffer(z_out, 2, 100000)", "ub-overflow", "InitBuffer(z_out", "196608"),
    Defect("static UB overflow", FLAGS, "z_ub = memory.Alloc<float, 512>()", "z_ub = memory.Alloc<float, 50000>()", "ub-overflow", "z_ub = memory"),
    Defect("too many buffers", QUEUES, "InitBuffer(z_out, 2, 512 * sizeof(float))", "InitBuffer(z_out, 61, 512 * sizeof(float))", "buffer-count", "InitBuffer(z_out", "64"),
    Defect("copy not a multiple of 32 bytes", QUEUES, "DataCopy(x, x_gm[tile * 512], 512)", "DataCopy(x, x_gm[tile * 512], 509)", "copy-size", "DataCopy(x, x_gm", "DataCopyPad"),
    Defect("operand not aligned", QUEUES, "Add(z, x, y, 512)", "Add(z, x, y[3], 504)", "align", "Add(z, x, y[3]", "src1 of Add"),
    Defect("transfer not aligned in UB", QUEUES, "DataCopy(x, x_gm[tile * 512], 512)", "DataCopy(x[1], x_gm[tile * 512], 504)", "align", "DataCopy(x[1]"),
    Defect("count past the tensor", QUEUES, "Add(z, x, y, 512)", "Add(z, x, y, 520)", "ub-oob", "Add(z, x, y, 520)", "2080 bytes of"),
    Defect("stride past the tensor", QUEUES, "Add(z, x, y, 512)", "Add(z, x, y, (uint64_t)64, 8, BinaryRepeatParams(1, 1, 1, 8, 8, 9))", "ub-oob", "Add(z, x, y", "src1"),
    Defect("read past the input", QUEUES, "y_gm[tile * 512], 512", "y_gm[tile * 512 + 8], 512", "gm-oob", "DataCopy(y, y_gm", "input1, which has 16384"),
    Defect("write past the output", QUEUES, "DataCopy(z_gm[tile * 512], z, 512)", "DataCopy(z_gm[tile * 512 + 2048], z, 512)", "gm-oob", "DataCopy(z_gm", "output0"),
    Defect("read before the input", QUEUES, "x_gm[tile * 512], 512", "x_gm[(uint64_t)tile * 512 - 8], 512", "gm-oob", "DataCopy(x, x_gm", "bytes -32 to"),
    Defect("write to an input", QUEUES, "SetGlobalBuffer((__gm__ float*)z + start", "SetGlobalBuffer((__gm__ float*)x + start", "input-written", "DataCopy(z_gm", "input0"),
    Defect("more blocks than 12 bits", QUEUES, "DataCopy(x, x_gm[tile * 512], 512)", "DataCopy(x, x_gm[tile * 512], DataCopyParams(4096, 1, 0, 0))", "argument-range", "DataCopy(x, x_gm", "4095"),
    Defect("more repeats than 8 bits", QUEUES, "Add(z, x, y, 512)", "WholeReduceSum(z, x, 1, 256, 1, 1, 0); Add(z, x, y, 512)", "argument-range", "WholeReduceSum", "255"),
    Defect("input never copied", QUEUES, "        DataCopy(x, x_gm[tile * 512], 512);\n", "", "uninit", "DataCopy(z_gm", "Add (line"),
    Defect("scalar read of nothing", QUEUES, "Add(z, x, y, 512);", "z.SetValue(0, z.GetValue(8)); Add(z, x, y, 512);", "uninit", "GetValue(8)"),
    Defect("tensor from nowhere", QUEUES, "Add(z, x, y, 512)", "LocalTensor<float> n; Add(z, n, y, 512)", "no-tensor", "Add(z, n"),
    # --- flags
    Defect("MTE2 to V dropped", FLAGS, "        SetFlag<HardEvent::MTE2_V>(EVENT_ID0);\n        WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);\n", "", "missing-sync", "Add(z_ub", "SetFlag<HardEvent::MTE2_V>"),
    Defect("V to MTE3 dropped", FLAGS, "        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);\n        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);\n", "", "missing-sync", "DataCopy(z_gm", "RAW"),
    Defect("V to MTE2 dropped", FLAGS, "        WaitFlag<HardEvent::V_MTE2>(EVENT_ID0);\n        DataCopy", "        DataCopy", "missing-sync", "DataCopy(x_ub", "WAR"),
    Defect("MTE3 to V dropped", FLAGS, "        WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);\n        Add", "        Add", "missing-sync", "Add(z_ub", "WAR"),
    Defect("another event id", FLAGS, "WaitFlag<HardEvent::V_MTE3>(EVENT_ID0)", "WaitFlag<HardEvent::V_MTE3>(EVENT_ID1)", "flag-hang", "WaitFlag<HardEvent::V_MTE3>", "event id 1"),
    Defect("wait without set", FLAGS, "    SetFlag<HardEvent::MTE3_V>(EVENT_ID0);\n    for", "    for", "flag-hang", "WaitFlag<HardEvent::MTE3_V>", "hangs on the device"),
    Defect("set twice", FLAGS, "        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);\n", "        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);\n        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);\n", "flag-twice", ""),
    Defect("event id out of range", FLAGS, "SetFlag<HardEvent::V_MTE3>(EVENT_ID0)", "SetFlag<HardEvent::V_MTE3>(8)", "event-id", "SetFlag<HardEvent::V_MTE3>(8)"),
    Defect("last wait missing", FLAGS, "    WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);\n}", "}", "flag-unpaired", "        SetFlag<HardEvent::MTE3_V>"),
    Defect("two copies to one place", FLAGS, "DataCopy(x_ub, x_gm[tile * 512], 512);", "DataCopy(x_ub, y_gm[tile * 512], 512); DataCopy(x_ub, x_gm[tile * 512], 512);",
           "missing-sync", "DataCopy(x_ub, y_gm", "PipeBarrier<PIPE_MTE2>"),
    # --- cores
    Defect("SyncAll in one block", FLAGS, "    InitSocState();", "    InitSocState(); if (block_idx == 0) SyncAll();", "deadlock", "", "1 of 2 blocks wait"),
]  # fmt: skip


def broken(defect: Defect) -> str:
    assert defect.kernel.count(defect.old) == 1, defect
    return defect.kernel.replace(defect.old, defect.new)


@pytest.fixture(scope="module")
def defects(bench: Bench) -> Program:
    return variants(bench, [broken(defect) for defect in DEFECTS])


@pytest.mark.parametrize("which", range(len(DEFECTS)), ids=[str(defect) for defect in DEFECTS])
def test_a_defect_is_found_where_it_is(defects: Program, which: int) -> None:
    defect = DEFECTS[which]
    shown = run(defects, which)
    found = [found for found in shown.result["findings"] if found["kind"] == defect.kind]
    assert found, shown.result["findings"]
    assert defect.says in found[0]["message"] + " " + found[0]["remedy"]
    assert found[0]["remedy"]
    if defect.at:
        assert found[0]["line"] == line_of(broken(defect), defect.at)
    expected = "warning" if defect.kind in ("tensor-leak", "flag-unpaired") else "error"
    assert found[0]["severity"] == expected


CLEAN = {
    "queues": QUEUES,
    "queues of one buffer": QUEUES.replace(", 2, 512", ", 1, 512"),
    "flags": FLAGS,
    "barriers instead of flags": FLAGS.replace(
        "        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);\n        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);\n",
        "        PipeBarrier<PIPE_ALL>();\n",
    ),
    "a flag set late, ids of the pipe": FLAGS.replace("EVENT_ID0", "EVENT_ID3"),
    "in place": QUEUES.replace("Add(z, x, y, 512)", "Adds(x, x, 0.0f, 512); Add(z, x, y, 512)"),
    "scalar access is synchronised by the compiler": QUEUES.replace(
        "Add(z, x, y, 512);", "x.SetValue(0, x.GetValue(0)); Add(z, x, y, 512); z.SetValue(3, z.GetValue(3));"
    ),
    "a tail computed but not copied out": QUEUES.replace("InitBuffer(z_out, 2, 512", "InitBuffer(z_out, 2, 576")
    .replace("x_in, 2, 512", "x_in, 2, 576")
    .replace("y_in, 2, 512", "y_in, 2, 576")
    .replace("Add(z, x, y, 512)", "Add(z, x, y, 576)"),
    "overlapping copies with a barrier": FLAGS.replace(
        "DataCopy(x_ub, x_gm[tile * 512], 512);",
        "DataCopy(x_ub, y_gm[tile * 512], 512); PipeBarrier<PIPE_MTE2>(); DataCopy(x_ub, x_gm[tile * 512], 512);",
    ),
    "every block at the barrier": FLAGS.replace("    InitSocState();", "    InitSocState(); SyncAll();"),
}


@pytest.fixture(scope="module")
def clean(bench: Bench) -> Program:
    return variants(bench, [*CLEAN.values(), EXCHANGE, ATOMIC, LATE])


def complaints(shown: Shown) -> list[dict[str, Any]]:
    """Every finding but the note that SyncAll is documented for a launch on all cores only."""
    return [found for found in shown.result["findings"] if found["kind"] != "sync-blocks"]


@pytest.mark.parametrize("which", range(len(CLEAN)), ids=list(CLEAN))
@pytest.mark.parametrize("order", ["0", "1", "12345"])
def test_a_correct_kernel_is_silent_in_any_block_order(clean: Program, which: int, order: str) -> None:
    assert complaints(run(clean, which, environment={"TWIN_ORDER": order})) == []


def test_strict_mode_names_what_the_compiler_synchronises(clean: Program) -> None:
    which = list(CLEAN).index("scalar access is synchronised by the compiler")
    shown = run(clean, which, environment={"TWIN_STRICT": "1"})
    assert set(shown.kinds) == {"auto-sync"} and shown.errors == []


EXCHANGE = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    // every block writes its part, then reads its neighbour's
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 1024);
    LocalTensor<float> local = buffer.Get<float>();
    GlobalTensor<float> z_gm;
    z_gm.SetGlobalBuffer((__gm__ float*)z);
    const uint32_t me = GetBlockIdx(), count = GetBlockNum();
    Duplicate(local, (float)me, 256);
    PipeBarrier<PIPE_ALL>();
    DataCopy(z_gm[me * 256], local, 256);
    SyncAll();
    DataCopy(local, z_gm[(me + 1) % count * 256], 256);
    PipeBarrier<PIPE_ALL>();
    SyncAll();
    DataCopy(z_gm[me * 256], local, 256);
}
"""


ATOMIC = """
__global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 1024);
    LocalTensor<float> local = buffer.Get<float>();
    GlobalTensor<float> z_gm;
    z_gm.SetGlobalBuffer((__gm__ float*)z);
    if (GetBlockIdx() == 0) {
        Duplicate(local, 1.0f, 256);
        PipeBarrier<PIPE_ALL>();
        DataCopy(z_gm, local, 256);
    }
    SyncAll();
    Duplicate(local, (float)GetBlockIdx(), 256);
    PipeBarrier<PIPE_ALL>();
    SetAtomicAdd<float>();
    DataCopy(z_gm, local, 256);
    SetAtomicNone();
}
"""


# Only block 1 counts too far.
LATE = QUEUES.replace("Add(z, x, y, 512)", "Add(z, x, y, GetBlockIdx() == 1 ? 520 : 512)")


def test_a_finding_says_block_and_count(clean: Program) -> None:
    found = run(clean, len(CLEAN) + 2).finding("ub-oob")
    assert (found["block"], found["count"]) == (1, 12)  # three operands, four tiles


@pytest.mark.parametrize("order", ["0", "1", "7"])
def test_blocks_meet_at_sync_all(clean: Program, order: str) -> None:
    attrs = {"which": len(CLEAN), "blocks": 16}
    shown = clean.run([np.zeros(8, np.float32)] * 2, [16 * 1024], attrs=attrs, environment={"TWIN_ORDER": order})
    assert complaints(shown) == []
    want = np.repeat((np.arange(16) + 1) % 16, 256).astype(np.float32)
    np.testing.assert_array_equal(np.frombuffer(shown.outputs[0], np.float32), want)


def test_sync_all_with_more_blocks_than_cores_is_a_deadlock(clean: Program) -> None:
    shown = clean.run([np.zeros(8, np.float32)] * 2, [49 * 1024], attrs={"which": len(CLEAN), "blocks": 49})
    assert shown.errors == ["deadlock"] and shown.result["stopped"]
    assert "at most as many blocks as the chip has vector cores" in shown.finding("deadlock")["remedy"]


def test_atomic_adds_of_all_blocks_arrive(clean: Program) -> None:
    shown = clean.run([np.zeros(8, np.float32)] * 2, [1024], attrs={"which": len(CLEAN) + 1, "blocks": 16})
    assert complaints(shown) == []
    np.testing.assert_array_equal(
        np.frombuffer(shown.outputs[0], np.float32), np.full(256, 1.0 + sum(range(16)), np.float32)
    )
