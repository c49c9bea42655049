"""Whether whole numbers stay exact: kernels compute them in float32 lanes, which hold every integer up to 2^24.

Integers that are only moved keep all their bits. What a value can be is followed through the graph as one bound on its
magnitude; a result beyond that is refused where it matters: as an integer output, in a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kope.derive.graph import COMPARE
from kope.derive.nest.tensors import (
    ARG_REDUCTIONS,
    LAYOUT,
    SORTS,
    TensorGraph,
    TensorNode,
    numel,
)
from kope.errors import DeriveError

EXACT = float(1 << 24)
_MOVES = LAYOUT | {"cat", "pad", "update", "packed", "take", "take-along", "put", "put-along"}


def check_exact(graph: TensorGraph, magnitudes: Sequence[float]) -> None:
    """Refuse integers that may leave the exact range. magnitudes: largest absolute value of inputs by position.

    Raises DeriveError naming the operator.
    """
    bounds: list[float] = []
    moved: list[bool] = []
    for node in graph.nodes:
        bounds.append(_bound(node, [bounds[arg] for arg in node.args], graph, magnitudes))
        moved.append(node.op == "input" or (node.op in _MOVES and all(moved[arg] for arg in _values(node))))
        _check_use(node, graph, bounds)
    for index in graph.outputs:
        node = graph.nodes[index]
        if node.kind == "int" and not moved[index] and bounds[index] > EXACT:
            raise DeriveError(_words(node, bounds[index]))


def _values(node: TensorNode) -> tuple[int, ...]:
    """Arguments whose elements are in the result."""
    if node.op.startswith("take"):
        return node.args[:1]
    return node.args[:2] if node.op.startswith("put") else node.args


def _check_use(node: TensorNode, graph: TensorGraph, bounds: Sequence[float]) -> None:
    """Comparisons need exact operands. An index is within its axis, or the reference itself fails."""
    if node.op in COMPARE or node.op in SORTS or node.op in ARG_REDUCTIONS:
        for arg in node.args:
            if graph.nodes[arg].kind == "int" and bounds[arg] > EXACT:
                raise DeriveError(_words(node, bounds[arg]))


def _words(node: TensorNode, bound: float) -> str:
    return f"{node.op} of integers up to {bound:.3g}: beyond 2^24 they are not exact in this kernel"


def _bound(node: TensorNode, args: Sequence[float], graph: TensorGraph, magnitudes: Sequence[float]) -> float:
    """Largest magnitude of an integer or truth value; floats have none until they become integers."""
    if node.kind == "bool":
        return 1.0
    if node.op == "input":
        return float(magnitudes[node.params[0]])
    if node.op == "scalar":
        return abs(float(node.params[0]))
    if node.op == "count":
        start, step = node.params
        return float(max(abs(start), abs(start + step * max(node.shape[0] - 1, 0))))
    if node.kind == "float":
        return 0.0
    if node.op in ARG_REDUCTIONS:
        shape = graph.nodes[node.args[0]].shape
        return float(numel([shape[axis] for axis in node.params[0]]))
    if node.op == "sort-index":
        return float(node.shape[node.params[0]])
    if node.op == "contract":
        terms = numel(graph.nodes[node.args[0]].shape) * numel(graph.nodes[node.args[1]].shape)
        return args[0] * args[1] * max(1.0, math.sqrt(terms / max(node.numel, 1)))
    if node.op in ("sum", "cumsum"):
        return args[0] * max(1, numel(graph.nodes[node.args[0]].shape) // max(node.numel, 1))
    return float(_POINTWISE.get(node.op, _largest)(args))


def _largest(given: Sequence[float]) -> float:
    return max(given, default=0.0)


_POINTWISE: dict[str, Callable[[Sequence[float]], float]] = {
    "add": sum,
    "sub": sum,
    "mul": math.prod,
    "square": lambda given: given[0] * given[0],
    "sign": lambda given: 1.0,
    "select": lambda given: max(given[1:]),
    "prod": lambda given: math.inf,
    "cumprod": lambda given: math.inf,
}
