"""Cases that are themselves at fault: flagged, and no reason to refuse a candidate that does as well as can be done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kope.evaluate import CaseLibrary, TaskEvaluator
from kope.evaluate.check import check_task
from kope.evaluate.rules import case_tolerance, reduction_terms
from kope.model import Candidate, LaunchCase, Outcome, Task, Tolerance, Verdict

from .conftest import read

MakeTask = Callable[..., Task]

# Large values cancel: float32 cannot give the answer that float64 gives.
CANCEL = """
text = "y = (x + 1e6) - 1e6"
inputs = { x = { range = [1, 2] } }
outputs = { y = "same:x" }
fixed_shapes = true
cases = [ { dtype = "float32", shape = [64] } ]
"""
CANCEL_REFERENCE = "def reference(x):\n    return (x + x.dtype.type(1e6)) - x.dtype.type(1e6)\n"


@pytest.fixture
def verdict(library: CaseLibrary, scripted: Any, tmp_path: Path) -> Callable[..., Outcome]:
    def judge(task: Task, kernel: Callable[[LaunchCase], Any]) -> Outcome:
        evaluator = TaskEvaluator(scripted(kernel=kernel), library)
        return evaluator.evaluate(task, Candidate.of("one"), tmp_path / "work", promote=lambda times_us: True)

    return judge


def cancelling(case: LaunchCase) -> list[Any]:
    x = read(case.inputs[0])
    return [(x + np.float32(1e6)) - np.float32(1e6)]


def test_a_faithful_kernel_is_not_blamed_for_a_case_that_float32_cannot_do(
    make_task: MakeTask, verdict: Callable[..., Outcome]
) -> None:
    task = make_task(toml=CANCEL, reference=CANCEL_REFERENCE, name="cancel")
    outcome = verdict(task, cancelling)
    assert (outcome.verdict, [(found.kind, found.severity) for found in outcome.diagnostics]) == (
        Verdict.VERIFIED,
        [("disputed-case", "warning")],
    )
    (case,) = outcome.cases
    assert (case.passed, outcome.passed_count) == (None, 0)
    assert case.error is not None and case.error > 1
    runs = [step["step"] for step in outcome.steps].count("reference")
    assert (
        runs == 5
    )  # in float64 and float32 for the case; once for the challenge, in float32 for each of its two cases


@pytest.mark.parametrize("wrong", [lambda x: 0 * x, lambda x: x + np.float32(1), lambda x: x * np.nan])
def test_a_disputed_case_still_refuses_what_is_wrong(
    make_task: MakeTask, verdict: Callable[..., Outcome], wrong: Callable[[Any], Any]
) -> None:
    task = make_task(toml=CANCEL, reference=CANCEL_REFERENCE, name="cancel")
    outcome = verdict(task, lambda case: [wrong(cancelling(case)[0]).astype(np.float32)])
    assert (outcome.verdict, outcome.diagnostics[0].kind) == (Verdict.FAILED, "wrong-value")


def test_a_fair_case_excuses_nothing(task: Task, verdict: Callable[..., Outcome], double: Any) -> None:
    outcome = verdict(task, lambda case: [double(case)[0] * 1.01])
    assert (outcome.verdict, outcome.diagnostics[0].kind) == (Verdict.FAILED, "wrong-value")


def test_nan_where_only_the_native_reference_has_it_is_excused(
    make_task: MakeTask, verdict: Callable[..., Outcome]
) -> None:
    toml = CANCEL.replace("[1, 2]", "[1e30, 2e30]")
    task = make_task(toml=toml, reference="def reference(x):\n    return (x * x) / (x * x)\n", name="overflow")

    def in_float32(case: LaunchCase) -> list[Any]:
        x = read(case.inputs[0])
        with np.errstate(all="ignore"):
            return [(x * x) / (x * x)]

    outcome = verdict(task, in_float32)
    assert (outcome.verdict, outcome.diagnostics[0].kind) == (Verdict.VERIFIED, "disputed-case")
    assert verdict(task, lambda case: [np.full(64, np.inf, np.float32)]).verdict is Verdict.FAILED
    assert verdict(task, lambda case: [np.ones(64, np.float32)]).verdict is Verdict.VERIFIED  # the float64 answer


MATMUL = """
text = "y = a @ b"
inputs = { a = { range = [-1, 1] }, b = { range = [-1, 1] } }
outputs = { y = "same:a" }
native = "in_bfloat16"
cases = [ { dtype = "bfloat16", shape = { a = [257, 4096], b = [4096, 3] } } ]
"""
MATMUL_REFERENCE = """
import ml_dtypes
import numpy as np


