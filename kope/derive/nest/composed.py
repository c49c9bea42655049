"""Functions that no instruction computes, spelled out with those that one does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kope.derive.nest.tensors import TensorBuilder
from kope.errors import DeriveError

_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
)  # fmt: skip
"""Chebyshev fit of log(erfc(z)) in 1 / (1 + z / 2), relative error below 1.2e-7 (Numerical Recipes, erfcc)."""
_ERF = (1.1283791670955126, -0.37612638903183754, 0.11283791670955126, -0.026866170645131252, 0.005223977625442188)
"""Taylor series of erf around 0 in odd powers."""

_EUCLID_STEPS = 34
"""Fibonacci numbers are the worst case: the 35th is the largest below 2^24 whose pair takes so many."""
_TANH = (-0.333332819422, 0.133314422036, -0.0537397155531, 0.0206390887954, -0.00570498872745)


def polynomial(b: TensorBuilder, x: int, coefficients: Sequence[float]) -> int:
    """c0 + c1 x + c2 x^2 + ... by Horner's rule."""
    made = b.scalar(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        made = b.pointwise("add", b.pointwise("mul", made, x), b.scalar(coefficient))
    return made


def erfc(b: TensorBuilder, x: int) -> int:
    """The complementary error function, accurate also where it vanishes."""
    size = b.pointwise("abs", x)
    t = b.pointwise("div", b.scalar(1.0), b.pointwise("add", b.scalar(1.0), b.pointwise("mul", size, b.scalar(0.5))))
    square = b.pointwise("neg", b.pointwise("square", size))
    right = b.pointwise("mul", t, b.pointwise("exp", b.pointwise("add", square, polynomial(b, t, _ERFC))))
    left = b.pointwise("sub", b.scalar(2.0), right)
    return b.pointwise("select", b.pointwise("lt", x, b.scalar(0.0)), left, right)


def erf(b: TensorBuilder, x: int) -> int:
    """The error function: a series near 0, where the complement would cancel."""
    series = b.pointwise("mul", x, polynomial(b, b.pointwise("square", x), _ERF))
    far = b.pointwise("sub", b.scalar(1.0), erfc(b, x))
    near = b.pointwise("lt", b.pointwise("abs", x), b.scalar(0.5))
    return b.pointwise("select", near, series, far)


def gelu(b: TensorBuilder, x: int, approximate: str) -> int:
    """x Phi(x), exactly or by tanh."""
    half = b.pointwise("mul", x, b.scalar(0.5))
    if approximate != "tanh":
        return b.pointwise("mul", half, erfc(b, b.pointwise("mul", x, b.scalar(-math.sqrt(0.5)))))
    cube = b.pointwise("mul", b.pointwise("square", x), x)
    inner = b.pointwise("add", x, b.pointwise("mul", cube, b.scalar(0.044715)))
    twice = b.pointwise("mul", inner, b.scalar(2.0 * math.sqrt(2.0 / math.pi)))
    return b.pointwise("mul", x, b.pointwise("sigmoid", twice))


def tanh(b: TensorBuilder, x: int) -> int:
    """The hyperbolic tangent: near 0, where the quotient of exponentials cancels, by a polynomial (Cephes, tanh)."""
    near = b.pointwise("lt", b.pointwise("abs", x), b.scalar(0.625))
    square = b.pointwise("square", x)
    series = b.pointwise("add", x, b.pointwise("mul", b.pointwise("mul", x, square), polynomial(b, square, _TANH)))
    return b.pointwise("select", near, series, b.pointwise("tanh", x))


def expm1(b: TensorBuilder, x: int) -> int:
    """exp(x) - 1 = tanh(x / 2) (exp(x) + 1) near 0."""
    grown = b.pointwise("exp", x)
    near = b.pointwise("lt", b.pointwise("abs", x), b.scalar(1.0))
    half = tanh(b, b.pointwise("mul", x, b.scalar(0.5)))
    small = b.pointwise("mul", half, b.pointwise("add", grown, b.scalar(1.0)))
    return b.pointwise("select", near, small, b.pointwise("sub", grown, b.scalar(1.0)))


def log1p(b: TensorBuilder, x: int) -> int:
    """log(1 + x), corrected for what is lost when 1 + x is rounded."""
    u = b.pointwise("add", x, b.scalar(1.0))
    lost = b.pointwise("sub", u, b.scalar(1.0))
    exact = b.pointwise("mul", b.pointwise("log", u), b.pointwise("div", x, lost))
    near = b.pointwise("lt", b.pointwise("abs", x), b.scalar(0.5))
    small = b.pointwise("select", b.pointwise("eq", lost, b.scalar(0.0)), x, exact)
    return b.pointwise("select", near, small, b.pointwise("log", u))


def softmax(b: TensorBuilder, x: int, axis: int) -> int:
    """exp(x - max) over its sum."""
    grown = b.pointwise("exp", b.pointwise("sub", x, b.reduce("amax", x, [axis], keepdims=True)))
    return b.pointwise("div", grown, b.reduce("sum", grown, [axis], keepdims=True))


def log_softmax(b: TensorBuilder, x: int, axis: int) -> int:
    """x - max - log(sum(exp(x - max)))."""
    moved = b.pointwise("sub", x, b.reduce("amax", x, [axis], keepdims=True))
    total = b.reduce("sum", b.pointwise("exp", moved), [axis], keepdims=True)
    return b.pointwise("sub", moved, b.pointwise("log", total))


def mean(b: TensorBuilder, x: int, axes: Sequence[int], keepdims: bool) -> int:
    """Sum over count."""
    shape = b.shape(x)
    count = math.prod(shape[axis] for axis in {axis % len(shape) for axis in axes}) if shape else 1
    total = b.reduce("sum", x, axes, keepdims)
    return b.pointwise("div", total, b.scalar(float(count)), kind="float")


def variance(b: TensorBuilder, x: int, axes: Sequence[int], correction: float, keepdims: bool) -> int:
    """Mean square of the distance from the mean, in two passes."""
    shape = b.shape(x)
    count = math.prod(shape[axis] for axis in {axis % len(shape) for axis in axes})
    centred = b.pointwise("sub", x, mean(b, x, axes, True))
    total = b.reduce("sum", b.pointwise("square", centred), axes, keepdims)
    return b.pointwise("div", total, b.scalar(max(float(count) - correction, 0.0)))


def normalized(b: TensorBuilder, x: int, axes: Sequence[int], eps: float) -> tuple[int, int, int]:
    """(x - mean) / sqrt(var + eps), the mean and the inverse deviation, both with their axes kept."""
    centre = mean(b, x, axes, True)
    spread = b.pointwise("sqrt", b.pointwise("add", variance(b, x, axes, 0.0, True), b.scalar(eps)))
    made = b.pointwise("div", b.pointwise("sub", x, centre), spread)
    return made, centre, b.pointwise("div", b.scalar(1.0), spread)


def power(b: TensorBuilder, x: int, exponent: float) -> int:
    """A power with a number as exponent: products and roots for small ones."""
    if exponent == 0.0:
        return b.expand(b.scalar(1.0), b.shape(x))
    if exponent < 0.0:
        return b.pointwise("div", b.scalar(1.0), power(b, x, -exponent))
    if exponent == 0.5:
        return b.pointwise("sqrt", x)
    if exponent.is_integer() and exponent <= 16:
        return _whole_power(b, x, int(exponent))
    grown = b.pointwise("exp", b.pointwise("mul", b.pointwise("log", b.pointwise("abs", x)), b.scalar(exponent)))
    if exponent.is_integer():
        odd = b.pointwise("mul", grown, b.pointwise("sign", x))
        return odd if int(exponent) % 2 else grown
    return b.pointwise("select", b.pointwise("lt", x, b.scalar(0.0)), b.scalar(math.nan), grown)


def _whole_power(b: TensorBuilder, x: int, exponent: int) -> int:
    if exponent == 1:
        return x
    half = _whole_power(b, x, exponent // 2)
    square = b.pointwise("mul", half, half)
    return b.pointwise("mul", square, x) if exponent % 2 else square


def floor_divide(b: TensorBuilder, x: int, y: int) -> int:
    """floor(x / y); exact for whole numbers up to 2^24."""
    kind = "int" if "float" not in (b.kind(x), b.kind(y)) else "float"
    return b.pointwise("cast", b.pointwise("floor", b.pointwise("div", x, y)), kind=kind)


def remainder(b: TensorBuilder, x: int, y: int) -> int:
    """x - floor(x / y) y: it has the sign of y."""
    return b.pointwise("sub", x, b.pointwise("mul", floor_divide(b, x, y), y))


def fmod(b: TensorBuilder, x: int, y: int) -> int:
    """x - trunc(x / y) y: it has the sign of x."""
    return b.pointwise("sub", x, b.pointwise("mul", b.pointwise("trunc", b.pointwise("div", x, y)), y))


def gcd(b: TensorBuilder, x: int, y: int) -> int:
    """The greatest common divisor by Euclid's steps, as many as numbers of 24 bits can need."""
    x, y = b.pointwise("abs", x), b.pointwise("abs", y)
    for _ in range(_EUCLID_STEPS):
        done = b.pointwise("eq", y, b.scalar(0.0, "int"))
        divisor = b.pointwise("select", done, b.scalar(1.0, "int"), y)
        rest = remainder(b, x, divisor)
        x, y = b.pointwise("select", done, x, y), b.pointwise("select", done, y, rest)
    return x


def clamp(b: TensorBuilder, x: int, low: int | None, high: int | None) -> int:
    """Between two bounds; NaN stays NaN."""
    if low is not None:
        x = b.pointwise("max", x, low)
    return x if high is None else b.pointwise("min", x, high)


def flip(b: TensorBuilder, x: int, axes: Sequence[int]) -> int:
    """The other way round along some axes."""
    for axis in axes:
        shape = b.shape(x)
        axis %= len(shape)
        count = b.count(shape[axis], shape[axis] - 1, -1)
        front = [axis, *(other for other in range(len(shape)) if other != axis)]
        taken = b.add("take", (x, count), tuple(shape[a] for a in front), b.kind(x), (axis,))
        x = b.permute(taken, [front.index(other) for other in range(len(shape))])
    return x


def convolution(
    b: TensorBuilder, x: int, weight: int, bias: int | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> int:  # fmt: skip
    """x[n, c, ...] with weight[o, c / groups, ...]: windows of the padded input, contracted with the weight."""
    rank = len(b.shape(x)) - 2
    x = pad(b, x, [0, 0, *padding], [0, 0, *padding], 0.0)
    for axis in range(rank):
        x = windows(b, x, 2 + 2 * axis, b.shape(weight)[2 + axis], stride[axis], dilation[axis])
    batch, channels, *inner = b.shape(x)
    made, depth, *kernel = b.shape(weight)
    x = b.reshape(x, [batch, groups, channels // groups, *inner])
    weight = b.reshape(weight, [groups, made // groups, depth, *kernel])
    outer, taps = "xyz"[:rank], "pqr"[:rank]
    pairs = "".join(o + t for o, t in zip(outer, taps, strict=True))
    result = b.contract(x, weight, (f"ngc{pairs}", f"gmc{taps}", f"ngm{outer}"))
    result = b.reshape(result, [batch, made, *b.shape(result)[3:]])
    if bias is None:
        return result
    return b.pointwise("add", result, b.reshape(bias, [1, made, *[1] * rank]))


def transposed_convolution(
    b: TensorBuilder, x: int, weight: int, bias: int | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], output_padding: Sequence[int], groups: int,
) -> int:  # fmt: skip
    """weight[c, o / groups, ...]: zeros between the elements of x, then a convolution with the weight turned over."""
    rank = len(b.shape(x)) - 2
    for axis in range(2, 2 + rank):
        shape = list(b.shape(x))
        step = stride[axis - 2]
        if step > 1:
            shape[axis] = (shape[axis] - 1) * step + 1
            zeros = b.expand(b.scalar(0.0), shape)
            x = b.add("update", (zeros, x), tuple(shape), b.kind(x), axis, 0, step)
    kernel = b.shape(weight)[2:]
    reach = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    if min(reach) < 0:
        raise DeriveError("a transposed convolution with more padding than its kernel reaches is not supported")
    after = [r + o for r, o in zip(reach, output_padding, strict=True)]
    x = pad(b, x, [0, 0, *reach], [0, 0, *after], 0.0)
    channels, made = b.shape(weight)[0], b.shape(weight)[1]
    weight = flip(b, weight, range(2, 2 + rank))
    weight = b.reshape(weight, [groups, channels // groups, made, *kernel])
    weight = b.permute(weight, [0, 2, 1, *range(3, 3 + rank)])
    weight = b.reshape(weight, [groups * made, channels // groups, *kernel])
    return convolution(b, x, weight, bias, [1] * rank, [0] * rank, dilation, groups)


def weight_gradient(
    b: TensorBuilder, grad: int, x: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> int:  # fmt: skip
    """The gradient of a convolution by its weight: the output's gradient against windows of the input."""
    rank = len(b.shape(x)) - 2
    x = pad(b, x, [0, 0, *padding], [0, 0, *padding], 0.0)
    spatial = b.shape(grad)[2:]
    for axis in range(rank):
        at = 2 + 2 * axis
        x = windows(b, x, at, kernel[axis], stride[axis], dilation[axis])
        x = b.slice(x, at, 0, spatial[axis])
    batch, channels, *inner = b.shape(x)
    made = b.shape(grad)[1]
    x = b.reshape(x, [batch, groups, channels // groups, *inner])
    grad = b.reshape(grad, [batch, groups, made // groups, *spatial])
    outer, taps = "xyz"[:rank], "pqr"[:rank]
    pairs = "".join(o + t for o, t in zip(outer, taps, strict=True))
    result = b.contract(grad, x, (f"ngm{outer}", f"ngc{pairs}", f"gmc{taps}"))
    return b.reshape(result, [made, channels // groups, *kernel])


def pad(b: TensorBuilder, x: int, before: Sequence[int], after: Sequence[int], value: float) -> int:
    """Constants around a tensor; negative widths cut."""
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        extent = b.shape(x)[axis]
        x = b.slice(x, axis, max(-low, 0), extent - max(-high, 0))
    front, back = tuple(max(width, 0) for width in before), tuple(max(width, 0) for width in after)
    if not any(front) and not any(back):
        return x
    shape = tuple(e + a + z for e, a, z in zip(b.shape(x), front, back, strict=True))
    return b.add("pad", (x,), shape, b.kind(x), front, back, float(value))


def windows(b: TensorBuilder, x: int, axis: int, size: int, stride: int, dilation: int = 1) -> int:
    """One axis as two: the window and the place inside it."""
    shape = b.shape(x)
    count = (shape[axis] - dilation * (size - 1) - 1) // stride + 1
    made = (*shape[:axis], count, size, *shape[axis + 1 :])
    return b.add("windows", (x,), made, b.kind(x), axis, stride, dilation)
