"""A kernel of loop nests for a task: captured case by case, planned, emitted; what has none is named, with why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kope.derive.nest.bounds import check_exact
from kope.derive.nest.emit import emit_nests
from kope.derive.nest.planner import Plan, plan_phases
from kope.derive.nest.tensor_capture import Captured, capture_tensors
from kope.errors import DeriveError
from kope.model import Case, CaseInput, Task

TILE = 4096
_UNKNOWN = {"float64": "float32"}


@dataclass(frozen=True, slots=True)
class NestPlan:
    """Planned cases, and by case id why others are not."""

    task: Task
    cases: tuple[tuple[Case, Plan], ...]
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

    def source(self, tile: int = TILE) -> str:
        """Ascend C for the planned cases. Raises DeriveError when there are none, or buffers do not fit."""
        if not self.cases:
            first = next(iter(self.refused.values()), "it has no cases")
            raise DeriveError(f"{self.task.name}: {first}")
        return emit_nests(self.task, self.cases, tile)


def plan_nests(task: Task, folder: Path | None = None) -> NestPlan:
    """Capture and plan every case of a task with a PyTorch reference. folder: where captured graphs are kept.

    Raises DeriveError when nothing can be captured at all.
    """
    captured = capture_tensors(task, folder)
    planned, refused = [], {}
    for case in task.cases:
        try:
            planned.append((case, _planned(task, case, captured[case.id])))
        except DeriveError as error:
            refused[case.id] = str(error)
    return NestPlan(task, tuple(planned), refused)


def complete(plan: NestPlan) -> NestPlan:
    """The plan itself. Raises DeriveError naming the first case that has none: a kernel is for all cases."""
    for case_id, reason in plan.refused.items():
        raise DeriveError(f"{plan.task.name}, case {case_id}: {reason}")
    return plan


def _planned(task: Task, case: Case, captured: Captured) -> Plan:
    if captured.graph is None:
        raise DeriveError(captured.error)
    check_exact(captured.graph, [_magnitude(item) for item in case.inputs])
    inputs = [item.spec.dtype if item is not None else "" for item in case.inputs]
    return plan_phases(captured.graph, inputs, _output_dtypes(task, case, captured))


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
