"""C++ statements for the expression of a nest: one vector call per operator over a whole tile, in few buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kope.derive.body import number
from kope.derive.graph import Graph
from kope.derive.lower import lower
from kope.derive.program import BINARY_STEPS, ROUND_STEPS, SCALAR_STEPS, UNARY_STEPS, Program, Step
from kope.derive.scalar import Scalar, const

Text = Callable[[Scalar], str]


@dataclass
class TileCode:
    """Statements, the buffer that holds the result, and how many buffers and bit masks are used."""

    lines: list[str] = field(default_factory=list)
    result: str = ""
    slots: int = 0
    masks: int = 0


def tile_code(expression: Graph, text: Text, first_slot: int = 0) -> TileCode:
    """Print an expression. text: how a scalar is written. Buffers below first_slot are not touched.

    Raises DeriveError when an operator has no instruction.
    """
    return _Printer(_program(expression), text, first_slot).run()


def literal(scalar: Scalar) -> str:
    """A constant as a float of C++; 0 stands in for what is known only later."""
    return number(scalar.value) if scalar.op == "const" else "0.0f"


def _program(expression: Graph) -> Program:
    """Lowered, without the copy of a result that is a bare load: nothing else holds it here."""
    program = lower(expression)
    output = program.outputs[0]
    step = program.steps[output.node]
    if step.op == "muls" and step.scalar == const(1.0) and program.steps[step.args[0]].op == "load":
        return replace(program, outputs=(replace(output, node=step.args[0]),))
    return program


@dataclass
class _Printer:
    program: Program
    text: Text
    first_slot: int
    made: TileCode = field(default_factory=TileCode)
    place: dict[int, str] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    free_masks: list[int] = field(default_factory=list)

    def run(self) -> TileCode:
        root = self.program.outputs[0].node
        order = self._order(root)
        last = {step: at for at, step in enumerate(order)}
        for at, step in enumerate(order):
            for arg in self.program.steps[step].args:
                last[arg] = max(last[arg], at)
        last[root] = len(order)
        for at, index in enumerate(order):
            self._step(index, [arg for arg in dict.fromkeys(self.program.steps[index].args) if last[arg] == at])
        self.made.result = self.place[root]
        self.made.slots += self.first_slot
        return self.made

    def _order(self, root: int) -> list[int]:
        """Steps that the result needs, every load right before its first reader."""
        order: list[int] = []

        def visit(index: int) -> None:
            if index not in order:
                for arg in self.program.steps[index].args:
                    visit(arg)
                order.append(index)

        visit(root)
        return order

    def _step(self, index: int, dying: list[int]) -> None:
        step = self.program.steps[index]
        freed = [self.place[arg] for arg in dying]
        if step.mask:
            self.place[index] = f"Mask({self._take(self.free_masks, 'masks')})"
        else:
            vector = [name for name in freed if name.startswith("t[")]
            if vector and step.op != "load":
                self.place[index] = vector[0]
                freed.remove(vector[0])
            else:
                self.place[index] = f"t[{self._take(self.free, 'slots') + self.first_slot}]"
        self.made.lines.append(self._call(step, self.place[index]))
        for left in freed:
            self._release(left)

    def _release(self, name: str) -> None:
        """Give a buffer or a mask back."""
        at = int(name.strip("Mask(t[)]"))
        if name.startswith("Mask"):
            self.free_masks.append(at)
        else:
            self.free.append(at - self.first_slot)

    def _take(self, free: list[int], counter: str) -> int:
        if free:
            return free.pop(0)
        count: int = getattr(self.made, counter)
        setattr(self.made, counter, count + 1)
        return count

    def _call(self, step: Step, to: str) -> str:
        args = [self.place[arg] for arg in step.args]
        scalar = self.text(step.scalar) if step.scalar is not None else ""
        first = args[0] if args else ""
        forms: Mapping[str, str] = {
            "load": f"Load({to}, x{step.input}, tile, nest.pitch);",
            "fill": f"Duplicate({to}, {scalar}, count);",
            "compare": f"Compare({to}, {', '.join(args)}, CMPMODE::{step.mode}, count);",
            "compares": f"CompareScalar({to}, {first}, {scalar}, CMPMODE::{step.mode}, count);",
            "select": f"Select({to}, {', '.join(args)}, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);",
            "selects": f"Select({to}, {', '.join(args)}, {scalar}, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);",
            "narrow-half": f"RoundThrough<half>({to}, {first}, count);",
            "narrow-bfloat16": f"RoundThrough<bfloat16_t>({to}, {first}, count);",
        }
        if step.op in forms:
            return forms[step.op]
        if step.op in UNARY_STEPS:
            return f"{UNARY_STEPS[step.op]}({to}, {args[0]}, count);"
        if step.op in BINARY_STEPS:
            return f"{BINARY_STEPS[step.op]}({to}, {args[0]}, {args[1]}, count);"
        if step.op in SCALAR_STEPS:
            return f"{SCALAR_STEPS[step.op]}({to}, {args[0]}, {scalar}, count);"
        return f"Cast({to}, {args[0]}, RoundMode::{ROUND_STEPS[step.op]}, count);"
