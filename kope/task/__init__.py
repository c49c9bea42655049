"""Tasks: operators to write, as folders that people write by hand. Running a reference is the evaluator's business."""

from kope.task.lookup import find_task, list_folders, read_tasks, shipped_folder
from kope.task.native import load_task
from kope.task.scaffold import new_task

__all__ = ["find_task", "list_folders", "load_task", "new_task", "read_tasks", "shipped_folder"]
