"""The recorder that stands in for an array while a reference runs: every operation on it becomes a node.

It holds no data. What would let a value escape (np.asarray, float(), an if on data, a write into a view) is refused
with the line of the reference, because a graph that misses it would be silently wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from kope.derive.graph import Node
from kope.derive.scalar import Scalar, const
from kope.derive.symbol import Symbol, is_number, scalar_of
from kope.derive.tape import Shape, Tape, refuse

UFUNC_BINARY = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div", np.maximum: "max",
    np.minimum: "min", np.less: "lt", np.less_equal: "le", np.greater: "gt", np.greater_equal: "ge",
    np.equal: "eq", np.not_equal: "ne", np.logical_and: "and", np.logical_or: "or", np.bitwise_and: "and",
    np.bitwise_or: "or",
}  # fmt: skip
UFUNC_UNARY = {
    np.negative: "neg", np.absolute: "abs", np.fabs: "abs", np.exp: "exp", np.log: "log", np.log1p: "log1p",
    np.expm1: "expm1", np.sqrt: "sqrt", np.square: "square", np.tanh: "tanh", np.rint: "rint", np.floor: "floor",
    np.ceil: "ceil", np.trunc: "trunc", np.sign: "sign", np.logical_not: "not", np.isnan: "isnan",
    np.invert: "not",
}  # fmt: skip
UFUNC_REDUCE = {np.add: "sum", np.maximum: "amax", np.minimum: "amin"}
BOOLEAN = ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "isnan")


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """One value of a traced run: a node of the tape, its shape, and how its extents are written symbolically.

    view: it is an input or a piece of one, so writing into it would reach further than the graph can follow.
    """

    __array_priority__ = 2.0

    def __init__(self, tape: Tape, node: int, extents: tuple[Scalar, ...], view: bool = False) -> None:
        self.tape = tape
        self.node = node
        self.extents = extents
        self.view = view

    # --- what NumPy code reads off an array ---

    @property
    def concrete(self) -> Shape:
        """Shape in the case at hand."""
        return self.tape.shapes[self.node]

    @property
    def shape(self) -> tuple[Symbol, ...]:
        """Extents as symbols."""
        pairs = zip(self.extents, self.concrete, strict=True)
        return tuple(Symbol(expr, extent, self.tape.decide) for expr, extent in pairs)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.concrete)

    @property
    def size(self) -> Symbol:
        """Number of elements, as a symbol."""
        product = Symbol(const(1.0), 1.0, self.tape.decide)
        for extent in self.shape:
            product = product * extent
        return product

    @property
    def kind(self) -> str:
        """float, int or bool."""
        return self.tape.nodes[self.node].kind

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64, int64 or bool: references are called with widened inputs."""
        return np.dtype({"float": np.float64, "int": np.int64, "bool": np.bool_}[self.kind])

    # --- dispatch ---

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if method == "reduce":
            from kope.derive.functions import reduce_ufunc

            result = reduce_ufunc(ufunc, *inputs, **kwargs)
        elif method != "__call__" or kwargs.pop("dtype", None) is not None or kwargs:
            detail = method if method != "__call__" else " ".join(kwargs)
            raise refuse(f"np.{ufunc.__name__} ({detail}) cannot be followed", "write it without that form")
        else:
            result = call_ufunc(self.tape, ufunc, inputs)
        return result if out is None else store(out[0] if isinstance(out, tuple) else out, result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from kope.derive.functions import FUNCTIONS

        if func not in FUNCTIONS:
            name = getattr(func, "__name__", str(func))
            raise refuse(f"np.{name} is not supported yet", "write it with elementwise operators and reductions")
        return FUNCTIONS[func](*args, **kwargs)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from kope.derive.functions import METHODS

        if name in METHODS:
            method = METHODS[name]
            return lambda *args, **kwargs: method(self, *args, **kwargs)
        if name.startswith("__"):
            raise AttributeError(name)
        raise refuse(f".{name} of a tensor cannot be followed", "use NumPy functions instead")

    # --- indexing ---

    def __getitem__(self, key: Any) -> Traced:
        from kope.derive.functions import index

        return index(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is Ellipsis or (isinstance(key, slice) and key == slice(None)):
            store(self, value)
            return
        if isinstance(key, Traced) and key.kind == "bool":
            store(self, select(key, value, self))
            return
        raise refuse("a write into part of a tensor", "use np.where")

    # --- escapes ---

    def __bool__(self) -> bool:
        raise refuse("a branch or assert depends on data", "use np.where")

    def __iter__(self) -> NoReturn:
        raise refuse("a loop over the elements of a tensor", "use whole-tensor operations")

    def __len__(self) -> int:
        raise refuse("len() of a tensor", "use .shape")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refuse("np.asarray or np.array lets a tensor escape", "leave the conversion out")

    def __float__(self) -> float:
        raise refuse("float() of a tensor", "keep it a tensor")

    def __int__(self) -> int:
        raise refuse("int() of a tensor", "keep it a tensor")

    def __index__(self) -> int:
        raise refuse("an index taken from a tensor", "gathers are not supported yet")

    __hash__ = object.__hash__


def store(target: Any, value: Any) -> Any:
    """Write a whole tensor in place: the target stands for the new value from now on."""
    if not isinstance(target, Traced):
        raise refuse("out= or an in-place operator writes a traced value into a plain array", "start from an input")
    if target.view:
        raise refuse("a write into an input (or a piece of one) is a side effect", "write `x = x - m`, not `x -= m`")
    value = traced(target.tape, value)
    shape = np.broadcast_shapes(value.concrete, target.concrete)
    if shape != target.concrete or value.concrete != target.concrete:
        raise refuse("an in-place write that broadcasts", "write it as an expression")
    target.node = value.node
    return target


def traced(tape: Tape, value: Any) -> Traced:
    """Turn a number or symbol into a value of the tape. Raises DeriveError for an array of constants."""
    if isinstance(value, Traced):
        return value
    if isinstance(value, Symbol) or is_number(value):
        kinds = {"b": "bool", "i": "int", "u": "int"}
        kind = "float" if isinstance(value, Symbol) else kinds.get(np.asarray(value).dtype.kind, "float")
        node = Node("scalar", space="one", kind=kind, expr=scalar_of(value))
        return Traced(tape, tape.add(node, ()), ())
    raise refuse(f"a constant array ({type(value).__name__})", "only numbers, attributes and inputs can be operands")


def broadcast_extents(values: tuple[Traced, ...], shape: Shape) -> tuple[Scalar, ...]:
    """The symbolic extents of a broadcast result: each axis from the operand that has it in full."""
    extents = []
    for axis in range(-len(shape), 0):
        having = [v for v in values if v.ndim >= -axis and v.concrete[axis] == shape[axis]]
        extents.append(having[0].extents[axis])
    return tuple(extents)


def record(tape: Tape, op: str, operands: tuple[Traced, ...], **fields: Any) -> Traced:
    """Add an elementwise node with NumPy's broadcasting."""
    tensors = tuple(item for item in operands if tape.nodes[item.node].op != "scalar" or item.concrete)
    if op != "cast" and any(tape.nodes[item.node].dtype in ("float16", "bfloat16") for item in operands):
        raise refuse("arithmetic in a narrow float type", "compute in float32 or wider and cast the result")
    if len({tape.squeezed[item.node] for item in tensors if item.concrete}) > 1:
        raise refuse(f"{op} mixes a reduced tensor without its last axis with others", "reduce with keepdims=True")
    try:
        shape = np.broadcast_shapes(*(item.concrete for item in operands))
    except ValueError as error:
        raise refuse(f"{op}: {error}", "check the shapes of the reference") from error
    kind = fields.pop("kind", None) or result_kind(op, operands)
    squeezed = any(tape.squeezed[item.node] for item in operands)
    node = Node(op, tuple(item.node for item in operands), kind=kind, **fields)
    return Traced(tape, tape.add(node, shape, squeezed), broadcast_extents(operands, shape))


def result_kind(op: str, operands: tuple[Traced, ...]) -> str:
    """float, int or bool, by NumPy's rules for these operators."""
    if op in BOOLEAN:
        return "bool"
    kinds = {item.kind for item in operands}
    if op in ("div", "exp", "log", "log1p", "expm1", "sqrt", "tanh", "sigmoid") or "float" in kinds:
        return "float"
    return "int" if kinds != {"bool"} else "bool" if op in ("max", "min") else "int"


def select(condition: Any, yes: Any, no: Any) -> Traced:
    """np.where with three arguments."""
    tape = next(item.tape for item in (condition, yes, no) if isinstance(item, Traced))
    operands = tuple(traced(tape, item) for item in (condition, yes, no))
    if operands[0].kind != "bool":
        operands = (record(tape, "ne", (operands[0], traced(tape, 0))), *operands[1:])
    return record(tape, "select", operands, kind=result_kind("add", operands[1:]))


def call_ufunc(tape: Tape, ufunc: Any, inputs: tuple[Any, ...]) -> Traced:
    """Record one ufunc call."""
    if ufunc in (np.power, np.float_power):
        return power(tape, *inputs)
    operands = tuple(traced(tape, item) for item in inputs)
    if ufunc in UFUNC_BINARY:
        return record(tape, UFUNC_BINARY[ufunc], operands)
    if ufunc in UFUNC_UNARY:
        return record(tape, UFUNC_UNARY[ufunc], operands)
    name = ufunc.__name__
    if name in _COMPOSED:
        return as_traced(_COMPOSED[name](tape, *operands))
    raise refuse(f"{name} is not supported yet", "write it with exp, log, sqrt, tanh and arithmetic")


def as_traced(value: Any) -> Traced:
    """NumPy says Any where a traced value comes out."""
    assert isinstance(value, Traced)
    return value


def power(tape: Tape, base: Any, exponent: Any) -> Traced:
    """A power with a small constant exponent, as products and roots."""
    value = traced(tape, base)
    if isinstance(exponent, (Traced, Symbol)) or float(exponent) not in _POWERS:
        raise refuse("a power with this exponent is not supported yet", "use products, np.sqrt, or exp(p * log(x))")
    return as_traced(_POWERS[float(exponent)](value))


_POWERS: dict[float, Callable[[Any], Any]] = {
    1.0: lambda x: x,
    2.0: np.square,
    3.0: lambda x: np.square(x) * x,
    4.0: lambda x: np.square(np.square(x)),
    0.5: np.sqrt,
    -0.5: lambda x: 1.0 / np.sqrt(x),
    -1.0: lambda x: 1.0 / x,
    -2.0: lambda x: 1.0 / np.square(x),
}


def _logaddexp(tape: Tape, left: Traced, right: Traced) -> Any:
    high = np.maximum(left, right)
    return high + np.log1p(np.exp(-np.abs(left - right)))


_COMPOSED: dict[str, Callable[..., Any]] = {
    "expit": lambda tape, x: record(tape, "sigmoid", (x,)),
    "logaddexp": _logaddexp,
    "reciprocal": lambda tape, x: 1.0 / x,
    "positive": lambda tape, x: x,
    "exp2": lambda tape, x: np.exp(x * float(np.log(2.0))),
    "log2": lambda tape, x: np.log(x) * float(1.0 / np.log(2.0)),
    "log10": lambda tape, x: np.log(x) * float(1.0 / np.log(10.0)),
    "isfinite": lambda tape, x: np.abs(x) < np.inf,
    "isinf": lambda tape, x: np.abs(x) == np.inf,
}
