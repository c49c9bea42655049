"""Rules of ATen products: matrices, convolutions, pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kope.derive.nest import composed, sampling
from kope.derive.nest.call import Call, Rule, T
from kope.derive.nest.tensors import TensorBuilder, numel
from kope.errors import DeriveError


def _product(*labels: str) -> Rule:
    left, right, out = labels
    return lambda c: c.b.contract(c.node(0), c.node(1), (left, right, out))


def _added_product(*labels: str) -> Rule:
    left, right, out = labels

    def rule(c: Call) -> int:
        b = c.b
        made = b.contract(c.node(1), c.node(2), (left, right, out))
        alpha, beta = c.named.get("alpha", 1), c.named.get("beta", 1)
        if alpha != 1:
            made = b.pointwise("mul", made, c.value(alpha))
        added = c.node(0) if beta == 1 else b.pointwise("mul", c.node(0), c.value(beta))
        return made if beta == 0 else b.pointwise("add", made, added)

    return rule


def _filled(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * (rank if len(values) == 1 else 1)


def _convolution(c: Call) -> int:
    rank = len(c.shape(0)) - 2
    stride, padding, dilation = (_filled(c.args[at], rank) for at in (3, 4, 5))
    bias = None if c.args[2] is None else c.node(2)
    if c.args[6]:
        return composed.transposed_convolution(
            c.b, c.node(0), c.node(1), bias, stride, padding, dilation, _filled(c.args[7], rank), int(c.args[8])
        )
    return composed.convolution(c.b, c.node(0), c.node(1), bias, stride, padding, dilation, int(c.args[8]))


def _convolution_backward(c: Call) -> list[int]:
    """grad, input, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, wanted."""
    wanted = c.args[10]
    if wanted[0] or c.args[7]:
        raise DeriveError("the gradient of a convolution by its input is not supported yet")
    rank = len(c.shape(1)) - 2
    stride, padding, dilation = (_filled(c.args[at], rank) for at in (4, 5, 6))
    empty = c.b.expand(c.b.scalar(0.0), (0,))
    kernel = c.shape(2)[2:]
    weight = empty
    if wanted[1]:
        weight = composed.weight_gradient(c.b, c.node(0), c.node(1), kernel, stride, padding, dilation, int(c.args[9]))
    axes = [axis for axis in range(rank + 2) if axis != 1]
    bias = c.b.reduce("sum", c.node(0), axes) if wanted[2] else empty
    return [empty, weight, bias]


def _pool_windows(c: Call, rank: int, value: float) -> tuple[int, list[int], list[int]]:
    """The windows of a pooling call with the axes of the places inside them, and the sizes of a window."""
    b, x = c.b, c.node(0)
    size = _filled(c.args[1], rank)
    stride = _filled(c.given(2, "stride") or size, rank)
    padding = _filled(c.given(3, "padding", [0]) or [0], rank)
    lead = len(b.shape(x)) - rank
    after = [_pool_padding(c, at, size, stride, padding, lead) for at in range(rank)]
    x = composed.pad(b, x, [*[0] * lead, *padding], [*[0] * lead, *after], value)
    for at in range(rank):
        x = composed.windows(b, x, lead + 2 * at, size[at], stride[at])
    return x, [lead + 2 * at + 1 for at in range(rank)], size


def _pool_padding(
    c: Call, at: int, size: Sequence[int], stride: Sequence[int], padding: Sequence[int], lead: int
) -> int:
    """Padding behind: as much as the windows of the result reach for."""
    extent, made = c.shape(0)[lead + at], c.result.shape[lead + at]
    return (made - 1) * stride[at] + size[at] - extent - padding[at]


def _average_pool(rank: int) -> Rule:
    def rule(c: Call) -> int:
        b = c.b
        ceil, include, divisor = c.given(4, "ceil_mode", False), c.given(5, "", True), c.given(6, "divisor_override")
        if ceil:
            raise DeriveError("average pooling with ceil_mode is not supported yet")
        x, axes, size = _pool_windows(c, rank, 0.0)
        total = b.reduce("sum", x, axes)
        if include or divisor or not any(_filled(c.given(3, "padding", [0]) or [0], rank)):
            return b.pointwise("div", total, b.scalar(float(divisor or numel(size))))
        ones = b.expand(b.scalar(1.0), c.shape(0))
        counted = Call(b, (T(ones), *c.args[1:]), c.named, c.result)
        return b.pointwise("div", total, b.reduce("sum", _pool_windows(counted, rank, 0.0)[0], axes))

    return rule


def _max_pool(rank: int) -> Rule:
    def rule(c: Call) -> list[int]:
        dilation = _filled(c.given(4, "dilation", [1]) or [1], rank)
        if any(step != 1 for step in dilation):
            raise DeriveError("max pooling with dilation is not supported yet")
        x, axes, _ = _pool_windows(c, rank, -math.inf)
        return [c.b.reduce("amax", x, axes)]

    return rule


def _adaptive_average(rank: int) -> Rule:
    """Windows of unequal size, along one axis after the other."""

    def rule(c: Call) -> int:
        b, x = c.b, c.node(0)
        lead = len(b.shape(x)) - rank
        for at in range(rank):
            axis, made = lead + at, c.result.shape[lead + at]
            extent = b.shape(x)[axis]
            if extent % made == 0:
                shape = b.shape(x)
                apart = b.reshape(x, [*shape[:axis], made, extent // made, *shape[axis + 1 :]])
                x = composed.mean(b, apart, [axis + 1], False)
            else:
                x = _uneven_windows(b, x, axis, made)
        return x

    return rule


def _uneven_windows(b: TensorBuilder, x: int, axis: int, made: int) -> int:
    """Output k averages the places from floor(k n / m) up to ceil((k + 1) n / m), n / m in lowest terms: every m-th
    window has the same length and lies n places further on. Nothing is multiplied by zero, which infinities survive."""
    shape = b.shape(x)
    count = math.gcd(shape[axis], made)
    n, m = shape[axis] // count, made // count
    parts = []
    for k in range(m):
        first, end = k * n // m, -(-(k + 1) * n // m)
        reach = b.slice(x, axis, first, (count - 1) * n + end)
        apart = composed.windows(b, reach, axis, end - first, n)
        parts.append(
            b.reshape(composed.mean(b, apart, [axis + 1], False), [*shape[:axis], count, 1, *shape[axis + 1 :]])
        )
    joined = (*shape[:axis], count, m, *shape[axis + 1 :])
    return b.reshape(b.add("cat", parts, joined, b.kind(x), axis + 1), [*shape[:axis], made, *shape[axis + 1 :]])


def _upsample(axes: int) -> Rule:
    """upsample_linear1d, bilinear2d, trilinear3d: input, sizes, align_corners, scales one by one or as a list."""

    def rule(c: Call) -> int:
        x, corners = c.node(0), bool(c.args[2])
        given = list(c.args[3]) if len(c.args) > 3 and isinstance(c.args[3], list) else list(c.args[3:])
        scales: list[float | None] = [*given, *[None] * axes]
        for at in range(axes):
            scale = scales[at]
            x = sampling.resize_linear(c.b, x, 2 + at, c.result.shape[2 + at], corners, scale)
        return x

    return rule


def _grid_sampler(c: Call) -> int:
    """input, grid, interpolation mode, padding mode, align_corners."""
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    mode, padding = modes[int(c.args[2])], paddings[int(c.args[3])]
    return sampling.grid_sample(c.b, c.node(0), c.node(1), mode, padding, bool(c.args[4]))


RULES: dict[str, Rule] = {
    "upsample_linear1d": _upsample(1),
    "upsample_bilinear2d": _upsample(2),
    "upsample_trilinear3d": _upsample(3),
    "grid_sampler_2d": _grid_sampler,
    "grid_sampler_3d": _grid_sampler,
    "mm": _product("mk", "kn", "mn"),
    "bmm": _product("bmk", "bkn", "bmn"),
    "mv": _product("mk", "k", "m"),
    "dot": _product("k", "k", ""),
    "addmm": _added_product("mk", "kn", "mn"),
    "baddbmm": _added_product("bmk", "bkn", "bmn"),
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "avg_pool1d": _average_pool(1),
    "avg_pool2d": _average_pool(2),
    "avg_pool3d": _average_pool(3),
    "max_pool2d_with_indices": _max_pool(2),
    "max_pool3d_with_indices": _max_pool(3),
    "_adaptive_avg_pool2d": _adaptive_average(2),
    "_adaptive_avg_pool3d": _adaptive_average(3),
}
