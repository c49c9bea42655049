"""NumPy's reductions, scans and sorts on recorders."""

from __future__ import annotations

from typing import Any

import numpy as np

from kope.derive.nest.array import Array, Function, array_of, at_line, cast, promoted, rule, store
from kope.derive.nest.numpy_layout import (
    ABSENT,
    axes_of,
    axis_of,
    broadcast_to,
    only_plain,
    ravel,
    reshape,
    squeeze,
    where,
)  # fmt: skip
from kope.derive.nest.tensors import numel
from kope.derive.tape import refuse


def _reduction(op: str, function: Any) -> Function:
    def call(x: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False, **rest: Any) -> Array:
        only_plain(op, rest)
        x = x if dtype is None else cast(x, dtype)
        made = promoted(function, [x])
        if made.name in ("float16", "bfloat16"):
            raise refuse(f"np.{op} in {made.name}", "reduce in float32 and cast the result")
        if op in ("amax", "amin") and 0 in x.shape:
            raise refuse(f"np.{op} of an array without elements", "give it elements")
        return rule(op, x.builder, [x, axes_of(x, axis), bool(keepdims) and keepdims is not ABSENT], made)[0]

    return call


total, product = _reduction("sum", np.sum), _reduction("prod", np.prod)
largest, smallest = _reduction("amax", np.max), _reduction("amin", np.min)
any_true, all_true = _reduction("any", np.any), _reduction("all", np.all)


def first_axis(call: Function) -> Function:
    """ufunc.reduce and its like start from the first axis."""
    return lambda x, axis=0, **rest: call(x, axis=axis, **rest)


def mean(x: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False, **rest: Any) -> Any:
    only_plain("mean", rest)
    x = x if dtype is None else cast(x, dtype)
    count = numel([x.shape[at] for at in axes_of(x, axis)])
    return total(x, axis, None, keepdims) / float(count)


def average(x: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    if returned:
        raise refuse("np.average with returned", "compute the sum of weights beside it")
    if weights is None:
        return mean(x, axis, None, keepdims)
    weights = array_of(x.builder, weights)
    if weights.shape != x.shape:
        if axis is None or weights.ndim != 1:
            raise refuse("np.average with weights of another shape", "broadcast the weights")
        at = axis_of(x, axis)
        weights = reshape(weights, [-1 if k == at else 1 for k in range(x.ndim)])
        weights = broadcast_to(weights, x.shape)
    return total(x * weights, axis, None, keepdims) / total(weights, axis, None, keepdims)


def variance(x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: Any = False, **rest: Any) -> Any:
    only_plain("var", {key: value for key, value in rest.items() if key != "correction"})
    correction = rest.get("correction", ABSENT)
    ddof = ddof if correction is ABSENT else correction
    x = x if dtype is None else cast(x, dtype)
    centred = x - mean(x, axis, None, True)
    count = numel([x.shape[at] for at in axes_of(x, axis)])
    return total(centred * centred, axis, None, keepdims) / max(float(count) - ddof, 0.0)


def deviation(*args: Any, **kwargs: Any) -> Any:
    return np.sqrt(variance(*args, **kwargs))


def arg_reduction(op: str) -> Function:
    def call(x: Array, axis: Any = None, *, keepdims: Any = False) -> Array:
        keep = bool(keepdims) and keepdims is not ABSENT
        if axis is None:
            made = rule(op, x.builder, [x, None], np.int64)[0]
            return reshape(made, [1] * x.ndim) if keep else made
        return rule(op, x.builder, [x, axis_of(x, axis), keep], np.int64)[0]

    return call


def norm(x: Array, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    plain = axis is None or isinstance(axis, int) or len(axis) == 1
    if ord not in (None, "fro") and (not plain or (axis is None and x.ndim != 1)):
        raise refuse("np.linalg.norm of a matrix in this order", "write it with abs, sum and max")
    order = 2.0 if ord in (None, "fro") else float(ord)
    x = x if x.kind == "float" else cast(x, np.float64)
    return rule("linalg_vector_norm", x.builder, [x, order, axes_of(x, axis), bool(keepdims)], x.dtype)[0]


def count_nonzero(x: Array, axis: Any = None, *, keepdims: bool = False) -> Any:
    return total(np.not_equal(x, 0), axis, np.int64, keepdims)


def peak_to_peak(x: Array, axis: Any = None, keepdims: Any = False) -> Any:
    return largest(x, axis, None, keepdims) - smallest(x, axis, None, keepdims)


def median(x: Array, axis: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    line, at = (ravel(x), 0) if axis is None else (x, axis_of(x, axis))
    ordered, count = sort(line, at), line.shape[at]
    front = (slice(None),) * at
    middle = mean(ordered[(*front, slice((count - 1) // 2, count // 2 + 1))], at, None, True)
    made = where(np.isnan(ordered[(*front, slice(-1, None))]), np.nan, middle)  # a NaN is sorted last
    shape = [1 if axis is None or k == at else extent for k, extent in enumerate(x.shape)]
    return reshape(made, shape) if keepdims is True else squeeze(made, at)


def scan(op: str, function: Any) -> Function:
    def call(x: Array, axis: Any = None, dtype: Any = None) -> Array:
        x = x if dtype is None else cast(x, dtype)
        x, axis = (ravel(x), 0) if axis is None else (x, axis)
        made = promoted(function, [x])
        if made.name in ("float16", "bfloat16"):
            raise refuse(f"np.{op} in {made.name}", "scan in float32 and cast the result")
        kind = {"b": "bool", "i": "int", "u": "int"}.get(made.kind, "float")
        given = cast(x, made)
        node = at_line(x.builder).add(op, (given.node,), x.shape, kind, axis_of(x, axis))
        return Array(x.builder, node, made)

    return call


def sort(x: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Array:
    only_plain("sort", {"order": order})
    line, at = (ravel(x), 0) if axis is None else (x, axis_of(x, axis))
    return Array(x.builder, at_line(x.builder).add("sort", (line.node,), line.shape, x.kind, at, False), x.dtype)


def argsort(x: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Array:
    only_plain("argsort", {"order": order})
    if x.kind != "float" and kind not in ("stable", "mergesort") and not stable:
        raise refuse("np.argsort of whole numbers leaves open how equal ones come", 'say kind="stable"')
    line, at = (ravel(x), 0) if axis is None else (x, axis_of(x, axis))
    made = at_line(x.builder).add("sort-index", (line.node,), line.shape, "int", at, False)
    return Array(x.builder, made, np.int64)


def sort_in_place(x: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
    store(x, sort(x, axis, kind, order))
