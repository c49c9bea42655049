"""A phase: one loop nest over strided operands that makes one tensor.

Axes are put into the form the device code walks: a fixed number of them, those of extent 1 in front, neighbours joined
where all operands allow it, the last two the rows and columns of a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kope.derive.graph import Graph
from kope.derive.nest.tensors import numel
from kope.derive.nest.views import View
from kope.errors import DeriveError

AXES = 8
REDUCED = (3, 4, 5)
"""Axes that are summed over in a nest that reduces, besides columns."""
ROW, COLUMN = AXES - 2, AXES - 1
LANES = 64
"""Floats of one vector repeat."""
CORES = 40
"""Fewest cores a chip of the family has: a phase is cut into at least so many tiles where it is large enough."""
LEAST_PART = 1024
"""Elements of a reduction that are worth a core of their own."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as a nest reads or writes it: one stride per axis. step: elements it moves on every round of a loop."""

    buffer: str
    dtype: str
    offset: int
    strides: tuple[int, ...]
    step: int = 0


@dataclass(frozen=True, slots=True)
class Phase:
    """One loop nest.

    kind: "map" computes a tensor element by element; "reduce" folds axes of an expression by `op`; "scan" does too and
    stores every partial result; "contract" sums products of two operands; "take" and "put" read and write at places
    given by index operands (after the first operand).
    expression: over the operands, which it loads by their place. across: a reduction also folds the columns. down: it
    folds the rows.
    depth: of contract, the extent of the axis that both factors share innermost. wrap: per index operand the extent and
    the stride of the axis it selects from. run: elements that follow each place of take and put.
    """

    kind: str
    extents: tuple[int, ...]
    operands: tuple[Operand, ...]
    result: Operand
    expression: Graph | None = None
    op: str = ""
    across: bool = False
    down: bool = False
    depth: int = 1
    wrap: tuple[tuple[int, int], ...] = ()
    run: int = 1
    line: int = 0


@dataclass
class Axis:
    """One axis with the stride every operand has along it."""

    extent: int
    strides: tuple[int, ...]


def axes_of(shape: Sequence[int], views: Sequence[View]) -> list[Axis]:
    """Axes of a shape that all views have."""
    return [Axis(extent, tuple(view.strides[k] for view in views)) for k, extent in enumerate(shape)]


def joined(axes: Sequence[Axis]) -> list[Axis]:
    """The same walk with fewer axes: those of extent 1 left out, neighbours in one where every operand allows it."""
    kept: list[Axis] = []
    for axis in axes:
        if axis.extent == 1:
            continue
        if kept and all(o == i * axis.extent for o, i in zip(kept[-1].strides, axis.strides, strict=True)):
            kept[-1] = Axis(kept[-1].extent * axis.extent, axis.strides)
        else:
            kept.append(axis)
    return kept


def filled(axes: Sequence[Axis], count: int, operands: int) -> list[Axis]:
    """Axes of extent 1 in front until there are so many. Raises DeriveError when there are more."""
    if len(axes) > count:
        raise DeriveError(f"a loop nest of {len(axes)} axes, of which {count} are supported; reshape the operands")
    return [Axis(1, (0,) * operands)] * (count - len(axes)) + list(axes)


def with_columns_of_stride_one(axes: list[Axis], result: int) -> list[Axis]:
    """A nest whose result is written in whole runs: a column axis of extent 1 where the last axis jumps in memory."""
    if not axes or axes[-1].strides[result] != 1:
        return [*axes, Axis(1, (1,) * (len(axes[0].strides) if axes else result + 1))]
    return axes


def nearest_rows(axes: list[Axis], operands: int) -> list[Axis]:
    """Put that axis next to the columns along which operands that jump from column to column lie without gaps: such a
    tile is read in runs and turned over."""
    if len(axes) < 3:
        return axes
    jumping = [k for k in range(operands) if axes[-1].strides[k] not in (0, 1)]
    for k in jumping:
        for at, axis in enumerate(axes[:-2]):
            if axis.strides[k] == 1:
                return [*axes[:at], *axes[at + 1 : -1], axis, axes[-1]]
    return axes


