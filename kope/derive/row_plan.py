"""A graph with rows under a schedule: sections of code, registers, and what a row kernel keeps in which buffer.

Two sections matter: one for rows that fit into a tile, several at once, and one per visit of a longer row. Their
statements are row_bodies' business.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from kope.derive.body import Scalars
from kope.derive.kernel_plan import Plan, Tensor
from kope.derive.program import Program
from kope.derive.registers import Allocation, Section, allocate, section
from kope.derive.schedule import LANES, MAX_ROWS, Schedule

REDUCTIONS = {"sum": "Sum", "amax": "Max", "amin": "Min"}


@dataclass
class RowPlan:
    """Sections and registers of both bodies."""

    plan: Plan
    whole: Section
    whole_allocation: Allocation
    passes: list[Section]
    pass_allocations: list[Allocation]
    row_names: dict[int, str]
    row_masks: list[str]
    resident: tuple[Tensor, ...]
    scalars: Scalars = field(default_factory=Scalars)

    @property
    def allocations(self) -> list[Allocation]:
        """Of all sections."""
        return [self.whole_allocation, *self.pass_allocations]

    @property
    def accumulators(self) -> int:
        """Tiles of partial results: the most reductions that one visit of a long row makes."""
        levels = self.plan.program.levels()
        reductions = [levels[at] for at, step in enumerate(self.plan.program.steps) if step.op in REDUCTIONS]
        return max((reductions.count(level) for level in reductions), default=0)

    @property
    def wides(self) -> int:
        """Wide slots: of the sections, and one for each column tensor that stays."""
        return max(allocation.wides for allocation in self.allocations) + len(self.resident)

    @property
    def temps(self) -> int:
        """Temporaries of the section that needs most."""
        return max(allocation.temps for allocation in self.allocations)


def plan_rows(plan: Plan) -> RowPlan:
    """Cut the program into sections and give its values registers."""
    program, reuse = plan.program, plan.schedule.reuse
    columns = tuple(t for t in plan.tensors if t.input and t.space == "col")
    resident = columns if plan.schedule.columns == "resident" else ()
    staying = {tensor.step: tensor.name for tensor in resident}
    members = [at for at, step in enumerate(program.steps) if at not in staying]
    whole = section(program, members, plan.stored())
    names = {step: name for step, name in plan.names().items() if step not in staying}
    passes = [section(program, found, stored) for found, stored in long_passes(program, plan.stored())]
    row_names, row_masks = _row_registers(plan)
    return RowPlan(
        plan,
        whole,
        allocate(program, whole, names, reuse, staying),
        passes,
        [allocate(program, part, _names_in(plan, part), reuse) for part in passes],
        row_names,
        row_masks,
        resident,
    )


def _names_in(plan: Plan, part: Section) -> dict[int, str]:
    """Registers of the loads and of the outputs stored in a section."""
    return {
        step: name
        for step, name in plan.names().items()
        if plan.program.steps[step].op == "load" or step in part.stored
    }


def long_passes(program: Program, stored: tuple[int, ...]) -> list[tuple[set[int], tuple[int, ...]]]:
    """Per visit of a long row: the whole and column values it computes, and the outputs it stores (in the last).

    A visit recomputes what it needs from the loads, because nothing of a long row stays in the unified buffer.
    """
    levels = program.levels()
    count = max(levels, default=0) + (1 if stored else 0)
    found = []
    for visit in range(count):
        roots = {at for at, step in enumerate(program.steps) if step.op in REDUCTIONS and levels[at] == visit + 1}
        here = stored if visit == count - 1 else ()
        found.append((_columnwise(program, roots | set(here)), here))
    return found


def _columnwise(program: Program, roots: Collection[int]) -> set[int]:
    """What these values need, up to row values, which are known; the reductions among the roots included."""
    needed = set(roots)
    for at in range(len(program.steps) - 1, -1, -1):
        step = program.steps[at]
        if at in needed and (step.space != "row" or at in roots):
            needed.update(arg for arg in step.args if program.steps[arg].space != "row")
    return needed


def _row_registers(plan: Plan) -> tuple[dict[int, str], list[str]]:
    tensors = {t.step: t.name for t in plan.tensors if t.input and t.space == "row"}
    names: dict[int, str] = {}
    masks = []
    for at, step in enumerate(plan.program.steps):
        if step.space != "row":
            continue
        names[at] = tensors.get(at) or f"{'rowMask' if step.mask else 'r'}{len(names)}"
        if step.mask:
            masks.append(names[at])
    return names, masks


def accumulator(schedule: Schedule) -> str:
    """Elements of a partial result of a long row: one repeat, or a tile where reductions fold whole tiles."""
    return "kTile" if schedule.reduction in ("call", "fold") else "kLanes"


def row_slots(rows: int) -> int:
    """Elements of a row register: whole repeats, so that comparisons of row values stay inside."""
    return (min(rows, MAX_ROWS) + LANES - 1) // LANES * LANES
