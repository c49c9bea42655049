"""Foreign sources on the twin: check compiles one, run runs one and says what it showed.

A program runs in a folder of the user's with its own main. A kernel runs with the tensors and the tiling of a launch
description, or of the project's own tiling function. A KOPE candidate runs with the tensors of a launch description.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kope import sandbox
from kope.errors import LaunchError, ToolMissing
from kope.model import Built, Candidate, Diagnostic, LaunchCase
from kope.target.twin import launch, runner, timeline
from kope.target.twin.foreign import cmake
from kope.target.twin.foreign import description as descriptions
from kope.target.twin.foreign import includes as include_files
from kope.target.twin.foreign.build import ForeignBuilder, Order, Unit
from kope.target.twin.foreign.description import Description, Tensor
from kope.target.twin.foreign.glue import KernelGlue, host_glue
from kope.target.twin.foreign.project import Entry, Kind, chosen, entries, find_project, kind_of
from kope.target.twin.launches import rewrite_launches
from kope.target.twin.source import SOURCE_NAME, words
from kope.target.twin.target import DEVICE_TIME_LIMIT_US, TwinTarget

Checks = Literal["normal", "strict", "adversarial", "off"]
"""normal: every defect. strict: also what only the compiler's automatic synchronisation covers. adversarial: what
nothing orders reads as NaN. off: bounds and arguments only."""

_C_NAMES = words(
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh div exp exp2 expm1 erf erfc fabs fdim floor"
    " fma fmax fmin fmod frexp hypot ilogb index j0 j1 jn ldexp lgamma log log10 log1p log2 logb modf nextafter pow"
    " remainder remove rename remquo rint round scalbn select sign sin sinh sort sqrt tan tanh tgamma trunc y0 y1 yn"
)
"""Kernels that are called like functions of the C library are renamed for the host's linker."""
_ASAN = ":".join(
    [f"handle_{name}=0" for name in ("segv", "sigbus", "abort", "sigfpe", "sigill")]
    + ["detect_leaks=0", "detect_stack_use_after_return=0"]
)
"""The runtime handles faults itself, and runs blocks on stacks of their own."""


@dataclass(frozen=True, slots=True)
class Compared:
    """An output against what was expected of it. worst: the largest absolute difference."""

    name: str
    right: bool
    worst: float
    wrong: int
    numel: int


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """What became of a foreign source. duration_us: modelled, None when it has no time; bound_us: None for programs."""

    kind: Kind
    kernels: tuple[str, ...]
    compiled: bool
    diagnostics: tuple[Diagnostic, ...]
    log: str = ""
    duration_us: float | None = None
    bound_us: float | None = None
    launches: tuple[Mapping[str, Any], ...] = ()
    compared: tuple[Compared, ...] = ()
    returncode: int | None = None

    @property
    def ok(self) -> bool:
        """Whether it compiled, ran without a defect, and gave what was expected."""
        clean = not any(found.severity == "error" for found in self.diagnostics)
        return self.compiled and clean and all(one.right for one in self.compared) and not self.returncode


