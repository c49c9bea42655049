"""The suites whose folders KOPE reads as they are: which one a folder belongs to, and what is in it.

Each suite has a module of its own that reads one task; here is only the table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kope.errors import TaskError
from kope.model import Task
from kope.task import cann_bench, model_file


@dataclass(frozen=True, slots=True)
class Suite:
    """One kind of suite.

    is_task: whether a path is one of its tasks. tasks: the paths of all tasks below a folder, in order; () when the
    folder is none of this suite. task_name: the name KOPE gives a path. load: reads one, raises TaskError. load_many:
    reads several at once, where that is cheaper.
    """

    name: str
    is_task: Callable[[Path], bool]
    tasks: Callable[[Path], tuple[Path, ...]]
    task_name: Callable[[Path], str]
    load: Callable[[Path], Task]
    load_many: Callable[[Sequence[Path]], list[Task | TaskError]] | None = None


SUITES = (
    Suite(
        cann_bench.SUITE,
        cann_bench.is_operator,
        cann_bench.operators,
        cann_bench.task_name,
        cann_bench.load_operator,
    ),
    Suite(
        model_file.KERNEL_BENCH,
        model_file.is_kernel_bench,
        model_file.kernel_bench_files,
        model_file.task_name,
        model_file.load_file,
        model_file.load_files,
    ),
    Suite(
        model_file.MULTI_KERNEL_BENCH,
        model_file.is_multi_kernel_bench,
        model_file.multi_kernel_bench_files,
        model_file.task_name,
        model_file.load_file,
        model_file.load_files,
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
    loaded = suite.load_many(paths) if suite.load_many is not None else [_task_or_error(suite, path) for path in paths]
    tasks = [one for one in loaded if isinstance(one, Task)]
    return suite, tasks, [one for one in loaded if isinstance(one, TaskError)]


def _task_or_error(suite: Suite, path: Path) -> Task | TaskError:
    try:
        return suite.load(path)
    except TaskError as error:
        return error
