"""From graph and schedule to Ascend C source: gathers what a skeleton needs and has it rendered.

The text of the kernels lives in templates/skeletons, statements in body.py; which schedule is worth trying is
moves.py's business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kope.derive.body import Body, Scalars
from kope.derive.graph import Graph
from kope.derive.lower import lower
from kope.derive.naming import identifiers
from kope.derive.program import Program
from kope.derive.registers import Section, allocate, section
from kope.derive.rewrite import apply_rewrites
from kope.derive.scalar import cpp_name, cpp_number
from kope.derive.schedule import Schedule
from kope.derive.storage import KOPE_TYPES, SIZE_BYTES, Storage, cpp_type, storage_of
from kope.model import Task
from kope.render import render

BYTES = ("int8", "uint8", "bool")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor of a kernel: a piece of an input, or an output. step: the load or the result."""

    name: str
    type: str
    dtype: str
    input: bool
    position: int
    space: str
    step: int
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph under a schedule, lowered: everything but text."""

    task: Task
    graph: Graph
    schedule: Schedule
    program: Program
    storage: Storage
    tensors: tuple[Tensor, ...]

    def names(self) -> dict[int, str]:
        """Register names of loads and outputs by step."""
        return {tensor.step: tensor.name for tensor in self.tensors if tensor.space != "row"}

    def stored(self, space: str = "full") -> tuple[int, ...]:
        """Steps whose value is written to global memory."""
        return tuple(tensor.step for tensor in self.tensors if not tensor.input and tensor.space == space)


def plan_kernel(task: Task, graph: Graph, schedule: Schedule) -> Plan:
    """Lower a graph under a schedule. Raises DeriveError when a step has no instruction."""
    rewritten = apply_rewrites(graph, schedule.rewrites)
    program = lower(rewritten, schedule.choices)
    storage = storage_of(task, graph)
    return Plan(task, graph, schedule, program, storage, _tensors(program, storage))


def _tensors(program: Program, storage: Storage) -> tuple[Tensor, ...]:
    positions = {item.position: k for k, item in enumerate(program.inputs)}
    loads = [(at, step) for at, step in enumerate(program.steps) if step.op == "load"]
    raw = []
    for _, step in loads:
        item = program.inputs[positions[step.input]]
        raw.append(f"{item.name}{step.part}" if item.parts > 1 else item.name)
    in_names = identifiers(raw, "In")
    out_names = identifiers([output.name for output in program.outputs], "Out", in_names)
    tensors = []
    for name, (at, step) in zip(in_names, loads, strict=True):
        item = program.inputs[positions[step.input]]
        kind = storage.inputs[positions[step.input]]
        tensors.append(Tensor(name, cpp_type(kind), kind, True, step.input, step.space, at, step.part, item.parts))
    for k, (name, output) in enumerate(zip(out_names, program.outputs, strict=True)):
        kind = storage.outputs[k]
        tensors.append(Tensor(name, cpp_type(kind), kind, False, k, output.space, output.node))
    return tuple(tensors)


def emit(task: Task, graph: Graph, schedule: Schedule) -> str:
    """Return the candidate source. Raises DeriveError when the graph has no kernel under this schedule."""
    plan = plan_kernel(task, graph, schedule)
    if graph.flat:
        return tidy(render("skeletons/elementwise.asc", k=elementwise_context(plan)))
    from kope.derive.emit_rows import rows_context

    return tidy(render("skeletons/rows.asc", k=rows_context(plan)))


def tidy(source: str) -> str:
    """One blank line at most between parts, none after an opening brace."""
    source = re.sub(r"\n\s*\n(\s*\n)+", "\n\n", source)
    return re.sub(r"\{\n\n", "{\n", source)


def whole_section(plan: Plan) -> Section:
    """All steps in one piece."""
    return section(plan.program, range(len(plan.program.steps)), plan.stored())


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


def local_names(plan: Plan) -> dict[int, str]:
    """Stored tensors by step."""
    return {tensor.step: f"{tensor.name}Local" for tensor in plan.tensors}


def queue_names(plan: Plan) -> dict[int, str]:
    """Queues of loads by step."""
    return {tensor.step: f"{tensor.name}Queue" for tensor in plan.tensors if tensor.input}


def compute_frame(tensors: Sequence[Tensor], statements: list[str]) -> list[str]:
    """Take inputs off their queues before the statements, hand outputs on after them."""
    before, after = [], []
    for tensor in tensors:
        call = "DeQue" if tensor.input else "AllocTensor"
        before.append(
            f"LocalTensor<{tensor.type}> {tensor.name}Local = {tensor.name}Queue.template {call}<{tensor.type}>();"
        )
        if not tensor.input:
            after.append(f"{tensor.name}Queue.EnQue({tensor.name}Local);")
    return [*before, *statements, *after]


def shared_context(plan: Plan, scalars: Scalars) -> dict[str, Any]:
    """What both skeletons read: types, dispatch, host scalars."""
    storage, task = plan.storage, plan.task
    parameters = storage.parameters
    names = {at: name for at, name in enumerate(parameters)}
    pointers = _pointers(plan)
    return {
        "name": task.name,
        "reference": _reference_lines(task),
        "buffers": plan.schedule.buffers,
        "aligned": plan.schedule.copy == "aligned",
        "type_parameters": ", ".join(f"typename {name}" for name in parameters) or "typename Unused",
        "type_arguments": ", ".join(names.values()) or "Unused",
        "compute_type": _compute_type(plan),
        "stored_as_computed": _stored_as_computed(plan),
        "uses": {
            "byte": uses_byte(plan),
            "rounds": rounds(plan),
            "stage": uses_byte(plan) or rounds(plan),
            "output": any(not t.input for t in plan.tensors),
        },
        "init_parameters": ", ".join(f"GM_ADDR {name}" for name, _ in pointers),
        "entry_parameters": ", ".join(f"GM_ADDR {name}" for name, _ in pointers),
        "entry_arguments": ", ".join(name for name, _ in pointers),
        "call_arguments": ", ".join(f"Address({place})" for _, place in pointers),
        "input_count": len(task.inputs),
        "output_count": len(task.outputs),
        "absent": plan.graph.absent,
        **_dispatch(plan),
        **_host_scalars(plan, scalars),
    }


def _reference_lines(task: Task) -> list[str]:
    """The function itself, without module docstring and imports."""
    lines = task.reference.rstrip().splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith("def ")), 0)
    return lines[start:]


def _pointers(plan: Plan) -> list[tuple[str, str]]:
    """Kernel arguments: every tensor once, by the name of its first piece."""
    pointers: dict[tuple[bool, int], tuple[str, str]] = {}
    for tensor in plan.tensors:
        place = f"call->{'inputs' if tensor.input else 'outputs'}[{tensor.position}]"
        pointers.setdefault((tensor.input, tensor.position), (tensor.name, place))
    return list(pointers.values())


def _compute_type(plan: Plan) -> str:
    if plan.schedule.precision == "native" and plan.storage.parameters:
        first = plan.storage.parameters[0]
        return f"using Compute = typename std::conditional<std::is_same<{first}, half>::value, half, float>::type;"
    return "using Compute = float;"


def _stored_as_computed(plan: Plan) -> str:
    """A C++ condition: no tensor of whole tiles needs a wide slot."""
    types = list(dict.fromkeys(t.type for t in plan.tensors if t.space != "row"))
    return " && ".join(f"std::is_same<{kind}, Compute>::value" for kind in types)


def rounds(plan: Plan) -> bool:
    """Whether the reference narrows a float on the way."""
    return any(step.op in ("narrow-half", "narrow-bfloat16") for step in plan.program.steps)


def uses_byte(plan: Plan) -> bool:
    """Whether a tensor is stored in bytes, which convert by way of half."""
    return any(
        plan.storage.resolve(tensor.dtype, combination) in BYTES
        for tensor in plan.tensors
        for combination in plan.storage.combinations
    )


def _dispatch(plan: Plan) -> dict[str, Any]:
    """One launch per combination of dtypes that a case has; anything else is refused."""
    storage = plan.storage
    checks, rows = [], []
    for at, (item, kind) in enumerate(zip(plan.graph.inputs, storage.inputs, strict=True)):
        if kind in SIZE_BYTES:
            checks.append(f"call->inputs[{item.position}].dtype != {KOPE_TYPES[kind]}")
        elif at != storage.representative[storage.parameters.index(kind)]:
            first = plan.graph.inputs[storage.representative[storage.parameters.index(kind)]]
            checks.append(f"call->inputs[{item.position}].dtype != call->inputs[{first.position}].dtype")
    for combination in storage.combinations:
        terms = [
            f"call->inputs[{plan.graph.inputs[at].position}].dtype == {KOPE_TYPES[dtype]}"
            for at, dtype in zip(storage.representative, combination, strict=True)
        ]
        types = ", ".join(cpp_type(dtype) for dtype in combination) or "void"
        rows.append({"condition": " && ".join(terms) or "true", "types": types})
    return {"dtype_checks": checks, "dispatch": rows}


def _host_scalars(plan: Plan, scalars: Scalars) -> dict[str, Any]:
    positions = {name: at for at, name in enumerate(plan.task.inputs)}
    exprs = [*scalars.fields, *(guard.expr for guard in plan.graph.guards)]
    values: dict[str, str] = {}
    for leaf in (leaf for expr in exprs for leaf in expr.leaves()):
        values[cpp_name(leaf.op, leaf.name)] = _host_value(leaf.op, leaf.name, plan.task.attrs, positions)
    return {
        "host_values": [{"name": name, "value": value} for name, value in values.items()],
        "guards": [{"cpp": g.expr.cpp(), "value": cpp_number(g.value)} for g in plan.graph.guards],
        "scalars": [
            {"name": name, "cpp": expr.cpp(), "text": _bare(expr.readable())} for expr, name in scalars.fields.items()
        ],
    }


def _host_value(op: str, name: str, attrs: Mapping[str, Any], positions: Mapping[str, int]) -> str:
    if op == "attr":
        return f'kope_attr_f(call, "{name}", {cpp_number(float(attrs[name]))})'
    tensor, axis = name.rsplit(".", 1)
    place = f"call->inputs[{positions[tensor]}]"
    return f"static_cast<double>({place}.shape[{place}.rank - {-int(axis)}])"


def _bare(text: str) -> str:
    return text[1:-1] if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text
