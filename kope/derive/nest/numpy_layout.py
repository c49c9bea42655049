"""NumPy's layout functions on recorders: shapes, pieces, joins, and looking up at indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kope.derive.nest import composed
from kope.derive.nest.array import Array, Function, array_of, at_line, builder_of, cast, promoted, rule, store
from kope.derive.nest.tensors import broadcast, numel
from kope.derive.tape import refuse

ABSENT: Any = np._NoValue


def axes_of(x: Array, axis: Any) -> list[int]:
    if axis is None:
        return list(range(x.ndim))
    given = axis if isinstance(axis, (tuple, list)) else [axis]
    return [axis_of(x, item) for item in given]


def axis_of(x: Array, axis: Any) -> int:
    at = operator.index(axis)
    if not -x.ndim <= at < x.ndim:
        raise np.exceptions.AxisError(at, x.ndim)
    return at % x.ndim


def only_plain(name: str, given: dict[str, Any]) -> None:
    """Raise DeriveError for keyword arguments that nothing follows."""
    left = [key for key, value in given.items() if value is not ABSENT and value is not None]
    if left:
        raise refuse(f"np.{name} with {', '.join(left)}", "leave it out")


def _layout(x: Array, node: int) -> Array:
    return Array(x.builder, node, x.dtype, view=True)


def same(x: Any, *args: Any, **kwargs: Any) -> Any:
    return Array(x.builder, x.node, x.dtype)


def reshape(x: Array, shape: Any, *more: Any, order: str = "C", **rest: Any) -> Array:
    only_plain("reshape", {"order": None if order == "C" else order, **{k: v for k, v in rest.items() if k != "copy"}})
    wanted = [operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape, *more))]
    known = numel([extent for extent in wanted if extent != -1])
    if -1 in wanted:
        wanted[wanted.index(-1)] = x.size // max(known, 1)
    if numel(wanted) != x.size or any(extent < 0 for extent in wanted):
        raise ValueError(f"cannot reshape array of size {x.size} into shape {tuple(wanted)}")
    return _layout(x, at_line(x.builder).reshape(x.node, wanted))


def ravel(x: Array, order: str = "C") -> Array:
    return reshape(x, (-1,) if x.size else (0,), order=order)


def transpose(x: Array, *axes: Any) -> Array:
    order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))) else axes
    order = list(order) if order else list(range(x.ndim))[::-1]
    return _layout(x, at_line(x.builder).permute(x.node, [axis_of(x, axis) for axis in order]))


def swapaxes(x: Array, one: int, other: int) -> Array:
    order = list(range(x.ndim))
    one, other = axis_of(x, one), axis_of(x, other)
    order[one], order[other] = other, one
    return transpose(x, order)


def moveaxis(x: Array, source: Any, destination: Any) -> Array:
    sources, targets = axes_of(x, source), axes_of(x, destination)
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return transpose(x, order)


def squeeze(x: Array, axis: Any = None) -> Array:
    gone = [at for at, extent in enumerate(x.shape) if extent == 1] if axis is None else axes_of(x, axis)
    if any(x.shape[at] != 1 for at in gone):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return reshape(x, [extent for at, extent in enumerate(x.shape) if at not in gone])


def expand_dims(x: Array, axis: Any) -> Array:
    given = axis if isinstance(axis, (tuple, list)) else [axis]
    rank = x.ndim + len(given)
    new = {operator.index(at) % rank for at in given}
    rest = iter(x.shape)
    return reshape(x, [1 if at in new else next(rest) for at in range(rank)])


def broadcast_to(x: Any, shape: Any, subok: bool = False) -> Array:
    wanted = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if broadcast(x.shape, wanted) != wanted:
        raise ValueError(f"operands could not be broadcast together with remapped shapes {x.shape} and {wanted}")
    return _layout(x, at_line(x.builder).expand(x.node, wanted))


def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Array, ...]:
    builder = builder_of(arrays)
    given = [array_of(builder, item) for item in arrays]
    shape = broadcast(*(item.shape for item in given))
    return tuple(broadcast_to(item, shape) for item in given)


def concatenate(arrays: Sequence[Any], axis: Any = 0, dtype: Any = None, casting: Any = None) -> Array:
    builder = builder_of(list(arrays))
    given = [array_of(builder, item) for item in arrays]
    if axis is None:
        given, axis = [ravel(item) for item in given], 0
    made = np.result_type(*(item.dtype for item in given)) if dtype is None else np.dtype(dtype)
    at = axis_of(given[0], axis)
    shape = list(given[0].shape)
    shape[at] = sum(item.shape[at] for item in given)
    for item in given:
        if [e for k, e in enumerate(item.shape) if k != at] != [e for k, e in enumerate(shape) if k != at]:
            raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
    return rule("cat", builder, [given, at], made, tuple(shape))[0]


def stack(arrays: Sequence[Any], axis: int = 0, **rest: Any) -> Array:
    builder = builder_of(list(arrays))
    return concatenate([expand_dims(array_of(builder, item), axis) for item in arrays], axis, **rest)


def stacked(axis: int, rank: int) -> Function:
    """vstack, hstack, dstack: pieces of at least so many axes, one after the other."""

    def call(arrays: Sequence[Any], **rest: Any) -> Array:
        builder = builder_of(list(arrays))
        given = [at_least(array_of(builder, item), rank) for item in arrays]
        return concatenate(given, 0 if rank == 1 and given[0].ndim == 1 else axis, **rest)

    return call


def at_least(x: Array, rank: int) -> Array:
    missing = max(0, rank - x.ndim)
    if rank == 3 and missing:
        return reshape(x, [*([1] if x.ndim < 2 else []), *x.shape, *([1] if x.ndim else [1, 1])])
    return reshape(x, [*[1] * missing, *x.shape])


def split(x: Array, sections: Any, axis: int = 0) -> list[Array]:
    at = axis_of(x, axis)
    extent = x.shape[at]
    if isinstance(sections, (int, np.integer)):
        size, more = divmod(extent, int(sections))
        bounds = [0]
        for k in range(int(sections)):
            bounds.append(bounds[-1] + size + (k < more))
    else:
        bounds = [0, *(operator.index(cut) for cut in sections), extent]
    window = [slice(None)] * x.ndim
    return [x[tuple([*window[:at], slice(a, b), *window[at + 1 :]])] for a, b in pairwise(bounds)]


def equal_split(x: Array, sections: Any, axis: int = 0) -> list[Array]:
    if isinstance(sections, int) and x.shape[axis] % sections:
        raise ValueError("array split does not result in an equal division")
    return split(x, sections, axis)


def tile(x: Array, counts: Any) -> Array:
    given = [operator.index(n) for n in (counts if isinstance(counts, (tuple, list)) else [counts])]
    rank = max(len(given), x.ndim)
    given = [1] * (rank - len(given)) + given
    shape = [1] * (rank - x.ndim) + list(x.shape)
    made = tuple(count * extent for count, extent in zip(given, shape, strict=True))
    return rule("repeat", x.builder, [x, given], x.dtype, made)[0]


def repeat(x: Array, repeats: Any, axis: Any = None) -> Array:
    if not isinstance(repeats, (int, np.integer)):
        raise refuse("np.repeat by an array", "repeat every element equally often")
    line, at = (ravel(x), 0) if axis is None else (x, axis_of(x, axis))
    shape, count = list(line.shape), int(repeats)
    wide = broadcast_to(expand_dims(line, at + 1), [*shape[: at + 1], count, *shape[at + 1 :]])
    return Array(x.builder, reshape(wide, [*shape[:at], shape[at] * count, *shape[at + 1 :]]).node, x.dtype)


def flip(x: Array, axis: Any = None) -> Array:
    return _layout(x, composed.flip(at_line(x.builder), x.node, axes_of(x, axis)))


def roll(x: Array, shift: Any, axis: Any = None) -> Array:
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    shifts = shift if isinstance(shift, (tuple, list)) else [shift]
    for by, at in zip(shifts, axes_of(x, axis), strict=True):
        extent = x.shape[at]
        cut = -operator.index(by) % extent if extent else 0
        front, back = split(x, [cut], at)
        x = concatenate([back, front], at)
    return Array(x.builder, x.node, x.dtype)


def pad(x: Array, widths: Any, mode: str = "constant", **rest: Any) -> Array:
    value = rest.pop("constant_values", 0)
    if mode != "constant" or rest or not isinstance(value, (int, float, np.number)):
        raise refuse(f"np.pad in mode {mode}", "pad with one number")
    pairs = np.broadcast_to(np.asarray(widths), (x.ndim, 2)).tolist()
    before, after = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return Array(x.builder, composed.pad(at_line(x.builder), x.node, before, after, float(value)), x.dtype)


def diff(x: Array, n: int = 1, axis: int = -1, **rest: Any) -> Any:
    only_plain("diff", rest)
    for _ in range(n):
        at = axis_of(x, axis)
        window = [slice(None)] * at
        x = x[(*window, slice(1, None))] - x[(*window, slice(None, -1))]
    return x


def below(lower: bool) -> Function:
    """tril and triu."""

    def call(x: Array, k: int = 0) -> Any:
        if x.ndim < 2:
            raise refuse("a triangle of a vector", "give it two axes")
        b = at_line(x.builder)
        rows, columns = x.shape[-2:]
        row = Array(b, b.reshape(b.count(rows), [rows, 1]), np.int64)
        column = Array(b, b.count(columns), np.int64)
        keep = column <= row + k if lower else column >= row + k
        return where(keep, x, np.zeros((), x.dtype))

    return call


def diagonal(x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    one, other = axis_of(x, axis1), axis_of(x, axis2)
    front = moveaxis(x, [one, other], [0, 1])
    count = max(0, min(x.shape[one] + min(offset, 0), x.shape[other] - max(offset, 0)))
    places = np.arange(count)
    taken = front[places + max(-offset, 0), places + max(offset, 0)]
    return moveaxis(taken, 0, -1)


def where(condition: Any, *choices: Any) -> Array:
    if len(choices) != 2:
        raise refuse("np.where with one argument gives a shape that depends on data", "give it both values")
    builder = builder_of((condition, *choices))
    dtype = promoted(lambda x, y: np.where(True, x, y), choices)
    given = [array_of(builder, item) for item in (condition, *choices)]
    return rule("where", builder, given, dtype, broadcast(*(item.shape for item in given)))[0]


def select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0) -> Any:
    """np.select: the first choice whose condition holds."""
    made = default
    for condition, choice in zip(reversed(list(conditions)), reversed(list(choices)), strict=True):
        made = where(condition, choice, made)
    return made


def take(x: Array, indices: Any, axis: Any = None, mode: str = "raise") -> Array:
    if mode != "raise":
        raise refuse(f"np.take in mode {mode}", "bring the indices into range first")
    line, at = (ravel(x), 0) if axis is None else (x, axis_of(x, axis))
    key = array_of(x.builder, np.asarray(indices)) if not isinstance(indices, Array) else indices
    return line[(*[slice(None)] * at, key)]


def take_along_axis(x: Any, indices: Any, axis: Any = -1) -> Array:
    builder = builder_of((x, indices))
    x, indices = array_of(builder, x), array_of(builder, indices)
    line, at = (ravel(x), 0) if axis is None else (x, axis_of(x, axis))
    shape = tuple(extent if k != at else indices.shape[at] for k, extent in enumerate(line.shape))
    shape = broadcast(shape, indices.shape)
    wide = broadcast(line.shape, tuple(1 if k == at else extent for k, extent in enumerate(shape)))
    return rule("gather", builder, [broadcast_to(line, wide), at, broadcast_to(indices, shape)], x.dtype, shape)[0]


def put_along_axis(x: Array, indices: Any, values: Any, axis: Any) -> None:
    at = axis_of(x, axis)
    indices = array_of(x.builder, indices)
    new = broadcast_to(cast(array_of(x.builder, values), x.dtype), indices.shape)
    if any(e != x.shape[k] for k, e in enumerate(indices.shape) if k != at):
        raise refuse("np.put_along_axis that broadcasts", "broadcast the indices first")
    store(x, rule("scatter", x.builder, [x, at, indices, new], x.dtype, x.shape)[0])


def add_at(x: Any, indices: Any, values: Any) -> None:
    """np.add.at: what lies at equal indices is added up."""
    if not isinstance(x, Array):
        raise refuse("np.add.at into a plain array", "make the array in the reference, or copy it from an input")
    places = list(indices) if isinstance(indices, tuple) else [indices]
    places = [array_of(x.builder, item) for item in places]
    new = cast(array_of(x.builder, values), x.dtype)
    store(x, rule("index_put", x.builder, [x, places, new, True], x.dtype, x.shape)[0])


def like(value: float) -> Function:
    def call(x: Array, dtype: Any = None, *args: Any, shape: Any = None, **kwargs: Any) -> Array:
        return full_like(x, value, dtype, shape=shape)

    return call


def full_like(x: Array, value: Any, dtype: Any = None, *args: Any, shape: Any = None, **kwargs: Any) -> Array:
    made = np.dtype(dtype or x.dtype)
    filled = cast(array_of(x.builder, value), made)
    return Array(x.builder, at_line(x.builder).expand(filled.node, x.shape if shape is None else tuple(shape)), made)
