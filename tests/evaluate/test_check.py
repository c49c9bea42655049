"""Checking a task: the reference runs and repeats itself, and cases that accept nothing-at-all are marked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kope.errors import ReferenceError_
from kope.evaluate import CaseLibrary
from kope.evaluate.check import check_task
from kope.model import Task, TensorSpec
from kope.task import load_task, new_task

MakeTask = Callable[..., Task]


def test_a_good_task_has_no_warnings(task: Task, library: CaseLibrary) -> None:
    said: list[str] = []
    check = check_task(task, library, progress=said.append)
    assert check.warnings == ()
    assert check.cases[2].outputs == (TensorSpec("y", (33,), "float16"),)
    assert check.reference_s > 0
    assert said[0] == "running the reference on 5 cases"
    assert check_task(task, library).reference_s == 0


def test_a_new_task_passes_its_check(tmp_path: Path, library: CaseLibrary) -> None:
    check = check_task(load_task(new_task("my_op", tmp_path)), library)
    assert (check.warnings, len(check.cases)) == ((), 6)


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        (("return 2 * x", "return 0 * x"), ("zeros", "mean")),
        (("return 2 * x", "return x / x"), ("ones", "mean")),
        (("return 2 * x", "return x + 0"), ("copy",)),
        (("range = [1, 2]", "range = [1.5, 1.5]"), ("mean",)),
        (("return 2 * x", "return x * float('nan')"), ("nans",)),
        (("range = [1, 2]", "range = [0, 2]"), ()),
    ],
)
def test_what_a_case_accepts_besides_the_right_values_is_named(
    make_task: MakeTask, library: CaseLibrary, change: tuple[str, str], accepted: tuple[str, ...]
) -> None:
    check = check_task(make_task(change), library)
    assert {case.null_candidates for case in check.cases} == {accepted}
    assert len(check.warnings) == (5 if accepted else 0)
    if accepted:
        assert check.warnings[0].startswith(f"case 1 accepts {', '.join(accepted)}: it cannot tell")


def test_a_task_of_aligned_sizes_alone_is_warned_about(make_task: MakeTask, library: CaseLibrary) -> None:
    task = make_task(("[33]", "[32]"), ("[17, 5]", "[16, 5]"), ("[3000]", "[3008]"))
    assert check_task(task, library).warnings == (
        "every tensor has a multiple of 16 elements: kernels with a wrong tail pass; add an odd size",
    )


def test_a_reference_that_does_not_repeat_itself_is_refused(make_task: MakeTask, library: CaseLibrary) -> None:
    source = "import numpy as np\n\ndef reference(x):\n    return x + np.random.default_rng().random()\n"
    with pytest.raises(ReferenceError_, match=r"case 3 gives other values each time; remove what is random"):
        check_task(make_task(reference=source), library)
