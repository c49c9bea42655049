"""A graph under a schedule, lowered: instructions and stored tensors, everything about a kernel but its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kope.derive.graph import Graph
from kope.derive.lower import lower
from kope.derive.naming import identifiers
from kope.derive.program import Program
from kope.derive.registers import Section, section
from kope.derive.rewrite import apply_rewrites
from kope.derive.schedule import Schedule
from kope.derive.storage import Storage, cpp_type, storage_of
from kope.model import Task

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


def whole_section(plan: Plan) -> Section:
    """All steps in one piece."""
    return section(plan.program, range(len(plan.program.steps)), plan.stored())


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


def uses_byte(plan: Plan) -> bool:
    """Whether a tensor is stored in bytes, which convert by way of half."""
    return any(
        plan.storage.resolve(tensor.dtype, combination) in BYTES
        for tensor in plan.tensors
        for combination in plan.storage.combinations
    )


def rounds(plan: Plan) -> bool:
    """Whether the reference narrows a float on the way."""
    return any(step.op in ("narrow-half", "narrow-bfloat16") for step in plan.program.steps)
