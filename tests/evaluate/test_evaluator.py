"""A candidate's way through the stages: what stops it where, what is verified, and when times are believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kope
from kope.evaluate import CaseLibrary, TaskEvaluator, evaluator_fingerprint
from kope.model import Candidate, Diagnostic, LaunchCase, Outcome, Stage, Task, TimeKind, Verdict

SMALL = ("3", "4", "2")  # one of each dtype, by bytes
ALL = ("3", "4", "2", "5", "1")
CHALLENGE = ("3-fresh0", "4-fresh1", "2-fresh2", "3-grown0", "4-grown0", "2-grown0")


class Judge:
    """Evaluates on a scripted target and remembers what it was asked to promote."""

    def __init__(self, target: Any, task: Task, library: CaseLibrary, workdir: Path, jobs: int = 1) -> None:
        self.evaluator = TaskEvaluator(target, library, jobs=jobs)
        self.task = task
        self.workdir = workdir
        self.asked: list[dict[str, float]] = []

    def __call__(self, promote: bool = True) -> Outcome:
        def decide(times_us: Mapping[str, float]) -> bool:
            self.asked.append(dict(times_us))
            return promote

        return self.evaluator.evaluate(self.task, Candidate.of("kernel"), self.workdir, promote=decide)


@pytest.fixture
def judge(task: Task, library: CaseLibrary, tmp_path: Path) -> Callable[..., Judge]:
    return lambda target, jobs=1: Judge(target, task, library, tmp_path / "work", jobs)


def kinds(outcome: Outcome) -> list[tuple[str, str]]:
    return [(finding.kind, finding.case_id) for finding in outcome.diagnostics]


def test_a_right_kernel_is_verified_on_all_cases(scripted: Any, judge: Any) -> None:
    target = scripted()
    run = judge(target)
    outcome = run()
    assert (outcome.stage, outcome.verdict, outcome.ok) == (Stage.PROFILE, Verdict.VERIFIED, True)
    assert target.runs == [("verify", SMALL), ("time", ALL), ("verify", ("5", "1")), ("verify", CHALLENGE)]
    assert run.asked == [dict.fromkeys(ALL, 11.0)]
    assert [case.case_id for case in outcome.cases] == ["1", "2", "3", "4", "5"]
    first = outcome.cases[0]
    assert (first.passed, first.duration_us, first.bound_us, first.error) == (True, (11.0,), 5.0, 0.0)
    assert first.counters == {"aiv_vec_time(us)": 1.5}
    assert (outcome.passed_count, outcome.time_kind, outcome.diagnostics) == (5, TimeKind.MODELLED, ())


def test_without_promotion_it_is_screened_on_the_small_cases(scripted: Any, judge: Any) -> None:
    target = scripted()
    outcome = judge(target)(promote=False)
    assert (outcome.stage, outcome.verdict) == (Stage.PROFILE, Verdict.SCREENED)
    assert target.runs == [("verify", SMALL), ("time", ALL)]
    assert {case.case_id: case.passed for case in outcome.cases} == {
        "1": None,
        "2": True,
        "3": True,
        "4": True,
        "5": None,
    }
    assert outcome.times_us == dict.fromkeys(("1", "2", "3", "4", "5"), 11.0)


def test_evidence_and_steps_make_a_verdict_checkable(scripted: Any, judge: Any, task: Task) -> None:
    run = judge(scripted())
    outcome = run()
    steps = [(step["step"], step["argv"][-1], step["returncode"]) for step in outcome.steps]
    assert steps == [
        ("compile", "cc", 0),
        ("reference", "request.json", 0),
        ("small cases", "verify", 0),
        ("reference", "request.json", 0),
        ("time", "time", 0),
        ("verify", "verify", 0),
        ("reference", "request.json", 0),
        ("challenge", "verify", 0),
    ]
    evidence = dict(outcome.evidence)
    assert evidence["source"] == Candidate.of("kernel").id
    assert evidence["task"] == task.digest
    assert evidence["evaluator"] == "7+" + evaluator_fingerprint() == run.evaluator.fingerprint().evaluator
    assert (evidence["target"], evidence["hardware"], evidence["toolchain"]) == (
        "scripted",
        "scripted:chip:1",
        "python",
    )
    hashes = ("inputs", "reference", "reference_source", "challenge", "log")
    assert {len(evidence[name]) for name in hashes} == {64}
    assert (evidence["seed"], evidence["kope"]) == ("0", kope.__version__)
    assert {"python", "numpy", "ml_dtypes", "machine"} <= set(evidence)
    again = run()
    assert again.evidence == outcome.evidence
    assert [step["step"] for step in again.steps] == [
        "compile",
        "small cases",
        "time",
        "verify",
        "reference",
        "challenge",
    ]
    assert "--- small cases ---\nran verify\n" in outcome.log


def test_a_compile_error_stops_at_compile(scripted: Any, judge: Any) -> None:
    error = Diagnostic("compile-error", "expected ;", file="kernel.asc", line=3)
    target = scripted(compile_error=error)
    outcome = judge(target)()
    assert (outcome.stage, outcome.verdict, outcome.diagnostics) == (Stage.COMPILE, Verdict.FAILED, (error,))
    assert (outcome.cases, target.runs, outcome.log) == ((), [], "--- compile ---\nerror: expected ;\n")


def test_a_defect_stops_at_run_with_the_targets_findings(scripted: Any, judge: Any) -> None:
    def findings(case_id: str, mode: str) -> list[Diagnostic]:
        return (
            [Diagnostic("ub-overflow", "200 KB of 192", file="kernel.asc", line=9, case_id=case_id)]
            if case_id == "4"
            else []
        )

    target = scripted(findings=findings)
    outcome = judge(target)()
    assert (outcome.stage, outcome.verdict) == (Stage.RUN, Verdict.FAILED)
    assert (kinds(outcome), outcome.diagnostics[0].line) == ([("ub-overflow", "4")], 9)
    assert {case.case_id: case.passed for case in outcome.cases} == {"3": True, "4": False}
    assert len(target.runs) == 1


def test_a_program_that_stops_without_a_word_is_a_failed_run(scripted: Any, judge: Any) -> None:
    outcome = judge(scripted(stops_at="2"))()
    assert (outcome.stage, kinds(outcome)) == (Stage.RUN, [("no-result", "2")])


def test_wrong_values_in_a_small_case_stop_at_verify(scripted: Any, judge: Any) -> None:
    target = scripted(kernel=lambda case: [np.zeros(case.outputs[0].spec.shape, np.float16)])
    outcome = judge(target)()
    assert (outcome.stage, kinds(outcome)) == (Stage.VERIFY, [("wrong-value", "3")])
    assert [(case.case_id, case.passed) for case in outcome.cases] == [("3", False)]
    assert outcome.cases[0].error > 100
    assert len(target.runs) == 1


def test_wrong_values_in_a_large_case_only_show_in_full_verification(scripted: Any, judge: Any, double: Any) -> None:
    def kernel(case: LaunchCase) -> list[Any]:
        (y,) = double(case)
        if y.size > 1000:
            y.reshape(-1)[-9:] = 0
        return [y]

    screened = judge(scripted(kernel=kernel))(promote=False)
    assert screened.verdict is Verdict.SCREENED
    outcome = judge(scripted(kernel=kernel))()
    assert (outcome.stage, outcome.verdict) == (Stage.VERIFY, Verdict.FAILED)
    assert kinds(outcome) == [("wrong-value", "5")]
    assert outcome.diagnostics[0].message.startswith("last 9 of 3000 elements wrong of output y in case 5")
    assert {case.case_id: case.passed for case in outcome.cases} == {
        "1": None,
        "2": True,
        "3": True,
        "4": True,
        "5": False,
    }
    assert len(outcome.times_us) == 5  # kept as evidence of what it would have taken


@pytest.mark.parametrize("output", [np.zeros(33, np.int8), np.zeros(32, np.float16), np.zeros(0)])
def test_another_size_or_dtype_is_refused(scripted: Any, judge: Any, output: Any) -> None:
    outcome = judge(scripted(kernel=lambda case: [output]))()
    assert (outcome.stage, kinds(outcome)) == (Stage.VERIFY, [("wrong-size", "3")])


def test_data_dependent_control_flow_is_always_verified_in_full(scripted: Any, judge: Any) -> None:
    target = scripted(
        path=lambda case_id, mode: mode if case_id in "41" else "straight",
        duration_us=lambda case_id, mode: 30.0 if mode == "verify" and case_id in "41" else 10.0,
    )
    run = judge(target)
    outcome = run(promote=False)
    assert (outcome.verdict, run.asked) == (Verdict.VERIFIED, [])
    assert outcome.times_us == {"1": 30.0, "2": 10.0, "3": 10.0, "4": 30.0, "5": 10.0}
    assert [(finding.kind, finding.severity) for finding in outcome.diagnostics] == [("data-dependent", "note")]


def test_a_large_case_that_branches_on_data_takes_its_time_from_the_full_run(scripted: Any, judge: Any) -> None:
    target = scripted(
        path=lambda case_id, mode: mode if case_id == "1" else "straight",
        duration_us=lambda case_id, mode: 30.0 if (case_id, mode) == ("1", "verify") else 10.0,
    )
    outcome = judge(target)()
    assert (outcome.verdict, outcome.times_us["1"], outcome.times_us["5"]) == (Verdict.VERIFIED, 30.0, 10.0)


def test_two_times_of_one_path_must_agree(scripted: Any, judge: Any) -> None:
    outcome = judge(scripted(duration_us=lambda case_id, mode: 12.0 if (case_id, mode) == ("5", "verify") else 10.0))()
    assert (outcome.stage, outcome.verdict) == (Stage.PROFILE, Verdict.FAILED)
    assert kinds(outcome) == [("time-mismatch", "5")]
    close = judge(scripted(duration_us=lambda case_id, mode: 10.05 if mode == "verify" else 10.0))()
    assert close.verdict is Verdict.VERIFIED


def test_times_that_differ_after_data_was_read_are_those_of_the_run_with_data(scripted: Any, judge: Any) -> None:
    def findings(case_id: str, mode: str) -> list[Diagnostic]:
        return [Diagnostic("data-dependent", "reads a scalar", severity="note")] if mode == "time" else []

    target = scripted(
        findings=findings, duration_us=lambda case_id, mode: 12.0 if (case_id, mode) == ("5", "verify") else 10.0
    )
    outcome = judge(target)()
    assert (outcome.verdict, outcome.times_us["5"], outcome.times_us["1"]) == (Verdict.VERIFIED, 12.0, 10.0)
    assert judge(target)(promote=False).verdict is Verdict.SCREENED  # nothing the small cases show
    small = scripted(
        findings=findings, duration_us=lambda case_id, mode: 12.0 if (case_id, mode) == ("3", "verify") else 10.0
    )
    assert judge(small)(promote=False).verdict is Verdict.VERIFIED


def astray(*case_ids: str) -> Callable[[str, str], list[Diagnostic]]:
    """Findings of a kernel that takes a place from its data: without data it goes where nothing is."""
    note = Diagnostic("data-dependent", "reads a scalar", severity="note")
    wild = Diagnostic("gm-oob", "writes bytes 4 to 8 of y")
    return lambda case_id, mode: [wild, note] if mode == "time" and case_id in case_ids else []


@pytest.mark.parametrize("case_id", ["2", "5"])
def test_a_place_taken_from_data_is_not_held_against_a_run_without_data(
    scripted: Any, judge: Any, case_id: str
) -> None:
    run = judge(scripted(findings=astray(case_id), duration_us=lambda case_id, mode: 12.0))
    outcome = run(promote=False)
    assert (outcome.verdict, run.asked, len(outcome.times_us)) == (Verdict.VERIFIED, [], 5)
    assert [(found.kind, found.severity) for found in outcome.diagnostics] == [("data-dependent", "note")]


def test_a_place_outside_is_held_against_a_run_with_data(scripted: Any, judge: Any) -> None:
    wild = Diagnostic("gm-oob", "writes bytes 4 to 8 of y", case_id="5")
    without = astray("5")
    target = scripted(
        findings=lambda case_id, mode: [wild] if mode == "verify" and case_id == "5" else without(case_id, mode)
    )
    outcome = judge(target)()
    assert (outcome.stage, outcome.verdict) == (Stage.RUN, Verdict.FAILED)
    assert kinds(outcome) == [("gm-oob", "5")]


def test_a_time_with_data_is_held_to_the_floor_too(scripted: Any, judge: Any) -> None:
    target = scripted(
        findings=astray("5"), duration_us=lambda case_id, mode: 4.9 if (case_id, mode) == ("5", "verify") else 10.0
    )
    outcome = judge(target)()
    assert (outcome.stage, outcome.verdict) == (Stage.PROFILE, Verdict.FAILED)
    assert kinds(outcome) == [("below-floor", "5")]


def test_measured_times_of_two_runs_may_differ(scripted: Any, judge: Any) -> None:
    target = scripted(time_kind=TimeKind.MEASURED, duration_us=lambda case_id, mode: 12.0 if mode == "verify" else 10.0)
    outcome = judge(target)()
    assert (outcome.verdict, outcome.time_kind) == (Verdict.VERIFIED, TimeKind.MEASURED)


def test_a_time_below_the_floor_is_refused(scripted: Any, judge: Any) -> None:
    outcome = judge(scripted(duration_us=lambda case_id, mode: 4.9 if case_id == "5" else 10.0))(promote=False)
    assert (outcome.stage, outcome.verdict, kinds(outcome)) == (Stage.PROFILE, Verdict.FAILED, [("below-floor", "5")])


def test_a_case_that_cannot_be_timed_fails_at_profile(scripted: Any, judge: Any) -> None:
    slow = Diagnostic("timeout", "no end in 10 s", case_id="5")
    outcome = judge(scripted(findings=lambda case_id, mode: [slow] if (case_id, mode) == ("5", "time") else []))()
    assert (outcome.stage, kinds(outcome)) == (Stage.PROFILE, [("timeout", "5")])
    outcome = judge(scripted(stops_at="1"))()
    assert (outcome.stage, kinds(outcome)) == (Stage.PROFILE, [("no-result", "1")])


def test_changing_an_input_file_fails_and_the_file_is_made_anew(scripted: Any, judge: Any, double: Any) -> None:
    def kernel(case: LaunchCase) -> list[Any]:
        result = double(case)
        path = case.inputs[0].path  # type: ignore[union-attr]
        assert path is not None
        path.chmod(0o644)
        path.write_bytes(bytes(path.stat().st_size))
        return result

    outcome = judge(scripted(kernel=kernel))()
    assert (outcome.stage, kinds(outcome)) == (Stage.RUN, [("input-modified", "3")])
    assert judge(scripted())().verdict is Verdict.VERIFIED


def test_findings_of_many_cases_are_joined(scripted: Any, judge: Any) -> None:
    def findings(case_id: str, mode: str) -> list[Diagnostic]:
        note = Diagnostic("auto-sync", f"case {case_id}", severity="note", file="k.asc", line=4, case_id=case_id)
        return [note, Diagnostic("slow-scalar", "GetValue", severity="warning", file="k.asc", line=9, count=2)]

    outcome = judge(scripted(findings=findings))()
    assert [(f.kind, f.severity, f.line, f.count) for f in outcome.diagnostics] == [
        ("slow-scalar", "warning", 9, 10),
        ("auto-sync", "note", 4, 5),
    ]


def test_the_first_failure_is_the_same_whatever_runs_beside_it(scripted: Any, judge: Any, double: Any) -> None:
    def kernel(case: LaunchCase) -> list[Any]:
        return [value * (0 if value.size > 1000 else 1) for value in double(case)]

    one, two = (judge(scripted(kernel=kernel), jobs=jobs)() for jobs in (1, 3))
    assert kinds(one) == kinds(two) == [("wrong-value", "5")]
    assert [(case.case_id, case.passed) for case in one.cases] == [(case.case_id, case.passed) for case in two.cases]


def test_nothing_is_left_in_the_working_folder(scripted: Any, judge: Any) -> None:
    run = judge(scripted())
    run()
    assert list(run.workdir.iterdir()) == []


def test_another_seed_is_another_set_of_inputs(scripted: Any, task: Task, library: CaseLibrary, tmp_path: Path) -> None:
    outcomes = [
        TaskEvaluator(scripted(), library, seed=seed).evaluate(
            task, Candidate.of("kernel"), tmp_path / "work", promote=lambda times: True
        )
        for seed in (0, 1)
    ]
    assert [outcome.verdict for outcome in outcomes] == [Verdict.VERIFIED, Verdict.VERIFIED]
    assert outcomes[0].evidence["inputs"] != outcomes[1].evidence["inputs"]
