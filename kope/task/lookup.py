"""Finds tasks: a folder, or a name on the task path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kope import resources
from kope.errors import TaskError
from kope.model import Task
from kope.task.fields import nearest
from kope.task.imported import suite_in, suite_of_task
from kope.task.native import TASK_FILE, load_task


def shipped_folder() -> Path:
    """Return the folder of the tasks that come with KOPE."""
    return resources.folder("examples") / "tasks"


def list_folders(path: Sequence[Path]) -> dict[str, Path]:
    """Return the tasks on the path by name, sorted; an earlier folder hides a later one of the same name.

    A folder on the path holds task folders, or is a suite that KOPE can import.
    """
    found: dict[str, Path] = {}
    for root in path:
        for name, folder in _tasks_in(root).items() if root.is_dir() else ():
            found.setdefault(name, folder)
    return dict(sorted(found.items()))


def _tasks_in(root: Path) -> dict[str, Path]:
    native = {folder.name: folder for folder in root.iterdir() if (folder / TASK_FILE).is_file()}
    imported = suite_in(root) if not native else None
    return native if imported is None else {imported[0].task_name(place): place for place in imported[1]}


def load_any(place: Path) -> Task:
    """Read a task of KOPE's own format, or of a suite that can be imported. Raises TaskError."""
    suite = suite_of_task(place)
    if suite is not None and not (place / TASK_FILE).is_file():
        return suite.load(place)
    return load_task(place)


def find_task(task: str | Path, path: Sequence[Path]) -> Task:
    """Load a task given as a folder or as a name on the path. Raises TaskError with the nearest name.

    A bare word is a name first and a folder of the working directory second; anything with a separator is a folder.
    """
    text = str(task)
    looks_like_folder = "/" in text or text in (".", "..")
    if not looks_like_folder:
        folders = list_folders(path)
        if text in folders:
            return load_any(folders[text])
    folder = Path(text)
    if folder.exists() or looks_like_folder:
        return load_any(folder)
    names = list(list_folders(path))
    raise TaskError(f"no task {text!r}: neither a folder nor on the task path; {nearest(text, names)}")


def read_tasks(path: Sequence[Path]) -> tuple[list[Task], list[TaskError]]:
    """Load every task on the path. One malformed folder does not hide the others: its error is returned beside them."""
    tasks, errors = [], []
    for folder in list_folders(path).values():
        try:
            tasks.append(load_any(folder))
        except TaskError as error:
            errors.append(error)
    return tasks, errors
