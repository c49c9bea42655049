"""Ascend C source of planned phases: one kernel per structure, what differs between cases in a table on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kope.derive.body import number
from kope.derive.emit import tidy
from kope.derive.graph import Graph
from kope.derive.naming import identifiers
from kope.derive.nest.bodies import FOLDS, body
from kope.derive.nest.case_numbers import CaseNumbers
from kope.derive.nest.nests import AXES, Operand, Phase
from kope.derive.nest.planner import Plan
from kope.derive.nest.signature import DTYPE_NUMBERS, signature_of, varying_attrs
from kope.derive.nest.tiling import FIRST_LIMITS, PLACES, Buffers, Limits, buffers_for
from kope.derive.nest.views import COUNT
from kope.derive.storage import CPP_TYPES, KOPE_TYPES
from kope.errors import DeriveError
from kope.model import Case, Task
from kope.render import render

CPP = CPP_TYPES | {"int64": "int64_t", "int16": "int16_t"}
KOPE = KOPE_TYPES | {"int64": "KOPE_INT64", "int16": "KOPE_INT16"}
_SIZE_TYPES = {"f": "float", "u": "uint32_t", "n": "int64_t"}


@dataclass
class Group:
    """Cases whose phases differ in numbers only."""

    plans: list[tuple[Case, Plan]] = field(default_factory=list)


def emit_nests(
    task: Task, plans: Sequence[tuple[Case, Plan]], limits: Limits = FIRST_LIMITS, block_products: bool = False
) -> str:
    """Return the source for the planned cases of a task. block_products: elements of the left factor of a product fill
    blocks of the vector unit; else the scalar unit reads them one by one. Raises DeriveError when buffers do not fit.
    """
    groups: dict[Any, Group] = {}
    for case, plan in plans:
        groups.setdefault(_key(plan), Group()).plans.append((case, plan))
    phases = [phase for _, plan in plans for phase in plan.phases]
    loads = {item.dtype for phase in phases for item in phase.operands if item.buffer != COUNT}
    stores = {phase.result.dtype for phase in phases}
    for dtype in loads | stores:
        if dtype not in CPP:
            raise DeriveError(f"dtype {dtype} has no vector path on this chip; {task.name} cannot be derived")
    buffers = buffers_for(phases, frozenset(loads | stores), limits)
    pointers = _pointers(task, max(plan.outputs for _, plan in plans))
    made = [_Printer(index, group, buffers, pointers).run(task) for index, group in enumerate(groups.values())]
    names = list(pointers.values())
    context = {
        "name": task.name,
        "reference": _reference(task),
        "tile": buffers.tile,
        "slots": buffers.slots,
        "masks": buffers.masks,
        "stage": buffers.stage,
        "packed": buffers.packed,
        "bytes": buffers.bytes,
        "loads": [{"kope": KOPE[d], "cpp": CPP[d]} for d in sorted(loads, key=DTYPE_NUMBERS.__getitem__)],
        "stores": [{"kope": KOPE[d], "cpp": CPP[d]} for d in sorted(stores, key=DTYPE_NUMBERS.__getitem__)],
        "reduces": any(phase.kind in ("reduce", "scan", "contract") for phase in phases),
        "block_products": block_products,
        "contracts": any(phase.kind == "contract" for phase in phases),
        "places": any(phase.kind in ("take", "put") for phase in phases),
        "places_per_tile": PLACES,
        "rounds": any("RoundThrough" in line for group in made for p in group["phases"] for line in p["lines"]),
        "folds": _folds(phases),
        "groups": made,
        "parameters": ", ".join(f"GM_ADDR {name}" for name in names),
        "pointers": names,
        "arguments": [_argument(buffer) for buffer in pointers],
        "attrs": varying_attrs(task),
        "input_count": len(task.inputs),
    }
    return tidy(render("skeletons/nests.asc", k=context))


def _reference(task: Task) -> list[str]:
    lines = task.reference.rstrip().splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith("def ")), 0)
    return lines[start:]


def _folds(phases: Sequence[Phase]) -> list[dict[str, str]]:
    used = dict.fromkeys(phase.op for phase in phases if phase.kind == "reduce" and phase.across)
    return [{"call": FOLDS[op][0], "name": FOLDS[op][1]} for op in used]


def _pointers(task: Task, output_count: int) -> dict[str, str]:
    """C++ names of buffers. A list as output has as many as the case with the longest one."""
    inputs = identifiers(list(task.inputs), "In")
    names = [output.name for output in task.outputs]
    names += [f"{names[-1]}_{at}" for at in range(len(names), output_count)]
    outputs = identifiers(names[:output_count], "Out", inputs)
    made = {f"input:{at}": name for at, name in enumerate(inputs)}
    made |= {f"output:{at}": name for at, name in enumerate(outputs)}
    return made | {"workspace": identifiers(["workspace"], "Space", [*inputs, *outputs])[0]}


def _argument(buffer: str) -> str:
    kind, _, position = buffer.partition(":")
    if kind == "workspace":
        return "static_cast<GM_ADDR>(call->workspace)"
    return f"{kind.capitalize()}(call, {position})"


def _key(plan: Plan) -> Any:
    """What two plans of one kernel share."""
    loops = tuple((loop.first, loop.length) for loop in plan.loops)
    return loops, tuple(
        (
            phase.kind, phase.op, phase.across, phase.down, len(phase.wrap), phase.result.buffer,
            tuple(item.buffer for item in phase.operands),
            _expression_key(phase.expression) if phase.expression else None,
        )
        for phase in plan.phases
    )  # fmt: skip


def _expression_key(expression: Graph) -> Any:
    nodes = tuple(replace(node, line=0, expr=None) for node in expression.nodes)
    return nodes, expression.outputs


class _Printer:
    """Prints the kernel of one group."""

    def __init__(self, index: int, group: Group, buffers: Buffers, pointers: Mapping[str, str]) -> None:
        self.index, self.group, self.pointers = index, group, pointers
        self.plans = [plan for _, plan in group.plans]
        self.made = CaseNumbers(self.plans, buffers)

    def run(self, task: Task) -> dict[str, Any]:
        """What the template reads."""
        phases = [self._phase(task, at) for at in range(len(self.plans[0].phases))]
        steps = self._steps()
        sizes = [{"type": _SIZE_TYPES[kind], "name": name} for (kind, _), name in self.made.fields.items()]
        return {"index": self.index, "phases": phases, "steps": steps, "sizes": sizes, "rows": self._rows(task)}

    def _steps(self) -> list[dict[str, Any]]:
        """Phases in the order they run: single ones, and rounds of several with how often they come."""
        loops = {loop.first: at for at, loop in enumerate(self.plans[0].loops)}
        made: list[dict[str, Any]] = []
        at = 0
        while at < len(self.plans[0].phases):
            length, rounds = 1, ""
            if at in loops:
                same = [plan.loops[loops[at]] for plan in self.plans]
                length, rounds = same[0].length, self.made.number([loop.rounds for loop in same])
            made.append({"phases": list(range(at, at + length)), "rounds": rounds})
            at += length
        return made

    def _rows(self, task: Task) -> list[str]:
        rows = []
        for at, (case, plan) in enumerate(self.group.plans):
            numbers = [
                number(values[at]) if kind == "f" else str(int(values[at])) for kind, values in self.made.fields
            ] or ["0"]
            signature = f"0x{signature_of(task, case):016x}ULL"
            rows.append(
                f"{{{signature}, {plan.workspace}, {plan.outputs}, {{{', '.join(numbers)}}}}},  // {_shapes(case)}"
            )
        return rows

    def _view(self, name: str, items: Sequence[Operand]) -> str:
        """The declaration of one operand."""
        first = items[0]
        if first.buffer == COUNT:
            base, dtype = "nullptr", "kCount"
        else:
            base = f"{self.pointers[first.buffer]}Address"
            same = len({item.dtype for item in items}) == 1
            dtype = KOPE[first.dtype] if same else self.made.number([DTYPE_NUMBERS[item.dtype] for item in items])
        strides = ", ".join(self.made.number([item.strides[axis] for item in items]) for axis in range(AXES))
        offset = self.made.number([item.offset for item in items])
        if any(item.step for item in items):
            offset += f" + round * {self.made.number([item.step for item in items])}"
        return f"const View {name} = {{{base}, {dtype}, {offset}, {{{strides}}}}};"

    def _nest(self, at: int, *, reduces: bool) -> str:
        extents = ", ".join(
            self.made.number([phase.extents[axis] for phase in self.made.phases(at)]) for axis in range(AXES)
        )
        tile = ", ".join(self.made.tile(at, name) for name in ("rows", "columns", "pitch"))
        first = self.made.phases(at)[0]
        flags = ", ".join("true" if flag else "false" for flag in (reduces, first.across, first.down))
        return f"const Nest nest = {{{{{extents}}}, {tile}, {flags}}};"

    def _phase(self, task: Task, at: int) -> dict[str, Any]:
        phases = self.made.phases(at)
        first = phases[0]
        reduces = first.kind in ("reduce", "scan", "contract")
        lines = [self._nest(at, reduces=reduces)]
        for k in range(len(first.operands)):
            lines.append(self._view(f"x{k}", [phase.operands[k] for phase in phases]))
        lines.append(self._view("y", [phase.result for phase in phases]))
        lines += body(self.made, at)
        moves = any(item.step for phase in phases for item in (*phase.operands, phase.result))
        return {"lines": lines, "comment": _comment(task, first), "moves": moves}


def _comment(task: Task, phase: Phase) -> str:
    lines = task.reference.splitlines()
    if 0 < phase.line <= len(lines):
        return lines[phase.line - 1].strip()
    return ""


def _shapes(case: Case) -> str:
    parts = [
        "-" if item is None else f"{item.spec.dtype}{list(item.spec.shape)}".replace(" ", "") for item in case.inputs
    ]
    return " ".join(parts)[:80]
