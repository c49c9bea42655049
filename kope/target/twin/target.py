"""The twin as a Target: builds and runs candidates on this machine, times are modelled.

It puts builder, runner, parameters and profile together. Judging values against a reference is the evaluator's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kope.errors import MachineError
from kope.model import (
    Built,
    Candidate,
    CaseRun,
    Diagnostic,
    Fingerprint,
    LaunchCase,
    Ran,
    RunMode,
    TimeKind,
)
from kope.target.twin import launch, opprof, parameters, runner, timeline
from kope.target.twin.build import TwinBuilder
from kope.target.twin.cache import BuildCache
from kope.target.twin.compiler import find_compiler
from kope.target.twin.runner import CaseReport, RunLimits

EVALUATOR = "2"
"""Version of what the twin refuses and reports; part of every fingerprint."""


DEVICE_TIME_LIMIT_US = 3e6
"""A kernel that would occupy a core longer than this is stopped as hanging."""


class TwinTarget:
    """Compiles Ascend C with an ordinary C++ compiler and runs it on a model of a chip.

    cache: folder of build products, shared by all projects of a user. chip: name of a parameter set ("910b2").
    platform: numbers of a toolkit's platform file of that chip, {} without one. compiler: "auto", "zig", a program or
    a path. jobs: processes at once. progress: hears slow one-time steps.
    """

    name = "twin"
    time_kind = TimeKind.MODELLED

    def __init__(
        self,
        cache: Path,
        *,
        chip: str = "910b2",
        platform: Mapping[str, float] = {},
        compiler: str = "auto",
        jobs: int = 2,
        memory_bytes: int = 2 << 30,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.parameters = parameters.load(chip).on_platform(platform)
        self.build_cache = BuildCache(cache)
        self._compiler = compiler
        self.limits = RunLimits(memory_bytes=memory_bytes, jobs=jobs)
        self._progress = progress

    @cached_property
    def builder(self) -> TwinBuilder:
        """What compiles candidates. Raises ToolMissing when there is no compiler."""
        return TwinBuilder(find_compiler(self._compiler), self.build_cache, progress=self._progress)

    def prepare(self) -> None:
        """Build the runtime now, so that the first candidate does not wait for it."""
        _ = self.builder.runtime

    def fingerprint(self) -> Fingerprint:
        """Return what times and verdicts depend on. Raises ToolMissing when there is no compiler."""
        toolchain = f"{self.builder.compiler.label}; runtime {self.builder.source_digest[:16]}"
        return Fingerprint("twin", f"twin:{self.parameters.label}", toolchain, EVALUATOR)

    def bound_us(self, case: LaunchCase) -> float:
        """Return launch cost plus the time inputs and outputs take at the chip's peak memory bandwidth."""
        return self.parameters.bound_us(*launch.case_traffic(case))

    def build(self, candidate: Candidate, workdir: Path) -> Built:
        """Compile a candidate; what is wrong with it is data. Raises ToolError when the runtime cannot be built."""
        return self.builder.build(candidate.source, workdir)

    def run(
        self, built: Built, cases: Sequence[LaunchCase], mode: RunMode, workdir: Path, *, time_limit_s: float
    ) -> Ran:
        """Run cases. Crash, hang, limit and defect are data in `Ran`.

        Raises MachineError when a case does not fit into the memory a process may use.
        """
        return self._run(built, cases, mode, workdir, time_limit_s=time_limit_s)[0]

    def profile(self, built: Built, case: LaunchCase, workdir: Path, *, time_limit_s: float) -> Path | None:
        """Time one case and write its OPPROF_* tree below workdir; None when the case did not end."""
        _, reports = self._run(built, [case], "time", workdir, time_limit_s=time_limit_s)
        launches = reports.cases[0].answer.fields.get("launches", [])
        if not launches:
            return None
        return opprof.write(workdir, launches, parameters=self.parameters)

    def trace(self, built: Built, case: LaunchCase, workdir: Path, *, time_limit_s: float) -> dict[str, Any] | None:
        """Time one case and return what its pipes did as a Chrome trace; None when the case did not end."""
        words = {"spans": str(timeline.MOST_SPANS)}
        _, reports = self._run(built, [case], "time", workdir, time_limit_s=time_limit_s, words=words)
        launches = reports.cases[0].answer.fields.get("launches", [])
        return timeline.chrome_trace(launches, self.parameters) if launches else None

    def _run(
        self,
        built: Built,
        cases: Sequence[LaunchCase],
        mode: RunMode,
        workdir: Path,
        *,
        time_limit_s: float,
        words: Mapping[str, str] = {},
    ) -> tuple[Ran, runner.Reports]:
        if built.executable is None:
            raise ValueError("this candidate was not built")
        if mode == "verify":
            self._check_memory(cases)
        reports = runner.run_cases(
            built.executable,
            cases,
            mode,
            workdir,
            parameters={**self.parameters.values, "device_time_limit_us": DEVICE_TIME_LIMIT_US},
            limits=self.limits,
            time_limit_s=time_limit_s,
            words=words,
        )
        runs = tuple(
            self._case_run(case, reports.cases[number], mode, built.executable) for number, case in enumerate(cases)
        )
        return Ran(runs, reports.log, reports.steps), reports

    def _check_memory(self, cases: Sequence[LaunchCase]) -> None:
        for case in cases:
            if launch.case_bytes(case) > self.limits.memory_bytes:
                raise MachineError(
                    f"case {case.case_id} needs {launch.case_bytes(case) >> 20} MiB, a process may use"
                    f" {self.limits.memory_bytes >> 20} MiB; make the case smaller"
                )

    def _case_run(self, case: LaunchCase, report: CaseReport, mode: RunMode, executable: Path) -> CaseRun:
        answer = report.answer
        found = list(launch.diagnostics(answer, case.case_id, executable))
        if report.death:
            found += _placed(report.death, found, case.case_id)
        elif answer.state != "ended":
            found.append(
                Diagnostic("not-run", "not run: a case before it stopped the program", "note", case_id=case.case_id)
            )
        duration: tuple[float, ...] = ()
        if mode == "time" and answer.fields.get("scalar_read"):
            found.append(_data_dependent(case.case_id))
        clean = answer.state == "ended" and not any(one.severity == "error" for one in found)
        if clean and answer.duration_us > 0.0:
            duration = (answer.duration_us,)
        return CaseRun(
            case.case_id,
            clean,
            tuple(found),
            duration,
            self.bound_us(case),
            opprof.counters(answer.fields.get("launches", []), self.parameters) if duration else {},
            answer.control_flow,
        )


def _placed(death: Diagnostic, found: Sequence[Diagnostic], case_id: str) -> list[Diagnostic]:
    """Add a death to a case's findings, unless the harness already reported the fault that caused it."""
    if any(one.kind in ("untimed-work", "crash", "device-timeout") for one in found):
        return []
    return [replace(death, case_id=case_id)]


def _data_dependent(case_id: str) -> Diagnostic:
    text = "the kernel reads scalars from its data; without data its path, and so this time, may be another"
    return Diagnostic("data-dependent", text, "note", "verify all cases in full", case_id=case_id)
