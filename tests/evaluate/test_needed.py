"""The floor of a time counts what a correct kernel has to read, no more, and no less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.evaluate.dtypes import file_dtype
from kope.evaluate.needed import needed_inputs, needed_share
from kope.model import Candidate, LaunchCase, Outcome, Task, Verdict

from .conftest import ScriptedTarget

X = """
text = "{text}"
inputs = {{ x = {{ range = [-1, 1] }} }}
outputs = {{ y = "same:x" }}
fixed_shapes = true
cases = [{{ dtype = "{dtype}", shape = [64, 40] }}]
"""
ROWS = """
text = "rows of x"
inputs = { x = { range = [-1, 1] }, rows = { range = [0, 199], dtype = "int32" } }
outputs = { y = "same:x" }
fixed_shapes = true
cases = [{ dtype = "float32", shape = { x = [200, 40], rows = [12] } }]
"""


def shares(task: Task, library: CaseLibrary) -> list[float]:
    (item,) = library.prepare(task, task.cases)
    cut = needed_inputs(task, item, library)
    return [
        now.spec.numel / whole.spec.numel
        for now, whole in zip(cut, item.inputs, strict=True)
        if now is not None and whole is not None
    ]


def one_input(make_task: Callable[..., Task], expression: str, dtype: str = "float32") -> Task:
    return make_task(
        toml=X.format(text=expression, dtype=dtype),
        reference=f"import numpy as np\n\n\ndef reference(x):\n    return {expression}\n",
    )


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("x * 2", "bfloat16"),
        ("x.sum(axis=1)", "float16"),
        ("x.max(axis=0)", "float32"),
        ("np.sort(x, axis=1)[:, -4:]", "float32"),
        ("x / np.sqrt((x * x).mean() + 1e-5)", "float32"),
    ],
)
def test_what_matters_everywhere_counts_whole(
    make_task: Callable[..., Task], library: CaseLibrary, expression: str, dtype: str
) -> None:
    assert shares(one_input(make_task, expression, dtype), library) == [1.0]


@pytest.mark.parametrize(
    ("expression", "read"),
    [("x[::2, ::2]", 0.25), ("x[:, :36]", 0.9), ("x[4:]", 0.94), ("x[:1]", 1 / 64), ("x[::-3]", 0.35)],
)
def test_of_a_slice_no_more_counts_than_is_read(
    make_task: Callable[..., Task], library: CaseLibrary, expression: str, read: float
) -> None:
    (share,) = shares(one_input(make_task, expression), library)
    assert share <= read


def test_of_a_gather_the_rows_and_the_indices_count(make_task: Callable[..., Task], library: CaseLibrary) -> None:
    task = make_task(toml=ROWS, reference="def reference(x, rows):\n    return x[rows]\n")
    of_x, of_rows = shares(task, library)
    assert of_x <= 12 / 200
    assert of_rows > 0.7


def test_a_share_is_certain_or_below_what_was_seen() -> None:
    assert [needed_share(0, 16), needed_share(16, 16)] == [0.0, 1.0]
    assert 0.25 < needed_share(8, 16) < 0.5


def test_it_is_asked_once_per_case(make_task: Callable[..., Task], tmp_path: Path) -> None:
    runner = ReferenceRunner(time_limit_s=20.0)
    task = one_input(make_task, "x[::2]")
    first = shares(task, CaseLibrary(tmp_path / "kept", runner))
    runs = len(runner.steps)
    assert shares(task, CaseLibrary(tmp_path / "kept", runner)) == first
    assert len(runner.steps) == runs


@dataclass
class ByBytes(ScriptedTarget):
    """A chip that moves 1,000 bytes per us."""

    def bound_us(self, case: LaunchCase) -> float:
        moved = [*case.inputs, *case.outputs]
        return sum(one.spec.numel * 4 for one in moved if one is not None) / 1000.0


def outcome(task: Task, library: CaseLibrary, kernel: Callable[[Any], Any], time_us: float, folder: Path) -> Outcome:
    def run(case: LaunchCase) -> list[Any]:
        assert case.inputs[0] is not None and case.inputs[0].path is not None
        spec = case.inputs[0].spec
        return [kernel(np.fromfile(case.inputs[0].path, file_dtype(spec.dtype)).reshape(spec.shape))]

    target = ByBytes(kernel=run, duration_us=lambda case_id, mode: time_us)
    evaluator = TaskEvaluator(target, library)
    return evaluator.evaluate(task, Candidate.of("scripted"), folder / "work", promote=lambda times_us: True)


def test_an_honest_slice_is_verified_and_its_bound_is_that_of_what_it_moves(
    make_task: Callable[..., Task], library: CaseLibrary, tmp_path: Path
) -> None:
    task = one_input(make_task, "x[::4]")
    judged = outcome(task, library, lambda x: x[::4], 5.2, tmp_path)  # 16 rows in, 16 rows out: 5.12 us
    assert judged.verdict is Verdict.VERIFIED, judged.diagnostics
    bound_us = judged.cases[0].bound_us
    assert bound_us is not None and 2.56 <= bound_us <= 5.12


@pytest.mark.parametrize(("expression", "time_us"), [("x[::4]", 2.5), ("x.sum(axis=1, keepdims=True)", 10.2)])
def test_a_time_in_which_what_is_needed_cannot_be_moved_is_refused(
    make_task: Callable[..., Task], library: CaseLibrary, tmp_path: Path, expression: str, time_us: float
) -> None:
    task = one_input(make_task, expression)
    kernel = eval(f"lambda x: {expression}")
    judged = outcome(task, library, kernel, time_us, tmp_path)
    assert [found.kind for found in judged.diagnostics if found.severity == "error"] == ["below-floor"]
