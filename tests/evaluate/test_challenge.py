"""What is asked before promotion: fresh values and other shapes, and what wrong answers to them are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.evaluate import CaseLibrary, TaskEvaluator
from kope.evaluate.challenge import asked_about, challenge_seed, fresh_values, other_shapes
from kope.evaluate.null_candidates import has_a_constant_output
from kope.model import Candidate, LaunchCase, Outcome, Stage, Task, Verdict

MakeTask = Callable[..., Task]
ONE = Candidate.of("one")

NORM = """
text = "y = x * gamma"
inputs = { x = {}, gamma = {}, mask = { dtype = "int32", range = [0, 9] } }
outputs = { y = "same:x" }
cases = [ { dtype = "float32", shape = { x = [16, 64], gamma = [64], mask = [16, 1] } } ]
"""
NORM_REFERENCE = "def reference(x, gamma, mask):\n    return x * gamma * mask\n"


def shapes(questions: list[Any]) -> list[list[tuple[int, ...]]]:
    return [[given.spec.shape for given in question.case.inputs] for question in questions]


def test_extents_of_one_size_grow_together_and_ones_stay(make_task: MakeTask) -> None:
    (questions,) = other_shapes(make_task(toml=NORM, reference=NORM_REFERENCE))
    assert shapes(questions) == [
        [(17, 65), (65,), (17, 1)],  # all
        [(17, 64), (64,), (17, 1)],  # like the first axis
        [(16, 65), (65,), (16, 1)],  # like the last
    ]
    assert [question.case.id for question in questions] == ["1-grown0", "1-grown1", "1-grown2"]


def test_a_vector_has_one_way_to_grow_and_fixed_shapes_none(make_task: MakeTask) -> None:
    vectors = other_shapes(make_task(("[40, 100]", "[40]"), ("[17, 5]", "[17]")))
    assert [len(questions) for questions in vectors] == [1, 1, 1]
    fixed = make_task(('text = "y', 'fixed_shapes = true\ntext = "y'))
    assert other_shapes(fixed) == []


def halves(question: Any) -> list[tuple[float, float]]:
    return [(given.values.low, given.values.high) for given in question.case.inputs if given is not None]


def test_fresh_values_come_from_both_halves_of_a_range_in_turn(make_task: MakeTask) -> None:
    task = make_task(toml=NORM, reference=NORM_REFERENCE)
    one, two = fresh_values(task, 1)
    assert {halves(one)[0], halves(two)[0]} == {(-1, 0), (0, 1)}
    assert {halves(one)[2], halves(two)[2]} == {(0, 4), (4, 9)}
    assert {question.case.id for question in (one, two)} == {"1-fresh0", "1-fresh1"}
    assert halves(fresh_values(task, 2)[0]) == halves(two)
    assert len(fresh_values(make_task(), 1)) == 3  # one for each small case


def test_flags_and_special_values_keep_their_range(make_task: MakeTask) -> None:
    toml = NORM.replace("[0, 9]", "[0, 1]").replace("x = {}", 'x = { special = "nan" }')
    for question in fresh_values(make_task(toml=toml, reference=NORM_REFERENCE), 5):
        x, _, mask = (given.values for given in question.case.inputs if given is not None)
        assert (mask.low, mask.high, x.special) == (0, 1, "nan")


def test_a_seed_belongs_to_one_text_and_one_task(make_task: MakeTask, task: Task) -> None:
    other = make_task(("return 2 * x", "return 3 * x"))
    seeds = {challenge_seed(one, two) for one in (task, other) for two in (ONE, Candidate.of("two"))}
    assert len(seeds) == 4
    assert challenge_seed(task, ONE) == challenge_seed(task, ONE) > 0


def test_the_challenge_is_small_beside_the_task(make_task: MakeTask) -> None:
    assert [case.id for case in asked_about(make_task().cases)] == ["3", "4", "2"]
    large = make_task(("[64]", "[100000]"), ("[33]", "[100000]"), ("[17, 5]", "[9, 9]"), ("[3000]", "[100000]"))
    assert [case.id for case in asked_about(large.cases)] == ["4", "1"]
    assert [case.id for case in asked_about(large.cases[:1])] == ["1"]


def test_large_cases_that_a_constant_answers_are_asked_about_too(make_task: MakeTask) -> None:
    task = make_task()
    large = [case for case in task.cases if case.id in "15"]
    assert [question.of for question in fresh_values(task, 1)] == ["3", "4", "2"]
    assert sorted(question.of for question in fresh_values(task, 1, large)) == ["1", "2", "3", "4", "5"]
    assert [question.of for question in fresh_values(task, 1, task.cases[1:4])] == ["3", "4", "2"]
    orders = {tuple(question.of for question in fresh_values(task, seed, large)[3:]) for seed in range(1, 20)}
    assert orders == {("1", "5"), ("5", "1")}
    huge = make_task(("[40, 100]", "[4000, 10000]")).cases
    assert [question.of for question in fresh_values(task, 1, huge[:1])] == ["3", "4", "2"]


def test_whether_an_output_looks_constant_is_told_from_its_first_values(
    make_task: MakeTask, library: CaseLibrary, tmp_path: Path
) -> None:
    def constant(task: Task) -> set[bool]:
        return {has_a_constant_output(task, item, tmp_path) for item in library.prepare(task, task.cases)}

    assert constant(make_task()) == {False}
    assert constant(make_task(("range = [1, 2]", "range = [1.5, 1.5]"))) == {True}
    assert constant(make_task(("return 2 * x", "return x * float('nan')"))) == {False}
    pair = make_task(
        ('y = "same:x"', 'y = "same:x", z = "int32"'), ("return 2 * x", "return 2 * x, (0 * x).astype('i4') + 7")
    )
    assert constant(pair) == {True}  # one of its outputs


@pytest.fixture
def verdict(task: Task, library: CaseLibrary, scripted: Any, tmp_path: Path) -> Callable[..., Outcome]:
    def judge(kernel: Callable[[LaunchCase], Any], task: Task = task) -> Outcome:
        evaluator = TaskEvaluator(scripted(kernel=kernel), library)
        return evaluator.evaluate(task, ONE, tmp_path / "work", promote=lambda times_us: True)

    return judge


def test_answers_learned_from_the_values_of_the_cases_do_not_pass(
    verdict: Callable[..., Outcome], double: Callable[[LaunchCase], Any]
) -> None:
    known: dict[str, Any] = {}

    def kernel(case: LaunchCase) -> Any:
        name = case.case_id.partition("-")[0]
        if name == case.case_id:
            known[name] = double(case)
        return known[name] if "fresh" in case.case_id else double(case)

    outcome = verdict(kernel)
    assert (outcome.stage, outcome.verdict, outcome.passed_count) == (Stage.VERIFY, Verdict.FAILED, 5)
    first, second = outcome.diagnostics
    assert (first.kind, first.case_id, second.kind) == ("fresh-values", "3", "wrong-value")
    assert first.message == "right on the values of case 3, wrong on fresh ones of the same shapes (x [33])"


def test_shapes_beside_those_of_the_task_have_to_be_right_too(
    verdict: Callable[..., Outcome], double: Callable[[LaunchCase], Any], make_task: MakeTask
) -> None:
    def kernel(case: LaunchCase) -> Any:
        (y,) = double(case)
        return [y if y.size in (4000, 64, 33, 85, 3000) else np.zeros_like(y)]

    outcome = verdict(kernel)
    assert (outcome.stage, [found.kind for found in outcome.diagnostics]) == (
        Stage.VERIFY,
        ["other-shape", "wrong-value"],
    )
    assert "case 3 with x [34]" in outcome.diagnostics[0].message
    fixed = make_task(('text = "y', 'fixed_shapes = true\ntext = "y'))
    assert verdict(kernel, fixed).verdict is Verdict.VERIFIED


def test_shapes_that_the_reference_refuses_are_not_asked_for(
    verdict: Callable[..., Outcome], double: Callable[[LaunchCase], Any], make_task: MakeTask
) -> None:
    reference = (
        "def reference(x):\n    if x.shape[-1] in (34, 65, 6):\n        raise ValueError(x.shape)\n    return 2 * x\n"
    )
    asked: list[tuple[int, ...]] = []

    def kernel(case: LaunchCase) -> Any:
        if "grown" in case.case_id:
            assert case.inputs[0] is not None
            asked.append(case.inputs[0].spec.shape)
        return double(case)

    assert verdict(kernel, make_task(reference=reference)).verdict is Verdict.VERIFIED
    assert asked == [(18, 5)]  # the others have no shape left that the reference takes
