"""Finds tasks: a folder, or a name on the task path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kope import resources
from kope.errors import TaskError
from kope.model import Task
from kope.task.fields import nearest
from kope.task.native import TASK_FILE, load_task


def shipped_folder() -> Path:
    """Return the folder of the tasks that come with KOPE."""
    return resources.folder("examples") / "tasks"


def list_folders(path: Sequence[Path]) -> dict[str, Path]:
    """Return the task folders on the path by name, sorted; an earlier folder hides a later one of the same name."""
    found: dict[str, Path] = {}
    for root in path:
        if root.is_dir():
            for folder in root.iterdir():
                if (folder / TASK_FILE).is_file():
                    found.setdefault(folder.name, folder)
    return dict(sorted(found.items()))


def find_task(task: str | Path, path: Sequence[Path]) -> Task:
    """Load a task given as a folder or as a name on the path. Raises TaskError with the nearest name.

    A bare word is a name first and a folder of the working directory second; anything with a separator is a folder.
    """
    text = str(task)
    looks_like_folder = "/" in text or text in (".", "..")
    if not looks_like_folder:
        folders = list_folders(path)
        if text in folders:
            return load_task(folders[text])
    folder = Path(text)
    if folder.is_dir() or looks_like_folder:
        return load_task(folder)
    names = list(list_folders(path))
    raise TaskError(f"no task {text!r}: neither a folder nor on the task path; {nearest(text, names)}")


def read_tasks(path: Sequence[Path]) -> tuple[list[Task], list[TaskError]]:
    """Load every task on the path. One malformed folder does not hide the others: its error is returned beside them."""
    tasks, errors = [], []
    for folder in list_folders(path).values():
        try:
            tasks.append(load_task(folder))
        except TaskError as error:
            errors.append(error)
    return tasks, errors
