"""What the row skeleton reads: bodies, the helpers they call, buffer sizes, shapes that the host checks."""

from __future__ import annotations

from typing import Any

from kope.derive.host import shared_context
from kope.derive.kernel_plan import Plan, Tensor
from kope.derive.row_bodies import long_body, rows_body
from kope.derive.row_plan import RowPlan, accumulator, plan_rows, row_slots
from kope.derive.schedule import LANES
from kope.errors import DeriveError

_MEETS = ("Add", "Sub", "Mul", "Div", "Max", "Min")
_FIELDS = [
    {"type": "uint64_t", "name": "rows", "text": "of the whole tensor, all leading axes taken together"},
    {"type": "uint32_t", "name": "columns", "text": "length of a row"},
    {"type": "uint32_t", "name": "stride", "text": "elements from one row to the next inside a tile"},
    {"type": "uint64_t", "name": "rowsPerCore", "text": "rows of one core"},
    {"type": "uint32_t", "name": "rowsPerTile", "text": "rows of one tile, 0 when a row is longer than a tile"},
    {"type": "uint32_t", "name": "piece", "text": "columns of one piece of such a row"},
]


def rows_context(plan: Plan) -> dict[str, Any]:
    """What rows.asc.j2 reads."""
    rows = plan_rows(plan)
    short, long = rows_body(rows), long_body(rows)
    text = "\n".join(short + long)
    helpers = _helpers(rows, text)
    resident = {tensor.name for tensor in rows.resident}
    shared = shared_context(plan, rows.scalars)
    return {
        **shared,
        **helpers,
        "uses": {**shared["uses"], **helpers["uses"]},
        **_copies(plan),
        "tile": plan.schedule.tile,
        "rows": plan.schedule.rows,
        "row_slots": row_slots(plan.schedule.rows),
        "grain": plan.schedule.grain,
        "spread": plan.schedule.spread,
        "reduction": plan.schedule.reduction,
        "fields": _FIELDS,
        "tensors": plan.tensors,
        "temps": rows.temps,
        "wides": rows.wides,
        "masks": max(allocation.masks for allocation in rows.allocations),
        "resident": rows.resident,
        "resident_slot": {t.name: rows.wides - len(rows.resident) + k for k, t in enumerate(rows.resident)},
        "is_resident": {t.name: t.name in resident for t in plan.tensors},
        "row_registers": [name for name in rows.row_names.values() if name not in rows.row_masks],
        "row_masks": rows.row_masks,
        "accumulators": rows.accumulators,
        "accumulator": accumulator(plan.schedule),
        "passes": len(rows.passes),
        "rows_body": short,
        "long_body": long,
        "work": work_elements(rows, text),
    }


def _helpers(rows: RowPlan, text: str) -> dict[str, Any]:
    """Which member functions the bodies call."""
    schedule = rows.plan.schedule
    meets = [name for name in _MEETS if f"Rows{name}(" in text]
    reduces = [name for name in ("Sum", "Max", "Min") if f"Reduce{name}<" in text]
    accumulates = accumulator(schedule) == "kLanes"
    return {
        "reduce_count": len(reduces),
        "row_helpers": [(n, schedule.reduction) for n in reduces] + [(n, schedule.spread) for n in meets],
        "block_helpers": [n for n in _MEETS if schedule.spread == "block" and (n in meets or f" Row{n}(" in text)],
        "column_helpers": [name for name in _MEETS if f"Columns{name}(" in text],
        "accumulate_helpers": [n for n in ("Sum", "Max", "Min") if accumulates and f"Finish{n}(" in text],
        "finish_helpers": [name for name in ("Sum", "Max", "Min") if f"Finish{name}(" in text],
        "uses": {
            "blocks": "blocks[" in text or (bool(meets) and schedule.spread == "block"),
            "scalar_reads": "WaitForVector" in text or (bool(meets) and schedule.spread == "scalar"),
            "convert": "Convert(" in text,
            "multiply_add": "ColumnsMulAdd(" in text,
        },
    }


def work_elements(rows: RowPlan, text: str) -> int:
    """Floats of the work buffer: a tile where rows are folded or divided through it, else what a reduction needs."""
    schedule = rows.plan.schedule
    reduces = "Reduce" in text or "Finish" in text
    divides = "(work," in text or ("RowsDiv(" in text and schedule.spread == "scalar")
    if divides or (reduces and schedule.reduction != "call"):
        return schedule.tile
    return max(schedule.tile // LANES, LANES) if reduces else 0


def _copies(plan: Plan) -> dict[str, Any]:
    """Widths, pointers and shape checks of the tensors."""
    pointer: dict[tuple[bool, int], str] = {}
    for tensor in plan.tensors:
        pointer.setdefault((tensor.input, tensor.position), tensor.name)
    full = [t for t in plan.tensors if t.space == "full"]
    shaped = next((t for t in full if t.input), None)
    if shaped is None:
        raise DeriveError(f"{plan.task.name} reads no whole tensor; there is nothing to divide among the cores")
    extents = {"full": "tiling.rows * {0} * columns", "row": "tiling.rows", "col": "columns"}
    return {
        "pointer": {t.name: pointer[t.input, t.position] for t in plan.tensors},
        "extent": {t.name: extents[t.space].format(t.parts).replace(" * 1 *", " *") for t in plan.tensors},
        "width": {t.name: f"{t.parts} * columns" if t.parts > 1 else "columns" for t in plan.tensors},
        "piece": {t.name: f" + {t.part} * columns" if t.part else "" for t in plan.tensors},
        "shaped": {"place": f"call->inputs[{shaped.position}]", "parts": shaped.parts},
        "shape_checks": _shape_checks(plan, shaped),
        "gapped": _gapped(plan),
        "full_sizes": ", ".join(f"sizeof({kind})" for kind in dict.fromkeys(t.type for t in full)),
    }


def _gapped(plan: Plan) -> list[Tensor]:
    """Inputs whose rows may lie further apart than their own blocks: another tensor has shorter elements."""
    combinations = plan.storage.combinations

    def size(tensor: Tensor, combination: tuple[str, ...]) -> int:
        return plan.storage.size_bytes(tensor.dtype, combination)

    tiles = [t for t in plan.tensors if t.space == "full"]
    inputs = [t for t in plan.tensors if t.input and t.space != "row"]
    return [t for t in inputs if any(size(t, c) > min(size(other, c) for other in tiles) for c in combinations)]


def _shape_checks(plan: Plan, shaped: Tensor) -> list[str]:
    """numel of every other tensor."""
    checks = []
    seen = {(True, shaped.position)}
    for t in plan.tensors:
        if (t.input, t.position) in seen:
            continue
        seen.add((t.input, t.position))
        place = f"call->{'inputs' if t.input else 'outputs'}[{t.position}].numel"
        wanted = {"full": f"tiling.rows * tiling.columns * {t.parts}", "row": "tiling.rows", "col": "tiling.columns"}[
            t.space
        ]
        checks.append(f"static_cast<uint64_t>({place}) != {wanted.removesuffix(' * 1')}")
    return checks