@dataclass(slots=True)
class Foreign:
    """Runs foreign sources on a twin.

    root: folder below which a project's headers are looked for, found by itself when None. folders: searched for
    includes. defines: NAME or NAME=VALUE for the compiler.
    """

    target: TwinTarget
    root: Path | None = None
    folders: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    sanitize: bool = False
    _builder: ForeignBuilder | None = field(default=None, init=False)
    _own: tuple[str, ...] = field(default=(), init=False)
    _spans: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Raises ToolMissing when sanitizers are asked of a compiler that comes without their runtime."""
        if self.sanitize and self.target.builder.compiler.packaged:
            raise ToolMissing("the packaged compiler has no sanitizers; install g++, or leave out --sanitize")

    def check(self, file: Path, given: Description | None = None, workdir: Path | None = None) -> ForeignRun:
        """Compile a source without running it. Raises LaunchError when the file holds nothing to compile."""
        with _scratch(self.target, workdir) as work:
            kind, names, built = self._build(file, given, work)
            found = built.diagnostics
            return ForeignRun(kind, names, built.executable is not None, found, built.log)

    def run(
        self,
        file: Path,
        given: Description | None,
        *,
        folder: Path | None = None,
        arguments: Sequence[str] = (),
        checks: Checks = "normal",
        output: Path | None = None,
        trace: bool = False,
        workdir: Path | None = None,
        time_limit_s: float = 120.0,
    ) -> ForeignRun:
        """Compile and run a source.

        given: what a kernel or candidate is launched with; a program takes none, but a folder it runs in and arguments.
        output: folder for the outputs as .npy. trace: keep what every pipe did when, with the launches.
        Raises LaunchError when the description does not fit the source.
        """
        self._spans = timeline.MOST_SPANS if trace else 0
        with _scratch(self.target, workdir) as work:
            kind, names, built = self._build(file, given, work)
            if built.executable is None:
                return ForeignRun(kind, names, False, built.diagnostics, built.log)
            if kind == "program":
                return self._run_program(
                    file, names, built, folder or Path.cwd(), arguments, checks, work, time_limit_s
                )
            if given is None:
                raise LaunchError(f"{file} is a {kind}; say what it is launched with: --launch FILE, see docs/twin.md")
            return self._run_case(file, kind, names, built, given, checks, output, work, time_limit_s)

    def _build(self, file: Path, given: Description | None, work: Path) -> tuple[Kind, tuple[str, ...], Built]:
        if not file.is_file():
            raise LaunchError(f"there is no file {file}")
        text = include_files.read_text(file)
        kind = kind_of(text)
        if self.sanitize and kind != "program":
            raise LaunchError(f"--sanitize is for programs with a main, and {file} is a {kind}; leave it out")
        if kind == "candidate":
            return kind, (), self.target.build(Candidate.of(text), work)
        found = entries(text)
        names = tuple(entry.name for entry in found)
        order = self._program(file, text) if kind == "program" else self._kernel(file, text, found, given)
        if self._builder is None:
            self._builder = ForeignBuilder(self.target.builder, self.target.build_cache)
        self._own = order.own
        return kind, names, self._builder.build(order, work)

    def _program(self, file: Path, text: str) -> Order:
        unit = Unit("program.cpp", f'#line 1 "{file.resolve()}"\n{rewrite_launches(text)}')
        place = file.resolve().parent
        order = self._order(file, (unit,), [file], (place, *self.folders), self.root or place, program=True)
        given = {define.partition("=")[0] for define in self.defines}
        own = (define for define in cmake.definitions(place) if define.partition("=")[0] not in given)
        return replace(order, defines=(*own, *order.defines))

    def _kernel(self, file: Path, text: str, found: list[Entry], given: Description | None) -> Order:
        project = find_project(file, self.root)
        entry = (
            chosen(found, given.kernel if given else None, file) if given or len(found) == 1 else _first(found, file)
        )
        asks_host = given is not None and given.tiling is None and bool(project.host_sources)
        body, entry = _renamed(text, entry)
        sources = [file, *project.tiling_headers]
        folders = (file.resolve().parent, *self.folders)
        headers = "".join(
            include_files.read_text(path)
            for path in self._order(file, (), [file], folders, project.root).includes.files
        )
        glue = KernelGlue(entry, project, "kernel_source.cpp", text + headers, given, asks_host=asks_host)
        others = [other for other in found if other.name != entry.name and not other.template and given is None]
        uses = [f"[[maybe_unused]] static const auto kope_use_{other.name} = &{other.name};" for other in others]
        units = [Unit("kernel.cpp", "\n".join([glue.text(), *uses]) + "\n")]
        if asks_host:
            units.append(Unit("host.cpp", host_glue(project.host_sources)))
            sources += project.host_sources
        order = self._order(file, tuple(units), sources, folders, project.root)
        copy = f'#line 1 "{file.resolve()}"\n{rewrite_launches(body)}'
        order.includes.texts["kernel_source.cpp"] = copy
        return replace(order, defines=("KOPE_TWIN_EXACT", *order.defines))

    def _order(
        self,
        file: Path,
        units: tuple[Unit, ...],
        sources: list[Path],
        folders: tuple[Path, ...],
        root: Path,
        program: bool = False,
    ) -> Order:
        builder = self.target.builder
        found = include_files.resolve(sources, folders, (*builder.include, builder.foreign_include), root)
        readable = {path.parent for path in (*found.files, *(source.resolve() for source in sources))}
        own = tuple(dict.fromkeys([file.name, *(path.name for path in found.files)]))
        searched = (*folders, *sorted(readable - set(folders)))
        return Order(units, found, searched, own, self.defines, program, self.sanitize)

    def _words(self, checks: Checks) -> dict[str, str]:
        return {"checks": checks, "chip": self.target.parameters.chip, "spans": str(self._spans)}

    def _parameters(self) -> dict[str, float]:
        return {**self.target.parameters.values, "device_time_limit_us": DEVICE_TIME_LIMIT_US}

    def _run_case(
        self,
        file: Path,
        kind: Kind,
        names: tuple[str, ...],
        built: Built,
        given: Description,
        checks: Checks,
        output: Path | None,
        work: Path,
        time_limit_s: float,
    ) -> ForeignRun:
        assert built.executable is not None
        data = work / "data"
        data.mkdir(parents=True, exist_ok=True)
        flat_outputs = tuple(part for tensor in given.outputs for part in tensor.flat)
        inputs = descriptions.input_files([part for tensor in given.inputs for part in tensor.flat], data)
        case = LaunchCase("run", inputs, descriptions.output_files(flat_outputs, data), given.attrs)
        reports = runner.run_cases(
            built.executable,
            [case],
            "verify",
            work / "run",
            parameters=self._parameters(),
            limits=self.target.limits,
            time_limit_s=time_limit_s,
            words=self._words(checks),
        )
        report = reports.cases[0]
        sources = (SOURCE_NAME,) if kind == "candidate" else self._own
        found = [*built.diagnostics, *launch.diagnostics(report.answer, "", built.executable, sources)]
        found += [report.death] if report.death else []
        done = report.answer.state == "ended" and report.answer.fields.get("return_code") == 0
        return ForeignRun(
            kind,
            names,
            True,
            tuple(found),
            built.log + reports.log,
            _time(report.answer, found),
            self.target.bound_us(case),
            tuple(report.answer.fields.get("launches", ())),
            _compare(flat_outputs, case, output) if done else (),
        )

    def _run_program(
        self,
        file: Path,
        names: tuple[str, ...],
        built: Built,
        folder: Path,
        arguments: Sequence[str],
        checks: Checks,
        work: Path,
        time_limit_s: float,
    ) -> ForeignRun:
        assert built.executable is not None
        nonce = secrets.token_hex(16)
        plan = work / "launch.txt"
        plan.write_text(
            launch.describe([], mode="verify", nonce=nonce, parameters=self._parameters(), words=self._words(checks))
        )
        answers = work / "answers.jsonl"
        handle = os.open(answers, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_APPEND, 0o600)
        limits = sandbox.Limits.of_work(
            time_limit_s, memory_bytes=self.target.limits.memory_bytes, address_bytes=1 << 46
        )
        try:
            done = sandbox.run(
                [str(built.executable), *arguments],
                workdir=folder.resolve(),
                limits=limits,
                readable=[built.executable, work],
                env={"KOPE_TWIN_LAUNCH": str(plan), "KOPE_TWIN_ANSWER": str(handle), "ASAN_OPTIONS": _ASAN},
                pass_fds=(handle,),
            )
            data = os.pread(handle, os.fstat(handle).st_size, 0)
        finally:
            os.close(handle)
        answer = launch.read_answers(data, nonce, [0])[0]
        found = [*built.diagnostics, *launch.diagnostics(answer, "", built.executable, self._own)]
        if answer.state != "ended":
            found.append(_died(done, time_limit_s, self.target.limits.memory_bytes, answer.state == "begun"))
        return ForeignRun(
            "program",
            names,
            True,
            tuple(found),
            built.log + done.output,
            _time(answer, found),
            None,
            tuple(answer.fields.get("launches", ())),
            returncode=done.returncode,
        )


def _scratch(target: TwinTarget, workdir: Path | None) -> Any:
    import contextlib

    if workdir is not None:
        workdir.mkdir(parents=True, exist_ok=True)
        return contextlib.nullcontext(workdir)
    return target.build_cache.scratch()


def _first(found: list[Entry], file: Path) -> Entry:
    if not found:
        raise LaunchError(f"{file} declares kernels but defines none; give the file with the definition")
    return found[0]


def _renamed(text: str, entry: Entry) -> tuple[str, Entry]:
    """Give a kernel another name when the C library has a function of its own."""
    if entry.name not in _C_NAMES:
        return text, entry
    symbol = f"kope_kernel_{entry.name}"
    body = text[: entry.name_offset] + symbol + text[entry.name_offset + len(entry.name) :]
    body = re.sub(rf"(?<![\w:]){entry.name}(?=\s*<<<)", symbol, body)
    return body, replace(entry, symbol=symbol)


def _time(answer: launch.Answer, found: Sequence[Diagnostic]) -> float | None:
    clean = answer.state == "ended" and not any(one.severity == "error" for one in found)
    return answer.duration_us if clean and answer.duration_us > 0.0 else None


def _died(done: sandbox.Finished, limit_s: float, memory_bytes: int, begun: bool) -> Diagnostic:
    return runner.death(done.returncode, done.stopped, limit_s=limit_s, memory_bytes=memory_bytes, begun=begun)


def _compare(tensors: Sequence[Tensor], case: LaunchCase, output: Path | None) -> tuple[Compared, ...]:
    """Write outputs as .npy where asked, and hold them against what was expected."""
    import numpy as np

    compared = []
    for tensor, file in zip(tensors, case.outputs, strict=True):
        assert file.path is not None
        got = np.fromfile(file.path, descriptions.numpy_dtype(tensor.dtype)).reshape(tensor.shape)
        if output is not None:
            output.mkdir(parents=True, exist_ok=True)
            np.save(output / f"{tensor.name}.npy", got)
        if tensor.expected is not None:
            want = descriptions.load(tensor.expected, tensor.dtype, tensor.shape).astype(np.float64)
            wide = got.astype(np.float64)
            close = np.isclose(wide, want, rtol=tensor.rtol, atol=tensor.atol, equal_nan=True)
            with np.errstate(invalid="ignore"):
                worst = float(np.nanmax(np.abs(wide - want), initial=0.0))
            compared.append(Compared(tensor.name, bool(close.all()), worst, int((~close).sum()), int(want.size)))
    return tuple(compared)
