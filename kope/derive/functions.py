"""NumPy functions, methods and indexing as a traced run understands them: reductions, where, splits, axis fiddling.

Elementwise ufuncs are traced.py's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kope.derive.graph import Node
from kope.derive.scalar import combine, const
from kope.derive.symbol import Symbol
from kope.derive.tape import refuse
from kope.derive.traced import UFUNC_REDUCE, Traced, as_traced, record, select, traced

LAST = ": reduce over the last axis"


def reduce_ufunc(
    ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **kwargs: Any
) -> Any:
    """np.add.reduce and its like."""
    if ufunc not in UFUNC_REDUCE:
        raise refuse(f"np.{ufunc.__name__}.reduce is not supported yet", "use sum, max or min")
    return reduce(UFUNC_REDUCE[ufunc], array, axis, keepdims, **kwargs)


def reduce(op: str, array: Traced, axis: Any = None, keepdims: Any = False, **kwargs: Any) -> Traced:
    """A reduction over the last axis. Raises DeriveError for other axes."""
    kwargs = {key: value for key, value in kwargs.items() if key not in ("dtype", "out") and value is not np._NoValue}
    if kwargs:
        raise refuse(f"{op} with {', '.join(kwargs)} is not supported", "leave it out")
    if isinstance(axis, (tuple, list)) and len(axis) == 1:
        axis = axis[0]
    if isinstance(axis, Symbol) and bool(axis == -1):
        axis = -1
    if axis is None and array.ndim == 1:
        axis = -1
    if axis not in (-1, array.ndim - 1) or array.tape.squeezed[array.node] or array.ndim == 0:
        raise refuse(f"{op} over axis {axis} of {array.ndim} is not supported yet", "reduce over the last axis")
    keep = bool(keepdims) and keepdims is not np._NoValue
    node = Node(op, (array.node,), space="row", kind=array.kind if array.kind != "bool" else "int")
    shape = (*array.concrete[:-1], 1) if keep else array.concrete[:-1]
    extents = (*array.extents[:-1], const(1.0)) if keep else array.extents[:-1]
    return Traced(array.tape, array.tape.add(node, shape, squeezed=not keep), extents)


def mean(array: Traced, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Any:
    """Sum over count."""
    total = reduce("sum", array, axis, keepdims, **kw)
    return total / array.shape[-1]


def variance(
    array: Traced, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: Any = False, **kw: Any
) -> Any:
    """Mean squared distance from the mean, in two passes as NumPy does."""
    centred = array - mean(array, axis, keepdims=True)
    total = reduce("sum", np.square(centred), axis, keepdims, **kw)
    return total / (array.shape[-1] - ddof if ddof else array.shape[-1])


def clip(array: Traced, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """np.clip by the old and the new argument names."""
    low, high = (low if low is not None else min), (high if high is not None else max)
    if low is not None:
        array = np.maximum(array, low)
    return array if high is None else np.minimum(array, high)


def astype(array: Traced, dtype: Any, *args: Any, **kwargs: Any) -> Traced:
    """A cast. Widening and float to float64 change nothing."""
    target = np.dtype(dtype)
    kind = "float" if target.kind == "f" or target.name == "bfloat16" else "bool" if target.kind == "b" else "int"
    if kind == "bool":
        return array if array.kind == "bool" else record(array.tape, "ne", (array, traced(array.tape, 0)))
    if (target == np.float64 and array.kind == "float") or (target == np.int64 and array.kind != "float"):
        return array
    return record(array.tape, "cast", (array,), kind=kind, dtype=target.name)


def expand_dims(array: Traced, axis: Any) -> Traced:
    """Put the last axis back that a reduction took."""
    return index(array, (Ellipsis, None)) if axis in (-1, array.ndim) else index(array, _none_at(array, axis))


def _none_at(array: Traced, axis: int) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * array.ndim
    key.insert(axis % (array.ndim + 1), None)
    return tuple(key)


def index(array: Traced, key: Any) -> Traced:
    """Basic indexing that keeps the iteration space: new axes, and equal pieces of the last axis."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(item, Traced) for item in keys):
        raise refuse("indexing with a tensor", "gathers are not supported yet; use np.where for masks")
    keys = _without_ellipsis(keys, array.ndim)
    if all(_is_whole(item) for item in keys):
        return array
    if None in keys:
        return _insert_axes(array, keys)
    if keys and all(_is_whole(item) for item in keys[:-1]) and isinstance(keys[-1], slice):
        return _piece(array, keys[-1])
    raise refuse(f"indexing with {key!r} is not supported yet", "only equal pieces of the last axis and new axes are")


