"""Views for what is moved or looked up as it is stored: whole bits, and elements at given places."""

from __future__ import annotations

from typing import Any

from kope.derive.nest.tensors import Shape, broadcast
from kope.derive.nest.views import View


def words(view: View) -> View:
    """A tensor of 64-bit integers as pairs of 32-bit words."""
    strides = (*(stride * 2 for stride in view.strides), 1)
    return View(view.buffer, "float32", (*view.shape, 2), strides, view.offset * 2)


def as_bits(view: View) -> View:
    """A tensor of 32-bit integers as floats that are only moved."""
    return View(view.buffer, "float32", view.shape, view.strides, view.offset)


def at_places(op: str, dims: Any, source: View, indices: list[View]) -> tuple[View, list[View], list[tuple[int, int]]]:
    """The indexed tensor without the axes that are selected from, the indices beside it, and per selected axis its
    extent and stride. All views have the shape of the places."""
    if op.endswith("along"):
        shape = indices[0].shape
        strides = tuple(0 if axis == dims else stride for axis, stride in enumerate(source.strides))
        selected = [dims]
    else:
        common, selected = broadcast(*(view.shape for view in indices)), list(dims)
        kept = [axis for axis in range(len(source.shape)) if axis not in selected]
        shape = (*common, *(source.shape[axis] for axis in kept))
        strides = (*(0,) * len(common), *(source.strides[axis] for axis in kept))
        indices = [with_tail(view.expanded(common), shape) for view in indices]
    base = View(source.buffer, source.dtype, shape, strides, source.offset)
    return base, indices, [(source.shape[dim], source.strides[dim]) for dim in selected]


def with_tail(view: View, shape: Shape) -> View:
    """Axes at the end along which a view stays where it is."""
    missing = len(shape) - len(view.shape)
    return View(view.buffer, view.dtype, shape, (*view.strides, *(0,) * missing), view.offset)
