"""A toolchain with its hardware, and the evaluator that judges candidates on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from kope.model.outcome import Candidate, Diagnostic, Fingerprint, Outcome, TimeKind
from kope.model.task import AttrValue, Task, TensorSpec


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A tensor in a raw little-endian file, C order, no header. path None: omitted optional input."""

    spec: TensorSpec
    path: Path | None


@dataclass(frozen=True, slots=True)
class LaunchCase:
    """One call of the candidate's entry: inputs to read, outputs to write, attributes."""

    case_id: str
    inputs: tuple[TensorFile | None, ...]
    outputs: tuple[TensorFile, ...]
    attrs: Mapping[str, AttrValue]


RunMode = Literal["verify", "time"]
"""verify: data is computed, outputs written, defects looked for. time: on a model control flow and pipe timelines only;
where times are measured, the outputs of one of the timed calls are written too."""


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled candidate: the executable, or the diagnostics why there is none."""

    executable: Path | None
    diagnostics: tuple[Diagnostic, ...]
    log: str
    steps: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class CaseRun:
    """What one case did on the target. ok: the entry returned, no error diagnostic.

    control_flow: a hash of the path taken by device and host code; equal for two runs that branched alike.
    """

    case_id: str
    ok: bool
    diagnostics: tuple[Diagnostic, ...] = ()
    duration_us: tuple[float, ...] = ()
    bound_us: float | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    control_flow: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """All cases asked for, in order, up to the first that stopped the program."""

    cases: tuple[CaseRun, ...]
    log: str
    steps: tuple[Mapping[str, Any], ...] = ()


class Target(Protocol):
    """A toolchain and its hardware. Every program it starts is sandboxed and bounded."""

    name: str

    @property
    def time_kind(self) -> TimeKind:
        """Return where its times come from."""

    def fingerprint(self) -> Fingerprint:
        """Return what times and verdicts depend on. Raises ToolMissing when the toolchain is not there."""

    def build(self, candidate: Candidate, workdir: Path) -> Built:
        """Compile. A compiler error is data in `Built`."""

    def run(
        self, built: Built, cases: Sequence[LaunchCase], mode: RunMode, workdir: Path, *, time_limit_s: float
    ) -> Ran:
        """Run cases. Crash, hang, limit and defect are data in `Ran`.

        time_limit_s: of processor time where the candidate works on this machine, else by the clock.
        """

    def bound_us(self, case: LaunchCase) -> float | None:
        """Return the hardware bound: launch cost + bytes of inputs and outputs / peak bandwidth. None when unknown."""


class Evaluator(Protocol):
    """Judges candidates. Reference and comparison stay on this side of the process boundary."""

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        workdir: Path,
        *,
        promote: Callable[[Mapping[str, float]], bool],
    ) -> Outcome:
        """Compile, run three small cases, time all cases, then verify all in full when `promote(times_us)` says so."""
