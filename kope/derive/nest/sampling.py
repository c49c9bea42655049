"""Interpolation at places between elements: resizing, and sampling at coordinates that are data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from kope.derive.nest import composed
from kope.derive.nest.tensors import TensorBuilder
from kope.errors import DeriveError

_LARGEST_DENOMINATOR = 4096
"""Of a given scale as a quotient; numerators then stay whole numbers of float32 along axes of any usual length."""


def resize_linear(b: TensorBuilder, x: int, axis: int, made: int, align_corners: bool, scale: float | None) -> int:
    """One axis at another number of places, linearly between neighbours, as PyTorch's upsampling does."""
    extent = b.shape(x)[axis]
    if made == extent and (align_corners or scale in (None, 1.0)):
        return x
    low, share = _source_place(b, extent, made, align_corners, scale)
    high = b.pointwise("min", b.pointwise("add", low, b.scalar(1.0)), b.scalar(float(extent - 1)))
    front = [axis, *(other for other in range(len(b.shape(x))) if other != axis)]
    moved = b.packed(b.permute(x, front))
    rest = b.shape(moved)[1:]
    first, second = (
        b.add("take", (moved, b.pointwise("cast", index, kind="int")), (made, *rest), b.kind(x), (0,))
        for index in (low, high)
    )
    weight = b.reshape(share, [made, *[1] * len(rest)])
    rest_weight = b.pointwise(
        "sub", b.scalar(1.0), weight
    )  # not a difference of two neighbours: infinities would be NaN
    mixed = b.pointwise("add", b.pointwise("mul", rest_weight, first), b.pointwise("mul", weight, second))
    return b.permute(mixed, [front.index(other) for other in range(len(front))])


def _source_place(
    b: TensorBuilder, extent: int, made: int, align_corners: bool, scale: float | None
) -> tuple[int, int]:
    """For every place of the result the last place of the source that is not right of it, and how far it is from there.

    Place k lies at n / d with whole numbers: a rounded quotient would be off by more the further out k is.
    """
    k = b.pointwise("cast", b.count(made), kind="float")
    if align_corners:
        ratio = Fraction(extent - 1, made - 1) if made > 1 else Fraction(0)
        numerator, denominator = b.pointwise("mul", k, b.scalar(float(ratio.numerator))), ratio.denominator
    else:
        ratio = Fraction(1.0 / scale).limit_denominator(_LARGEST_DENOMINATOR) if scale else Fraction(extent, made)
        odd = b.pointwise("add", b.pointwise("mul", k, b.scalar(2.0)), b.scalar(1.0))
        scaled = b.pointwise("mul", odd, b.scalar(float(ratio.numerator)))
        numerator = b.pointwise("max", b.pointwise("sub", scaled, b.scalar(float(ratio.denominator))), b.scalar(0.0))
        denominator = 2 * ratio.denominator
    low = b.pointwise("floor", b.pointwise("div", numerator, b.scalar(float(denominator))))
    low = b.pointwise("min", low, b.scalar(float(extent - 1)))
    rest = b.pointwise("sub", numerator, b.pointwise("mul", low, b.scalar(float(denominator))))
    return low, b.pointwise("div", rest, b.scalar(float(denominator)))


def grid_sample(b: TensorBuilder, x: int, grid: int, mode: str, padding: str, align_corners: bool) -> int:
    """x[n, c, ...] at the coordinates grid[n, ..., axis], innermost axis first, each from -1 to 1."""
    if mode not in ("bilinear", "nearest"):
        raise DeriveError(f"grid sampling of mode {mode} is not supported")
    batch, channels, *extents = b.shape(x)
    places = b.shape(grid)[1:-1]
    axes = range(len(extents))
    coordinates = []
    for axis in axes:
        component = b.slice(grid, len(places) + 1, len(extents) - 1 - axis, len(extents) - axis)
        flat = b.packed(b.reshape(component, [batch, *places]))
        coordinates.append(_unnormalized(b, flat, extents[axis], padding, align_corners))
    rows = b.packed(b.permute(x, [0, *(axis + 2 for axis in axes), 1]))
    rows = b.reshape(rows, [batch * math.prod(extents), channels])
    lows = [b.pointwise("rint" if mode == "nearest" else "floor", place) for place in coordinates]
    total: int | None = None
    for corner in product((0, 1), repeat=0 if mode == "nearest" else len(extents)):
        sides = corner or (0,) * len(extents)
        value = _corner(b, rows, coordinates, lows, sides, extents, mode)
        total = value if total is None else b.pointwise("add", total, value)
    assert total is not None
    return b.permute(total, [0, len(places) + 1, *range(1, len(places) + 1)])


