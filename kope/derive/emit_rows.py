"""What the row skeleton reads: one body for rows that fit into a tile, one that visits longer rows in pieces."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from kope.derive.body import Body, Scalars
from kope.derive.emit import Plan, Tensor, compute_frame, local_names, queue_names, shared_context
from kope.derive.program import Program
from kope.derive.registers import Allocation, Section, allocate, section
from kope.derive.schedule import LANES, MAX_ROWS, Schedule
from kope.errors import DeriveError

REDUCTIONS = {"sum": "Sum", "amax": "Max", "amin": "Min"}
_MEETS = ("Add", "Sub", "Mul", "Div", "Max", "Min")
_START = {"sum": "0.0f", "amax": "-INFINITY", "amin": "INFINITY"}


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


_FIELDS = [
    {"type": "uint64_t", "name": "rows", "text": "of the whole tensor, all leading axes taken together"},
    {"type": "uint32_t", "name": "columns", "text": "length of a row"},
    {"type": "uint32_t", "name": "stride", "text": "elements from one row to the next inside a tile"},
    {"type": "uint64_t", "name": "rowsPerCore", "text": "rows of one core"},
    {"type": "uint32_t", "name": "rowsPerTile", "text": "rows of one tile, 0 when a row is longer than a tile"},
    {"type": "uint32_t", "name": "piece", "text": "columns of one piece of such a row"},
]


def accumulator(schedule: Schedule) -> str:
    """Elements of a partial result of a long row: one repeat, or a tile where reductions fold whole tiles."""
    return "kTile" if schedule.reduction in ("call", "fold") else "kLanes"


def row_slots(rows: int) -> int:
    """Elements of a row register: whole repeats, so that comparisons of row values stay inside."""
    return (min(rows, MAX_ROWS) + LANES - 1) // LANES * LANES


def _body(rows: RowPlan, part: Section, allocation: Allocation, long_rows: bool) -> Body:
    plan = rows.plan
    locals_, queues = local_names(plan), queue_names(plan)
    kept = {t.step for t in plan.tensors if t.space != "row"}
    return Body(
        plan.program,
        part,
        allocation,
        rows.scalars,
        plan.task.reference.splitlines(),
        {step: name for step, name in locals_.items() if step in kept},
        {step: name for step, name in queues.items() if step in part.steps and step in kept},
        rows.row_names,
        long_rows,
        accumulate=accumulator(plan.schedule) == "kLanes",
    )


def rows_body(rows: RowPlan) -> list[str]:
    """Statements for several whole rows in a tile."""
    plan = rows.plan
    staying = {tensor.name for tensor in rows.resident}
    statements = _row_loads(plan, "rows") + _body(rows, rows.whole, rows.whole_allocation, False).print()
    statements += _row_stores(rows, "rows")
    tensors = tuple(t for t in plan.tensors if t.name not in staying)
    return compute_frame(tensors, statements)


def _row_loads(plan: Plan, count: str) -> list[str]:
    """Row inputs are copied to their registers at once, so that their queue is free again."""
    lines = []
    for tensor in plan.tensors:
        if tensor.input and tensor.space == "row":
            lines.append(f"Convert({tensor.name}, {tensor.name}Local, {count});")
            lines.append(f"{tensor.name}Queue.FreeTensor({tensor.name}Local);")
    return lines


def _row_stores(rows: RowPlan, count: str) -> list[str]:
    return [
        f"Convert({tensor.name}Local, {rows.row_names[tensor.step]}, {count});"
        for tensor in rows.plan.tensors
        if not tensor.input and tensor.space == "row"
    ]


def long_body(rows: RowPlan) -> list[str]:
    """One loop over the pieces of a row per visit, and the row values that each visit makes known."""
    plan, program = rows.plan, rows.plan.program
    levels = program.levels()
    lines: list[str] = []
    for tensor in plan.tensors:
        if tensor.input and tensor.space == "row":
            lines.append(f"LoadColumns({tensor.name}Queue, {tensor.name}Gm, row, 1);")
            lines.append(
                f"LocalTensor<{tensor.type}> {tensor.name}Local = {tensor.name}Queue.template DeQue<{tensor.type}>();"
            )
    lines += _row_loads(plan, "1")
    for visit, (part, allocation) in enumerate(zip(rows.passes, rows.pass_allocations, strict=True)):
        lines += _row_values(rows, visit, levels)
        lines += _visit(rows, part, allocation, visit, levels)
    lines += _row_values(rows, len(rows.passes), levels)
    for tensor in plan.tensors:
        if not tensor.input and tensor.space == "row":
            lines.append(
                f"LocalTensor<{tensor.type}> {tensor.name}Local = "
                f"{tensor.name}Queue.template AllocTensor<{tensor.type}>();"
            )
            lines.append(f"Convert({tensor.name}Local, {rows.row_names[tensor.step]}, 1);")
            lines.append(f"{tensor.name}Queue.EnQue({tensor.name}Local);")
            lines.append(f"StoreColumns({tensor.name}Queue, {tensor.name}Gm, row, 1);")
    return lines


def _row_values(rows: RowPlan, level: int, levels: tuple[int, ...]) -> list[str]:
    """Finish the reductions of this level, then everything in row space that they make known."""
    program = rows.plan.program
    lines: list[str] = []
    for at, step in enumerate(program.steps):
        if step.space == "row" and levels[at] == level and step.op in REDUCTIONS:
            lines.append(f"Finish{REDUCTIONS[step.op]}({rows.row_names[at]}, {rows.row_names[at]}Sum);")
    members = [
        at
        for at, step in enumerate(program.steps)
        if step.space == "row" and levels[at] == level and step.op not in REDUCTIONS and step.op != "load"
    ]
    return lines + _body(rows, Section(tuple(members), ()), Allocation(), True).print()


def _visit(rows: RowPlan, part: Section, allocation: Allocation, visit: int, levels: tuple[int, ...]) -> list[str]:
    program = rows.plan.program
    lines: list[str] = []
    reductions = [at for at in part.steps if program.steps[at].op in REDUCTIONS]
    for k, at in enumerate(reductions):
        name = f"{rows.row_names[at]}Sum"
        size = accumulator(rows.plan.schedule)
        lines.append(f"const LocalTensor<float> {name} = sumBuffer.Get<float>()[{k} * {size}];")
        lines.append(f"Duplicate({name}, {_START[program.steps[at].op]}, {size});")
    read = _row_operands(program, part)
    blocks: dict[int, str] | None = None
    if rows.plan.schedule.spread == "block":
        blocks = {at: f"blocks[{k} * kLanes]" for k, at in enumerate(read)}
        lines += [f"Brcb({place}, {rows.row_names[at]}, 1, {{1, 8}});" for at, place in blocks.items()]
    elif read:
        lines.append("WaitForVector();")
        lines += [f"const float {rows.row_names[at]}Value{visit} = {rows.row_names[at]}.GetValue(0);" for at in read]
    lines.append("for (uint32_t column = 0; column < columns; column += tiling.piece) {")
    lines.append("    const uint32_t count = columns - column < tiling.piece ? columns - column : tiling.piece;")
    piece = _piece(rows, part, allocation, visit, blocks)
    if any("whole)" in line for line in piece):
        lines.append("    const uint32_t whole = WholeRepeats(count);")
    if any("span)" in line for line in piece):
        lines.append("    const Repeats span{count / kLanes, count % kLanes};")
    lines += ["    " + line for line in piece]
    lines.append("}")
    return lines


def _row_operands(program: Program, part: Section) -> list[int]:
    """Row values that meet columns in this visit."""
    found = []
    for at in part.steps:
        step = program.steps[at]
        if program.mixed(step) == "row":
            found.append(next(arg for arg in step.args if program.steps[arg].space == "row"))
    return sorted(set(found))


def _piece(
    rows: RowPlan, part: Section, allocation: Allocation, visit: int, blocks: dict[int, str] | None
) -> list[str]:
    """One piece of a row: copy in, compute, copy out."""
    plan = rows.plan
    loads = [t for t in plan.tensors if t.input and t.step in part.steps]
    stores = [t for t in plan.tensors if not t.input and t.step in part.stored]
    lines = []
    for t in loads:
        offset = "column"
        if t.space == "full":
            start = f"row * columns * {t.parts} + {t.part} * columns" if t.parts > 1 else "row * columns"
            offset = f"{start} + column"
        lines.append(f"LoadColumns({t.name}Queue, {t.name}Gm, {offset}, count);")
    body = _body(rows, part, allocation, True)
    body.visit, body.blocks = visit, blocks
    lines += compute_frame([*loads, *stores], body.print())
    lines += [f"StoreColumns({t.name}Queue, {t.name}Gm, row * columns + column, count);" for t in stores]
    return lines


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
