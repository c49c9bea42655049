"""Rules of ATen operators that go element by element."""

from __future__ import annotations

import math

from kope.derive.nest import composed
from kope.derive.nest.call import Call, Rule, T, to_kind
from kope.errors import DeriveError


def _same(op: str) -> Rule:
    return lambda c: c.b.pointwise(
        op, to_kind(c.b, c.node(0), c.result.kind) if c.result.kind == "float" else c.node(0)
    )


def _binary(op: str) -> Rule:
    def rule(c: Call) -> int:
        return c.b.pointwise(op, c.typed(c.node(0)), c.typed(c.node(1)))

    return rule


def _compare(op: str) -> Rule:
    return lambda c: c.b.pointwise(op, c.node(0), c.node(1))


def _logical(op: str) -> Rule:
    def rule(c: Call) -> int:
        if c.result.kind != "bool":
            raise DeriveError(f"bitwise {op} of integers has no vector path here; use logical operators")
        return c.b.pointwise(op, *(to_kind(c.b, c.node(at), "bool") for at in range(len(c.args))))

    return rule


def _scaled(op: str) -> Rule:
    """add and sub with alpha."""

    def rule(c: Call) -> int:
        right, alpha = c.typed(c.node(1)), c.named.get("alpha", 1)
        if alpha != 1:
            right = c.b.pointwise("mul", right, c.value(alpha))
        if c.result.kind == "bool":
            return c.b.pointwise("or", c.node(0), c.node(1))
        return c.b.pointwise(op, c.typed(c.node(0)), right)

    return rule


def _divide(c: Call) -> int:
    mode = c.named.get("rounding_mode")
    if mode == "floor":
        return composed.floor_divide(c.b, c.node(0), c.node(1))
    made = c.b.pointwise("div", c.node(0), c.node(1), kind="float")
    return c.typed(c.b.pointwise("trunc", made)) if mode == "trunc" else made


def _times_bool(c: Call) -> int:
    if c.result.kind == "bool":
        return c.b.pointwise("and", c.node(0), c.node(1))
    return c.b.pointwise("mul", c.typed(c.node(0)), c.typed(c.node(1)))


def _power(c: Call) -> int:
    base, exponent = c.args[0], c.args[1]
    if isinstance(exponent, T):
        if c.b.kind(c.node(1)) != "float" and not isinstance(base, T):
            exponent_node = to_kind(c.b, c.node(1), "float")
        else:
            exponent_node = c.node(1)
        left = c.value(base)
        return c.b.pointwise("exp", c.b.pointwise("mul", c.b.pointwise("log", left), exponent_node))
    return composed.power(c.b, c.typed(c.node(0)), float(exponent))


def _cast(c: Call) -> int:
    x = c.node(0)
    kind, dtype = c.result.kind, c.result.dtype
    if kind == "float":
        narrow = dtype in ("float16", "bfloat16")
        if not narrow:
            return to_kind(c.b, x, "float")
        return c.b.pointwise("cast", to_kind(c.b, x, "float"), kind="float", params=(dtype,))
    return to_kind(c.b, x, kind)


def _clamp(c: Call) -> int:
    low, high = c.given(1, "min"), c.given(2, "max")
    bounds = (None if low is None else c.value(low), None if high is None else c.value(high))
    return composed.clamp(c.b, c.typed(c.node(0)), *bounds)


def _where(c: Call) -> int:
    return c.b.pointwise("select", to_kind(c.b, c.node(0), "bool"), c.typed(c.node(1)), c.typed(c.node(2)))


def _elu(c: Call) -> int:
    b, x = c.b, c.node(0)
    alpha, scale, input_scale = float(c.given(1, "alpha", 1)), float(c.given(2, "scale", 1)), float(c.given(3, "", 1))
    grown = composed.expm1(b, b.pointwise("mul", x, b.scalar(input_scale)))
    negative = b.pointwise("mul", grown, b.scalar(alpha * scale))
    positive = b.pointwise("mul", x, b.scalar(scale))
    return b.pointwise("select", b.pointwise("gt", x, b.scalar(0.0)), positive, negative)