def operand(view: View, axes: Sequence[Axis], at: int) -> Operand:
    """A view along the axes of a nest."""
    return Operand(view.buffer, view.dtype, view.offset, tuple(axis.strides[at] for axis in axes))


def map_nest(shape: Sequence[int], views: Sequence[View]) -> list[Axis]:
    """Axes of a nest that visits every element of the last view, the result, once."""
    axes = with_columns_of_stride_one(joined(axes_of(shape, views)), len(views) - 1)
    return filled(nearest_rows(axes, len(views) - 1), AXES, len(views))


def reduce_nest(
    kept: Sequence[Axis], reduced: Sequence[Axis], result: int, *, may_cross: bool
) -> tuple[list[Axis], bool]:
    """Axes of a nest that folds some of them, and whether columns are folded too.

    Columns are the axis along which most operands lie without gaps.
    """
    operands = result + 1
    kept, reduced = joined(kept), joined(reduced)

    def dense(axis: Axis) -> int:
        return sum(stride == 1 for stride in axis.strides[:result]) * min(axis.extent, 64)

    inner = max(reduced, key=dense, default=None)
    column = kept[-1] if kept else None
    across = bool(inner is not None and may_cross and (column is None or dense(inner) > dense(column)))
    one = Axis(1, (1,) * operands)
    if across:
        assert inner is not None
        rest = [axis for axis in reduced if axis is not inner]
        rows, outer = (kept[-1], kept[:-1]) if kept and kept[-1].strides[result] == 1 else (one, list(kept))
        last = inner
    else:
        rest = list(reduced)
        kept = with_columns_of_stride_one(list(kept), result)
        last, outer = kept[-1], kept[:-1]
        rows = outer[-1] if outer else one
        outer = outer[:-1]
    axes = [*filled(outer, 3, operands), *filled(rest, 3, operands), rows, last]
    return axes, across


def down_nest(axes: Sequence[Axis], operands: int) -> list[Axis] | None:
    """A nest of reduce_nest with what it folds as its rows: many of them are folded at a time.

    None when it folds columns only, has no room for another outer axis, or has tiles that hold more rows of results
    than rows to fold.
    """
    folded = [at for at in REDUCED if axes[at].extent > 1]
    if not folded or (axes[ROW].extent > 1 and axes[0].extent > 1):
        return None
    deep = max(folded, key=lambda at: axes[at].extent)
    kept, depth = axes[ROW].extent, axes[deep].extent
    if kept * -(-depth // LANES) > depth * -(-kept // LANES):
        return None
    rest = [axes[at] for at in REDUCED if at != deep]
    outer = list(axes[:3])
    if axes[ROW].extent > 1:
        outer = [*outer[1:], axes[ROW]]
    return [*outer, *filled(rest, 3, operands), axes[deep], axes[COLUMN]]


def cut_of(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, int] | None:
    """Which folded axis to cut, into how many equal parts, so that every core has some; None where nothing is gained.

    The last axis is cut only when no other one is folded: it is read in runs.
    """
    results = numel([extent for at, extent in enumerate(shape) if at not in axes])
    most = min(-(-CORES * LANES // max(results, 1)), CORES, numel(shape) // LEAST_PART)
    front = [at for at in axes if at < len(shape) - 1 and shape[at] > 1]
    cuts = [
        (parts, at) for at in front or axes for parts in range(2, min(most, shape[at]) + 1) if shape[at] % parts == 0
    ]
    parts, at = max(cuts, default=(1, -1))
    return (at, parts) if parts > 1 else None


def split_axis(axis: Axis, parts: int, result: int) -> tuple[Axis, Axis]:
    """An axis as parts and the places inside one. result: from one part to the next in the last operand, the result."""
    inside = axis.extent // parts
    return Axis(parts, (*(stride * inside for stride in axis.strides[:-1]), result)), Axis(inside, axis.strides)
