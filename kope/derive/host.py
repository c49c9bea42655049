"""What both skeletons read for their host side: types, dispatch on dtypes, scalars computed once per call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kope.derive.body import Scalars
from kope.derive.kernel_plan import Plan, rounds, uses_byte
from kope.derive.scalar import cpp_name, cpp_number
from kope.derive.storage import KOPE_TYPES, SIZE_BYTES, cpp_type
from kope.model import Task


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
