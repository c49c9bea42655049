"""How many bytes of the unified buffer a kernel needs: what makes a schedule possible before anything is compiled."""

from __future__ import annotations

from kope.derive.emit_rows import work_elements
from kope.derive.graph import Graph
from kope.derive.kernel_plan import Plan, plan_kernel, rounds, uses_byte, whole_section
from kope.derive.registers import allocate
from kope.derive.row_bodies import long_body, rows_body
from kope.derive.row_plan import accumulator, plan_rows, row_slots
from kope.derive.schedule import LANES, Schedule
from kope.model import Task

UB_BYTES = 192 * 1024 - 8 * 1024 - 256
"""Of the 192 KB of a vector core, 8 KB and 256 B belong to the compiler and the runtime."""

_BLOCK = 32


def ub_bytes(task: Task, graph: Graph, schedule: Schedule) -> int:
    """Bytes that the kernel allocates, for the combination of dtypes that needs most."""
    plan = plan_kernel(task, graph, schedule)
    return max(_for_types(plan, combination) for combination in plan.storage.combinations)


def fits(task: Task, graph: Graph, schedule: Schedule) -> bool:
    """Whether the kernel's buffers fit into the unified buffer for every combination of dtypes."""
    return ub_bytes(task, graph, schedule) <= UB_BYTES


def _for_types(plan: Plan, combination: tuple[str, ...]) -> int:
    return _flat(plan, combination) if plan.graph.flat else _rows(plan, combination)


def _compute_bytes(plan: Plan, combination: tuple[str, ...]) -> int:
    native = plan.schedule.precision == "native" and combination and combination[0] == "float16"
    return 2 if native else 4


def _slots(plan: Plan, combination: tuple[str, ...], temps: int, wides: int) -> int:
    """Slots of the kernel: wide ones only where a tensor is not stored in the compute type."""
    compute = "float16" if _compute_bytes(plan, combination) == 2 else "float32"
    stored = all(plan.storage.resolve(t.dtype, combination) == compute for t in plan.tensors if t.space != "row")
    return temps if stored else temps + wides


def _queues(plan: Plan, combination: tuple[str, ...]) -> int:
    """Queues of all tensors."""
    total = 0
    for tensor in plan.tensors:
        elements = row_slots(plan.schedule.rows) if tensor.space == "row" else plan.schedule.tile
        size = plan.storage.size_bytes(tensor.dtype, combination)
        total += plan.schedule.buffers * _round(elements * size)
    return total


def _flat(plan: Plan, combination: tuple[str, ...]) -> int:
    tile = plan.schedule.tile
    made = allocate(plan.program, whole_section(plan), plan.names(), plan.schedule.reuse)
    slots = _slots(plan, combination, made.temps, made.wides)
    total = _queues(plan, combination) + slots * tile * _compute_bytes(plan, combination)
    return total + made.masks * tile // 8 + (2 * tile if uses_byte(plan) or rounds(plan) else 0)


def _rows(plan: Plan, combination: tuple[str, ...]) -> int:
    tile, rows = plan.schedule.tile, plan_rows(plan)
    text = "\n".join(rows_body(rows) + long_body(rows))
    slots = _slots(plan, combination, rows.temps, rows.wides)
    total = _queues(plan, combination) + slots * tile * 4
    masks = len(rows.row_masks)
    total += (len(rows.row_names) - masks) * row_slots(plan.schedule.rows) * 4 + masks * _BLOCK
    total += (
        work_elements(rows, text) * 4
        + rows.accumulators * (tile if accumulator(plan.schedule) == "kTile" else LANES) * 4
    )
    total += max(allocation.masks for allocation in rows.allocations) * tile // 8
    if plan.schedule.spread == "block" and "Rows" in text:
        total += row_slots(plan.schedule.rows) * _BLOCK
    return total + (2 * tile if uses_byte(plan) or rounds(plan) else 0)


def _round(size_bytes: int) -> int:
    return (size_bytes + _BLOCK - 1) // _BLOCK * _BLOCK
