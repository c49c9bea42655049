"""Writes the folder of a new task: a small operator that runs as it stands, to be edited into one's own."""

from __future__ import annotations

from pathlib import Path

from kope.errors import TaskError
from kope.task.native import TASK_FILE, is_task_name

_TASK = '''\
# What the operator computes, for people and models. Replace it, and the reference beside this file.
text = """
Leaky rectifier, element by element: y = x where x is positive, slope * x elsewhere.
"""
tags = ["elementwise"]

# Inputs in the order of the kernel's call; what is said here holds for every case that does not say otherwise.
inputs = { x = { range = [-3, 3] } }
outputs = { y = "same:x" }  # the dtype: that of an input, or one by name
attrs = { slope = 0.1 }  # numbers, true/false or text, with their defaults

# Small and odd sizes find mistakes, large ones show speed. One shape holds for all inputs; { x = [8, 64], w = [64] }
# gives one for each. special = "nan", "inf", "zeros" or "denormal" puts such values into an eighth of a tensor.
cases = [
  { dtype = "float32", shape = [1024] },
  { dtype = "float16", shape = [1023] },
  { dtype = "bfloat16", shape = [7, 129], attrs = { slope = 0.25 } },
  { dtype = "float32", shape = [300, 1000], special = "inf" },
  { dtype = "float16", shape = [1048577] },
  { dtype = "float32", shape = [4096, 1024] },
]
'''

_REFERENCE = '''\
"""The operator in NumPy: called by keyword with inputs and attributes, floats as float64."""

import numpy as np


def reference(x, *, slope):
    return np.where(x > 0, x, slope * x)
'''


def new_task(name: str, parent: Path) -> Path:
    """Create the folder parent/name with a runnable task and return it. Raises TaskError when that cannot be."""
    if not is_task_name(name):
        raise TaskError(f"{name!r} cannot name a task; use lower-case letters, digits and _, a letter first")
    folder = parent / name
    try:
        folder.mkdir(parents=True)
        (folder / TASK_FILE).write_text(_TASK, encoding="utf-8")
        (folder / "reference.py").write_text(_REFERENCE, encoding="utf-8")
    except FileExistsError:
        raise TaskError(f"{folder} is there already; choose another name or remove it") from None
    except OSError as error:
        raise TaskError(f"{folder}: {error.strerror}; choose a folder that can be written") from error
    return folder