def reference(a, b):
    return a @ b


def in_bfloat16(a, b):
    total = np.zeros((a.shape[0], b.shape[1]), ml_dtypes.bfloat16)
    for k in range(a.shape[1]):
        total += np.outer(a[:, k], b[k]).astype(ml_dtypes.bfloat16)
    return total.astype(np.float32)
"""


def test_a_right_float32_kernel_passes_where_a_bfloat16_reference_does_not(
    make_task: MakeTask, verdict: Callable[..., Outcome], library: CaseLibrary
) -> None:
    task = make_task(toml=MATMUL, reference=MATMUL_REFERENCE, name="matmul")

    def right(case: LaunchCase) -> list[Any]:
        a, b = (read(given).astype(np.float32) for given in case.inputs)
        return [(a @ b).astype(ml_dtypes.bfloat16)]

    outcome = verdict(task, right)
    assert (outcome.verdict, outcome.diagnostics, outcome.passed_count) == (Verdict.VERIFIED, (), 1)
    (case,) = check_task(task, library).cases
    assert case.native_error is not None and case.native_error > 1
    assert "case 1 is disputed" in check_task(task, library).warnings[0]


def test_relative_tolerance_alone_would_fail_the_reference_itself(make_task: MakeTask, library: CaseLibrary) -> None:
    toml = CANCEL.replace("[1, 2]", "[-1, 1]").replace(
        "cases =", "tolerance = { float32 = { rtol = 1e-6, atol = 0 } }\ncases ="
    )
    strict = make_task(
        toml=toml, reference="def reference(x):\n    return x * x.dtype.type(0.1) + x * x.dtype.type(-0.0999)\n"
    )
    assert "is disputed" in check_task(strict, library).warnings[0]
    floor = make_task(("atol = 0", "atol = 1e-7"), toml=toml, reference=strict.reference)
    assert not [line for line in check_task(floor, library).warnings if "disputed" in line]


def test_atol_grows_with_the_length_of_the_named_reduction(make_task: MakeTask) -> None:
    toml = """
text = "The sum of each row."
inputs = { x = {}, y = {} }
outputs = { z = "same:x" }
reduction = { x = [-1, 1] }
tolerance = { float32 = { atol = 1e-5 } }
cases = [
  { dtype = "float32", shape = { x = [3, 25, 100], y = [2] } },
  { dtype = "float16", shape = { x = [3, 1, 1], y = [2] } },
]
"""
    task = make_task(toml=toml, reference="def reference(x, y):\n    return x.sum(axis=(1, 2))\n", name="sums")
    assert [reduction_terms(task, case) for case in task.cases] == [2500, 1]
    assert case_tolerance(task, task.cases[0], "float32") == Tolerance(1e-4, pytest.approx(50e-5))
    assert case_tolerance(task, task.cases[1], "float16") == task.tolerance["float16"]
    assert case_tolerance(task, task.cases[0], "int32") == Tolerance(0.0, 0.0)
    plain = make_task(("reduction = { x = [-1, 1] }\n", ""), toml=toml, reference=task.reference, name="sums")
    assert case_tolerance(plain, plain.cases[0], "float32") == Tolerance(1e-4, 1e-5)
    assert plain.digest != task.digest
