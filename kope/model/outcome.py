"""A candidate and what became of it: stage, verdict, diagnostics, times of each case."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True)
class Candidate:
    """Kernel source. Same text, same id (sha256 hex of its UTF-8 bytes); never edited."""

    id: str
    source: str

    @classmethod
    def of(cls, source: str) -> Candidate:
        """Return the candidate of a source text."""
        return cls(hashlib.sha256(source.encode("utf-8")).hexdigest(), source)


class Stage(str, Enum):
    """How far an attempt came, in order."""

    PROPOSE = "propose"
    COMPILE = "compile"
    RUN = "run"
    VERIFY = "verify"
    PROFILE = "profile"


class Verdict(str, Enum):
    """failed: stopped somewhere. screened: right on the small cases only. verified: right on all cases, in full."""

    FAILED = "failed"
    SCREENED = "screened"
    VERIFIED = "verified"


class TimeKind(str, Enum):
    """Where a time comes from. The two are never compared."""

    MODELLED = "modelled"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a candidate. kind is a stable slug ("ub-overflow", "missing-sync", "compile-error", "timeout",
    "wrong-value", ...); severity is error, warning or note; remedy says what to do; 0 means "no line known"."""

    kind: str
    message: str
    severity: str = "error"
    remedy: str = ""
    file: str = ""
    line: int = 0
    case_id: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one case showed.

    passed: None when its values were not compared (timing-only), or the case is disputed: its own reference misses the
        tolerance in the precision of the kernel.
    duration_us: one value per repeat, warm-up excluded; () when not timed.
    bound_us: the hardware bound for this case on this target (launch cost included), None when unknown.
    counters: under the profiler's own column names, e.g. "aiv_vec_time(us)".
    error: largest violation as a multiple of the tolerance (<= 1 passes), None when not compared.
    official: what the rule of the suite it comes from says, for comparison with published figures only; None: no such
        rule, or not compared.
    """

    case_id: str
    passed: bool | None = None
    duration_us: tuple[float, ...] = ()
    bound_us: float | None = None
    error: float | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    official: bool | None = None


@dataclass(frozen=True)
class Outcome:
    """The verdict on one candidate. Failure is data.

    stage: the last stage entered. log: the tools' own text, head and tail, never reworded.
    steps: every program started: argv, exit status, wall seconds.
    evidence: hashes and versions that make the verdict checkable.
    """

    stage: Stage
    verdict: Verdict
    diagnostics: tuple[Diagnostic, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    time_kind: TimeKind = TimeKind.MODELLED
    log: str = ""
    wall_s: float = 0.0
    steps: tuple[Mapping[str, Any], ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the candidate got as far as it was asked to."""
        return self.verdict is not Verdict.FAILED

    @cached_property
    def times_us(self) -> Mapping[str, float]:
        """Median time per timed case."""
        from statistics import median

        return {case.case_id: median(case.duration_us) for case in self.cases if case.duration_us}

    @property
    def passed_count(self) -> int:
        """Number of cases compared and right."""
        return sum(case.passed is True for case in self.cases)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a time or a verdict depends on besides the candidate. Times under different `hardware` are never compared.

    target: "twin", "ascend". hardware: chip and parameter set, e.g. "twin:910b2:1". toolchain: compiler and driver
    versions. evaluator: version of the rules of judgement.
    """

    target: str
    hardware: str
    toolchain: str
    evaluator: str