def _leaky_relu(c: Call) -> int:
    b, x = c.b, c.node(0)
    steep = b.pointwise("mul", x, b.scalar(float(c.given(1, "negative_slope", 0.01))))
    return b.pointwise("select", b.pointwise("gt", x, b.scalar(0.0)), x, steep)


def _rounded(c: Call) -> int:
    if c.named.get("decimals", 0):
        raise DeriveError("rounding to decimals is not supported; scale before and after")
    return c.b.pointwise("rint", c.node(0))


def _infinite(c: Call) -> int:
    return c.b.pointwise("eq", c.b.pointwise("abs", c.node(0)), c.b.scalar(math.inf))


def _log_of(base: float) -> Rule:
    return lambda c: c.b.pointwise("mul", c.b.pointwise("log", c.node(0)), c.b.scalar(1.0 / math.log(base)))


RULES: dict[str, Rule] = {
    "add": _scaled("add"),
    "sub": _scaled("sub"),
    "mul": _times_bool,
    "div": _divide,
    "true_divide": _divide,
    "rsub": lambda c: c.b.pointwise("sub", c.typed(c.node(1)), c.typed(c.node(0))),
    "maximum": _binary("max"),
    "minimum": _binary("min"),
    "fmod": lambda c: composed.fmod(c.b, c.node(0), c.node(1)),
    "remainder": lambda c: composed.remainder(c.b, c.node(0), c.node(1)),
    "floor_divide": lambda c: composed.floor_divide(c.b, c.node(0), c.node(1)),
    "pow": _power,
    "eq": _compare("eq"),
    "ne": _compare("ne"),
    "lt": _compare("lt"),
    "le": _compare("le"),
    "gt": _compare("gt"),
    "ge": _compare("ge"),
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_not": _logical("not"),
    "bitwise_and": _logical("and"),
    "bitwise_or": _logical("or"),
    "bitwise_not": _logical("not"),
    "logical_xor": lambda c: c.b.pointwise("ne", to_kind(c.b, c.node(0), "bool"), to_kind(c.b, c.node(1), "bool")),
    "neg": _same("neg"),
    "abs": _same("abs"),
    "exp": _same("exp"),
    "log": _same("log"),
    "sqrt": _same("sqrt"),
    "square": _same("square"),
    "gcd": lambda c: composed.gcd(c.b, c.node(0), c.node(1)),
    "tanh": lambda c: composed.tanh(c.b, c.node(0)),
    "sigmoid": _same("sigmoid"),
    "floor": _same("floor"),
    "ceil": _same("ceil"),
    "trunc": _same("trunc"),
    "sign": _same("sign"),
    "round": _rounded,
    "isnan": lambda c: c.b.pointwise("isnan", c.node(0)),
    "isinf": _infinite,
    "log2": _log_of(2.0),
    "log10": _log_of(10.0),
    "log1p": lambda c: composed.log1p(c.b, to_kind(c.b, c.node(0), "float")),
    "expm1": lambda c: composed.expm1(c.b, c.node(0)),
    "exp2": lambda c: c.b.pointwise("exp", c.b.pointwise("mul", c.node(0), c.b.scalar(math.log(2.0)))),
    "rsqrt": lambda c: c.b.pointwise("div", c.b.scalar(1.0), c.b.pointwise("sqrt", c.node(0))),
    "reciprocal": lambda c: c.b.pointwise("div", c.b.scalar(1.0), c.node(0)),
    "relu": lambda c: c.b.pointwise("max", c.node(0), c.b.scalar(0.0)),
    "hardtanh": lambda c: composed.clamp(
        c.b, c.node(0), c.value(c.given(1, "min_val", -1.0)), c.value(c.given(2, "max_val", 1.0))
    ),
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "erf": lambda c: composed.erf(c.b, c.node(0)),
    "erfc": lambda c: composed.erfc(c.b, c.node(0)),
    "gelu": lambda c: composed.gelu(c.b, c.node(0), c.named.get("approximate", "none")),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "where": _where,
    "_to_copy": _cast,
    "to": _cast,
    "clamp_max": lambda c: c.b.pointwise("min", c.typed(c.node(0)), c.typed(c.node(1))),
}
