"""Captures a NumPy reference in the sandboxed child: a case's call as a graph of tensors, proven on random numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kope.derive.nest.array import Array
from kope.derive.nest.cases import arguments_of, capture_cases
from kope.derive.nest.meaning import run_tensors
from kope.derive.nest.numpy_made import recorders_made
from kope.derive.nest.tensors import TensorBuilder, TensorGraph, numel
from kope.errors import DeriveError

PROOF_ELEMENTS = 1 << 25
"""Cases whose values have more elements than this in all are captured unproven: 256 MiB in float64."""
_TOLERANCE = 1e-4
_NARROW_TOLERANCE = 2e-2
"""Where the reference rounds to half or bfloat16 on the way: a last bit there may fall the other way."""


def main(request: Path, reply: Path) -> None:
    """Capture every case of a request."""
    capture_cases(request, reply, captured)


def captured(function: Any, native: Any, case: dict[str, Any]) -> dict[str, Any]:
    """The graph of one case and the dtypes of what it returns. Raises DeriveError when something escapes."""
    builder = TensorBuilder()
    tensors, places = [], []
    for place, item in enumerate(case["inputs"]):
        if item is None:
            continue
        dtype = wide_dtype(item["dtype"])
        kind = {"b": "bool", "i": "int", "u": "int"}.get(dtype.kind, "float")
        tensors.append(Array(builder, builder.input(place, tuple(item["shape"]), kind), dtype, view=True))
        places.append(place)
    with recorders_made(builder, function.__globals__):
        returned = function(**arguments_of(case, tensors))
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    for at, result in enumerate(results):
        if not isinstance(result, Array):
            raise DeriveError(
                f"result {at} is a plain {type(result).__name__}, so it escaped; compute it from the inputs"
            )
    graph = builder.finish([result.node for result in results])
    prove(function, case, places, graph)
    return {"graph": graph.to_json(), "dtypes": [result.dtype.name for result in results], "native": []}


def wide_dtype(dtype: str) -> np.dtype[Any]:
    """References are called with floats as float64."""
    return np.dtype("float64" if "float" in dtype else dtype)


def prove(function: Any, case: dict[str, Any], places: list[int], graph: TensorGraph) -> None:
    """Run graph and reference on the same random numbers. Raises DeriveError when they differ."""
    if sum(node.numel for node in graph.nodes) > PROOF_ELEMENTS:
        return
    rng = np.random.default_rng(20)
    arrays = [random_array(rng, case["inputs"][place]) for place in places]
    with np.errstate(all="ignore"):
        returned = function(**arguments_of(case, [array.copy() for array in arrays]))
        got = run_tensors(graph, dict(zip(places, arrays, strict=True)))
    wanted = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    narrow = any(node.op == "cast" and node.params for node in graph.nodes)
    for at, (left, right) in enumerate(zip(got, wanted, strict=True)):
        if not agree(np.asarray(left), np.asarray(right), _NARROW_TOLERANCE if narrow else _TOLERANCE):
            raise DeriveError(
                f"result {at} of the captured graph is not the reference's on random numbers; the reference has "
                "effects the tracer cannot see"
            )


def random_array(rng: np.random.Generator, item: dict[str, Any]) -> Any:
    """Values of an input, in its range."""
    shape, dtype, (low, high) = item["shape"], item["dtype"], item["range"]
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if "int" in dtype:
        return rng.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
    return rng.uniform(low, high, shape)


def agree(left: Any, right: Any, tolerance: float) -> bool:
    """Shapes are equal and values within a tolerance of the largest one."""
    if left.shape != right.shape:
        return False
    if numel(left.shape) == 0:
        return True
    left, right = left.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(right)
    scale = float(np.max(np.abs(right[finite]), initial=0.0))
    return bool(np.allclose(left, right, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
