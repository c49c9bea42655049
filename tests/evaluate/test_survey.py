"""Every case of a task is judged, whatever becomes of the others, with the checks of the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.evaluate import CaseLibrary, TaskEvaluator, capacity
from kope.model import Candidate, CaseRun, Diagnostic, LaunchCase, Outcome, Ran, Stage, Task, Verdict


@pytest.fixture
def survey(task: Task, library: CaseLibrary, tmp_path: Path) -> Callable[[Any], Outcome]:
    def judge(target: Any) -> Outcome:
        return TaskEvaluator(target, library).judge_all(task, Candidate.of("one"), tmp_path / "work")

    return judge


def passed(outcome: Outcome) -> dict[str, bool | None]:
    return {case.case_id: case.passed for case in outcome.cases}


def wrong_in(*cases: str) -> Callable[[LaunchCase], Sequence[Any]]:
    from .conftest import right_kernel

    def kernel(case: LaunchCase) -> Sequence[Any]:
        (y,) = right_kernel(case)
        return [np.zeros_like(y) if case.case_id in cases else y]

    return kernel


def test_a_right_kernel_passes_everywhere_and_has_all_times(survey: Any, scripted: Any) -> None:
    outcome = survey(scripted())
    assert (outcome.verdict, outcome.stage, outcome.passed_count) == (Verdict.VERIFIED, Stage.PROFILE, 5)
    assert len(outcome.times_us) == 5
    assert "challenge" in outcome.evidence


def test_a_wrong_case_stops_no_other(survey: Any, scripted: Any) -> None:
    outcome = survey(scripted(kernel=wrong_in("3", "5")))
    assert (outcome.verdict, outcome.stage) == (Verdict.FAILED, Stage.VERIFY)
    assert passed(outcome) == {"1": True, "2": True, "3": False, "4": True, "5": False}
    assert sorted(outcome.times_us) == ["1", "2", "4"]
    assert [(found.kind, found.case_id) for found in outcome.diagnostics] == [
        ("wrong-value", "3"),
        ("wrong-value", "5"),
    ]


def test_cases_behind_one_that_ended_the_program_run_again_without_it(survey: Any, scripted: Any) -> None:
    outcome = survey(scripted(stops_at="4"))
    assert passed(outcome) == {"1": True, "2": True, "3": True, "4": False, "5": True}
    assert [(found.kind, found.case_id) for found in outcome.diagnostics] == [("no-result", "4")]
    assert outcome.stage is Stage.RUN


def test_cases_that_a_target_says_it_never_ran_get_their_chance(survey: Any, scripted: Any) -> None:
    class Dying(scripted):  # type: ignore[misc]
        def run(self, built: Any, cases: Sequence[LaunchCase], mode: Any, workdir: Path, *, time_limit_s: float) -> Ran:
            ran = super().run(built, cases, mode, workdir, time_limit_s=time_limit_s)
            runs, dead = [], False
            for run in ran.cases:
                note = Diagnostic("not-run", "a case before it stopped the program", "note", case_id=run.case_id)
                crash = Diagnostic("crash", f"case {run.case_id} died", case_id=run.case_id)
                lost = CaseRun(run.case_id, False, (note,)) if dead else CaseRun(run.case_id, False, (crash,))
                runs.append(lost if dead or run.case_id in "34" else run)
                dead = dead or run.case_id in "34"
            return Ran(tuple(runs), ran.log, ran.steps)

    outcome = survey(Dying())
    assert passed(outcome) == {"1": True, "2": True, "3": False, "4": False, "5": True}
    assert [(found.kind, found.case_id) for found in outcome.diagnostics] == [("crash", "3"), ("crash", "4")]


def test_times_that_are_not_believed_fail_their_case(survey: Any, scripted: Any) -> None:
    def duration(case_id: str, mode: str) -> float:
        return {"1": 4.0, "2": float("nan")}.get(case_id, 12.0 if (case_id, mode) == ("5", "verify") else 10.0)

    outcome = survey(scripted(duration_us=duration))
    assert passed(outcome) == {"1": False, "2": False, "3": True, "4": True, "5": False}
    kinds = {found.case_id: found.kind for found in outcome.diagnostics}
    assert kinds == {"1": "below-floor", "2": "impossible-time", "5": "time-mismatch"}
    assert (outcome.stage, sorted(outcome.times_us)) == (Stage.PROFILE, ["3", "4"])


def test_a_case_that_went_astray_without_data_is_timed_with_it(survey: Any, scripted: Any) -> None:
    def findings(case_id: str, mode: str) -> list[Diagnostic]:
        note = Diagnostic("data-dependent", "reads a scalar", severity="note")
        return [Diagnostic("gm-oob", "writes bytes 4 to 8 of y"), note] if (case_id, mode) == ("2", "time") else []

    outcome = survey(scripted(findings=findings, duration_us=lambda case_id, mode: 10.0))
    assert (outcome.verdict, outcome.passed_count, outcome.times_us["2"]) == (Verdict.VERIFIED, 5, 10.0)


def test_a_case_that_does_not_fit_is_reported_and_the_others_go_on(
    survey: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "available_memory_bytes", lambda: 100_000)
    outcome = survey(scripted())
    assert passed(outcome) == {"1": False, "2": True, "3": True, "4": True, "5": False}
    assert {(found.kind, found.case_id) for found in outcome.diagnostics} == {("too-large", "1"), ("too-large", "5")}


def test_learned_answers_do_not_verify_a_survey_either(survey: Any, scripted: Any) -> None:
    outcome = survey(scripted(kernel=wrong_in("3-fresh0")))
    assert (outcome.verdict, outcome.passed_count) == (Verdict.FAILED, 5)
    assert outcome.diagnostics[0].kind == "fresh-values"


@pytest.mark.parametrize("time_us", [0.0, -3.0, float("nan"), float("inf"), 1e10])
def test_a_time_that_is_no_time_is_refused_by_the_loops_evaluator_too(
    scripted: Any, task: Task, library: CaseLibrary, tmp_path: Path, time_us: float
) -> None:
    target = scripted(duration_us=lambda case_id, mode: time_us if case_id == "5" else 10.0)
    target.bound_us = lambda case: None
    outcome = TaskEvaluator(target, library).evaluate(
        task, Candidate.of("one"), tmp_path / "work", promote=lambda times_us: True
    )
    assert (outcome.stage, outcome.verdict) == (Stage.PROFILE, Verdict.FAILED)
    assert [(found.kind, found.case_id) for found in outcome.diagnostics] == [("impossible-time", "5")]
    assert "5" not in outcome.times_us
