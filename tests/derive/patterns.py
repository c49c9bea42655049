"""One small operator per pattern of loop nests: what a reader of the emitted source is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kope.derive.derivation import NEST_SCHEDULE, form_of, limits_of
from kope.derive.nest import composed
from kope.derive.nest.emit import emit_nests
from kope.derive.nest.planner import plan_phases
from kope.derive.nest.tensors import TensorBuilder
from kope.derive.schedule import Schedule
from kope.model import Case, CaseInput, OutputDecl, Task, TensorSpec
from tests.derive.nests import KINDS

Shapes = dict[str, tuple[tuple[int, ...], str]]


def _softmax(b: TensorBuilder, x: int) -> int:
    b.line = 2
    return composed.softmax(b, x, 0)


def _turned(b: TensorBuilder, x: int, y: int) -> int:
    b.line = 2
    return b.pointwise("add", b.permute(x, [1, 0]), y)


def _product(b: TensorBuilder, x: int, y: int) -> int:
    b.line = 2
    return b.contract(x, y, ("mk", "kn", "mn"))


def _running(b: TensorBuilder, x: int) -> int:
    b.line = 2
    return b.add("cumsum", (x,), b.shape(x), "float", 0)


def _rows(b: TensorBuilder, x: int, i: int) -> int:
    b.line = 2
    return b.add("take", (x, i), (*b.shape(i), *b.shape(x)[1:]), "float", (0,))


def _recurrence(b: TensorBuilder, x: int) -> int:
    b.line = 2
    steps, width = b.shape(x)
    state = b.expand(b.scalar(0.0), (width,))
    for at in range(steps):
        given = b.reshape(b.slice(x, 0, at, at + 1), (width,))
        state = composed.tanh(b, b.pointwise("add", b.pointwise("mul", state, b.scalar(0.5)), given))
    return state


PATTERNS: dict[str, tuple[str, Callable[..., int], list[Shapes]]] = {
    "nests_reduce": (
        "return torch.softmax(x, 0)",
        _softmax,
        [{"x": ((64, 300), "float32")}, {"x": ((5, 7), "float16")}],
    ),
    "nests_layout": (
        "return x.T + y",
        _turned,
        [{"x": ((64, 300), "float32"), "y": ((300, 1), "float32")}, {"x": ((5, 7), "int8"), "y": ((7, 5), "int8")}],
    ),
    "nests_product": ("return x @ y", _product, [{"x": ((64, 300), "float16"), "y": ((300, 96), "float16")}]),
    "nests_scan": ("return torch.cumsum(x, 0)", _running, [{"x": ((40, 300), "float32")}]),
    "nests_recurrence": (
        "for t in range(len(x)): h = tanh(0.5 * h + x[t])",
        _recurrence,
        [{"x": ((12, 300), "float32")}, {"x": ((40, 70), "float32")}],
    ),
    "nests_places": ("return x[i]", _rows, [{"x": ((64, 300), "bfloat16"), "i": ((20,), "int64")}]),
}


def pattern_source(name: str, schedule: Schedule = NEST_SCHEDULE) -> str:
    """The kernel of one pattern."""
    body, build, cases = PATTERNS[name]
    inputs = tuple(cases[0])
    reference = f"def reference({', '.join(inputs)}):\n    {body}\n"
    made = tuple(
        Case(f"c{at}", tuple(CaseInput(TensorSpec(n, *shapes[n])) for n in inputs)) for at, shapes in enumerate(cases)
    )
    output = (OutputDecl("z", "same:x"),)
    task = Task(name, "", inputs, output, {}, reference, "reference", "torch", made, {}, "")
    plans = [(case, _plan(build, shapes, schedule)) for case, shapes in zip(made, cases, strict=True)]
    return emit_nests(task, plans, limits_of(schedule))


def _plan(build: Callable[..., int], shapes: Shapes, schedule: Schedule) -> Any:
    b = TensorBuilder()
    nodes = [b.input(at, shape, KINDS[dtype]) for at, (shape, dtype) in enumerate(shapes.values())]
    graph = b.finish([build(b, *nodes)])
    dtypes = [dtype for _, dtype in shapes.values()]
    return plan_phases(graph, dtypes, dtypes[:1], form_of(schedule))
