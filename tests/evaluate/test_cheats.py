"""Candidates that fooled others are refused for the right reason, and what only looks like them is verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.evaluate.checks import CHECKS
from kope.model import Candidate, Outcome, Verdict
from kope.target.twin.target import TwinTarget
from kope.task import load_task

from .cheats.cheat import Cheat
from .cheats.kernels import TASKS
from .cheats.legal import LEGAL, Legal
from .cheats.rejected import CHEATS


@pytest.fixture(scope="module")
def judge(twin_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Outcome]:
    folder = tmp_path_factory.mktemp("cheats")
    library = CaseLibrary(folder / "cases", ReferenceRunner())
    evaluator = TaskEvaluator(TwinTarget(twin_cache, memory_bytes=512 << 20), library, time_limit_s=3.0)
    tasks = {}
    for name, (toml, reference) in TASKS.items():
        (folder / name).mkdir()
        (folder / name / "task.toml").write_text(toml)
        (folder / name / "reference.py").write_text(reference)
        tasks[name] = load_task(folder / name)

    def run(task: str, source: str) -> Outcome:
        return evaluator.evaluate(tasks[task], Candidate.of(source), folder / "work", promote=lambda times_us: True)

    return run


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
def test_a_cheat_is_refused_for_its_reason(judge: Callable[[str, str], Outcome], cheat: Cheat) -> None:
    outcome = judge(cheat.task, cheat.source)
    errors = [found for found in outcome.diagnostics if found.severity == "error"]
    assert outcome.verdict is Verdict.FAILED
    assert errors[0].kind in cheat.kinds, errors[0]
    assert errors[0].message and errors[0].remedy


@pytest.mark.parametrize("legal", LEGAL, ids=lambda legal: legal.name)
def test_what_only_looks_like_a_cheat_is_verified(judge: Callable[[str, str], Outcome], legal: Legal) -> None:
    outcome = judge(legal.task, legal.source)
    assert outcome.verdict is Verdict.VERIFIED, [found for found in outcome.diagnostics if found.severity == "error"]


def test_there_are_enough_of_both() -> None:
    assert len({cheat.source for cheat in CHEATS}) >= 60
    assert len({legal.source for legal in LEGAL}) >= 30


def test_every_check_of_the_twin_has_cheats_that_it_stops() -> None:
    enforced = {check.name: set(check.kinds) for check in CHECKS if check.status("twin") == "enforced"}
    by_other_tests = {"floor", "two-runs"}  # no candidate of the twin gets so far: tests/evaluate/test_evaluator.py
    assert {cheat.check for cheat in CHEATS} == set(enforced) - by_other_tests
    assert [cheat.name for cheat in CHEATS if not set(cheat.kinds) & enforced[cheat.check]] == []
