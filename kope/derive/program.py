"""Vector instructions over values: what lowering produces and what emission prints.

One `Step` is one Ascend C call (or one row-wise loop of them) that computes one value. Registers are given in
registers.py, C++ text in emit.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kope.derive.graph import GraphInput, GraphOutput
from kope.derive.scalar import Scalar

UNARY_STEPS = {"exp": "Exp", "log": "Ln", "sqrt": "Sqrt", "abs": "Abs", "reciprocal": "Reciprocal"}
BINARY_STEPS = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min"}
SCALAR_STEPS = {"adds": "Adds", "muls": "Muls", "maxs": "Maxs", "mins": "Mins"}
ROUND_STEPS = {"rint": "CAST_RINT", "floor": "CAST_FLOOR", "ceil": "CAST_CEIL", "trunc": "CAST_TRUNC"}
ACCUMULATING = ("axpy", "fused-multiply-add")
"""Steps whose destination is also their first operand."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction. op: a key of the tables above, or load, fill, select, selects, compare, compares, narrow-half,
    narrow-bfloat16, sum, amax, amin, axpy, fused-multiply-add. args: earlier steps. scalar: its scalar operand.
    mask: it makes (or for select reads first) a bit mask. mode: LT, GT... of a comparison. line: of the reference."""

    op: str
    args: tuple[int, ...] = ()
    space: str = "full"
    scalar: Scalar | None = None
    mask: bool = False
    mode: str = ""
    input: int = -1
    part: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order, and which step is which output."""

    inputs: tuple[GraphInput, ...]
    steps: tuple[Step, ...]
    outputs: tuple[GraphOutput, ...]

    def last_use(self) -> tuple[int, ...]:
        """Per step the last step that reads it; outputs are read after the end; -1 when nothing does."""
        last = [-1] * len(self.steps)
        for at, step in enumerate(self.steps):
            for arg in step.args:
                last[arg] = at
        for output in self.outputs:
            last[output.node] = len(self.steps)
        return tuple(last)

    def levels(self) -> tuple[int, ...]:
        """Per step how many reductions lie one after the other before its value is known."""
        levels: list[int] = []
        for step in self.steps:
            below = max((levels[arg] for arg in step.args), default=0)
            levels.append(below + (step.op in ("sum", "amax", "amin")))
        return tuple(levels)

    def mixed(self, step: Step) -> str:
        """ "row" or "col" when a full value meets such an operand in this step, else ""."""
        if step.space != "full" or step.op in ("sum", "amax", "amin"):
            return ""
        return next((self.steps[arg].space for arg in step.args if self.steps[arg].space != "full"), "")


def needed_for(program: Program, roots: Sequence[int]) -> set[int]:
    """Every step that these need, themselves included."""
    needed = set(roots)
    for at in range(len(program.steps) - 1, -1, -1):
        if at in needed:
            needed.update(program.steps[at].args)
    return needed
