"""Rules of ATen reductions and normalizations."""

from __future__ import annotations

import math
from typing import Any

from kope.derive.nest import composed
from kope.derive.nest.call import Call, Rule, to_kind
from kope.derive.nest.tensors import numel


def _axes(c: Call, at: int, name: str = "dim") -> list[int]:
    rank = len(c.shape(0))
    axes = c.given(at, name)
    if axes is None or axes == []:
        return list(range(rank))
    return [axis % rank for axis in ([axes] if isinstance(axes, int) else axes)] if rank else []


def _reduce(op: str) -> Rule:
    def rule(c: Call) -> int:
        x = c.typed(c.node(0)) if op in ("sum", "prod") else c.node(0)
        return c.b.reduce(op, x, _axes(c, 1), bool(c.given(2, "keepdim", False)))

    return rule


def _mean(c: Call) -> int:
    return composed.mean(c.b, c.node(0), _axes(c, 1), bool(c.given(2, "keepdim", False)))


def _variance(c: Call) -> int:
    correction = c.named.get("correction", 1)
    correction = 1.0 if correction is None else float(correction)
    return composed.variance(c.b, c.node(0), _axes(c, 1), correction, bool(c.named.get("keepdim", False)))


def _arg_reduce(op: str) -> Rule:
    def rule(c: Call) -> int:
        x, dim = c.node(0), c.given(1, "dim")
        if dim is None:
            return c.b.reduce(op, x, range(len(c.b.shape(x))), False)
        return c.b.reduce(op, x, [dim], bool(c.given(2, "keepdim", False)))

    return rule


def _extreme(value: str, index: str) -> Rule:
    """max.dim and min.dim."""

    def rule(c: Call) -> list[int]:
        x, keep = c.node(0), bool(c.given(2, "keepdim", False))
        if not c.shape(0):
            return [x, c.b.scalar(0.0, "int")]
        return [c.b.reduce(value, x, [c.args[1]], keep), c.b.reduce(index, x, [c.args[1]], keep)]

    return rule


def _truth(op: str) -> Rule:
    def rule(c: Call) -> int:
        return c.b.reduce(op, to_kind(c.b, c.node(0), "bool"), _axes(c, 1), bool(c.given(2, "keepdim", False)))

    return rule


def _vector_norm(c: Call) -> int:
    b, x, order = c.b, c.node(0), float(c.given(1, "ord", 2))
    axes, keep = _axes(c, 2), bool(c.given(3, "keepdim", False))
    size = b.pointwise("abs", x)
    if math.isinf(order):
        return b.reduce("amax" if order > 0 else "amin", size, axes, keep)
    if order == 0:
        return b.reduce("sum", to_kind(b, b.pointwise("ne", x, b.scalar(0.0)), "float"), axes, keep)
    if order == 1:
        return b.reduce("sum", size, axes, keep)
    total = b.reduce("sum", composed.power(b, x if order == 2 else size, order), axes, keep)
    return b.pointwise("sqrt", total) if order == 2 else composed.power(b, total, 1.0 / order)


def _layer_norm(c: Call) -> list[int]:
    b, x = c.b, c.node(0)
    rank = len(b.shape(x))
    axes = list(range(rank - len(c.args[1]), rank))
    made, centre, inverse = composed.normalized(b, x, axes, float(c.args[4]))
    if c.args[2] is not None:
        made = b.pointwise("mul", made, c.node(2))
    if c.args[3] is not None:
        made = b.pointwise("add", made, c.node(3))
    return [made, centre, inverse]


def _group_norm(c: Call) -> list[int]:
    b, x = c.b, c.node(0)
    weight, bias, groups, eps = c.args[1], c.args[2], int(c.args[6]), float(c.args[7])
    shape = b.shape(x)
    inner = numel(shape[1:]) // groups
    made, centre, inverse = composed.normalized(b, b.reshape(x, [shape[0] * groups, inner]), [1], eps)
    made = b.reshape(made, shape)
    channel = [1, shape[1], *[1] * (len(shape) - 2)]
    if weight is not None:
        made = b.pointwise("mul", made, b.reshape(c.value(weight), channel))
    if bias is not None:
        made = b.pointwise("add", made, b.reshape(c.value(bias), channel))
    return [made, b.reshape(centre, [shape[0], groups]), b.reshape(inverse, [shape[0], groups])]


def _batch_norm(c: Call) -> list[int]:
    """Statistics of the batch."""
    return _batch_normalized(c, float(c.args[-1]))


def _batch_normalized(c: Call, eps: float) -> list[int]:
    b, x = c.b, c.node(0)
    shape = b.shape(x)
    axes = [axis for axis in range(len(shape)) if axis != 1]
    made, centre, inverse = composed.normalized(b, x, axes, eps)
    made = _affine(c, made, c.args[1], c.args[2])
    return [made, b.reshape(centre, [shape[1]]), b.reshape(inverse, [shape[1]])]


def _batch_norm_inference(c: Call) -> list[int]:
    """Statistics that are given: x, weight, bias, mean, variance, ..., eps."""
    b, x = c.b, c.node(0)
    channel = [1, b.shape(x)[1], *[1] * (len(b.shape(x)) - 2)]
    centred = b.pointwise("sub", x, b.reshape(c.node(3), channel))
    spread = b.pointwise("sqrt", b.pointwise("add", b.reshape(c.node(4), channel), b.scalar(float(c.args[-1]))))
    empty = b.expand(b.scalar(0.0), (0,))
    return [_affine(c, b.pointwise("div", centred, spread), c.args[1], c.args[2]), empty, empty]


def _affine(c: Call, made: int, weight: Any, bias: Any) -> int:
    channel = [1, c.b.shape(made)[1], *[1] * (len(c.b.shape(made)) - 2)]
    if weight is not None:
        made = c.b.pointwise("mul", made, c.b.reshape(c.value(weight), channel))
    return made if bias is None else c.b.pointwise("add", made, c.b.reshape(c.value(bias), channel))


RULES: dict[str, Rule] = {
    "sum": _reduce("sum"),
    "amax": _reduce("amax"),
    "amin": _reduce("amin"),
    "mean": _mean,
    "var": _variance,
    "prod": _reduce("prod"),
    "argmax": _arg_reduce("argmax"),
    "argmin": _arg_reduce("argmin"),
    "max": _extreme("amax", "argmax"),
    "min": _extreme("amin", "argmin"),
    "any": _truth("amax"),
    "all": _truth("amin"),
    "linalg_vector_norm": _vector_norm,
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "_native_batch_norm_legit": _batch_norm,
    "_native_batch_norm_legit_functional": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm_inference,
}
