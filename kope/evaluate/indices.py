"""The strict verdict on outputs that are indices into an input: right when they point to what the reference points to.

Which of several equal elements an index names is free, so positions are not compared; what they point to is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kope.evaluate.compare import MISMATCH, Comparison
from kope.evaluate.dtypes import file_dtype
from kope.evaluate.prepared import PreparedCase
from kope.model import Case, Task, TensorFile


def axis_of(axis: int | str, case: Case) -> int:
    """Return an axis given as a number or as the name of an attribute."""
    value = case.attrs[axis] if isinstance(axis, str) else axis
    assert isinstance(value, int | float)
    return int(value)


def gathered(x: NDArray[Any], index: NDArray[np.int64], axis: int) -> NDArray[Any]:
    """Return the elements an index points to along an axis; other axes of the index may be shorter than those of x."""
    at = axis % x.ndim
    part = x[tuple(slice(None) if k == at else slice(index.shape[k]) for k in range(x.ndim))]
    return np.take_along_axis(part, index, at)


def points_into(task: Task, item: PreparedCase, name: str) -> tuple[TensorFile, int] | None:
    """Return the input an output points into and the axis, None for an output that is compared by value."""
    declared = next((output for output in task.outputs if output.name == name), None)
    if declared is None or declared.check != "index":
        return None
    source = dict(zip(task.inputs, item.inputs, strict=True)).get(declared.points_into)
    return None if source is None else (source, axis_of(declared.axis, item.case))


def compare_indices(by_value: Comparison, got: Path, want: Path, source: TensorFile, axis: int) -> Comparison:
    """Judge an index output that did not pass by value: what is wrong once equal elements count as one.

    An element is right when it equals the reference's, or when both are in range and the input's elements there are
    equal (NaN equals NaN). Where the reference names no element of a slice twice, neither may the candidate.
    """
    if by_value.written_bytes != by_value.expected_bytes:
        return by_value
    spec = by_value.spec
    mine, right = (
        np.fromfile(path, file_dtype(spec.dtype)).astype(np.int64).reshape(spec.shape) for path in (got, want)
    )
    wrong = np.flatnonzero(~_right(mine, right, _read(source), axis))
    return replace(
        by_value,
        error=MISMATCH if wrong.size else 0.0,
        mean=float("nan") if wrong.size else 0.0,
        wrong=int(wrong.size),
        positions=wrong,
        got=mine.reshape(-1)[wrong].astype(np.float64),
        want=right.reshape(-1)[wrong].astype(np.float64),
    )


def _read(file: TensorFile) -> NDArray[Any]:
    assert file.path is not None
    return np.fromfile(file.path, file_dtype(file.spec.dtype)).reshape(file.spec.shape)


def _right(mine: NDArray[np.int64], right: NDArray[np.int64], x: NDArray[Any], axis: int) -> NDArray[np.bool_]:
    at = axis % x.ndim
    if mine.ndim == x.ndim - 1:
        mine, right = np.expand_dims(mine, at), np.expand_dims(right, at)
    extent = x.shape[at]
    known = (mine >= 0) & (mine < extent) & (right >= 0) & (right < extent)
    pointed, expected = (gathered(x, np.clip(index, 0, extent - 1), at) for index in (mine, right))
    same = (pointed == expected) | ((pointed != pointed) & (expected != expected))
    twice = _repeats(mine, at) & ~_repeats(right, at).any(axis=at, keepdims=True)
    good: NDArray[np.bool_] = ((mine == right) | (known & same)) & ~twice
    return good


def _repeats(index: NDArray[np.int64], axis: int) -> NDArray[np.bool_]:
    """Return which elements name what an earlier element of the same slice names."""
    order = np.argsort(index, axis=axis, kind="stable")
    ordered = np.take_along_axis(index, order, axis)
    again = np.zeros(index.shape, np.bool_)
    later = tuple(slice(1, None) if k == axis else slice(None) for k in range(index.ndim))
    earlier = tuple(slice(None, -1) if k == axis else slice(None) for k in range(index.ndim))
    again[later] = ordered[later] == ordered[earlier]
    found = np.zeros(index.shape, np.bool_)
    np.put_along_axis(found, order, again, axis)
    return found
