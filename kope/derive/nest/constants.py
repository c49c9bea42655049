"""Arrays of numbers that a reference makes itself, as nodes: one number, counts along an axis, or a few spelled out."""

from __future__ import annotations

from typing import Any

import numpy as np

from kope.derive.nest.call import finite
from kope.derive.nest.tensors import TensorBuilder
from kope.errors import DeriveError

LARGEST_TABLE = 64
"""Numbers that are written into a kernel one by one."""


def constant(builder: TensorBuilder, array: Any) -> int:
    """A node for an array of numbers. Raises DeriveError for a large one without a simple pattern."""
    kind = {"b": "bool", "i": "int", "u": "int"}.get(array.dtype.kind, "float")
    if array.size and np.all(array == array.flat[0]):
        return builder.expand(builder.scalar(finite(float(array.flat[0])), kind), array.shape)
    if array.size == 0:
        return builder.expand(builder.scalar(0.0, kind), array.shape)
    if array.dtype.kind in "iu" and (found := _counted(builder, array)) is not None:
        return found
    if array.size > LARGEST_TABLE:
        raise DeriveError(f"the reference makes a table of {array.size} numbers; give it as an input")
    parts = [builder.reshape(builder.scalar(finite(float(value)), kind), [1]) for value in array.flat]
    return builder.reshape(builder.add("cat", parts, (len(parts),), kind, 0), array.shape)


def _counted(builder: TensorBuilder, array: Any) -> int | None:
    """start + step * place along one axis, the same along all others."""
    varying = [axis for axis in range(array.ndim) if array.shape[axis] > 1 and np.any(np.diff(array, axis=axis))]
    if len(varying) != 1:
        return None
    axis = varying[0]
    line = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])[0].astype(np.int64)
    steps = np.diff(line)
    if np.any(steps != steps[0]):
        return None
    count = builder.count(len(line), int(line[0]), int(steps[0]))
    return builder.expand(builder.reshape(count, [len(line), *[1] * (array.ndim - axis - 1)]), array.shape)
