"""Indexing as NumPy does it: reading and writing at integers, slices, new axes and arrays of indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from kope.derive.nest import composed
from kope.derive.nest.array import Array, array_of, at_line, cast, rule
from kope.derive.tape import refuse


def get(x: Array, key: Any) -> Array:
    """x[key]."""
    keys = _keys(x, key)
    if any(_is_advanced(item) for item in keys):
        return _taken(x, keys)
    b = at_line(x.builder)
    node, axis = x.node, 0
    for item in keys:
        if item is None:
            shape = b.shape(node)
            node = b.reshape(node, [*shape[:axis], 1, *shape[axis:]])
            axis += 1
        elif isinstance(item, slice):
            node = _sliced(x, node, axis, item)
            axis += 1
        else:
            at = _inside(operator.index(item), b.shape(node)[axis])
            shape = b.shape(node)
            node = b.reshape(b.slice(node, axis, at, at + 1), [*shape[:axis], *shape[axis + 1 :]])
    return Array(x.builder, node, x.dtype, view=True, piece=(x, key))


def _keys(x: Array, key: Any) -> list[Any]:
    """One item per axis, and None for new axes."""
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [_as_index(x, item) for item in keys]
    used = sum(item is not None and item is not Ellipsis for item in keys)
    if used > x.ndim:
        raise IndexError(f"too many indices: array is {x.ndim}-dimensional, but {used} were indexed")
    rest = [slice(None)] * (x.ndim - used)
    for at, item in enumerate(keys):
        if item is Ellipsis:
            return [*keys[:at], *rest, *keys[at + 1 :]]
    return [*keys, *rest]


def _as_index(x: Array, item: Any) -> Any:
    """Lists and arrays of integers as recorders; masks are refused."""
    if isinstance(item, (list, np.ndarray)) and np.ndim(item) > 0:
        item = array_of(x.builder, np.asarray(item))
    if isinstance(item, (bool, np.bool_)) or (isinstance(item, Array) and item.kind == "bool"):
        raise refuse("indexing with a mask gives a shape that depends on data", "use np.where")
    if isinstance(item, Array) and item.kind != "int":
        raise IndexError("arrays used as indices must be of integer type")
    return item


def _is_advanced(item: Any) -> bool:
    return isinstance(item, Array)


def _inside(index: int, extent: int) -> int:
    if not -extent <= index < extent:
        raise IndexError(f"index {index} is out of bounds for an axis of {extent}")
    return index % extent


def _sliced(x: Array, node: int, axis: int, item: slice) -> int:
    b = x.builder
    start, stop, step = item.indices(b.shape(node)[axis])
    if step > 0:
        return b.slice(node, axis, start, max(start, stop), step)
    count = len(range(start, stop, step))
    if count == 0:
        return b.slice(node, axis, 0, 0)
    low = start + (count - 1) * step
    return composed.flip(b, b.slice(node, axis, low, start + 1, -step), [axis])


def _taken(x: Array, keys: Sequence[Any]) -> Array:
    """Advanced indexing; slices beside it are taken first, integers join it."""
    if any(item is None for item in keys):
        raise refuse("new axes beside an array of indices", "index first, then add the axes")
    node = x.node
    for axis, item in enumerate(keys):
        if isinstance(item, slice):
            node = _sliced(x, node, axis, item)
    places = [None if isinstance(item, slice) else _place(x, item, axis) for axis, item in enumerate(keys)]
    return rule("index", x.builder, [Array(x.builder, node, x.dtype), places], x.dtype)[0]


def _place(x: Array, item: Any, axis: int) -> Array:
    if isinstance(item, Array):
        return item
    return array_of(x.builder, np.asarray(_inside(operator.index(item), x.shape[axis])))


def put(x: Array, key: Any, value: Any) -> Array:
    """What x is after x[key] = value."""
    new = cast(array_of(x.builder, value), x.dtype)
    if isinstance(key, Array) and key.kind == "bool":
        if key.shape != x.shape or new.size != 1:
            raise refuse("a write where a mask holds, of more than one number", "use np.where")
        return rule("where", x.builder, [key, _spread(new, ()), x], x.dtype, x.shape)[0]
    keys = _keys(x, key)
    if any(_is_advanced(item) for item in keys):
        if any(item is None or (isinstance(item, slice) and item != slice(None)) for item in keys):
            raise refuse("a write at indices beside slices", "write whole rows at the indices")
        places = [None if isinstance(item, slice) else _place(x, item, axis) for axis, item in enumerate(keys)]
        return rule("index_put", x.builder, [x, places, new], x.dtype, x.shape)[0]
    keys = [item for item in keys if item is not None]
    kept = _region(x, [slice(*_range(item, extent)) for item, extent in zip(keys, x.shape, strict=True)])
    inner = [extent for item, extent in zip(keys, kept, strict=True) if isinstance(item, slice)]
    spread = at_line(x.builder).expand(_trimmed(new, len(inner)).node, inner)
    return Array(x.builder, _updated(x, x.node, keys, x.builder.reshape(spread, kept), 0), x.dtype)


def _trimmed(new: Array, rank: int) -> Array:
    """Without leading axes of extent 1 that the place does not have."""
    extra = max(0, new.ndim - rank)
    if any(extent != 1 for extent in new.shape[:extra]):
        raise ValueError(f"could not broadcast input array from shape {new.shape} into the place it is written to")
    return _spread(new, new.shape[extra:])


def _spread(new: Array, shape: Sequence[int]) -> Array:
    return Array(new.builder, new.builder.reshape(new.node, shape), new.dtype)


def _range(item: Any, extent: int) -> tuple[int, int, int]:
    if isinstance(item, slice):
        start, stop, step = item.indices(extent)
        if step < 0:
            raise refuse("a write into a slice that runs backwards", "turn the value over instead")
        return start, max(start, stop), step
    at = _inside(operator.index(item), extent)
    return at, at + 1, 1


def _region(x: Array, slices: Sequence[slice]) -> list[int]:
    return [len(range(*item.indices(extent))) for item, extent in zip(slices, x.shape, strict=True)]


def _updated(x: Array, base: int, keys: Sequence[Any], new: int, axis: int) -> int:
    """The base with a box of it replaced, one axis after the other."""
    if axis == len(keys):
        return new
    b = x.builder
    start, stop, step = _range(keys[axis], b.shape(base)[axis])
    if (start, stop, step) == (0, b.shape(base)[axis], 1):
        return _updated(x, base, keys, new, axis + 1)
    inner = _updated(x, b.slice(base, axis, start, stop, step), keys, new, axis + 1)
    return b.add("update", (base, inner), b.shape(base), b.kind(base), axis, start, step)
