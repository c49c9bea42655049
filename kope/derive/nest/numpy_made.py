"""Arrays that a reference makes from nothing (np.zeros, np.arange, ...) as recorders, while it is being traced.

NumPy hands these calls to nobody, so the names the reference knows them by stand for others for as long as it runs:
what it makes can then be written into and compared like any other value. NumPy itself stays as it is.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kope.derive.nest.array import Array, array_of, at_line, cast
from kope.derive.nest.numpy_functions import FUNCTIONS
from kope.derive.nest.tensors import TensorBuilder


@contextmanager
def recorders_made(builder: TensorBuilder, names: dict[str, Any]) -> Iterator[None]:
    """Let NumPy's functions that make arrays make recorders of a builder, under the global names of a reference."""
    replaced = _replaced(_Maker(builder))
    by_function = {getattr(np, name): function for name, function in replaced.items()}
    kept = dict(names)
    for name, value in kept.items():
        if value is np:
            names[name] = _NumPy(replaced)
        elif isinstance(value, types.BuiltinFunctionType | types.FunctionType) and value in by_function:
            names[name] = by_function[value]
    try:
        yield
    finally:
        names.update(kept)


class _NumPy(types.ModuleType):
    """NumPy with some functions replaced."""

    def __init__(self, replaced: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__("numpy")
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _replaced(made: _Maker) -> dict[str, Callable[..., Any]]:
    f8 = np.float64
    return {
        "zeros": lambda shape, dtype=f8, *a, **k: made.full(shape, 0.0, dtype),
        "ones": lambda shape, dtype=f8, *a, **k: made.full(shape, 1.0, dtype),
        "empty": lambda shape, dtype=f8, *a, **k: made.full(shape, 0.0, dtype),
        "full": lambda shape, value, dtype=None, *a, **k: made.full(shape, value, dtype),
        "arange": made.arange,
        "eye": made.eye,
        "identity": lambda n, dtype=f8, **k: made.eye(n, None, 0, dtype),
        "tri": lambda n, m=None, k=0, dtype=f8, **rest: FUNCTIONS[np.tril](made.full((n, m or n), 1.0, dtype), k),
        "array": lambda value, dtype=None, *a, **k: made.converted(value, dtype, True),
        "asarray": lambda value, dtype=None, *a, **k: made.converted(value, dtype, False),
        "ascontiguousarray": lambda value, dtype=None, **k: made.converted(value, dtype, False),
        "asanyarray": lambda value, dtype=None, *a, **k: made.converted(value, dtype, False),
    }


class _Maker:
    def __init__(self, builder: TensorBuilder) -> None:
        self.builder = builder

    def full(self, shape: Any, value: Any, dtype: Any) -> Array:
        extents = [operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else [shape])]
        filled = array_of(self.builder, value)
        filled = filled if dtype is None else cast(filled, dtype)
        return Array(self.builder, at_line(self.builder).expand(filled.node, extents), filled.dtype)

    def arange(self, *args: Any, dtype: Any = None, **rest: Any) -> Any:
        array = np.arange(*args, dtype=dtype)
        return array_of(self.builder, array) if array.size else array

    def eye(self, rows: int, columns: int | None = None, k: int = 0, dtype: Any = np.float64, **rest: Any) -> Any:
        row = array_of(self.builder, np.arange(rows).reshape(-1, 1))
        column = array_of(self.builder, np.arange(columns or rows).reshape(1, -1))
        return cast(np.equal(column, row + k), dtype)

    def converted(self, value: Any, dtype: Any, copy: bool) -> Any:
        """np.array, np.asarray: of a recorder itself, of a list with recorders their stack."""
        if isinstance(value, Array):
            made = Array(self.builder, value.node, value.dtype) if copy else value
            return made if dtype is None else cast(made, dtype)
        if isinstance(value, (list, tuple)) and _holds(value):
            parts = [self.converted(item, None, False) for item in value]
            made = FUNCTIONS[np.stack]([array_of(self.builder, part) for part in parts])
            return made if dtype is None else cast(made, dtype)
        return np.array(value, dtype=dtype)


def _holds(values: Sequence[Any]) -> bool:
    return any(isinstance(v, Array) or (isinstance(v, (list, tuple)) and _holds(v)) for v in values)
