"""Run a reference on recorders and hand back its graph, proven against the reference on random numbers.

The reference is foreign Python: this is what runs in the sandboxed child (capture.py starts it there).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kope.derive.graph import Graph, GraphInput, GraphOutput, Node
from kope.derive.interpret import Mismatch, compare, run
from kope.derive.scalar import Scalar
from kope.derive.symbol import Symbol
from kope.derive.tape import REFERENCE_FILE, Tape
from kope.derive.traced import Traced
from kope.errors import DeriveError
from kope.model import Case, Task

PROOF_ELEMENTS = 1 << 16
"""Cases up to this many input elements are used for the proof: enough for any structure, fast for any reference."""


def load_reference(task: Task) -> Callable[..., Any]:
    """Compile and execute the reference; return its function. Raises DeriveError when it cannot be."""
    scope: dict[str, Any] = {"__name__": "kope_reference"}
    try:
        exec(compile(task.reference, REFERENCE_FILE, "exec"), scope)
    except Exception as error:
        raise DeriveError(f"the reference of {task.name} cannot be loaded: {error!r}; fix reference.py") from error
    function = scope.get(task.symbol)
    if not callable(function):
        raise DeriveError(
            f"the reference of {task.name} defines no function {task.symbol}; fix reference.py or task.toml"
        )
    return function  # type: ignore[no-any-return]


def trace_case(task: Task, function: Callable[..., Any], case: Case) -> Graph:
    """Capture one case. Raises DeriveError naming the line when something escapes or is not supported."""
    tape = Tape()
    arguments: dict[str, Any] = {}
    inputs: list[GraphInput] = []
    absent = tuple(at for at, item in enumerate(case.inputs) if item is None)
    for position, (name, item) in enumerate(zip(task.inputs, case.inputs, strict=True)):
        if item is None:
            arguments[name] = None
            continue
        kind = "bool" if item.spec.dtype == "bool" else "int" if "int" in item.spec.dtype else "float"
        node = tape.add(Node("load", kind=kind, input=position), item.spec.shape)
        rank = len(item.spec.shape)
        extents = tuple(Scalar("size", name=f"{name}.{axis - rank}") for axis in range(rank))
        arguments[name] = Traced(tape, node, extents, view=True)
        inputs.append(GraphInput(name, position, "full"))
    for name, default in task.attrs.items():
        value = case.attrs.get(name, default)
        if isinstance(value, int | float):
            arguments[name] = Symbol(Scalar("attr", name=name), float(value), tape.decide)
        else:
            arguments[name] = value
    outputs = _outputs(task, tape, _call(function, arguments))
    return tape.finish(inputs, outputs, absent)


def _call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return function(**arguments)
    except DeriveError:
        raise
    except RecursionError as error:
        raise DeriveError(
            "the reference recurses without end on traced values; write it as a loop-free expression"
        ) from error
    except Exception as error:
        line = _line_of(error)
        raise DeriveError(
            f"reference line {line}: {type(error).__name__}: {error}; this form cannot be followed, write it with "
            "whole-tensor NumPy operations"
        ) from error


def _line_of(error: BaseException) -> int:
    line, frame = 0, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == REFERENCE_FILE:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def _outputs(task: Task, tape: Tape, result: Any) -> list[GraphOutput]:
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(results) != len(task.outputs):
        raise DeriveError(
            f"the reference returns {len(results)} values, task.toml declares {len(task.outputs)}; make them agree"
        )
    outputs = []
    for declared, value in zip(task.outputs, results, strict=True):
        if not isinstance(value, Traced):
            raise DeriveError(
                f"output {declared.name} is a plain {type(value).__name__}, so it escaped the tracer; compute it from "
                "the inputs with NumPy operations"
            )
        outputs.append(GraphOutput(declared.name, value.node, "full", declared.dtype))
    return outputs


def capture(task: Task) -> Graph:
    """Return the one graph that holds for every case of a task, proven on random numbers.

    Raises DeriveError when the reference escapes, when cases differ in structure, or when graph and reference disagree.
    """
    if task.framework != "numpy":
        raise DeriveError(f"{task.name} has a {task.framework} reference; deriving needs one in NumPy")
    function = load_reference(task)
    ranked = sorted(task.cases, key=discrimination, reverse=True)
    graph = trace_case(task, function, ranked[0])
    for case in task.cases:
        _check_fits(task, graph, case)
    for case in proof_cases(task.cases):
        prove(task, graph, function, case)
    return graph


def discrimination(case: Case) -> tuple[int, int, int]:
    """How well a case's shapes tell spaces apart: no extents of 1, many distinct ones, high rank."""
    shapes = [item.spec.shape for item in case.inputs if item is not None]
    extents = [extent for shape in shapes for extent in shape]
    return (-sum(extent == 1 for extent in extents), max(map(len, shapes), default=0), len(set(extents)))


