"""Which NumPy function, method, property or ufunc a recorder follows, and how."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kope.derive.nest.array import ELEMENTWISE, Array, Function, cast, elementwise, store
from kope.derive.nest.numpy_layout import (
    add_at,
    at_least,
    below,
    broadcast_arrays,
    broadcast_to,
    concatenate,
    diagonal,
    diff,
    equal_split,
    expand_dims,
    flip,
    full_like,
    like,
    moveaxis,
    pad,
    put_along_axis,
    ravel,
    repeat,
    reshape,
    roll,
    same,
    select,
    split,
    squeeze,
    stack,
    stacked,
    swapaxes,
    take,
    take_along_axis,
    tile,
    transpose,
    where,
)
from kope.derive.nest.numpy_products import PRODUCTS, matmul
from kope.derive.nest.numpy_reductions import (
    all_true,
    any_true,
    arg_reduction,
    argsort,
    average,
    count_nonzero,
    deviation,
    first_axis,
    largest,
    mean,
    median,
    norm,
    peak_to_peak,
    product,
    scan,
    smallest,
    sort,
    sort_in_place,
    total,
    variance,
)
from kope.derive.tape import refuse


def ufunc_call(ufunc: Any, inputs: Sequence[Any]) -> Any:
    """One call of a ufunc."""
    name = ufunc.__name__
    if name in ("matmul", "vecdot"):
        return matmul(*inputs)
    if name in _COMPOSED:
        return _COMPOSED[name](*inputs)
    if name not in ELEMENTWISE:
        raise refuse(f"np.{name} has no lowering yet", "write it with exp, log, sqrt, tanh and arithmetic")
    return elementwise(ufunc, ELEMENTWISE[name], inputs)


def _ignoring_nan(ufunc: Any) -> Function:
    def call(x: Any, y: Any) -> Any:
        return np.where(np.isnan(x), y, np.where(np.isnan(y), x, ufunc(x, y)))

    return call


def _logaddexp(x: Any, y: Any) -> Any:
    return np.maximum(x, y) + np.log1p(np.exp(-np.abs(np.subtract(x, y))))


_COMPOSED: dict[str, Function] = {
    "logaddexp": _logaddexp,
    "positive": lambda x: same(x),
    "isfinite": lambda x: np.abs(x) < np.inf,
    "hypot": lambda x, y: np.sqrt(np.square(x) + np.square(y)),
    "deg2rad": lambda x: x * (math.pi / 180.0),
    "rad2deg": lambda x: x * (180.0 / math.pi),
    "heaviside": lambda x, y: np.where(x < 0, 0.0, np.where(x > 0, 1.0, np.where(x == 0, y, np.nan))),
    "fmax": _ignoring_nan(np.maximum),
    "fmin": _ignoring_nan(np.minimum),
}


def _clip(x: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (min if low is None else low), (max if high is None else high)
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _round(x: Array, decimals: int = 0) -> Any:
    if decimals != 0:
        raise refuse("np.round to decimals", "scale before and after np.rint")
    return x if x.kind != "float" else np.rint(x)


def _nan_to_num(x: Array, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    high = np.finfo(np.float32).max if posinf is None else posinf
    low = np.finfo(np.float32).min if neginf is None else neginf
    return _clip(np.where(np.isnan(x), nan, x), float(low), float(high))


UFUNC_METHODS: dict[tuple[str, str], Function] = {
    ("add", "reduce"): first_axis(total), ("multiply", "reduce"): first_axis(product),
    ("maximum", "reduce"): first_axis(largest), ("minimum", "reduce"): first_axis(smallest),
    ("logical_and", "reduce"): first_axis(all_true), ("logical_or", "reduce"): first_axis(any_true),
    ("add", "accumulate"): lambda x, axis=0, **k: scan("cumsum", np.cumsum)(x, axis, **k),
    ("multiply", "accumulate"): lambda x, axis=0, **k: scan("cumprod", np.cumprod)(x, axis, **k),
    ("maximum", "accumulate"): lambda x, axis=0, **k: scan("cummax", np.positive)(x, axis, **k),
    ("minimum", "accumulate"): lambda x, axis=0, **k: scan("cummin", np.positive)(x, axis, **k),
    ("add", "at"): add_at,
    ("multiply", "outer"): lambda x, y: PRODUCTS[np.outer](x, y),
}  # fmt: skip

FUNCTIONS: dict[Any, Function] = {
    **PRODUCTS,
    np.sum: total, np.prod: product, np.max: largest, np.amax: largest, np.min: smallest, np.amin: smallest,
    np.any: any_true, np.all: all_true,
    np.mean: mean, np.average: average, np.var: variance, np.std: deviation, np.median: median,
    np.argmax: arg_reduction("argmax"), np.argmin: arg_reduction("argmin"), np.linalg.norm: norm,
    np.count_nonzero: count_nonzero, np.ptp: peak_to_peak, np.cumsum: scan("cumsum", np.cumsum),
    np.cumprod: scan("cumprod", np.cumprod), np.sort: sort, np.argsort: argsort, np.where: where, np.select: select,
    np.clip: _clip,
    np.round: _round, np.around: _round, np.nan_to_num: _nan_to_num, np.copy: same,
    np.real: same, np.reshape: reshape, np.ravel: ravel, np.transpose: transpose, np.swapaxes: swapaxes,
    np.moveaxis: moveaxis, np.squeeze: squeeze, np.expand_dims: expand_dims, np.broadcast_to: broadcast_to,
    np.broadcast_arrays: broadcast_arrays, np.concatenate: concatenate, np.stack: stack, np.vstack: stacked(0, 2),
    np.hstack: stacked(1, 1), np.dstack: stacked(2, 3), np.split: equal_split, np.array_split: split,
    np.tile: tile, np.repeat: repeat, np.flip: flip, np.fliplr: lambda x: flip(x, 1),
    np.flipud: lambda x: flip(x, 0), np.roll: roll, np.pad: pad, np.diff: diff, np.tril: below(True),
    np.triu: below(False), np.diagonal: diagonal,
    np.trace: lambda x, *a, **k: total(diagonal(x, *a, **k), -1), np.take: take,
    np.take_along_axis: take_along_axis, np.put_along_axis: put_along_axis, np.zeros_like: like(0.0),
    np.ones_like: like(1.0), np.empty_like: like(0.0), np.full_like: full_like, np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim, np.size: lambda x, axis=None: x.size if axis is None else x.shape[axis],
    np.atleast_1d: lambda x: at_least(x, 1), np.atleast_2d: lambda x: at_least(x, 2),
    np.result_type: lambda *given: np.result_type(*(x.dtype if isinstance(x, Array) else x for x in given)),
}  # fmt: skip

METHODS: dict[str, Function] = {
    **{name: FUNCTIONS[getattr(np, name)] for name in (
        "sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax", "argmin", "cumsum", "cumprod",
        "argsort", "clip", "round", "copy", "reshape", "ravel", "transpose", "swapaxes", "squeeze", "repeat",
        "diagonal", "trace", "take", "dot",
    )},
    "astype": lambda x, dtype, *args, **kwargs: cast(same(x), dtype),
    "flatten": lambda x, order="C": same(ravel(x, order)),
    "sort": sort_in_place,
    "fill": lambda x, value: store(x, value),
}  # fmt: skip

PROPERTIES: dict[str, Function] = {"T": transpose, "real": same, "mT": lambda x: swapaxes(x, -1, -2)}
