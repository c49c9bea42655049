"""The suites whose folders KOPE reads as they are: which one a folder belongs to, and what is in it.

Each suite has a module of its own that reads one task; here is only the table of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kope.errors import TaskError
from kope.model import Task
from kope.task import cann_bench


@dataclass(frozen=True, slots=True)
class Suite:
    """One kind of suite.

    is_task: whether a path is one of its tasks. tasks: the paths of all tasks below a folder, in order; () when the
    folder is none of this suite. task_name: the name KOPE gives a path. load: reads one, raises TaskError.
    """

    name: str
    is_task: Callable[[Path], bool]
    tasks: Callable[[Path], tuple[Path, ...]]
    task_name: Callable[[Path], str]
    load: Callable[[Path], Task]


SUITES = (
    Suite(
        cann_bench.SUITE,
        cann_bench.is_operator,
        cann_bench.operators,
        cann_bench.task_name,
        cann_bench.load_operator,
    ),
)


def suite_of_task(path: Path) -> Suite | None:
    """Return the suite a path is a task of."""
    return next((suite for suite in SUITES if suite.is_task(path)), None)


def suite_in(folder: Path) -> tuple[Suite, tuple[Path, ...]] | None:
    """Return the suite a folder is, with the paths of its tasks; None when it is none."""
    for suite in SUITES:
        paths = suite.tasks(folder)
        if paths:
            return suite, paths
    return None


def read_suite(folder: Path) -> tuple[Suite, list[Task], list[TaskError]]:
    """Load every task of a suite's folder. What cannot be read is returned beside the rest.

    Raises TaskError when the folder is no suite KOPE knows.
    """
    found = suite_in(folder)
    if found is None:
        known = ", ".join(suite.name for suite in SUITES)
        raise TaskError(f"{folder}: no suite KOPE can read ({known}); give the folder of its checkout")
    suite, paths = found
    tasks: list[Task] = []
    errors: list[TaskError] = []
    for path in paths:
        try:
            tasks.append(suite.load(path))
        except TaskError as error:
            errors.append(error)
    return suite, tasks, errors
