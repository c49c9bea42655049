"""Work on one task of a suite: a session of the loop, then a verdict on every case for the kernel it ends with.

Which tasks, in which order and how many at once is run.py's business.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from threading import Event

from kope import wiring
from kope.config import Settings
from kope.errors import DeriveError, ReferenceError_, TaskError
from kope.evaluate import TaskEvaluator
from kope.evaluate.null_candidates import passing_null_candidates, strictly
from kope.evaluate.official import official_verdict
from kope.evaluate.prepared import PreparedCase
from kope.loop import Limits, TaskResult, optimize
from kope.model import Attempt, Case, CaseResult, Outcome, Stage, Task, Verdict
from kope.suite.record import CaseRecord, TaskRecord, empty_record

Keep = Callable[[TaskRecord, str | None], None]
_SURVEY_S = 60.0
"""Wall limit of small cases in the last verdict: where several tasks run at once, a busy machine must not decide."""
_RANK = {stage: rank for rank, stage in enumerate(Stage)}
_TASKS_FAULT = (TaskError, ReferenceError_, DeriveError)
"""What ends work on one task and not the run: its folder or its reference is at fault."""


class Stopped(Exception):
    """The run was asked to stop; the attempt in flight is given up."""


@dataclass(frozen=True, slots=True)
class Work:
    """How every task of a run is worked on."""

    plan: wiring.Plan
    limits: Limits
    settings: Settings

    def on(self, task: Task, stop: Event, keep: Keep) -> None:
        """Work on a task and keep what came of it; taken up again where an earlier process was killed.

        Raises Stopped when `stop` is set meanwhile, and what the machine is to blame for.
        """
        started = time.monotonic()
        try:
            allowed = wiring.Allowed(self.limits.tokens, time_s=self.limits.time_s)
            with wiring.open_session([task], self.plan, self.settings, allowed=allowed) as opened:
                (result,) = optimize([task], opened.parts, self.limits, _Watcher(stop))
                best = chosen(result.standing.incumbent, result.standing.history)
                outcome, nulls = None, {}
                if best is not None and best.candidate is not None:
                    judge = wiring.evaluator(self.settings)
                    judge.time_limit_s = max(judge.time_limit_s, _SURVEY_S)
                    outcome = judge.judge_all(task, best.candidate, opened.parts.folder)
                    nulls = _null_candidates(task, outcome, judge)
                record = _record(task, result, best, outcome, nulls, self.settings.chip, time.monotonic() - started)
                keep(record, best.candidate.source if best is not None and best.candidate is not None else None)
                opened.store.end_session(opened.session.id, result.stop.value)
        except _TASKS_FAULT as error:
            wall_s = round(time.monotonic() - started, 3)
            keep(empty_record(task, self.settings.chip, problem=str(error), wall_s=wall_s), None)


class _Watcher:
    """Ends work between two attempts."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop

    def _look(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def begin(self, task: Task, session_id: str, earlier: Sequence[Attempt]) -> None:
        """Nothing is lost by stopping here."""
        self._look()

    def trying(self, task: Task, iteration: int, move: str) -> None:
        """Nothing is lost by stopping here but a proposal."""
        self._look()

    def attempt(self, task: Task, attempt: Attempt) -> None:
        """It is recorded."""
        self._look()

    def end(self, result: TaskResult) -> None:
        """The result is still to be kept."""


def chosen(incumbent: Attempt | None, history: Sequence[Attempt]) -> Attempt | None:
    """Return the attempt a suite counts: the best one, or where none is right the one that came furthest.

    A suite counts cases, so a kernel that is right on some of them counts for those.
    """
    if incumbent is not None:
        return incumbent
    compiled = [attempt for attempt in history if attempt.candidate is not None and _compiled(attempt.outcome)]
    return max(
        compiled,
        key=lambda attempt: (attempt.outcome.passed_count, _RANK[attempt.outcome.stage], -attempt.iteration),
        default=None,
    )


def _compiled(outcome: Outcome) -> bool:
    return _RANK[outcome.stage] > _RANK[Stage.COMPILE]


def _null_candidates(task: Task, outcome: Outcome, judge: TaskEvaluator) -> dict[str, tuple[str, ...]]:
    """Return, per case that was compared, the outputs that pass it without a kernel: by the suite's rule, else ours."""
    compared = {case.case_id for case in outcome.cases if case.error is not None}
    if not compared:
        return {}
    items = judge.library.prepare(task, [case for case in task.cases if case.id in compared])

    def by_the_suite(item: PreparedCase, files: Sequence[Path]) -> bool:
        return official_verdict(task, item, files) is True

    accepts = by_the_suite if official_verdict(task, items[0], ()) is not None else strictly(task)
    with tempfile.TemporaryDirectory(prefix="kope-null-") as folder:
        return {item.case.id: passing_null_candidates(item, accepts, Path(folder)) for item in items}


def _record(
    task: Task,
    result: TaskResult,
    best: Attempt | None,
    outcome: Outcome | None,
    nulls: Mapping[str, tuple[str, ...]],
    chip: str,
    wall_s: float,
) -> TaskRecord:
    history = result.standing.history
    judged = {case.case_id: case for case in outcome.cases} if outcome is not None else {}
    notes = _notes(outcome, task.cases) if outcome is not None else {}
    record = empty_record(task, chip)
    right = outcome is not None and outcome.verdict is Verdict.VERIFIED
    return replace(
        record,
        cases=tuple(
            replace(_case_record(case, judged.get(case.case), notes.get(case.case, "")), nulls=nulls.get(case.case))
            for case in record.cases
        ),
        attempts=len(history),
        compiled=any(_compiled(attempt.outcome) for attempt in (*history, *([best] if best is not None else []))),
        candidate=best.candidate.id if best is not None and best.candidate is not None else "",
        verdict=(Verdict.VERIFIED if right else Verdict.FAILED).value if best is not None else "",
        tokens=sum(attempt.proposal.tokens for attempt in history),
        wall_s=round(wall_s, 3),
        stop=result.stop.value,
        reason="" if right or not history else _first_error(history[-1].outcome),
    )


def _first_error(outcome: Outcome) -> str:
    return next((found.message for found in outcome.diagnostics if found.severity == "error"), "")


def _case_record(case: CaseRecord, judged: CaseResult | None, note: str) -> CaseRecord:
    if judged is None:
        return replace(case, note=note)
    time_us = median(judged.duration_us) if judged.duration_us else None
    passed = judged.passed is True
    return replace(case, passed=passed, official=judged.official, time_us=time_us, bound_us=judged.bound_us, note=note)


def _notes(outcome: Outcome, cases: Sequence[Case]) -> Mapping[str, str]:
    """Return, per case, the kind of its first error."""
    notes: dict[str, str] = {}
    for found in outcome.diagnostics:
        if found.severity == "error" and found.case_id:
            notes.setdefault(found.case_id, found.kind)
    return notes
