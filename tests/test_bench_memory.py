"""The arithmetic of the memory benchmark, and the cache that lets its arms share outcomes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from kope.model import Candidate, CaseResult, Outcome, Stage, Task, Verdict
from tests.loop.fakes import FINGERPRINT, small_task

FOLDER = Path(__file__).parents[1] / "scripts" / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import memory
    import outcomes

    yield memory, outcomes
    for name in ("memory", "outcomes"):
        sys.modules.pop(name, None)


def test_attempts_count_to_within_five_percent_of_the_best_of_all_runs(modules: tuple[ModuleType, ModuleType]) -> None:
    memory, _ = modules
    runs = [
        memory.Run("exp", "on", 0, (None, 20.0, 10.4, 10.0), "converged", 0.0),
        memory.Run("exp", "off", 0, (20.0, 15.0, 15.0, 12.0), "converged", 0.0),
        memory.Run("gelu", "on", 0, (7.0,), "converged", 0.0),
        memory.Run("gelu", "off", 0, (None,), "converged", 0.0),
    ]
    assert memory.needed(runs, allowed=24) == {
        ("exp", 0, "on"): 3,
        ("exp", 0, "off"): 25,
        ("gelu", 0, "on"): 1,
        ("gelu", 0, "off"): 25,
    }


def test_ratio_is_of_totals_with_an_interval_around_it(modules: tuple[ModuleType, ModuleType]) -> None:
    memory, _ = modules
    counts = {}
    for number, task in enumerate("abcdef"):
        for seed in (0, 1):
            counts[task, seed, "off"] = 10 + number
            counts[task, seed, "on"] = 5 + number % 2
    found = memory.ratio(counts, "on", "off", resamples=999)
    assert found["ratio"] == pytest.approx(33 / 75)
    assert found["low"] < found["ratio"] < found["high"] < 1.0
    same = memory.ratio(counts, "off", "off", resamples=99)
    assert (same["low"], same["ratio"], same["high"]) == (1.0, 1.0, 1.0)


def test_seed_decides_the_order_and_every_task_is_in_it(modules: tuple[ModuleType, ModuleType]) -> None:
    memory, _ = modules
    tasks = [small_task(name) for name in "abcdefg"]
    orders = [[task.name for task in memory.order_of(tasks, seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list("abcdefg")


@dataclass
class CountingJudge:
    """Wrong in full when the source says so."""

    asked: list[tuple[str, bool]] = field(default_factory=list)

    def evaluate(
        self, task: Task, candidate: Candidate, workdir: Path, *, promote: Callable[[Mapping[str, float]], bool]
    ) -> Outcome:
        if candidate.source == "broken":
            self.asked.append((candidate.source, False))
            return Outcome(Stage.COMPILE, Verdict.FAILED, wall_s=1.0)
        full = promote({"c1": 5.0})
        self.asked.append((candidate.source, full))
        cases = (CaseResult("c1", True, (5.0,)),)
        return Outcome(Stage.PROFILE, Verdict.VERIFIED if full else Verdict.SCREENED, cases=cases, wall_s=1.0)


def test_candidate_is_judged_once_for_small_cases_and_once_in_full(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    _, outcomes = modules
    judge, task = CountingJudge(), small_task()

    def ask(source: str, full: bool) -> Verdict:
        cache = outcomes.OutcomeCache(judge, FINGERPRINT, tmp_path / "kept")
        return cache.evaluate(task, Candidate.of(source), tmp_path, promote=lambda times_us: full).verdict

    seen = [ask("x", False), ask("x", False), ask("x", True), ask("x", True), ask("x", False), ask("broken", True)]
    assert seen == [
        Verdict.SCREENED,
        Verdict.SCREENED,
        Verdict.VERIFIED,
        Verdict.VERIFIED,
        Verdict.SCREENED,
        Verdict.FAILED,
    ]
    assert ask("broken", False) is Verdict.FAILED
    assert judge.asked == [("x", False), ("x", True), ("broken", False)]
