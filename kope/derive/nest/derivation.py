"""A kernel of loop nests for a task: captured case by case, planned, emitted; what has none is named, with why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kope.derive.nest.bounds import check_exact
from kope.derive.nest.emit import emit_nests
from kope.derive.nest.planner import FIRST_FORM, Form, Plan, plan_phases
from kope.derive.nest.tensor_capture import Captured, capture_tensors
from kope.derive.nest.tensors import TensorGraph
from kope.derive.nest.tiling import FIRST_LIMITS, Limits
from kope.errors import DeriveError
from kope.model import Case, CaseInput, Task

_UNKNOWN = {"float64": "float32"}


@dataclass(frozen=True, slots=True)
class PlannedGraph:
    """The graph of a case and the dtypes of its inputs and outputs."""

    graph: TensorGraph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def phases(self, form: Form = FIRST_FORM) -> Plan:
        """Its phases. Raises DeriveError for what has none."""
        return plan_phases(self.graph, self.inputs, self.outputs, form)


@dataclass(frozen=True, slots=True)
class NestPlan:
    """Planned cases, how else to plan them, and by case id why others are not."""

    task: Task
    cases: tuple[tuple[Case, Plan], ...]
    graphs: tuple[PlannedGraph, ...]
    refused: Mapping[str, str]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of phases there are, in order of appearance."""
        return tuple(dict.fromkeys(phase.kind for _, plan in self.cases for phase in plan.phases))

    @property
    def looks_up(self) -> bool:
        """Whether places come from data: the scalar unit then reads every one of them."""
        return any(kind in ("take", "put") for kind in self.kinds)

    @property
    def phase_counts(self) -> tuple[int, int]:
        """Fewest and most phases of a case."""
        counts = [len(plan.phases) for _, plan in self.cases]
        return min(counts, default=0), max(counts, default=0)

    def source(self, limits: Limits = FIRST_LIMITS, form: Form = FIRST_FORM, block_products: bool = False) -> str:
        """Ascend C for the planned cases. Raises DeriveError when there are none, or buffers do not fit."""
        if not self.cases:
            first = next(iter(self.refused.values()), "it has no cases")
            raise DeriveError(f"{self.task.name}: {first}")
        plans = self.cases
        if form != FIRST_FORM:
            pairs = zip(self.cases, self.graphs, strict=True)
            plans = tuple((case, graph.phases(form)) for (case, _), graph in pairs)
        return emit_nests(self.task, plans, limits, block_products)


def plan_nests(task: Task, folder: Path | None = None) -> NestPlan:
    """Capture and plan every case of a task. folder: where captured graphs are kept.

    Raises DeriveError when nothing can be captured at all.
    """
    captured = capture_tensors(task, folder)
    planned, graphs, refused = [], [], {}
    for case in task.cases:
        try:
            graph = _graph(task, case, captured[case.id])
            planned.append((case, graph.phases()))
            graphs.append(graph)
        except DeriveError as error:
            refused[case.id] = str(error)
    return NestPlan(task, tuple(planned), tuple(graphs), refused)


def complete(plan: NestPlan) -> NestPlan:
    """The plan itself. Raises DeriveError naming the first case that has none: a kernel is for all cases."""
    for case_id, reason in plan.refused.items():
        raise DeriveError(f"{plan.task.name}, case {case_id}: {reason}")
    return plan


def _graph(task: Task, case: Case, captured: Captured) -> PlannedGraph:
    if captured.graph is None:
        raise DeriveError(captured.error)
    check_exact(captured.graph, [_magnitude(item) for item in case.inputs])
    inputs = tuple(item.spec.dtype if item is not None else "" for item in case.inputs)
    return PlannedGraph(captured.graph, inputs, tuple(_output_dtypes(task, case, captured)))


def _magnitude(item: CaseInput | None) -> float:
    """Largest absolute value of an input."""
    return 0.0 if item is None else max(abs(item.values.low), abs(item.values.high))


def _output_dtypes(task: Task, case: Case, captured: Captured) -> list[str]:
    """Dtypes of what is returned: as declared; of imported tasks as their reference returns it."""
    count = len(captured.dtypes)
    if task.origin is not None and len(captured.native) == count:
        return [_UNKNOWN.get(dtype, dtype) for dtype in captured.native]
    if count != len(task.outputs) and not task.outputs[-1].many:
        raise DeriveError(f"the reference returns {count} tensors, {len(task.outputs)} are declared")
    declared = [output.dtype for output in task.outputs]
    declared += declared[-1:] * (count - len(declared))
    return [_declared(task, case, dtype, made) for dtype, made in zip(declared, captured.dtypes, strict=True)]


def _declared(task: Task, case: Case, dtype: str, made: str) -> str:
    if dtype.startswith("same:"):
        item = case.inputs[task.inputs.index(dtype.removeprefix("same:"))]
        return item.spec.dtype if item is not None else _UNKNOWN.get(made, made)
    return _UNKNOWN.get(made, made) if dtype == "reference" else dtype