def _check_fits(task: Task, graph: Graph, case: Case) -> None:
    """Every case must mean the same graph: same omitted inputs, same branches, shapes of the same spaces."""
    absent = tuple(at for at, item in enumerate(case.inputs) if item is None)
    if absent != graph.absent:
        raise DeriveError(f"case {case.id} omits other inputs than the rest; split the task by optional input")
    attrs = {name: value for name, value in {**task.attrs, **case.attrs}.items() if isinstance(value, int | float)}
    sizes = case_sizes(task, case)
    for guard in graph.guards:
        if guard.expr.evaluate({k: float(v) for k, v in attrs.items()}, sizes) != guard.value:
            raise DeriveError(f"case {case.id} takes another branch of the reference; split the task by that attribute")
    shapes = {name: item.spec.shape for name, item in zip(task.inputs, case.inputs, strict=True) if item is not None}
    whole = [(i, shapes[i.name]) for i in graph.inputs if i.space == "full"]
    if not whole:
        return
    first, shape = whole[0]
    domain = (*shape[:-1], shape[-1] // first.parts) if shape else ()
    for item in graph.inputs:
        if not _matches(item, shapes[item.name], domain):
            raise DeriveError(
                f"case {case.id}: {item.name} of shape {shapes[item.name]} broadcasts differently; split the task"
            )


def _matches(item: GraphInput, shape: tuple[int, ...], domain: tuple[int, ...]) -> bool:
    lead, last = domain[:-1], domain[-1:]
    if item.space == "full":
        return shape == ((*lead, last[0] * item.parts) if last else ())
    wanted = {"row": int(np.prod(lead)), "col": int(np.prod(last)), "one": 1}[item.space]
    return int(np.prod(shape)) == wanted


def case_sizes(task: Task, case: Case) -> dict[str, float]:
    """Extents by the names that size scalars use: {"x.-1": 64.0, ...}."""
    sizes = {}
    for name, item in zip(task.inputs, case.inputs, strict=True):
        for axis, extent in enumerate(item.spec.shape if item is not None else ()):
            sizes[f"{name}.{axis - len(item.spec.shape)}"] = float(extent)  # type: ignore[union-attr]
    return sizes


def proof_cases(cases: Sequence[Case]) -> list[Case]:
    """The three smallest and the most discriminating of the small ones."""

    def elements(case: Case) -> int:
        return sum(item.spec.numel for item in case.inputs if item is not None)

    by_size = sorted(cases, key=elements)
    small = [case for case in by_size if elements(case) <= PROOF_ELEMENTS] or by_size[:1]
    best = max(small, key=discrimination)
    return small[:3] + ([best] if best not in small[:3] else [])


def prove(task: Task, graph: Graph, function: Callable[..., Any], case: Case) -> None:
    """Run graph and reference on the same random numbers. Raises DeriveError at the first output that differs."""
    rng = np.random.default_rng(20)
    arrays: dict[str, Any] = {}
    for name, item in zip(task.inputs, case.inputs, strict=True):
        arrays[name] = None if item is None else _random(rng, item.spec.shape, item.spec.dtype, item.values)
    attrs = {name: case.attrs.get(name, default) for name, default in task.attrs.items()}
    with np.errstate(all="ignore"):
        want = function(**{name: None if a is None else a.copy() for name, a in arrays.items()}, **attrs)
        got = run(
            graph, arrays, {k: float(v) for k, v in attrs.items() if isinstance(v, int | float)}, case_sizes(task, case)
        )
    wanted = tuple(want) if isinstance(want, (tuple, list)) else (want,)
    try:
        compare(graph, got, wanted)
    except Mismatch as error:
        raise DeriveError(
            f"case {case.id}: the captured graph is not the reference: {error}; it has effects the tracer cannot see"
        ) from error


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, values: Any) -> Any:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if "int" in dtype:
        return rng.integers(int(values.low), int(values.high), shape, endpoint=True).astype(dtype)
    return rng.uniform(values.low, values.high, shape)
