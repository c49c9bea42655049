"""Seeded defects on the real twin: each gives a diagnostic with kind, line and remedy, and leaves nothing behind."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from kope.model import Candidate
from kope.target.twin import TwinTarget

from .launching import Call, build, changed, kernel, launch_case, line_of, read_output, run

SIZE = 40_000


def call(size: int = SIZE) -> Call:
    return Call([np.linspace(-2, 2, size, dtype=np.float32)], [((size,), "float32")])


@dataclass(frozen=True)
class Defect:
    """A change to a kernel and what must be said about it. at: text in the line that must be named, "" for any line."""

    name: str
    base: str
    old: str
    new: str
    kind: str
    at: str = ""


FLAGS, QUEUES = "scale_flags", "exp"
KERNEL_DEFECTS = [
    Defect(
        "mte2-to-vector sync dropped",
        FLAGS,
        "        SetFlag<HardEvent::MTE2_V>(EVENT_ID0);\n"
        "        WaitFlag<HardEvent::MTE2_V>(EVENT_ID0); // x_local has arrived\n",
        "",
        "missing-sync",
        "Muls(y_local, x_local",
    ),
    Defect(
        "vector-to-mte3 sync dropped",
        FLAGS,
        "        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);\n"
        "        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0); // y_local is complete\n",
        "",
        "missing-sync",
        "DataCopy(y_gm[at]",
    ),
    Defect(
        "tile overwritten before it was copied out",
        FLAGS,
        "        WaitFlag<HardEvent::MTE3_V>(EVENT_ID0); // y_local has been copied out\n",
        "        if (at == begin) { WaitFlag<HardEvent::MTE3_V>(EVENT_ID0); }\n",
        "missing-sync",
        "Muls(y_local, x_local",
    ),
    Defect(
        "wait for a flag nobody sets",
        FLAGS,
        "    SetFlag<HardEvent::MTE3_V>(EVENT_ID0);\n    for",
        "    for",
        "flag-hang",
    ),
    Defect(
        "unified buffer overflow",
        QUEUES,
        "tiling{total, per_core, 8192}",
        "tiling{total, per_core, 32768}",
        "ub-overflow",
        "pipe->InitBuffer(in_",
    ),
    Defect(
        "read past the end of an input",
        QUEUES,
        "DataCopyExtParams copy{1, static_cast<uint32_t>(n * sizeof(T)), 0, 0, 0};\n        DataCopyPadExtParams",
        "DataCopyExtParams copy{1, static_cast<uint32_t>(tile_ * sizeof(T)), 0, 0, 0};\n        DataCopyPadExtParams",
        "gm-oob",
        "DataCopyPad(x, x_[offset]",
    ),
    Defect(
        "write past the end of an output",
        QUEUES,
        "DataCopyPad(y_[offset], y, copy);",
        "DataCopyPad(y_[offset + 8], y, copy);",
        "gm-oob",
        "DataCopyPad(y_[offset + 8]",
    ),
    Defect(
        "misaligned operand",
        QUEUES,
        "            Exp(y, x, n);",
        "            Exp(y, x[1], n - 1);",
        "align",
        "Exp(y, x[1]",
    ),
    Defect(
        "length that DataCopy rounds down",
        FLAGS,
        "DataCopy(y_gm[at], y_local, n);",
        "DataCopy(y_gm[at], y_local, n - 3);",
        "copy-size",
    ),
    Defect(
        "count past the tensor",
        QUEUES,
        "            Exp(y, x, n);",
        "            Exp(y, x, n + 8192);",
        "ub-oob",
        "Exp(y, x, n",
    ),
    Defect(
        "tensor never copied in",
        QUEUES,
        "        DataCopyPad(x, x_[offset], copy, pad);\n",
        "",
        "uninit",
        "DataCopyPad(y_[offset], y, copy);",
    ),
    Defect(
        "queue entry freed twice",
        QUEUES,
        "        in_.FreeTensor(x);\n",
        "        in_.FreeTensor(x);\n        in_.FreeTensor(x);\n",
        "double-free",
    ),
    Defect("EnQue forgotten", QUEUES, "        in_.EnQue(x);\n", "", "deque-empty"),
    Defect("FreeTensor forgotten", QUEUES, "        in_.FreeTensor(x);\n", "", "alloc-none"),
    Defect(
        "write to an input",
        QUEUES,
        "exp_kernel<float><<<blocks, nullptr, call->stream>>>(in, out,",
        "exp_kernel<float><<<blocks, nullptr, call->stream>>>(in, in,",
        "input-written",
    ),
    Defect(
        "endless loop in the kernel",
        QUEUES,
        "done += tile_) {",
        "done += 0 * tile_) {\n            continue;",
        "device-timeout",
    ),
]


def test_the_kernels_without_defects_are_silent(twin: TwinTarget, tmp_path: Path) -> None:
    for name, want in ((FLAGS, lambda x: 2 * x + 1), (QUEUES, np.exp)):
        (case,), (one,) = run(twin, kernel(name), [call()], tmp_path / name)
        assert (one.ok, one.diagnostics) == (True, ())
        np.testing.assert_allclose(read_output(case), want(call().inputs[0]), rtol=1e-6)


@pytest.mark.parametrize("defect", KERNEL_DEFECTS, ids=lambda defect: defect.name)
def test_kernel_defect_is_named(twin: TwinTarget, tmp_path: Path, defect: Defect) -> None:
    size = 800_000 if defect.kind in ("missing-sync", "alloc-none") else SIZE
    source = changed(kernel(defect.base), defect.old, defect.new)
    _, (one,) = run(twin, source, [call(size)], tmp_path)
    assert not one.ok and one.duration_us == () and one.counters == {}
    found = {found.kind: found for found in reversed(one.diagnostics) if found.severity == "error"}
    assert defect.kind in found, one.diagnostics
    diagnostic = found[defect.kind]
    assert diagnostic.message and diagnostic.remedy and diagnostic.case_id == "c0"
    if defect.at:
        assert (diagnostic.file, diagnostic.line) == ("candidate.asc", line_of(source, defect.at))


DECLARATIONS = """extern "C" { int fork(); int socket(int, int, int); int unlink(const char*); }
#include <cstdio>
#include <cstdlib>
void* volatile kept;
"""
HOST_DEFECTS = [
    ("fork bomb", "    for (;;) { fork(); }\n", "forbidden-symbol"),
    ("writes outside its folder", '    fopen("/tmp/kope-was-here", "w");\n', "forbidden-symbol"),
    ("network access", "    socket(2, 1, 0);\n", "forbidden-symbol"),
    ("deletes its inputs", '    unlink("c0.in0");\n', "forbidden-symbol"),
    ("shell", '    system("true");\n', "forbidden-symbol"),
    ("fork without the library", '    asm volatile("syscall" : : "a"(57));\n', "forbidden-name"),
    ("prints 1 GB", '    for (long k = 0; k < (1L << 24); ++k) { printf("%064ld\\n", k); }\n', "output-flood"),
    ("huge allocation", "    for (;;) { memset(kept = malloc(1 << 24), 1, 1 << 24); }\n", "memory-limit"),
    ("endless loop on the host", "    for (volatile int k = 0;;) { k = 1; }\n", "timeout"),
    ("null pointer", "    *reinterpret_cast<volatile int*>(call->attr_count * 8L) = 1;\n", "crash"),
    ("stack overflow", "    volatile char deep[4096]; deep[0] = 1; return kope_entry(call) + deep[0];\n", "crash"),
    ("abort", "    abort();\n", "crash"),
    ("refuses", "    return 9;\n", "entry-refused"),
    ("launches nothing", "    return 0;\n", "no-launch"),
]


@pytest.mark.parametrize(("name", "body", "kind"), HOST_DEFECTS, ids=[defect[0] for defect in HOST_DEFECTS])
def test_host_defect_is_named(twin: TwinTarget, tmp_path: Path, name: str, body: str, kind: str) -> None:
    entry = 'extern "C" int kope_entry(const KopeCall* call)\n{\n'
    source = changed(kernel("exp"), entry, DECLARATIONS + entry + body)
    built = twin.build(Candidate.of(source), tmp_path / "build")
    limit_s = 1.0 if kind == "timeout" else 30.0
    before_s = worked_s()
    if built.executable is None:
        found = built.diagnostics
    else:
        case = launch_case(call(100), tmp_path / "data", "c0")
        small = TwinTarget(tmp_path, memory_bytes=512 << 20)
        (one,) = small.run(built, [case], "verify", tmp_path / "run", time_limit_s=limit_s).cases
        assert not one.ok and one.duration_us == ()
        found = one.diagnostics
        assert case.inputs[0] and case.inputs[0].path and case.inputs[0].path.exists()
    assert kind in [one.kind for one in found], found
    assert all(one.remedy for one in found if one.severity == "error")
    if name in ("null pointer", "stack overflow"):  # a stack also overflows at the opening brace
        assert [one.file for one in found] == ["candidate.asc"]
        assert line_of(source, body.strip()) - found[0].line in (0, 1)
    assert worked_s() - before_s < limit_s + 2.0
    assert not processes_below(tmp_path)


def worked_s() -> float:
    """Return the processor time of all programs that ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def processes_below(folder: Path) -> list[str]:
    """Command lines of running processes that name a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            if str(folder) in command:
                found.append(command)
    return found


def test_time_mode_finds_what_needs_no_data(twin: TwinTarget, tmp_path: Path) -> None:
    source = changed(kernel("exp"), "tiling{total, per_core, 8192}", "tiling{total, per_core, 32768}")
    _, (one,) = run(twin, source, [call()], tmp_path, "time")
    assert not one.ok and "ub-overflow" in [found.kind for found in one.diagnostics]


def test_a_case_that_fails_leaves_the_others_alone(twin: TwinTarget, tmp_path: Path) -> None:
    source = changed(
        kernel("exp"),
        "const ExpTiling tiling{total, per_core, 8192}",
        "const ExpTiling tiling{total, per_core, total == 777 ? 40000u : 8192u}",
    )
    _, runs = run(twin, source, [call(776), call(777), call(778)], tmp_path)
    assert [one.ok for one in runs] == [True, False, True]


def test_work_left_out_shows_in_a_time_below_the_bound(twin: TwinTarget, tmp_path: Path) -> None:
    source = changed(
        kernel("exp"), "const uint64_t total = static_cast<uint64_t>(x.numel);", "const uint64_t total = 512;"
    )
    case = launch_case(call(4 << 20), tmp_path / "data", "c0")
    (one,) = twin.run(build(twin, source, tmp_path), [case], "time", tmp_path / "run", time_limit_s=60).cases
    assert one.ok and one.bound_us is not None
    assert 0.0 < one.duration_us[0] < one.bound_us


def test_scalar_reads_make_the_time_data_dependent(twin: TwinTarget, tmp_path: Path) -> None:
    source = changed(
        kernel("exp"),
        "            CopyIn(done, n);",
        "            if (x_.GetValue(done) > 1.0e30f) { return; }\n            CopyIn(done, n);",
    )
    source = changed(source, "if (x_.GetValue(done) > 1.0e30f)", "if (static_cast<float>(x_.GetValue(done)) > 1.0e30f)")
    _, (one,) = run(twin, source, [call()], tmp_path, "time")
    assert "data-dependent" in [found.kind for found in one.diagnostics if found.severity == "note"]


NEIGHBOUR = """\
#include "kernel_operator.h"
#include "kope_candidate.h"
using namespace AscendC;

