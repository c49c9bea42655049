"""Arrays that a reference makes from nothing (np.zeros, np.arange, ...) as recorders, while it is being traced.

NumPy hands these calls to nobody, so they are replaced for as long as the reference runs: what it makes can then be
written into and compared like any other value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kope.derive.nest.array import Array, array_of, at_line, cast
from kope.derive.nest.numpy_functions import FUNCTIONS
from kope.derive.nest.tensors import TensorBuilder

_ARRAY, _ARANGE, _DEFAULT = np.array, np.arange, np.float64


@contextmanager
def recorders_made(builder: TensorBuilder) -> Iterator[None]:
    """Let NumPy's functions that make arrays make recorders of a builder."""
    made = _Maker(builder)
    replaced: dict[str, Callable[..., Any]] = {
        "zeros": lambda shape, dtype=_DEFAULT, *a, **k: made.full(shape, 0.0, dtype),
        "ones": lambda shape, dtype=_DEFAULT, *a, **k: made.full(shape, 1.0, dtype),
        "empty": lambda shape, dtype=_DEFAULT, *a, **k: made.full(shape, 0.0, dtype),
        "full": lambda shape, value, dtype=None, *a, **k: made.full(shape, value, dtype),
        "arange": made.arange,
        "eye": made.eye,
        "identity": lambda n, dtype=_DEFAULT, **k: made.eye(n, None, 0, dtype),
        "tri": lambda n, m=None, k=0, dtype=_DEFAULT, **rest: FUNCTIONS[np.tril](made.full((n, m or n), 1.0, dtype), k),
        "array": lambda value, dtype=None, *a, **k: made.converted(_ARRAY, value, dtype, True),
        "asarray": lambda value, dtype=None, *a, **k: made.converted(_ARRAY, value, dtype, False),
        "asanyarray": lambda value, dtype=None, *a, **k: made.converted(_ARRAY, value, dtype, False),
    }
    kept = {name: getattr(np, name) for name in replaced}
    for name, function in replaced.items():
        setattr(np, name, function)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(np, name, function)


class _Maker:
    def __init__(self, builder: TensorBuilder) -> None:
        self.builder = builder

    def full(self, shape: Any, value: Any, dtype: Any) -> Array:
        extents = [operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else [shape])]
        filled = array_of(self.builder, value)
        filled = filled if dtype is None else cast(filled, dtype)
        return Array(self.builder, at_line(self.builder).expand(filled.node, extents), filled.dtype)

    def arange(self, *args: Any, dtype: Any = None, **rest: Any) -> Any:
        array = _ARANGE(*args, dtype=dtype)
        return array_of(self.builder, array) if array.size else array

    def eye(self, rows: int, columns: int | None = None, k: int = 0, dtype: Any = _DEFAULT, **rest: Any) -> Any:
        row = array_of(self.builder, _ARANGE(rows).reshape(-1, 1))
        column = array_of(self.builder, _ARANGE(columns or rows).reshape(1, -1))
        return cast(np.equal(column, row + k), dtype)

    def converted(self, function: Any, value: Any, dtype: Any, copy: bool) -> Any:
        """np.array, np.asarray: of a recorder itself, of a list with recorders their stack."""
        if isinstance(value, Array):
            made = Array(self.builder, value.node, value.dtype) if copy else value
            return made if dtype is None else cast(made, dtype)
        if isinstance(value, (list, tuple)) and _holds(value):
            parts = [self.converted(function, item, None, False) for item in value]
            made = FUNCTIONS[np.stack]([array_of(self.builder, part) for part in parts])
            return made if dtype is None else cast(made, dtype)
        return function(value, dtype=dtype)


def _holds(values: Sequence[Any]) -> bool:
    return any(isinstance(v, Array) or (isinstance(v, (list, tuple)) and _holds(v)) for v in values)
