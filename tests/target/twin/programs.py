"""Kernel programs for tests of the runtime: compile, run in verify or time mode, read what the case showed."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from kope import process
from kope.target.twin.build import TwinBuilder

MAIN = Path(__file__).parent / "runtime_main.cpp"
TARGET = Path(str(files("kope.target")))
INCLUDES = (f"-I{TARGET / 'twin' / 'include'}", f"-I{TARGET / 'include'}")
Array = np.ndarray[Any, Any]

PRELUDE = """#include "kernel_operator.h"
#include "kope_candidate.h"
using namespace AscendC;
"""


@dataclass(frozen=True)
class Shown:
    """What one run showed: the runtime's result as JSON, and the outputs (verify mode)."""

    result: Mapping[str, Any]
    outputs: tuple[bytes, ...]

    @property
    def kinds(self) -> list[str]:
        return [found["kind"] for found in self.result["findings"]]

    @property
    def errors(self) -> list[str]:
        return [found["kind"] for found in self.result["findings"] if found["severity"] == "error"]

    def finding(self, kind: str) -> Mapping[str, Any]:
        (found,) = [found for found in self.result["findings"] if found["kind"] == kind]
        return found

    @property
    def duration_us(self) -> float:
        return float(self.result["duration_us"])

    def busy_us(self, pipe: str) -> float:
        return float(self.result["launches"][0]["busy_us"][["scalar", "vec", "mte2", "mte3"].index(pipe)])


