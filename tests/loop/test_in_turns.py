"""Where times are measured, a comparison in turns decides who is the best kernel, not two single runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kope.loop import Limits, optimize
from kope.model import Attempt, Candidate, Task, Verdict
from tests.loop.fakes import ListMemory, marked, parts_of, small_task
from tests.loop.test_loop import Quiet


@dataclass
class Found:
    """What a comparison says."""

    faster: bool
    summary: str = "in so many words"
    record: dict[str, Any] = field(default_factory=lambda: {"runs": [1.0]})


@dataclass
class Judge:
    """Says the same of every pair, and remembers who was compared."""

    faster: bool
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, task: Task, candidate: Candidate, incumbent: Candidate) -> Found:
        self.asked.append((candidate.source, incumbent.source))
        return Found(self.faster)


def run(times_us: Sequence[float], judge: Judge) -> tuple[Attempt, ...]:
    parts = replace(parts_of([marked(time_us) for time_us in times_us], ListMemory()), compare=judge)
    (result,) = optimize([small_task()], parts, Limits(iterations=None), Quiet())
    return result.standing.history


def test_the_first_verified_kernel_needs_no_comparison() -> None:
    judge = Judge(False)
    (only,) = run([10.0], judge)
    assert only.promoted and judge.asked == []


def test_what_is_not_proven_is_not_promoted_however_fast_it_looked() -> None:
    judge = Judge(False)
    first, second = run([10.0, 5.0], judge)
    assert (first.promoted, second.promoted, second.outcome.verdict) == (True, False, Verdict.VERIFIED)
    assert judge.asked == [(marked(5.0), marked(10.0))]


def test_what_looked_a_little_slower_is_compared_and_may_win() -> None:
    first, second = run([10.0, 10.2], Judge(True))
    assert (first.promoted, second.promoted) == (True, True)
    (note,) = second.outcome.diagnostics
    assert (note.kind, note.severity, note.message) == ("comparison", "note", "in so many words")
    assert json.loads(second.outcome.evidence["comparison"]) == {"runs": [1.0]}


def test_what_looked_clearly_slower_is_screened_without_a_comparison() -> None:
    judge = Judge(True)
    _, second = run([10.0, 11.0], judge)
    assert (second.promoted, second.outcome.verdict, judge.asked) == (False, Verdict.SCREENED, [])


def test_the_same_kernel_again_is_not_compared_with_itself() -> None:
    judge = Judge(True)
    _, again = run([10.0, 10.0], judge)
    assert (again.promoted, again.repeated, judge.asked) == (False, True, [])
