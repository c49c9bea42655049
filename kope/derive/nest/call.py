"""One call of an ATen operator, as the rules that translate it see it.

Tensors among the arguments are node numbers wrapped in T, everything else is a plain value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kope.derive.nest.tensors import TensorBuilder


@dataclass(frozen=True, slots=True)
class T:
    """A tensor among the arguments of a call: its node."""

    node: int


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gives, as torch says: kind and dtype name of the first tensor, and its shape."""

    kind: str
    dtype: str
    shape: tuple[int, ...]


@dataclass
class Call:
    """One call: the builder, the arguments by name and what it gives."""

    b: TensorBuilder
    args: Sequence[Any]
    named: dict[str, Any]
    result: Result

    def given(self, at: int, name: str, default: Any = None) -> Any:
        """An argument by place or name."""
        return self.args[at] if at < len(self.args) else self.named.get(name, default)

    def node(self, at: int) -> int:
        """A tensor argument; a number becomes a scalar."""
        return self.value(self.args[at])

    def value(self, given: Any) -> int:
        """A tensor or number as a node."""
        if isinstance(given, T):
            return given.node
        if isinstance(given, bool):
            return self.b.scalar(float(given), "bool")
        return self.b.scalar(finite(float(given)), "int" if isinstance(given, int) else "float")

    def shape(self, at: int) -> tuple[int, ...]:
        """Shape of a tensor argument."""
        return self.b.shape(self.node(at))

    def dim(self, given: int) -> int:
        """A dimension of the first tensor, counted from the front."""
        rank = len(self.shape(0))
        return given % rank if rank else 0

    def full(self, value: float) -> int:
        """A tensor of one number in the shape and kind of the result."""
        return self.b.expand(self.b.scalar(finite(float(value)), self.result.kind), self.result.shape)

    def typed(self, node: int) -> int:
        """A node in the kind of the result."""
        if self.b.kind(node) == self.result.kind:
            return node
        return to_kind(self.b, node, self.result.kind)


Rule = Callable[[Call], Any]
FLOAT_MAX = 3.4028234663852886e38


def finite(value: float) -> float:
    """Finite numbers stay finite in float32."""
    return max(-FLOAT_MAX, min(FLOAT_MAX, value)) if math.isfinite(value) else value


def to_kind(b: TensorBuilder, node: int, kind: str) -> int:
    """A tensor as float, int or bool."""
    if b.kind(node) == kind:
        return node
    if kind == "bool":
        return b.pointwise("ne", node, b.scalar(0.0, b.kind(node)))
    return b.pointwise("cast", node, kind=kind)