// Each core writes its tile of y = x + 1, then adds the first 8 numbers its left neighbour wrote to its own.
__global__ __vector__ void neighbour(GM_ADDR x, GM_ADDR y, GM_ADDR work, uint32_t tile)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> a, b;
    pipe.InitBuffer(a, tile * sizeof(float));
    pipe.InitBuffer(b, 32);
    GlobalTensor<float> x_gm, y_gm, w_gm;
    x_gm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), tile * GetBlockNum());
    y_gm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), tile * GetBlockNum());
    w_gm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(work), 8 * GetBlockNum());
    const uint32_t block = GetBlockIdx();
    LocalTensor<float> t = a.Get<float>(), left = b.Get<float>();
    DataCopy(t, x_gm[block * tile], tile);
    PipeBarrier<PIPE_ALL>();
    Adds(t, t, 1.0f, tile);
    PipeBarrier<PIPE_ALL>();
    DataCopy(w_gm[block * 8], t, 8);
    PipeBarrier<PIPE_ALL>();
    SyncAll();
    DataCopy(left, w_gm[(block + GetBlockNum() - 1) % GetBlockNum() * 8], 8);
    PipeBarrier<PIPE_ALL>();
    Add(t, t, left, 8);
    PipeBarrier<PIPE_ALL>();
    DataCopy(y_gm[block * tile], t, tile);
}

