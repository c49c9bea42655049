"""The statements of a row kernel: for whole rows in a tile, and for a row that is visited in pieces."""

from __future__ import annotations

from kope.derive.body import Body
from kope.derive.kernel_plan import Plan, compute_frame, local_names, queue_names
from kope.derive.program import Program
from kope.derive.registers import Allocation, Section
from kope.derive.row_plan import REDUCTIONS, RowPlan, accumulator

_START = {"sum": "0.0f", "amax": "-INFINITY", "amin": "INFINITY"}


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
