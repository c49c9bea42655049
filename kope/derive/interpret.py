"""Run a graph with NumPy in float64: what the graph means, against which captures and rewrites are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kope.derive.graph import REDUCE, Graph, Node

_OPS: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "log1p": np.log1p, "expm1": np.expm1,
    "sqrt": np.sqrt, "square": np.square, "tanh": np.tanh, "rint": np.rint, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "sign": np.sign, "not": np.logical_not, "isnan": np.isnan, "add": np.add,
    "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "max": np.maximum, "min": np.minimum,
    "and": np.logical_and, "or": np.logical_or, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "select": np.where, "sum": np.sum, "amax": np.max,
    "amin": np.min,
}  # fmt: skip


class Mismatch(Exception):
    """Two results differ; says which output and where."""


def run(
    graph: Graph, arrays: Mapping[str, Any], attrs: Mapping[str, float], sizes: Mapping[str, float]
) -> tuple[Any, ...]:
    """Return the outputs as [rows, cols], [rows, 1], [1, cols] or [1, 1] arrays, by their space."""
    names = {item.position: item for item in graph.inputs}
    values: list[Any] = []
    for node in graph.nodes:
        if node.op == "load":
            values.append(_load(node, arrays[names[node.input].name]))
        elif node.op == "scalar":
            values.append(np.float64(node.expr.evaluate(attrs, sizes)) if node.expr else None)
        else:
            values.append(_apply(node, [values[arg] for arg in node.args]))
    return tuple(values[output.node] for output in graph.outputs)


def _load(node: Node, array: Any) -> Any:
    array = np.asarray(array)
    if node.space == "full":
        array = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
        width = array.shape[1] // node.parts
        return array[:, node.part * width : (node.part + 1) * width]
    shape = {"row": (-1, 1), "col": (1, -1), "one": (1, 1)}[node.space]
    return array.reshape(shape)


def _apply(node: Node, args: list[Any]) -> Any:
    if node.op in REDUCE:
        return _OPS[node.op](args[0], axis=-1, keepdims=True)
    if node.op == "cast":
        return args[0].astype(node.dtype)
    if node.op == "sigmoid":
        return 1.0 / (1.0 + np.exp(-args[0]))
    return _OPS[node.op](*args)


def compare(graph: Graph, got: Sequence[Any], want: Sequence[Any], rtol: float = 1e-6) -> None:
    """Raise Mismatch unless every output agrees within rtol (of its largest magnitude; integers within one)."""
    for output, left, right in zip(graph.outputs, got, want, strict=True):
        right = np.asarray(right)
        if left.size != right.size:
            raise Mismatch(f"output {output.name} has {left.size} elements, the reference gives {right.size}")
        right = right.reshape(left.shape).astype(np.float64)
        left = left.astype(np.float64)
        scale = float(np.max(np.abs(right[np.isfinite(right)]), initial=0.0))
        slack = 1.0 if np.asarray(want[0]).dtype.kind in "iu" and output.dtype in ("int8", "uint8", "int32") else 0.0
        if not np.allclose(left, right, rtol=rtol, atol=rtol * scale + slack, equal_nan=True):
            at = int(np.argmax(np.abs(left - right)))
            raise Mismatch(
                f"output {output.name}, element {at}: {left.flat[at]!r}, the reference gives {right.flat[at]!r}"
            )