def _without_ellipsis(keys: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    if Ellipsis not in [item for item in keys if not isinstance(item, (slice, Symbol))]:
        return keys + (slice(None),) * (ndim - sum(item is not None for item in keys))
    at = next(place for place, item in enumerate(keys) if item is Ellipsis)
    missing = ndim - sum(item is not None and item is not Ellipsis for item in keys)
    return keys[:at] + (slice(None),) * missing + keys[at + 1 :]


def _is_whole(item: Any) -> bool:
    return isinstance(item, slice) and item.start is None and item.stop is None and item.step in (None, 1)


def _insert_axes(array: Traced, keys: tuple[Any, ...]) -> Traced:
    tape = array.tape
    if tape.squeezed[array.node]:
        if keys[-1] is not None or keys.count(None) != 1:
            raise refuse("new axes on a reduced tensor other than its last", "reduce with keepdims=True")
        shape, extents = (*array.concrete, 1), (*array.extents, const(1.0))
    elif keys[-1] is None:
        raise refuse("a new last axis on a tensor that has all its axes", "the last axis is the column axis")
    else:
        rest = iter(zip(array.concrete, array.extents, strict=True))
        pairs = [(1, const(1.0)) if item is None else next(rest) for item in keys]
        shape, extents = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    node = replace(tape.nodes[array.node], line=0)
    return Traced(tape, tape.add(node, shape), extents, view=True)


def _piece(array: Traced, item: slice) -> Traced:
    """One of k equal pieces of the last axis of an input."""
    tape, node = array.tape, array.tape.nodes[array.node]
    extent = array.concrete[-1]
    start, stop = _plain(item.start, 0, extent), _plain(item.stop, extent, extent)
    width = stop - start
    if node.op != "load" or item.step not in (None, 1) or width <= 0 or extent % width or start % width:
        raise refuse(
            f"the piece {start}:{stop} of a last axis of {extent}", "only equal pieces of an input are supported"
        )
    parts = node.parts * (extent // width)
    part = node.part * (extent // width) + start // width
    shape = (*array.concrete[:-1], width)
    piece = combine("div", array.extents[-1], const(extent // width))
    made = tape.add(replace(node, part=part, parts=parts, line=0), shape)
    return Traced(tape, made, (*array.extents[:-1], piece), view=True)


def _plain(bound: Any, default: int, extent: int) -> int:
    if bound is None:
        return default
    value = int(bound.value) if isinstance(bound, Symbol) else int(bound)
    return value + extent if value < 0 else min(value, extent)


def split(array: Traced, sections: Any, axis: int = 0) -> list[Traced]:
    """np.split into equal pieces of the last axis."""
    if axis not in (-1, array.ndim - 1) or not isinstance(sections, int):
        raise refuse("np.split other than into equal pieces of the last axis", "slice the last axis")
    width = array.concrete[-1] // sections
    return [index(array, (Ellipsis, slice(k * width, (k + 1) * width))) for k in range(sections)]


def full_like(array: Traced, value: Any, *args: Any, **kwargs: Any) -> Any:
    """A number in place of an array of it: broadcasting gives it its shape back."""
    return traced(array.tape, value)


def rounded(array: Traced, decimals: int = 0, out: Any = None) -> Any:
    """Half to even, to whole numbers only."""
    if decimals != 0:
        raise refuse("np.round to decimals", "scale before and after np.rint")
    return np.rint(array)


def _same(array: Traced, *args: Any, **kwargs: Any) -> Traced:
    return Traced(array.tape, array.node, array.extents)


def _reduction(op: str) -> Callable[..., Traced]:
    def call(
        array: Traced, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kw: Any
    ) -> Traced:
        return reduce(op, array, axis, keepdims, **kw)

    return call


def _extremum(op: str) -> Callable[..., Traced]:
    def call(array: Traced, axis: Any = None, out: Any = None, keepdims: Any = False, **kw: Any) -> Traced:
        return reduce(op, array, axis, keepdims, **kw)

    return call


def _std(*args: Any, **kwargs: Any) -> Any:
    return np.sqrt(variance(*args, **kwargs))


def _norm(array: Traced, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord not in (None, 2):
        raise refuse("np.linalg.norm of this order", "write it with abs, sum and max")
    return np.sqrt(reduce("sum", as_traced(np.square(array)), axis, keepdims))


def _where(condition: Any, *choices: Any) -> Traced:
    if len(choices) != 2:
        raise refuse("np.where with one argument depends on data", "give it both values")
    return select(condition, *choices)


def _nan_to_num(array: Traced, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    high = np.finfo(np.float64).max if posinf is None else posinf
    low = np.finfo(np.float64).min if neginf is None else neginf
    return clip(select(np.isnan(array), nan, array), low, high)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _reduction("sum"), np.max: _extremum("amax"), np.amax: _extremum("amax"), np.min: _extremum("amin"),
    np.amin: _extremum("amin"), np.mean: mean, np.average: mean, np.var: variance, np.std: _std,
    np.linalg.norm: _norm, np.where: _where, np.clip: clip, np.round: rounded, np.around: rounded,
    np.expand_dims: expand_dims, np.split: split, np.array_split: split, np.copy: _same, np.nan_to_num: _nan_to_num,
    np.zeros_like: lambda a, *x, **k: full_like(a, 0.0), np.ones_like: lambda a, *x, **k: full_like(a, 1.0),
    np.full_like: full_like, np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim, np.real: _same,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.ascontiguousarray: _same,
}  # fmt: skip

METHODS: dict[str, Callable[..., Any]] = {
    "sum": _reduction("sum"), "max": _extremum("amax"), "min": _extremum("amin"), "mean": mean, "var": variance,
    "std": _std, "clip": clip, "astype": astype, "copy": _same, "round": rounded,
}  # fmt: skip
