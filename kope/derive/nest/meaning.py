"""Run a graph of tensors with NumPy: what its operators mean, against which captures and kernels are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kope.derive.interpret import _OPS as ROW_OPS
from kope.derive.nest.tensors import POINTWISE, TensorGraph, TensorNode

_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "argmax": np.argmax, "argmin": np.argmin,
}  # fmt: skip
_SCAN: dict[str, Callable[..., Any]] = {
    "cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate,
}  # fmt: skip
_PUT: dict[str, np.ufunc] = {
    "add": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip


def run_tensors(graph: TensorGraph, inputs: Mapping[int, Any]) -> tuple[Any, ...]:
    """Return the outputs for arrays by input position, computed in the precision of these."""
    values: list[Any] = []
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            values.append(_value(node, [values[arg] for arg in node.args], inputs))
    return tuple(values[output] for output in graph.outputs)


def _value(node: TensorNode, args: list[Any], inputs: Mapping[int, Any]) -> Any:
    op, params = node.op, node.params
    if op == "input":
        return np.asarray(inputs[params[0]]).reshape(node.shape)
    if op == "scalar":
        return np.asarray(params[0] if node.kind == "float" else int(params[0]))
    if op == "count":
        return params[0] + params[1] * np.arange(node.shape[0])
    if op in POINTWISE:
        return _pointwise(node, args)
    if op in _LAYOUT:
        return _LAYOUT[op](node, args)
    if op in _REDUCE:
        return _reduced(node, args[0])
    if op in _SCAN:
        return _SCAN[op](args[0], axis=params[0])
    if op == "contract":
        return _contracted(params, args)
    if op in ("sort", "sort-index"):
        return _sorted(node, args[0])
    return _indexed(node, args)


def _pointwise(node: TensorNode, args: list[Any]) -> Any:
    if node.op == "cast":
        if node.kind == "float":
            return _narrowed(np.asarray(args[0]), node.params[0] if node.params else "").astype(np.float64)
        whole = np.trunc(args[0]) if np.asarray(args[0]).dtype.kind == "f" else args[0]
        return np.asarray(whole).astype(np.int64 if node.kind == "int" else np.bool_)
    if node.op == "sigmoid":
        return 1.0 / (1.0 + np.exp(-args[0]))
    return ROW_OPS[node.op](*args)


def _narrowed(array: Any, dtype: str) -> Any:
    """Rounded to half or bfloat16, half to even."""
    if dtype == "float16":
        return array.astype(np.float16)
    if dtype != "bfloat16":
        return array
    single = np.ascontiguousarray(array, np.float32)
    bits = single.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return np.where(np.isfinite(single), rounded.astype(np.uint32).view(np.float32), single)


_LAYOUT: dict[str, Callable[[TensorNode, list[Any]], Any]] = {
    "permute": lambda node, args: np.transpose(args[0], node.params[0]),
    "reshape": lambda node, args: np.reshape(args[0], node.shape),
    "expand": lambda node, args: np.broadcast_to(args[0], node.shape),
    "slice": lambda node, args: args[0][_window(node.params, args[0].ndim, node.shape[node.params[0]])],
    "windows": lambda node, args: _windowed(node, args[0]),
    "cat": lambda node, args: np.concatenate(args, axis=node.params[0]),
    "packed": lambda node, args: args[0],
    "pad": lambda node, args: np.pad(
        args[0], tuple(zip(node.params[0], node.params[1], strict=True)), constant_values=node.params[2]
    ),
    "update": lambda node, args: _updated(node, args),
}


def _windowed(node: TensorNode, array: Any) -> Any:
    axis, stride, dilation = node.params
    count, size = node.shape[axis : axis + 2]
    return np.take(array, stride * np.arange(count)[:, None] + dilation * np.arange(size), axis=axis)


def _window(params: tuple[Any, ...], rank: int, length: int) -> tuple[slice, ...]:
    axis, start, step = params
    window = [slice(None)] * rank
    window[axis] = slice(start, start + step * length, step)
    return tuple(window)


def _updated(node: TensorNode, args: list[Any]) -> Any:
    made = np.array(args[0])
    made[_window(node.params, made.ndim, args[1].shape[node.params[0]])] = args[1]
    return made


def _reduced(node: TensorNode, array: Any) -> Any:
    axes = node.params[0]
    if node.op in ("argmax", "argmin"):
        rest = [axis for axis in range(array.ndim) if axis not in axes]
        flat = np.transpose(array, [*rest, *axes]).reshape(*(array.shape[axis] for axis in rest), -1)
        return _REDUCE[node.op](flat, axis=-1)
    return _REDUCE[node.op](array, axis=axes)


def _contracted(params: tuple[str, str, str], args: list[Any]) -> Any:
    left, right = (arg.astype(np.int64) if arg.dtype.kind in "iub" else arg for arg in args)
    return np.einsum(f"{params[0]},{params[1]}->{params[2]}", left, right, optimize=True)


def _sorted(node: TensorNode, array: Any) -> Any:
    axis, descending = node.params
    keys = -array if descending else array
    order = np.argsort(keys, axis=axis, kind="stable")
    return order if node.op == "sort-index" else np.take_along_axis(array, order, axis)


def _places(op: str, dims: Any, shape: tuple[int, ...], indices: list[Any]) -> tuple[Any, ...]:
    """An index into an array of a shape for take, put and their element-by-element forms."""
    if op.endswith("along"):
        grid = list(np.meshgrid(*(np.arange(extent) for extent in indices[0].shape), indexing="ij", sparse=True))
        grid[dims] = indices[0].astype(np.int64)
        return tuple(grid)
    rest = [axis for axis in range(len(shape)) if axis not in dims]
    common = np.broadcast_shapes(*(index.shape for index in indices))
    key: list[Any] = [None] * len(shape)
    for dim, index in zip(dims, indices, strict=True):
        key[dim] = np.asarray(index).astype(np.int64).reshape(index.shape + (1,) * len(rest))
    for at, axis in enumerate(rest):
        tail = [1] * len(rest)
        tail[at] = shape[axis]
        key[axis] = np.arange(shape[axis]).reshape((1,) * len(common) + tuple(tail))
    return tuple(key)


def _indexed(node: TensorNode, args: list[Any]) -> Any:
    dims = node.params[0]
    if node.op.startswith("take"):
        return args[0][_places(node.op, dims, args[0].shape, args[1:])]
    made, updates, mode = np.array(args[0]), args[1], node.params[1]
    places = _places(node.op, dims, made.shape, args[2:])
    if mode == "set":
        made[places] = updates
    else:
        _PUT[mode].at(made, places, updates)
    return made
