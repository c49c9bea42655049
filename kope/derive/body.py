"""C++ statements for the steps of a section: one vector call per step, under the reference line it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kope.derive.program import BINARY_STEPS, ROUND_STEPS, SCALAR_STEPS, UNARY_STEPS, Program, Step
from kope.derive.registers import Allocation, Section
from kope.derive.scalar import Scalar

_MIXED = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min"}
_REDUCTIONS = {"sum": "Sum", "amax": "Max", "amin": "Min"}


@dataclass
class Scalars:
    """Scalar operands of a kernel: constants are written out, everything else is a float field of the tiling."""

    fields: dict[Scalar, str] = field(default_factory=dict)
    native: bool = False

    def text(self, scalar: Scalar) -> str:
        """The C++ operand."""
        text = number(scalar.value) if scalar.op == "const" else f"tiling.{self._name(scalar)}"
        return f"static_cast<Compute>({text})" if self.native else text

    def _name(self, scalar: Scalar) -> str:
        if scalar not in self.fields:
            plain = scalar.name if scalar.op == "attr" else f"scalar{len(self.fields)}"
            taken = plain in self.fields.values() or plain in ("total", "perCore", "rows", "columns", "stride", "piece")
            self.fields[scalar] = f"{plain}Value" if taken else plain
        return self.fields[scalar]


def number(value: float) -> str:
    """A float literal that reads back as the nearest float32."""
    if math.isinf(value) or math.isnan(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
    if np.isinf(narrow):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = (
        np.format_float_positional(narrow, trim="0")
        if 1e-4 <= abs(narrow) < 1e7 or narrow == 0
        else repr(float(narrow))
    )
    if "e" not in text:
        return f"{text}f"
    mantissa, exponent = str(np.format_float_scientific(narrow, trim="0")).split("e")
    return f"{mantissa}e{int(exponent)}f"


@dataclass
class Body:
    """Prints a section. locals: stored tensor of a load or output by step, "xLocal". source: lines of the reference.

    long_rows: row values are scalars, read back before every visit of the row; columns come in pieces like the row.
    visit: which one. accumulate: partial results of a long row are one repeat, not a tile. blocks: where row values
    fill a block, by step; None when they are read back as scalars.
    """

    program: Program
    part: Section
    allocation: Allocation
    scalars: Scalars
    source: Sequence[str]
    locals: Mapping[int, str]
    queues: Mapping[int, str]
    row_names: Mapping[int, str] = field(default_factory=dict)
    long_rows: bool = False
    visit: int = 0
    accumulate: bool = False
    blocks: Mapping[int, str] | None = None
    lines: list[str] = field(default_factory=list)
    _line: int = 0

    def print(self) -> list[str]:
        """All statements of the section."""
        ends = self._ends()
        for at, step_index in enumerate(self.part.steps):
            self._comment(self.program.steps[step_index])
            self._step(step_index)
            for queue, local in ends.get(at, ()):
                self.lines.append(f"{queue}.FreeTensor({local});")
        return self.lines

    def _ends(self) -> dict[int, list[tuple[str, str]]]:
        """Where the buffer of each load can go back to its queue: after the last step that touches its register."""
        place = {step: at for at, step in enumerate(self.part.steps)}
        ends: dict[int, list[tuple[str, str]]] = {}
        for load, queue in self.queues.items():
            if load not in place:
                continue
            name = self.allocation.register.get(load)
            sharing = [s for s in place if name is not None and self.allocation.register.get(s) == name] or [load]
            readers = [place[s] for s in place if any(arg in sharing for arg in self.program.steps[s].args)]
            last = max([*readers, *(place[s] for s in sharing)])
            ends.setdefault(last, []).append((queue, self.locals[load]))
        return ends

    def _comment(self, step: Step) -> None:
        if step.line and step.line != self._line and step.op != "load":
            self._line = step.line
            self.lines.append(f"// {self.source[step.line - 1].strip()}")

    # --- one step ---

    def _step(self, index: int) -> None:
        step = self.program.steps[index]
        if step.space == "row":
            self._row_step(index, step)
            return
        if step.mask:
            self._compare(index, step)
            return
        name = self.allocation.register[index]
        self._declare(index, name)
        if step.op != "load":
            self._call(name, step)
        if index in self.part.stored:
            self.lines.append(f"Narrow({self.locals[index]}, {name}, {self._count(step)});")

    def _declare(self, index: int, name: str) -> None:
        """The variable of a register, where it is first written."""
        if index not in self.allocation.first:
            return
        step = self.program.steps[index]
        if name in self.allocation.wide:
            slot = f"kTemporaries + {self.allocation.wide[name]}"
            if step.op == "load":
                self.lines.append(
                    f"const LocalTensor<Compute> {name} = Widen({self.locals[index]}, {slot}, {self._count(step)});"
                )
            else:
                stored = next(s for s in self.part.stored if self.allocation.register[s] == name)
                self.lines.append(f"const LocalTensor<Compute> {name} = Target({self.locals[stored]}, {slot});")
        elif name.startswith("t") and name[1:].isdigit():
            self.lines.append(f"const LocalTensor<Compute> {name} = Slot({name[1:]});")

    def _count(self, step: Step) -> str:
        if step.space == "row":
            return "1" if self.long_rows else "rows"
        if step.space == "col" and not self.long_rows:
            return "stride"
        return "whole" if self._masked else "count"

    @property
    def _masked(self) -> bool:
        """Whether whole values are compared: comparisons work on whole repeats, so everything does then."""
        return any(step.mask and step.space != "row" for step in self.program.steps)

    def _name(self, index: int) -> str:
        return self.row_names.get(index) or self.allocation.register[index]

    def _call(self, dst: str, step: Step) -> None:
        mixed = self.program.mixed(step)
        if mixed == "col" and not self.long_rows and step.op == "fused-multiply-add":
            factors = ", ".join(self._name(arg) for arg in step.args[1:])
            self._emit(f"ColumnsMulAdd({dst}, {factors}, rows);")
        elif mixed == "col" and not self.long_rows:
            self._emit(
                f"Columns{_MIXED[step.op]}({dst}, {self._name(step.args[0])}, {self._name(step.args[1])}, rows);"
            )
        elif mixed == "row":
            self._row_operand(dst, step)
        else:
            self._plain(dst, step, [self._name(arg) for arg in step.args], self._count(step))

    def _row_operand(self, dst: str, step: Step) -> None:
        left, right = (self._name(arg) for arg in step.args)
        if not self.long_rows:
            self._emit(f"Rows{_MIXED[step.op]}({dst}, {left}, {right}, rows);")
            return
        if self.blocks is not None:
            self._emit(f"Row{_MIXED[step.op]}({dst}, {left}, {self.blocks[step.args[1]]}, span);")
            return
        value = f"{right}Value{self.visit}"
        if step.op == "div":
            self._emit(f"Duplicate(work, {value}, count);")
            self._emit(f"Div({dst}, {left}, work, count);")
        elif step.op == "sub":
            self._emit(f"Adds({dst}, {left}, -{value}, count);")
        else:
            self._emit(f"{_MIXED[step.op]}s({dst}, {left}, {value}, count);")

    def _plain(self, dst: str, step: Step, args: list[str], count: str) -> None:
        """A step whose operands all have the same shape."""
        op = step.op
        if op in UNARY_STEPS:
            self._emit(f"{UNARY_STEPS[op]}({dst}, {args[0]}, {count});")
        elif op in BINARY_STEPS:
            self._emit(f"{BINARY_STEPS[op]}({dst}, {args[0]}, {args[1]}, {count});")
        elif op in SCALAR_STEPS:
            self._emit(f"{SCALAR_STEPS[op]}({dst}, {args[0]}, {self._scalar(step)}, {count});")
        elif op in ROUND_STEPS:
            self._emit(f"Cast({dst}, {args[0]}, RoundMode::{ROUND_STEPS[op]}, {count});")
        elif op == "fill":
            self._emit(f"Duplicate({dst}, {self._scalar(step)}, {count});")
        elif op == "axpy":
            self._emit(f"Axpy({dst}, {args[1]}, {self._scalar(step)}, {count});")
        elif op == "fused-multiply-add":
            self._emit(f"FusedMulAdd({dst}, {args[1]}, {args[2]}, {count});")
        elif op == "select":
            self._emit(f"Select({dst}, {', '.join(args)}, SELMODE::VSEL_TENSOR_TENSOR_MODE, {count});")
        elif op == "selects":
            mode = "SELMODE::VSEL_TENSOR_SCALAR_MODE"
            self._emit(f"Select({dst}, {args[0]}, {args[1]}, {self._scalar(step)}, {mode}, {count});")
        elif op in ("narrow-half", "narrow-bfloat16"):
            kind = "half" if op == "narrow-half" else "bfloat16_t"
            self._emit(f"RoundThrough<{kind}>({dst}, {args[0]}, {count});")
        else:
            raise KeyError(op)

    def _compare(self, index: int, step: Step) -> None:
        name = self._name(index)
        if step.space != "row":
            self._emit(f"const LocalTensor<uint8_t> {name} = Mask({name.removeprefix('mask')});")
        count = self._count(step)
        count = f"WholeRepeats({count})" if step.space == "row" else count
        first = self._name(step.args[0])
        if step.op == "compare":
            self._emit(f"Compare({name}, {first}, {self._name(step.args[1])}, CMPMODE::{step.mode}, {count});")
        else:
            self._emit(f"CompareScalar({name}, {first}, {self._scalar(step)}, CMPMODE::{step.mode}, {count});")

    def _row_step(self, index: int, step: Step) -> None:
        """Row values: loads are widened by the skeleton, reductions are calls of their own, the rest is plain."""
        name = self.row_names[index]
        if step.op == "load":
            return
        if step.op in _REDUCTIONS:
            source = self._name(step.args[0])
            if self.long_rows:
                call = {"sum": "Add", "amax": "Max", "amin": "Min"}[step.op]
                whole = f"{call}({name}Sum, {name}Sum, {source}, count);"
                repeat = f"Accumulate{_REDUCTIONS[step.op]}({name}Sum, {source}, span);"
                self._emit(repeat if self.accumulate else whole)
            else:
                keep = "true" if self._needed_after(step.args[0], index) else "false"
                self._emit(f"Reduce{_REDUCTIONS[step.op]}<{keep}>({name}, {source}, rows);")
            return
        if step.mask:
            self._compare(index, step)
            return
        self._plain(name, step, [self._name(arg) for arg in step.args], self._count(step))

    def _needed_after(self, value: int, at: int) -> bool:
        """Whether a value is read again after a step (or its storage is)."""
        order = list(self.part.steps)
        later = order[order.index(at) + 1 :]
        stored = value in self.part.stored
        return stored or any(value in self.program.steps[step].args for step in later)

    def _scalar(self, step: Step) -> str:
        assert step.scalar is not None
        return self.scalars.text(step.scalar)

    def _emit(self, line: str) -> None:
        self.lines.append(line)
