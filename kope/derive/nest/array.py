"""The recorder that stands in for a NumPy array while a reference runs, when rows and columns do not suffice.

It holds no data; every operation on it becomes nodes of a graph of tensors, by the same rules as those of ATen
operators. What functions and indexing mean is numpy_functions.py's and numpy_index.py's business. What would let a
value escape is refused with the line of the reference, because a graph that misses it would be silently wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from kope.derive.nest.aten import rule_for
from kope.derive.nest.call import Call, Result, T
from kope.derive.nest.constants import constant
from kope.derive.nest.tensors import Shape, TensorBuilder, broadcast
from kope.derive.symbol import is_number
from kope.derive.tape import reference_line, refuse
from kope.errors import DeriveError

Function = Callable[..., Any]
MOST_NODES = 20_000
"""A loop that unrolls to more operations than this is no kernel any more."""
ELEMENTWISE = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "maximum": "maximum",
    "minimum": "minimum", "power": "pow", "float_power": "pow", "negative": "neg", "absolute": "abs", "fabs": "abs",
    "exp": "exp", "log": "log", "log1p": "log1p", "expm1": "expm1", "exp2": "exp2", "log2": "log2", "log10": "log10",
    "sqrt": "sqrt", "square": "square", "reciprocal": "reciprocal", "tanh": "tanh", "rint": "round", "floor": "floor",
    "ceil": "ceil", "trunc": "trunc", "sign": "sign", "isnan": "isnan", "isinf": "isinf", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_not": "logical_not",
    "logical_xor": "logical_xor", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "invert": "bitwise_not",
    "floor_divide": "floor_divide", "remainder": "remainder", "fmod": "fmod", "gcd": "gcd", "erf": "erf",
    "erfc": "erfc", "expit": "sigmoid",
}  # fmt: skip
"""Ufuncs by name, and the ATen operator of the same meaning."""
_EXACT = {"maximum", "minimum", "sign", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}
_EXACT |= {"logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or", "invert", "isnan"}
_EXACT |= {"isinf", "isfinite", "positive"}
"""Ufuncs that neither round nor wrap around: they may be taken in narrow types."""
_NARROW = {"float16", "bfloat16", "int8", "uint8", "int16", "uint16"}


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """One value: its node and dtype. view: writing into it would reach further than the graph can follow, unless it is
    the `piece` of another recorder at a key."""

    __array_priority__ = 2.0

    def __init__(
        self, builder: TensorBuilder, node: int, dtype: Any, *, view: bool = False,
        piece: tuple[Array, Any] | None = None,
    ) -> None:  # fmt: skip
        self.builder, self.node, self.view, self.piece = builder, node, view, piece
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    # --- what NumPy code reads off an array ---

    @property
    def shape(self) -> Shape:
        """Extents."""
        return self.builder.shape(self.node)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.builder.nodes[self.node].numel

    @property
    def kind(self) -> str:
        """float, int or bool."""
        return self.builder.kind(self.node)

    # --- dispatch ---

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from kope.derive.nest.numpy_functions import UFUNC_METHODS, ufunc_call

        out = kwargs.pop("out", None)
        if method == "__call__":
            if kwargs:
                raise refuse(f"np.{ufunc.__name__} with {', '.join(kwargs)}", "write it without that form")
            result = ufunc_call(ufunc, inputs)
        elif (ufunc.__name__, method) in UFUNC_METHODS:
            result = UFUNC_METHODS[ufunc.__name__, method](*inputs, **kwargs)
        else:
            raise refuse(f"np.{ufunc.__name__}.{method}", "use a whole-array function")
        return result if out is None else store(out[0] if isinstance(out, tuple) else out, result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from kope.derive.nest.numpy_functions import FUNCTIONS

        name = getattr(func, "__name__", str(func))
        if func not in FUNCTIONS:
            raise refuse(f"np.{name} has no lowering yet", "write it with arithmetic, reductions and indexing")
        out = kwargs.pop("out", None)
        result = FUNCTIONS[func](*args, **kwargs)
        return result if out is None else store(out, result)

    def __getattr__(self, name: str) -> Any:
        from kope.derive.nest.numpy_functions import METHODS, PROPERTIES

        if name in PROPERTIES:
            return PROPERTIES[name](self)
        if name in METHODS:
            method: Function = METHODS[name]
            return lambda *args, **kwargs: method(self, *args, **kwargs)
        if name.startswith("__"):
            raise AttributeError(name)
        raise refuse(f".{name} of an array cannot be followed", "use NumPy functions instead")

    def __getitem__(self, key: Any) -> Array:
        from kope.derive.nest.numpy_index import get

        return get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from kope.derive.nest.numpy_index import put

        store(self, put(self, key, value))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        node = self.builder.nodes[self.node]
        if node.op == "count":  # what np.arange made: its numbers are known
            start, step = node.params
            return iter([start + step * k for k in range(node.shape[0])])
        return iter([self[k] for k in range(len(self))])

    # --- escapes ---

    def __bool__(self) -> bool:
        raise refuse("a branch, assert or loop depends on data", "use np.where")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refuse("a conversion lets an array escape", "leave it out, or use np.asarray")

    def __float__(self) -> float:
        raise refuse("float() of an array", "keep it an array")

    def __int__(self) -> int:
        raise refuse("int() of an array", "keep it an array")

    def __index__(self) -> int:
        raise refuse("a range, shape or slice depends on data", "index with an array instead")

    __hash__ = object.__hash__


def builder_of(values: Sequence[Any]) -> TensorBuilder:
    """The builder of the first recorder among values, also inside lists. Raises DeriveError when there is none."""
    for value in values:
        if isinstance(value, Array):
            return value.builder
        if isinstance(value, (list, tuple)):
            try:
                return builder_of(value)
            except DeriveError:
                continue
    raise refuse("no array of the call takes part", "compute it from the inputs")


def at_line(builder: TensorBuilder) -> TensorBuilder:
    """The builder, told which line of the reference is running. Raises DeriveError when a loop unrolled too far."""
    builder.line = reference_line()
    if len(builder.nodes) > MOST_NODES:
        raise refuse(f"a loop unrolls to more than {MOST_NODES} operations", "use whole-array operations")
    return builder


def array_of(builder: TensorBuilder, value: Any) -> Array:
    """A recorder of any operand: itself, a number, or an array of constants."""
    if isinstance(value, Array):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise refuse(f"an operand of type {type(value).__name__}", "only numbers and arrays can be operands")
    return Array(builder, constant(at_line(builder), array), array.dtype)


def kind_of(dtype: np.dtype[Any]) -> str:
    """float, int or bool."""
    return {"b": "bool", "i": "int", "u": "int"}.get(dtype.kind, "float")


def rule(
    name: str, builder: TensorBuilder, args: Sequence[Any], dtype: Any, shape: Shape = (), **named: Any
) -> list[Array]:
    """Apply the rule of an ATen operator; recorders of all its results."""
    made = np.dtype(dtype)
    given = [_argument(arg) for arg in args]
    try:
        nodes = rule_for(name, "")(Call(at_line(builder), given, named, Result(kind_of(made), made.name, tuple(shape))))
    except DeriveError as error:
        raise refuse(str(error), "or write it in another way") from error
    return [Array(builder, node, made) for node in (nodes if isinstance(nodes, list) else [nodes])]


def _argument(arg: Any) -> Any:
    if isinstance(arg, Array):
        return T(arg.node)
    if isinstance(arg, (list, tuple)):
        return [_argument(item) for item in arg]
    return arg.item() if isinstance(arg, np.generic) else arg


def elementwise(ufunc: Any, name: str, inputs: Sequence[Any]) -> Array:
    """One ufunc call with NumPy's broadcasting and promotion. Arithmetic in narrow types is refused: it would round or
    wrap around where float32 does not."""
    builder = builder_of(inputs)
    dtype = promoted(ufunc, inputs)
    operands = [item if is_number(item) else array_of(builder, item) for item in inputs]
    if ufunc.__name__ not in _EXACT and (dtype.name in _NARROW or _any_narrow(operands)):
        raise refuse(f"np.{ufunc.__name__} in {dtype.name}", "compute in float32 or int32 and cast the result")
    shape = broadcast(*(item.shape for item in operands if isinstance(item, Array)))
    return rule(name, builder, operands, dtype, shape)[0]


def _any_narrow(operands: Sequence[Any]) -> bool:
    return any(isinstance(item, Array) and item.dtype.name in ("float16", "bfloat16") for item in operands)


def promoted(function: Any, inputs: Sequence[Any]) -> np.dtype[Any]:
    """The dtype NumPy gives the result of an elementwise function."""
    tiny = [np.ones((), item.dtype) if isinstance(item, Array) else _tiny(item) for item in inputs]
    with np.errstate(all="ignore"):
        return np.asarray(function(*tiny)).dtype


def _tiny(item: Any) -> Any:
    """One element of a constant; a plain number stays as weak as it is."""
    return np.ones((), np.asarray(item).dtype) if isinstance(item, (np.ndarray, list, tuple)) else item


def cast(array: Array, dtype: Any) -> Array:
    """astype."""
    wanted = np.dtype(dtype)
    if wanted == array.dtype:
        return array
    return rule("_to_copy", array.builder, [array], wanted, array.shape)[0]


def store(target: Any, value: Any) -> Any:
    """Write a whole array in place: the target stands for the new value from now on."""
    if not isinstance(target, Array):
        raise refuse("an in-place operation writes a traced value into a plain array", "start from an input")
    if target.piece is not None:
        whole, key = target.piece
        whole[key] = value
    elif target.view:
        raise refuse("a write into an input, or through a view of another array", "write into a copy of it")
    value = cast(array_of(target.builder, value), target.dtype)
    target.node = (
        at_line(target.builder).expand(value.node, target.shape) if value.shape != target.shape else value.node
    )
    return target
