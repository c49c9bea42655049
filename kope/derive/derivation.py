"""What a task's reference gives: a kernel of one fused tile where that suffices, else one of loop nests.

Which schedule of it is worth trying is moves.py's business.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kope.derive.capture import capture_graph
from kope.derive.emit import emit
from kope.derive.first import first_schedule
from kope.derive.graph import Graph, traits
from kope.derive.nest.derivation import NestPlan, complete, plan_nests
from kope.derive.nest.planner import Form
from kope.derive.nest.tensors import numel
from kope.derive.nest.tiling import FIRST_LIMITS, Limits
from kope.derive.schedule import Schedule
from kope.errors import DeriveError
from kope.model import Task

NEST_SCHEDULE = Schedule(tile=FIRST_LIMITS.tile, rows=FIRST_LIMITS.rows, span=FIRST_LIMITS.span)


@dataclass(frozen=True, slots=True)
class Derivation:
    """A captured task: `graph` for a fused tile, or `nests` for loop nests over device memory."""

    task: Task
    graph: Graph | None = None
    nests: NestPlan | None = None

    @property
    def form(self) -> str:
        """elementwise, rows or nests."""
        if self.graph is None:
            return "nests"
        return "elementwise" if self.graph.flat else "rows"

    @property
    def caveat(self) -> str:
        """Why its kernels cannot be right on all calls of the task, "" when they can."""
        if self.graph is not None or self.task.fixed_shapes:
            return ""
        return (
            f"{self.task.name}: its reference needs loop nests, whose kernels are right on the shapes of its cases "
            "only; where no others ever come, say fixed_shapes = true in its task.toml"
        )

    def first(self) -> Schedule:
        """The schedule of the first kernel. Raises DeriveError when its buffers do not fit."""
        return NEST_SCHEDULE if self.graph is None else first_schedule(self.task, self.graph)

    def source(self, schedule: Schedule) -> str:
        """Ascend C under a schedule. Raises DeriveError when there is none."""
        if self.graph is not None:
            return emit(self.task, self.graph, schedule)
        assert self.nests is not None
        return self.nests.source(limits_of(schedule), form_of(schedule), schedule.spread == "block")

    def traits(self, dtypes: tuple[str, ...]) -> tuple[str, ...]:
        """Structure words, for transfer between operators."""
        if self.graph is not None:
            return traits(self.graph, dtypes)
        assert self.nests is not None
        most = self.nests.phase_counts[1]
        words = {"nests", *self.nests.kinds, *(f"dtype:{dtype}" for dtype in dtypes)}
        words.add(f"phases:{'one' if most == 1 else 'few' if most <= 8 else 'many'}")
        words |= {"transcendental"} & self._kinds_of_work()
        return tuple(sorted(words))

    def _kinds_of_work(self) -> set[str]:
        from kope.derive.graph import TRANSCENDENTAL

        assert self.nests is not None
        ops = {
            node.op
            for _, plan in self.nests.cases
            for phase in plan.phases
            if phase.expression is not None
            for node in phase.expression.nodes
        }
        return {"transcendental"} if ops & set(TRANSCENDENTAL) else set()

    def document(self) -> dict[str, Any]:
        """What was derived, JSON-able: nodes of the graph, or phases per structure."""
        if self.graph is not None:
            nodes = [
                {"op": node.op, "space": node.space, "args": list(node.args), "line": node.line}
                for node in self.graph.nodes
                if node.op != "scalar"
            ]
            return {"form": self.form, "nodes": nodes, "structures": []}
        assert self.nests is not None
        return {"form": self.form, "nodes": [], "structures": _structures(self.nests)}


def limits_of(schedule: Schedule) -> Limits:
    """What a schedule says of the tiles of loop nests."""
    return Limits(schedule.tile, schedule.rows, schedule.span)


def form_of(schedule: Schedule) -> Form:
    """What a schedule says of their phases."""
    return Form(schedule.recompute, schedule.split)


def derive(task: Task, folder: Path | None = None) -> Derivation:
    """Capture a task's reference and plan a kernel for all its cases. folder: where captures of PyTorch are kept.

    A NumPy reference becomes rows or flat tiles where it fits, else loop nests. Raises DeriveError with the reason and
    the line when there is no kernel.
    """
    if task.framework == "torch":
        return Derivation(task, nests=complete(plan_nests(task, folder)))
    try:
        graph = capture_graph(task)
        first_schedule(task, graph)
    except DeriveError:
        return Derivation(task, nests=complete(plan_nests(task, folder)))
    return Derivation(task, graph=graph)


def _structures(nests: NestPlan) -> list[dict[str, Any]]:
    """Per sequence of phases: the cases that have it, and what each phase does in the first of them."""
    made: dict[tuple[Any, ...], dict[str, Any]] = {}
    for case, plan in nests.cases:
        key = tuple((phase.kind, phase.op, len(phase.operands)) for phase in plan.phases)
        entry = made.setdefault(
            key,
            {
                "cases": [],
                "workspace_bytes": plan.workspace,
                "loops": [{"first": loop.first, "phases": loop.length, "rounds": loop.rounds} for loop in plan.loops],
                "phases": [
                    {
                        "kind": phase.kind,
                        "op": phase.op,
                        "elements": numel(phase.extents),
                        "operations": _operations(phase.expression),
                        "line": phase.line,
                    }
                    for phase in plan.phases
                ],
            },
        )
        entry["cases"].append(case.id)
    return list(made.values())


def _operations(expression: Graph | None) -> dict[str, int]:
    """How often each operator occurs in an expression."""
    if expression is None:
        return {}
    return dict(sorted(Counter(n.op for n in expression.nodes if n.op not in ("scalar", "load")).items()))
