"""Collects what an evaluation saw and makes the Outcome of it. Decides nothing."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kope.evaluate.verify import CaseVerdict, GroupVerdict
from kope.model import Built, Case, CaseResult, CaseRun, Diagnostic, Outcome, Ran, Stage, TimeKind, Verdict

_LOG_HEAD = 12_000
_LOG_TAIL = 20_000


class Draft:
    """An Outcome in the making."""

    def __init__(self, cases: Sequence[Case], time_kind: TimeKind, evidence: Mapping[str, str]) -> None:
        self.time_kind = time_kind
        self.evidence = dict(evidence)
        self.results = {case.id: CaseResult(case.id) for case in cases}
        self.seen: set[str] = set()
        self.failed: dict[str, Stage] = {}
        self.diagnostics: list[Diagnostic] = []
        self.steps: list[Mapping[str, Any]] = []
        self.logs: list[str] = []
        self.started = time.monotonic()

    def add_program(self, name: str, done: Built | Ran) -> None:
        """Keep the argv, status and text of what was started."""
        self.steps.extend({"step": name, **step} for step in done.steps)
        if done.log.strip():
            self.logs.append(f"--- {name} ---\n{done.log.rstrip()}\n")

    def add_verdicts(self, name: str, group: GroupVerdict) -> None:
        """Keep the verdicts of a group."""
        self.add_program(name, group.ran)
        for verdict in group.cases:
            self._see(verdict)

    def _see(self, verdict: CaseVerdict) -> None:
        self.seen.add(verdict.case_id)
        self.diagnostics.extend(verdict.diagnostics)
        if not verdict.passed:
            self.failed[verdict.case_id] = verdict.stage
        passed = None if verdict.disputed else verdict.passed
        old = self.results[verdict.case_id]
        self.results[verdict.case_id] = replace(old, passed=passed, error=verdict.error, official=verdict.official)

    def fail(self, case_id: str, stage: Stage, found: Sequence[Diagnostic]) -> None:
        """Let a case fail after all; a time it had is no longer one."""
        self.seen.add(case_id)
        self.failed[case_id] = stage
        self.diagnostics.extend(found)
        self.results[case_id] = replace(self.results[case_id], passed=False, duration_us=())

    def add_times(self, runs: Iterable[CaseRun], bounds: Mapping[str, float | None]) -> None:
        """Keep times and counters; a later call replaces an earlier one's."""
        for run in runs:
            self.seen.add(run.case_id)
            self.results[run.case_id] = replace(
                self.results[run.case_id],
                duration_us=run.duration_us,
                bound_us=bounds.get(run.case_id),
                counters=dict(run.counters),
            )

    def outcome(self, stage: Stage, verdict: Verdict) -> Outcome:
        """Return the finished outcome, cases in the task's order, those that were never reached left out."""
        log = clip("".join(self.logs))
        return Outcome(
            stage=stage,
            verdict=verdict,
            diagnostics=tuple(merge(self.diagnostics)),
            cases=tuple(result for case_id, result in self.results.items() if case_id in self.seen),
            time_kind=self.time_kind,
            log=log,
            wall_s=time.monotonic() - self.started,
            steps=tuple(self.steps),
            evidence=self.evidence | {"log": hashlib.sha256(log.encode()).hexdigest()},
        )


def merge(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Join findings of one kind at one place over all cases: the first is shown, counts add up, errors come first."""
    merged: dict[tuple[str, ...], Diagnostic] = {}
    for finding in diagnostics:
        place = (finding.file, str(finding.line)) if finding.line else (finding.message,)
        key = (finding.kind, finding.severity, *place)
        known = merged.get(key)
        merged[key] = finding if known is None else replace(known, count=known.count + finding.count)
    rank = {"error": 0, "warning": 1}
    return sorted(merged.values(), key=lambda finding: rank.get(finding.severity, 2))


def clip(text: str) -> str:
    """Keep head and tail of a log; a mark says how much is missing between them."""
    if len(text) <= _LOG_HEAD + _LOG_TAIL:
        return text
    return f"{text[:_LOG_HEAD]}\n... {len(text) - _LOG_HEAD - _LOG_TAIL} characters left out ...\n{text[-_LOG_TAIL:]}"
