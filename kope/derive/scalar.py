"""Scalar expressions over attributes and sizes, computed once per call on the host.

A reference says `1 - beta1 ** step` or `x.shape[-1]`; the kernel gets one float for it. Tensors are for graph.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kope.errors import DeriveError

_UNARY: dict[str, Callable[[float], float]] = {
    "neg": lambda a: -a,
    "abs": abs,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
}
_BINARY: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else math.copysign(math.inf, a) if a else math.nan,
    "floordiv": lambda a, b: a // b,
    "pow": lambda a, b: a**b,
    "max": max,
    "min": min,
    "lt": lambda a, b: float(a < b),
    "le": lambda a, b: float(a <= b),
    "gt": lambda a, b: float(a > b),
    "ge": lambda a, b: float(a >= b),
    "eq": lambda a, b: float(a == b),
    "ne": lambda a, b: float(a != b),
}
_CPP_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}
_CPP_INFIX["ne"] = "!="
_CPP_CALL = {"pow": "std::pow", "max": "std::max", "min": "std::min", "sqrt": "std::sqrt", "exp": "std::exp"}
_CPP_CALL |= {"log": "std::log", "abs": "std::fabs"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """One expression. op: "const" (value), "attr" (name), "size" (name "x.-1": last extent of x), or an operator."""

    op: str
    args: tuple[Scalar, ...] = ()
    value: float = 0.0
    name: str = ""

    def evaluate(self, attrs: Mapping[str, float], sizes: Mapping[str, float]) -> float:
        """Return the number. Raises DeriveError for an unknown name or operator."""
        if self.op == "const":
            return self.value
        if self.op in ("attr", "size"):
            table = attrs if self.op == "attr" else sizes
            if self.name not in table:
                raise DeriveError(f"no {self.op} called {self.name}: give it in every case of the task")
            return float(table[self.name])
        values = [arg.evaluate(attrs, sizes) for arg in self.args]
        return _UNARY[self.op](*values) if len(values) == 1 else _BINARY[self.op](*values)

    def cpp(self) -> str:
        """Return a C++ expression of type double; attributes read as attr_<name>, sizes as size_<name>."""
        if self.op == "const":
            return cpp_number(self.value)
        if self.op in ("attr", "size"):
            return cpp_name(self.op, self.name)
        inner = [arg.cpp() for arg in self.args]
        if self.op == "neg":
            return f"(-{inner[0]})"
        if self.op == "floordiv":
            return f"std::floor({inner[0]} / {inner[1]})"
        if self.op in _CPP_INFIX:
            return f"({inner[0]} {_CPP_INFIX[self.op]} {inner[1]})"
        return f"{_CPP_CALL[self.op]}({', '.join(inner)})"

    def readable(self) -> str:
        """The expression as the reference would write it."""
        if self.op == "const":
            return f"{self.value:g}"
        if self.op == "attr":
            return self.name
        if self.op == "size":
            tensor, axis = self.name.rsplit(".", 1)
            return f"{tensor}.shape[{axis}]"
        inner = [arg.readable() for arg in self.args]
        if self.op in _CPP_INFIX:
            return f"({inner[0]} {_CPP_INFIX[self.op]} {inner[1]})"
        return f"{self.op}({', '.join(inner)})"

    def leaves(self) -> tuple[Scalar, ...]:
        """Return the attributes and sizes it reads, in order of appearance, with repeats."""
        if self.op in ("attr", "size"):
            return (self,)
        return tuple(leaf for arg in self.args for leaf in arg.leaves())

    def to_json(self) -> list[Any]:
        """Return nested lists, ["mul", ["attr", "alpha"], ["const", 2.0]]."""
        if self.op == "const":
            return ["const", self.value]
        if self.op in ("attr", "size"):
            return [self.op, self.name]
        return [self.op, *(arg.to_json() for arg in self.args)]

    @staticmethod
    def from_json(data: list[Any]) -> Scalar:
        """Undo to_json."""
        op = data[0]
        if op == "const":
            return const(float(data[1]))
        if op in ("attr", "size"):
            return Scalar(op, name=data[1])
        return Scalar(op, tuple(Scalar.from_json(arg) for arg in data[1:]))


def const(value: float) -> Scalar:
    """A number."""
    return Scalar("const", value=float(value))


def combine(op: str, *args: Scalar) -> Scalar:
    """Apply an operator, folding constants and the neutral elements of +, -, * and /.

    Raises DeriveError when the operator does not exist for scalars.
    """
    if op not in _UNARY and op not in _BINARY:
        raise DeriveError(f"no scalar operator {op}: compute it on tensors, or give it as an attribute")
    if all(arg.op == "const" for arg in args):
        return const(Scalar(op, args).evaluate({}, {}))
    if len(args) == 2:
        left, right = args
        if (op == "mul" and left == const(1.0)) or (op == "add" and left == const(0.0)):
            return right
        if (op in ("mul", "div") and right == const(1.0)) or (op in ("add", "sub") and right == const(0.0)):
            return left
    return Scalar(op, args)


def cpp_number(value: float) -> str:
    """A C++ double literal that reads back as the same double."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = repr(value)
    return f"({text})" if value < 0 else text


def cpp_name(op: str, name: str) -> str:
    """The C++ variable that holds an attribute or a size: "attr_eps", "size_x_1" for the last extent of x."""
    return f"{op}_{name}".replace(".-", "_")
