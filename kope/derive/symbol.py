"""Numbers that stay symbolic while a reference runs: attributes, and extents of traced tensors.

A branch on one is allowed and becomes a guard of the graph. Turning one into a plain number is not: the number of this
one case would be baked into the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from kope.derive.graph import Guard
from kope.derive.scalar import Scalar, combine, const
from kope.errors import DeriveError

_UFUNCS = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div", np.floor_divide: "floordiv",
    np.power: "pow", np.float_power: "pow", np.maximum: "max", np.minimum: "min", np.negative: "neg",
    np.absolute: "abs", np.sqrt: "sqrt", np.exp: "exp", np.log: "log", np.less: "lt", np.less_equal: "le",
    np.greater: "gt", np.greater_equal: "ge", np.equal: "eq", np.not_equal: "ne",
}  # fmt: skip


class Symbol(np.lib.mixins.NDArrayOperatorsMixin):
    """A number with its expression and its value in the case at hand. `decide` is told of every branch taken on it."""

    __array_priority__ = 1.0

    def __init__(self, expr: Scalar, value: float, decide: Callable[[Guard], None]) -> None:
        self.expr = expr
        self.value = value
        self._decide = decide

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or not all(isinstance(item, Symbol) or is_number(item) for item in inputs):
            return NotImplemented
        if ufunc not in _UFUNCS:
            raise DeriveError(f"np.{ufunc.__name__} of an attribute or size is not supported; apply it to a tensor")
        exprs = [scalar_of(item) for item in inputs]
        values = [item.value if isinstance(item, Symbol) else float(item) for item in inputs]
        constants = tuple(const(value) for value in values)
        return Symbol(combine(_UFUNCS[ufunc], *exprs), combine(_UFUNCS[ufunc], *constants).value, self._decide)

    def __bool__(self) -> bool:
        if self.expr.op != "const":
            self._decide(Guard(self.expr, float(self.value)))
        return bool(self.value)

    def __hash__(self) -> int:
        return hash((self.expr, self.value))

    def _refuse(self, what: str) -> NoReturn:
        names = ", ".join(sorted({leaf.name for leaf in self.expr.leaves()}))
        raise DeriveError(f"{what} takes a plain number from {names}; use NumPy operators on it instead")

    def __float__(self) -> float:
        self._refuse("float() or a math function")

    def __int__(self) -> int:
        self._refuse("int()")

    def __index__(self) -> int:
        self._refuse("an index, a loop count or a shape")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("np.array() or np.asarray()")


def is_number(value: object) -> bool:
    """Whether it is a plain scalar number (Python, NumPy, or a 0-d array of numbers)."""
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return True
    return isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "biuf"


def scalar_of(value: object) -> Scalar:
    """The expression of a symbol or number."""
    return value.expr if isinstance(value, Symbol) else const(float(value))  # type: ignore[arg-type]
