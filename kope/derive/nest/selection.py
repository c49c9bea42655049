"""The few largest or smallest elements of rows, one after the other; what sorts whole rows is passes.py's business."""

from __future__ import annotations

import math

from kope.derive.nest.tensors import TensorBuilder

WORTH = 10
"""A round reads a row a few times where a sort compares each element with all others: rows have to be so many times as
long as what is selected."""


def pays(extent: int, count: int) -> bool:
    """Whether selecting so many elements of rows of this extent costs less than sorting the rows."""
    return 0 < count * WORTH <= extent


def selected(b: TensorBuilder, x: int, axis: int, count: int, largest: bool) -> tuple[int, int]:
    """The `count` largest or smallest elements along an axis, in order, and their places; NaN counts as the largest.

    Of equal elements the first comes first. Every round takes the extreme of what comes after the last one taken: that
    is seen from its value and place alone, nothing is crossed out.
    """
    shape, kind = b.shape(x), b.kind(x)
    extent = shape[axis]
    place = b.expand(b.reshape(b.count(extent), [extent, *[1] * (len(shape) - axis - 1)]), shape)
    key = b.pointwise("cast", x, kind="float") if kind != "float" else x
    key = key if largest else b.pointwise("neg", key)
    aside = float(-extent if largest else extent)  # NaN is as large as infinity, and comes before (or after) it
    if kind == "float":
        nan = b.pointwise("isnan", x)
        key = b.pointwise("select", nan, b.scalar(math.inf if largest else -math.inf), key)
        place = b.pointwise("select", nan, b.pointwise("add", place, b.scalar(aside, "int")), place)
    values: list[int] = []
    places: list[int] = []
    for _ in range(count):
        left = key
        if values:
            lower = b.pointwise("lt", key, values[-1])
            behind = b.pointwise("and", b.pointwise("eq", key, values[-1]), b.pointwise("gt", place, places[-1]))
            left_over = b.pointwise("or", lower, behind)
            left = b.pointwise("select", left_over, key, b.scalar(-math.inf))
        values.append(b.reduce("amax", left, [axis], keepdims=True))
        here = b.pointwise("eq", key, values[-1])
        here = here if left == key else b.pointwise("and", here, left_over)
        where = b.pointwise("select", here, place, b.scalar(2.0 * extent, "int"))
        places.append(b.reduce("amin", where, [axis], keepdims=True))
    made = (*shape[:axis], count, *shape[axis + 1 :])
    value, found = b.add("cat", values, made, "float", axis), b.add("cat", places, made, "int", axis)
    value = value if largest else b.pointwise("neg", value)
    if kind != "float":
        return b.pointwise("cast", value, kind=kind), found
    bound = b.scalar(0.0 if largest else float(extent), "int")
    odd = b.pointwise("lt" if largest else "ge", found, bound)
    value = b.pointwise("select", odd, b.scalar(math.nan), value)
    return value, b.pointwise("select", odd, b.pointwise("sub", found, b.scalar(aside, "int")), found)