extern "C" size_t kope_workspace_bytes(const KopeCall* call) { return call->vector_core_count * 32; }

extern "C" int kope_entry(const KopeCall* call)
{
    const uint32_t blocks = 8;
    neighbour<<<blocks, nullptr, call->stream>>>((GM_ADDR)call->inputs[0].data, (GM_ADDR)call->outputs[0].data,
                                                 (GM_ADDR)call->workspace, (uint32_t)call->inputs[0].numel / blocks);
    return 0;
}
"""


def test_a_dropped_sync_between_cores_gives_wrong_values(twin: TwinTarget, tmp_path: Path) -> None:
    calls = [Call([np.arange(512, dtype=np.float32)], [((512,), "float32")]) for _ in range(3)]
    want = np.arange(512, dtype=np.float32).reshape(8, 64) + 1
    want[:, :8] += np.roll(want[:, :8], 1, axis=0)
    cases, runs = run(twin, NEIGHBOUR, calls, tmp_path / "right")
    assert [one.ok for one in runs] == [True] * 3
    for case in cases:
        np.testing.assert_array_equal(read_output(case), want.ravel())
    cases, runs = run(twin, changed(NEIGHBOUR, "    SyncAll();\n", ""), calls, tmp_path / "wrong")
    wrong = [
        not one.ok or bool(np.any(read_output(case) != want.ravel())) for case, one in zip(cases, runs, strict=True)
    ]
    assert wrong == [True] * 3
