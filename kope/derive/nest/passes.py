"""Operators that are spelled out with others before phases are planned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kope.derive.nest.composed import pad
from kope.derive.nest.tensors import SCANS, TensorBuilder, TensorGraph, TensorNode, numel
from kope.errors import DeriveError

MOST_COMPARISONS = 1 << 31
"""Sorting compares every pair of a row; beyond this many it would take minutes."""

LONGEST_WALK = 64
"""Steps of a scan one after the other; longer ones are cut into pieces."""

Visit = Callable[[TensorBuilder, TensorNode, Sequence[int]], "int | None"]


def spelled_out(graph: TensorGraph) -> TensorGraph:
    """The graph with arg-reductions and sorts in terms of comparisons, counting and reductions.

    Raises DeriveError for a sort of very long rows.
    """
    builder = TensorBuilder()
    place: list[int] = []
    for node in graph.nodes:
        builder.line = node.line
        args = [place[arg] for arg in node.args]
        visit = _PASSES.get(node.op)
        made = visit(builder, node, args) if visit else None
        place.append(builder.add(node.op, args, node.shape, node.kind, *node.params) if made is None else made)
    return builder.finish([place[output] for output in graph.outputs])


def _position(builder: TensorBuilder, shape: Sequence[int], axis: int) -> int:
    """The place along an axis, of every element."""
    count = builder.count(shape[axis])
    return builder.expand(builder.reshape(count, [shape[axis], *[1] * (len(shape) - axis - 1)]), shape)


def _arg_reduction(builder: TensorBuilder, node: TensorNode, args: Sequence[int]) -> int:
    """The smallest place that holds the extreme value; a NaN is extreme."""
    x, axes = args[0], node.params[0]
    shape = builder.shape(x)
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    if len(axes) > 1 or axes != (len(shape) - 1,):
        x = builder.permute(x, [*rest, *axes])
        x = builder.reshape(x, [*(shape[axis] for axis in rest), numel([shape[axis] for axis in axes])])
    shape = builder.shape(x)
    last = len(shape) - 1
    extreme = builder.reduce("amax" if node.op == "argmax" else "amin", x, [last], keepdims=True)
    same = builder.pointwise("eq", x, extreme)
    if builder.kind(x) == "float":
        same = builder.pointwise("or", same, builder.pointwise("isnan", x))
    place = builder.pointwise("select", same, _position(builder, shape, last), builder.scalar(shape[last], "int"))
    return builder.reduce("amin", place, [last])


def _rank(builder: TensorBuilder, x: int, axis: int, descending: bool) -> int:
    """Where every element comes to lie: how many come before it, equal ones in their order."""
    shape = builder.shape(x)
    if numel(shape) * shape[axis] > MOST_COMPARISONS:
        raise DeriveError(f"a sort of {numel(shape) // max(shape[axis], 1)} rows of {shape[axis]} elements is too long")
    mine = builder.reshape(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    other = builder.reshape(x, [*shape[:axis], 1, *shape[axis:]])
    pairs = [*shape[: axis + 1], shape[axis], *shape[axis + 1 :]]
    count, tail = builder.count(shape[axis]), [1] * (len(shape) - axis - 1)
    own = builder.reshape(count, [shape[axis], 1, *tail])
    others = builder.reshape(count, [1, shape[axis], *tail])
    before = builder.pointwise("gt" if descending else "lt", other, mine)
    ties = builder.pointwise("and", builder.pointwise("eq", other, mine), builder.pointwise("lt", others, own))
    if builder.kind(x) == "float":  # NaN counts as the largest
        before, ties = _with_nan(builder, other, mine, before, ties, others, own, descending)
    first = builder.pointwise("or", before, ties)
    assert builder.shape(first) == tuple(pairs)
    return builder.reduce("sum", first, [axis + 1])


def _with_nan(
    builder: TensorBuilder, other: int, mine: int, before: int, ties: int, others: int, own: int, descending: bool
) -> tuple[int, int]:
    other_nan, mine_nan = builder.pointwise("isnan", other), builder.pointwise("isnan", mine)
    both = builder.pointwise("and", other_nan, mine_nan)
    alone = (other_nan, mine_nan) if descending else (mine_nan, other_nan)
    ahead = builder.pointwise("and", alone[0], builder.pointwise("not", alone[1]))
    same = builder.pointwise("and", both, builder.pointwise("lt", others, own))
    return builder.pointwise("or", before, ahead), builder.pointwise("or", ties, same)


def _sort(builder: TensorBuilder, node: TensorNode, args: Sequence[int]) -> int:
    axis, descending = node.params
    x = args[0]
    rank = _rank(builder, x, axis, descending)
    shape = builder.shape(x)
    source = _position(builder, shape, axis) if node.op == "sort-index" else x
    kind = builder.kind(source)
    empty = builder.expand(builder.scalar(0.0, kind), shape)
    return builder.add("put-along", (empty, source, rank), shape, kind, axis, "set")


def _scan(builder: TensorBuilder, node: TensorNode, args: Sequence[int]) -> int:
    """Long axes are scanned in pieces: within every piece, over the ends of the pieces, and both together."""
    axis = node.params[0]
    return scan(builder, node.op, args[0], axis)


def scan(builder: TensorBuilder, op: str, x: int, axis: int) -> int:
    """A scan along one axis; what is walked lies in front, so that every step takes whole runs."""
    shape, kind = builder.shape(x), builder.kind(x)
    extent = shape[axis]
    if extent > LONGEST_WALK:
        return _scan_in_pieces(builder, op, x, axis)
    if axis < len(shape) - 1 or len(shape) == 1:
        return builder.add(op, (x,), shape, kind, axis)
    front = builder.packed(builder.permute(x, [axis, *range(axis)]))
    walked = builder.add(op, (front,), builder.shape(front), kind, 0)
    return builder.permute(walked, [*range(1, len(shape)), 0])


def _scan_in_pieces(builder: TensorBuilder, op: str, x: int, axis: int) -> int:
    shape, kind = builder.shape(x), builder.kind(x)
    extent = shape[axis]
    piece = math.isqrt(extent - 1) + 1
    pieces = -(-extent // piece)
    combine, neutral = _COMBINED[op]
    lead, tail = shape[:axis], shape[axis + 1 :]
    widths = [pieces * piece - extent if at == axis else 0 for at in range(len(shape))]
    x = pad(builder, x, [0] * len(shape), widths, neutral)
    inner = scan(builder, op, builder.reshape(x, [*lead, pieces, piece, *tail]), axis + 1)
    ends = builder.slice(inner, axis + 1, piece - 1, piece)
    outer = scan(builder, op, builder.reshape(ends, [*lead, pieces, *tail]), axis)
    before = pad(builder, outer, [1 if at == axis else 0 for at in range(len(shape))], [0] * len(shape), neutral)
    before = builder.slice(before, axis, 0, pieces)
    spread = builder.reshape(before, [*lead, pieces, 1, *tail])
    made = builder.pointwise(combine, inner, spread, kind=kind)
    return builder.slice(builder.reshape(made, [*lead, pieces * piece, *tail]), axis, 0, extent)


_COMBINED = {
    "cumsum": ("add", 0.0), "cumprod": ("mul", 1.0), "cummax": ("max", -math.inf), "cummin": ("min", math.inf),
}  # fmt: skip
_PASSES: dict[str, Visit] = {
    "argmax": _arg_reduction,
    "argmin": _arg_reduction,
    "sort": _sort,
    "sort-index": _sort,
    **dict.fromkeys(SCANS, _scan),
}