def _unnormalized(b: TensorBuilder, place: int, extent: int, padding: str, align_corners: bool) -> int:
    """A coordinate as a place along an axis, brought inside as the padding says."""
    place = b.pointwise("add", place, b.scalar(1.0))
    if align_corners:
        place = b.pointwise("mul", place, b.scalar((extent - 1) / 2.0))
    else:
        place = b.pointwise("mul", place, b.scalar(extent / 2.0))
        place = b.pointwise("sub", place, b.scalar(0.5))
    if padding == "reflection":
        place = _reflected(b, place, extent, align_corners)
    if padding in ("reflection", "border"):
        place = composed.clamp(b, place, b.scalar(0.0), b.scalar(float(extent - 1)))
    return place


def _reflected(b: TensorBuilder, place: int, extent: int, align_corners: bool) -> int:
    """Back from the borders as often as needed: a triangle wave."""
    low, span = (0.0, float(extent - 1)) if align_corners else (-0.5, float(extent))
    if span <= 0.0:
        return b.pointwise("mul", place, b.scalar(0.0))
    size = b.pointwise("abs", b.pointwise("sub", place, b.scalar(low)))
    period = b.scalar(2.0 * span)
    turns = b.pointwise("floor", b.pointwise("div", size, period))
    inside = b.pointwise("sub", size, b.pointwise("mul", turns, period))
    back = b.pointwise("sub", period, inside)
    return b.pointwise("add", b.pointwise("min", inside, back), b.scalar(low))


def _corner(
    b: TensorBuilder, rows: int, places: Sequence[int], lows: Sequence[int], sides: Sequence[int],
    extents: Sequence[int], mode: str,
) -> int:  # fmt: skip
    """What one corner around every place adds: its row times its share, nothing where it lies outside."""
    batch, *shape = b.shape(places[0])
    index: int | None = None
    within: int | None = None
    share = b.scalar(1.0)
    for place, low, side, extent in zip(places, lows, sides, extents, strict=True):
        at = b.pointwise("add", low, b.scalar(float(side))) if side else low
        inside = b.pointwise(
            "and", b.pointwise("ge", at, b.scalar(0.0)), b.pointwise("lt", at, b.scalar(float(extent)))
        )
        if mode != "nearest":
            distance = b.pointwise("abs", b.pointwise("sub", place, at))
            share = b.pointwise("mul", share, b.pointwise("sub", b.scalar(1.0), distance))
        within = inside if within is None else b.pointwise("and", within, inside)
        safe = composed.clamp(b, at, b.scalar(0.0), b.scalar(float(extent - 1)))
        index = safe if index is None else b.pointwise("add", b.pointwise("mul", index, b.scalar(float(extent))), safe)
    assert index is not None and within is not None
    count = b.reshape(b.count(batch), [batch, *[1] * len(shape)])
    first = b.pointwise("mul", count, b.scalar(float(math.prod(extents))))
    where = b.pointwise("cast", b.pointwise("add", index, first), kind="int")
    channels = b.shape(rows)[1]
    taken = b.add("take", (rows, where), (*b.shape(where), channels), b.kind(rows), (0,))
    part = b.pointwise("mul", taken, _beside(b, share)) if mode != "nearest" else taken
    return b.pointwise("select", _beside(b, within), part, b.scalar(0.0))


def _beside(b: TensorBuilder, place: int) -> int:
    """A value of every place beside the channels there."""
    return b.reshape(place, [*b.shape(place), 1])
