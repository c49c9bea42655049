"""Rules of ATen operators that move, cut and join tensors, or make them from nothing."""

from __future__ import annotations

import math
from typing import Any

from kope.derive.nest import composed
from kope.derive.nest.call import Call, Rule, T


def _slice(c: Call) -> int:
    dim = c.dim(c.given(1, "dim", 0))
    extent = c.shape(0)[dim]
    start, stop, step = _bounds(c.given(2, "start"), c.given(3, "end"), c.given(4, "step", 1), extent)
    return c.b.slice(c.node(0), dim, start, stop, step)


def _bounds(start: Any, stop: Any, step: int, extent: int) -> tuple[int, int, int]:
    first, last, _ = slice(start, stop, step).indices(extent)
    return first, max(first, last), step


def _select(c: Call) -> int:
    dim, index = c.dim(c.args[1]), c.args[2]
    index = index + c.shape(0)[dim] if index < 0 else index
    return c.b.reshape(c.b.slice(c.node(0), dim, index, index + 1), c.result.shape)


def _cat(c: Call) -> int:
    parts = [c.value(part) for part in c.args[0]]
    parts = [part for part in parts if c.b.shape(part) != (0,)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    dim = c.given(1, "dim", 0) % len(c.result.shape)
    return c.b.add("cat", [c.typed(part) for part in parts], c.result.shape, c.result.kind, dim)


def _split(c: Call) -> list[int]:
    dim = c.dim(c.given(2, "dim", 0))
    extent = c.shape(0)[dim]
    sizes = c.args[1]
    if isinstance(sizes, int):
        sizes = [min(sizes, extent - at) for at in range(0, extent, sizes)]
    made, start = [], 0
    for size in sizes:
        made.append(c.b.slice(c.node(0), dim, start, start + size))
        start += size
    return made


def _unbind(c: Call) -> list[int]:
    dim = c.dim(c.given(1, "dim", 0))
    shape = c.shape(0)
    rest = [*shape[:dim], *shape[dim + 1 :]]
    return [c.b.reshape(c.b.slice(c.node(0), dim, at, at + 1), rest) for at in range(shape[dim])]


def _constant_pad(c: Call) -> int:
    widths, value = list(c.args[1]), float(c.given(2, "value", 0.0) or 0.0)
    rank = len(c.shape(0))
    before, after = [0] * rank, [0] * rank
    for at in range(len(widths) // 2):
        before[rank - 1 - at], after[rank - 1 - at] = widths[2 * at], widths[2 * at + 1]
    return composed.pad(c.b, c.node(0), before, after, value)


def _slice_scatter(c: Call) -> int:
    dim = c.dim(c.given(2, "dim", 0))
    extent = c.shape(0)[dim]
    start, stop, step = _bounds(c.given(3, "start"), c.given(4, "end"), c.given(5, "step", 1), extent)
    if stop - start == extent and step == 1:
        return c.typed(c.node(1))
    return c.b.add("update", (c.node(0), c.typed(c.node(1))), c.shape(0), c.result.kind, dim, start, step)


def _select_scatter(c: Call) -> int:
    dim, index = c.dim(c.args[2]), c.args[3]
    shape = c.shape(0)
    index = index + shape[dim] if index < 0 else index
    new = c.b.reshape(c.typed(c.node(1)), [1 if axis == dim else extent for axis, extent in enumerate(shape)])
    return c.b.add("update", (c.node(0), new), shape, c.result.kind, dim, index, 1)


def _repeat(c: Call) -> int:
    b, x, counts = c.b, c.node(0), list(c.args[1])
    shape = [1] * (len(counts) - len(b.shape(x))) + list(b.shape(x))
    pairs = [item for count, extent in zip(counts, shape, strict=True) for item in (count, extent)]
    apart = b.reshape(x, [item for extent in shape for item in (1, extent)])
    return b.reshape(b.expand(apart, pairs), c.result.shape)


def _arange(c: Call) -> int:
    args = [value for value in c.args if not isinstance(value, T)]
    start, end = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) > 2 else c.named.get("step", 1)
    count = max(0, math.ceil((end - start) / step))
    whole = all(float(value).is_integer() for value in (start, step))
    if whole:
        return c.typed(c.b.count(count, int(start), int(step)))
    made = c.b.pointwise("mul", c.b.count(count), c.b.scalar(float(step)))
    return c.b.pointwise("add", made, c.b.scalar(float(start)))


def _number(c: Call) -> int:
    return c.full(c.args[0])


def _number_like(c: Call) -> int:
    return c.full(c.args[1])


def _logit_free(op: str) -> Rule:
    return lambda c: getattr(composed, op)(c.b, c.node(0), c.dim(c.args[1]))


def _first(c: Call) -> int:
    return c.node(0)


def _copied(c: Call) -> int:
    """copy(x, src): src in the place of x."""
    return c.b.expand(c.typed(c.node(1)), c.result.shape)


RULES: dict[str, Rule] = {
    "copy": _copied,
    "clone": _first,
    "alias": _first,
    "detach": _first,
    "lift_fresh_copy": _first,
    "contiguous": _first,
    "view": lambda c: c.b.reshape(c.node(0), c.result.shape),
    "reshape": lambda c: c.b.reshape(c.node(0), c.result.shape),
    "_unsafe_view": lambda c: c.b.reshape(c.node(0), c.result.shape),
    "unsqueeze": lambda c: c.b.reshape(c.node(0), c.result.shape),
    "squeeze": lambda c: c.b.reshape(c.node(0), c.result.shape),
    "expand": lambda c: c.b.expand(c.node(0), c.result.shape),
    "permute": lambda c: c.b.permute(c.node(0), c.args[1]),
    "repeat": _repeat,
    "slice": _slice,
    "select": _select,
    "cat": _cat,
    "split": _split,
    "split_with_sizes": _split,
    "unbind": _unbind,
    "constant_pad_nd": _constant_pad,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "flip": lambda c: composed.flip(c.b, c.node(0), c.args[1]),
    "_softmax": _logit_free("softmax"),
    "_log_softmax": _logit_free("log_softmax"),
    "arange": _arange,
    "full": lambda c: c.full(c.args[1]),
    "full_like": _number_like,
    "zeros_like": lambda c: c.full(0.0),
    "ones_like": lambda c: c.full(1.0),
    "zeros": lambda c: c.full(0.0),
    "ones": lambda c: c.full(1.0),
    "empty": lambda c: c.full(0.0),
    "empty_like": lambda c: c.full(0.0),
    "new_zeros": lambda c: c.full(0.0),
    "new_full": lambda c: c.full(c.args[2]),
    "scalar_tensor": _number,
}
