"""From graph and schedule to Ascend C source: gathers what a skeleton needs and has it rendered.

The text of the kernels lives in templates/skeletons, statements in body.py; which schedule is worth trying is
moves.py's business.
"""

from __future__ import annotations

import re
from typing import Any

from kope.derive.body import Body, Scalars
from kope.derive.emit_rows import rows_context
from kope.derive.graph import Graph
from kope.derive.host import shared_context
from kope.derive.kernel_plan import Plan, compute_frame, local_names, plan_kernel, queue_names, whole_section
from kope.derive.registers import allocate
from kope.derive.schedule import Schedule
from kope.model import Task
from kope.render import render


def emit(task: Task, graph: Graph, schedule: Schedule) -> str:
    """Return the candidate source. Raises DeriveError when the graph has no kernel under this schedule."""
    plan = plan_kernel(task, graph, schedule)
    if graph.flat:
        return tidy(render("skeletons/elementwise.asc", k=elementwise_context(plan)))
    return tidy(render("skeletons/rows.asc", k=rows_context(plan)))


def tidy(source: str) -> str:
    """One blank line at most between parts, none after an opening brace."""
    source = re.sub(r"\n\s*\n(\s*\n)+", "\n\n", source)
    return re.sub(r"\{\n\n", "{\n", source)


def elementwise_context(plan: Plan) -> dict[str, Any]:
    """What elementwise.asc.j2 reads."""
    part = whole_section(plan)
    allocation = allocate(plan.program, part, plan.names(), plan.schedule.reuse)
    scalars = Scalars(native=plan.schedule.precision == "native")
    body = Body(
        plan.program, part, allocation, scalars, plan.task.reference.splitlines(), local_names(plan), queue_names(plan)
    )
    fields = [
        {"type": "uint64_t", "name": "total", "text": "elements"},
        {"type": "uint64_t", "name": "perCore", "text": "elements of one core"},
    ]
    lines = compute_frame(plan.tensors, body.print())
    return {
        **shared_context(plan, scalars),
        "tile": plan.schedule.tile,
        "grain": plan.schedule.grain,
        "fields": fields,
        "body": lines,
        "tensors": plan.tensors,
        "temps": allocation.temps,
        "wides": allocation.wides,
        "masks": allocation.masks,
    }