@dataclass(frozen=True)
class Program:
    """A compiled kernel program."""

    executable: Path
    folder: Path

    def run(
        self,
        inputs: Sequence[Array] = (),
        output_bytes: Sequence[int] = (),
        *,
        mode: str = "verify",
        attrs: Mapping[str, int] | None = None,
        parameters: Mapping[str, float] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Shown:
        """Run one case. Inputs are read only; outputs begin as bytes of 0x7a."""
        argv: list[str] = [str(self.executable), mode]
        argv += [f"@{name}={value}" for name, value in (attrs or {}).items()]
        argv += [f"{name}={value}" for name, value in (parameters or {}).items()]
        argv.append("--")
        for index, array in enumerate(inputs):
            path = self.folder / f"in{index}"
            array.tofile(path)
            argv.append(str(path))
        argv.append("--")
        outputs = [self.folder / f"out{index}" for index in range(len(output_bytes))]
        argv += [f"{path}:{count}" for path, count in zip(outputs, output_bytes, strict=True)]
        done = process.run(argv, timeout_s=60.0, env={**os.environ, **(environment or {})})
        lines = done.stdout.strip().splitlines()
        assert lines, (done.returncode, done.stderr)
        result = json.loads(lines[-1])
        finished = mode == "verify" and result["code"] != -1
        return Shown(result, tuple(path.read_bytes() for path in outputs) if finished else ())


@dataclass
class Bench:
    """Compiles programs once per session."""

    builder: TwinBuilder
    folder: Path
    known: dict[str, Program] = field(default_factory=dict)

    def compile_error(self, body: str) -> str:
        """What the compiler says to a kernel source that must not compile."""
        folder = self.folder / f"refused{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        (folder / "kernel.cpp").write_text(PRELUDE + body, "utf-8")
        argv = [
            *self.builder.compiler.argv,
            "-std=c++17",
            "-O1",
            "-fsyntax-only",
            *INCLUDES,
            str(folder / "kernel.cpp"),
        ]
        done = process.run(argv, timeout_s=120.0)
        assert done.returncode != 0, "it compiles"
        return done.stdout + done.stderr

    def program(self, body: str) -> Program:
        """Compile a kernel source; PRELUDE goes before it on lines of its own (line numbers start after it)."""
        key = hashlib.sha256(body.encode()).hexdigest()[:16]
        if key not in self.known:
            self.known[key] = self._build(body, self.folder / key)
        return self.known[key]

    def _build(self, body: str, folder: Path) -> Program:
        folder.mkdir()
        source = folder / "kernel.cpp"
        source.write_text(PRELUDE + "#line 1\n" + body, "utf-8")
        compiler = self.builder.compiler.argv
        flags = ("-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-g1")
        self._must([*compiler, *flags, "-O1", "-fsanitize-coverage=trace-pc", *INCLUDES, "-c", str(source)], folder)
        from kope.target.twin.symbols import WRAPPED

        runtime = sorted(self.builder.runtime.folder.glob("runtime*"))  # objects without the harness
        objects = [str(folder / "kernel.o"), str(self._main()), *map(str, runtime)]
        wrapped = [f"-Wl,--wrap={name}" for name in WRAPPED]
        self._must([*compiler, *objects, *wrapped, "-o", "program"], folder)
        return Program(folder / "program", folder)

    def _main(self) -> Path:
        """The object with `main`, the same for all programs."""
        made = self.folder / "runtime_main.o"
        if not made.exists():
            argv = [*self.builder.compiler.argv, "-std=c++17", "-O1", *INCLUDES, "-c", str(MAIN), "-o", str(made)]
            self._must(argv, self.folder)
        return made

    def _must(self, argv: Sequence[str], folder: Path) -> None:
        done = process.run(list(argv), cwd=folder, timeout_s=300.0)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


_VARIANT_ENTRY = """
extern "C" int kope_entry(const KopeCall* call)
{
    const auto in = [&](int k) { return (GM_ADDR)call->inputs[k].data; };
    const auto out = (GM_ADDR)call->outputs[0].data;
    const uint32_t blocks = kope_attr_i(call, "blocks", 2);
    switch (kope_attr_i(call, "which", -1)) {
@cases@
    }
    return 1;
}
"""


def variants(bench: Bench, kernels: Sequence[str]) -> Program:
    """One program of many kernels `void add(x, y, z)`: the attribute `which` chooses, `blocks` says how many. Line numbers of
    each kernel count from its own start."""
    body = "".join(f"namespace v{index} {{\n#line 1\n{kernel}\n}}\n" for index, kernel in enumerate(kernels))
    cases = "\n".join(
        f'        case {index}: kope_twin::launch("add", v{index}::add, blocks, nullptr, call->stream)(in(0), in(1), out); return 0;'
        for index in range(len(kernels))
    )
    return bench.program(body + _VARIANT_ENTRY.replace("@cases@", cases))


@dataclass(frozen=True)
class Step:
    """Vector work on tensors in UB: `code` sees a, b (sources), d (destination, holding d0) and w (work space) as
    LocalTensor<uint8_t>, and A<T>, B<T>, D<T>, W<T> for typed views of them. Afterwards d must hold `want`."""

    name: str
    code: str
    a: Array
    want: Array
    b: Array | None = None
    d0: Array | None = None
    ulp: float = 0.0

    def __str__(self) -> str:
        return self.name


_STEPS = """
struct Sizes { uint32_t a, b, d; };
template <int which> struct Step;
#define A a.template ReinterpretCast
#define B b.template ReinterpretCast
#define D d.template ReinterpretCast
#define W w.template ReinterpretCast
@steps@
__aicore__ inline void load(const LocalTensor<uint8_t>& to, GM_ADDR from, uint32_t bytes)
{
    GlobalTensor<uint8_t> gm;
    gm.SetGlobalBuffer(from);
    if (bytes != 0) {
        DataCopyPad(to, gm, DataCopyExtParams(1, bytes, 0, 0, 0), DataCopyPadExtParams<uint8_t>(false, 0, 0, 0));
    }
}
template <int which> __global__ __aicore__ void run(GM_ADDR a_gm, GM_ADDR b_gm, GM_ADDR d_gm, GM_ADDR out, Sizes sizes)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> a_buf, b_buf, d_buf, w_buf;
    pipe.InitBuffer(a_buf, 48 * 1024);
    pipe.InitBuffer(b_buf, 48 * 1024);
    pipe.InitBuffer(d_buf, 64 * 1024);
    pipe.InitBuffer(w_buf, 16 * 1024);
    LocalTensor<uint8_t> a = a_buf.Get<uint8_t>(), b = b_buf.Get<uint8_t>(), d = d_buf.Get<uint8_t>(), w = w_buf.Get<uint8_t>();
    load(a, a_gm, sizes.a);
    load(b, b_gm, sizes.b);
    load(d, d_gm, sizes.d);
    PipeBarrier<PIPE_ALL>();
    Step<which>::run(a, b, d, w);
    PipeBarrier<PIPE_ALL>();
    GlobalTensor<uint8_t> gm;
    gm.SetGlobalBuffer(out);
    DataCopyPad(gm, d, DataCopyExtParams(1, sizes.d, 0, 0, 0));
}
extern "C" int kope_entry(const KopeCall* call)
{
    const Sizes sizes = {(uint32_t)call->inputs[0].numel, (uint32_t)call->inputs[1].numel, (uint32_t)call->inputs[2].numel};
    const auto at = [&](int k) { return (GM_ADDR)call->inputs[k].data; };
    switch (kope_attr_i(call, "which", -1)) {
@cases@
    }
    return 1;
}
"""
_STEP = """template <> struct Step<{index}> {{
    static __aicore__ inline void run(const LocalTensor<uint8_t>& a, const LocalTensor<uint8_t>& b, const LocalTensor<uint8_t>& d, const LocalTensor<uint8_t>& w)
    {{
        (void)a, (void)b, (void)d, (void)w;
        {code}
    }}
}};"""
_CASE = """        case {index}: kope_twin::launch("run", run<{index}>, 1, nullptr, call->stream)(at(0), at(1), at(2), (GM_ADDR)call->outputs[0].data, sizes); return 0;"""


def step_program(bench: Bench, steps: Sequence[Step]) -> Program:
    """One program for many steps; the attribute `which` chooses."""
    code = "\n".join(_STEP.format(index=index, code=step.code) for index, step in enumerate(steps))
    cases = "\n".join(_CASE.format(index=index) for index in range(len(steps)))
    return bench.program(_STEPS.replace("@steps@", code).replace("@cases@", cases))


def run_step(program: Program, index: int, step: Step, mode: str = "verify") -> Shown:
    """Run one step of a step program."""
    d0 = step.d0 if step.d0 is not None else np.zeros_like(step.want)
    nothing = np.zeros(1, np.uint8)
    inputs = [step.a, step.b if step.b is not None else nothing, d0]
    return program.run(inputs, [d0.nbytes], attrs={"which": index}, mode=mode)


def check_step(program: Program, index: int, step: Step) -> None:
    """Run a step and compare with what it must give: values within `ulp`, and not a word from the sanitizer."""
    shown = run_step(program, index, step)
    assert shown.result["findings"] == []
    got = np.frombuffer(shown.outputs[0], step.want.dtype)[: step.want.size].reshape(step.want.shape)
    compare(got, step.want, step.ulp)


def compare(got: Array, want: Array, ulp: float) -> None:
    """Equal NaNs and infinities, equal integers, floats within `ulp` units in the last place of the wanted value."""
    if not np.issubdtype(want.dtype, np.floating) and want.dtype.name != "bfloat16":
        np.testing.assert_array_equal(got, want)
        return
    wide_got, wide = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(wide_got), np.isnan(wide))
    finite = np.isfinite(wide) & np.isfinite(wide_got)
    np.testing.assert_array_equal(wide_got[~finite & ~np.isnan(wide)], wide[~finite & ~np.isnan(wide)])
    base = want[finite].astype(np.float32) if want.dtype.name == "bfloat16" else want[finite]
    away = np.maximum(np.abs(base), np.finfo(base.dtype).tiny)
    spacing = (away - np.nextafter(away, base.dtype.type(0))).astype(np.float64)
    worst = np.max(np.abs(wide_got[finite] - wide[finite]) / spacing, initial=0.0)
    assert worst <= ulp, worst
