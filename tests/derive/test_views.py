"""Views: a layout operator that needs no copy gives exactly the elements NumPy gives, and one that does says so."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kope.derive.nest import composed
from kope.derive.nest.meaning import run_tensors
from kope.derive.nest.tensors import TensorBuilder
from kope.derive.nest.views import View, contiguous


def read(view: View, buffer: np.ndarray) -> np.ndarray:
    """The elements of a view."""
    bytes_each = buffer.itemsize
    strides = [stride * bytes_each for stride in view.strides]
    return np.lib.stride_tricks.as_strided(buffer[view.offset :], view.shape, strides)


@st.composite
def turned(draw: st.DrawFn) -> tuple[tuple[int, ...], list[int], tuple[int, ...]]:
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    axes = draw(st.permutations(range(len(shape))))
    total, made = math.prod(shape), []
    while total > 1:
        factor = draw(st.sampled_from([d for d in range(2, total + 1) if total % d == 0]))
        made.append(factor)
        total //= factor
    return shape, list(axes), tuple(made)


@given(turned())
def test_a_reshaped_view_holds_the_same_elements_or_is_refused(
    case: tuple[tuple[int, ...], list[int], tuple[int, ...]],
) -> None:
    shape, axes, target = case
    buffer = np.arange(math.prod(shape), dtype=np.int64)
    view = View("input:0", "float32", shape, contiguous(shape)).permuted(axes)
    expected = buffer.reshape(shape).transpose(axes).reshape(target)
    made = view.reshaped(target)
    if made is not None:
        np.testing.assert_array_equal(read(made, buffer), expected)
    else:
        assert axes != list(range(len(shape))), "a contiguous tensor has every shape"


def test_windows_overlap() -> None:
    buffer = np.arange(10)
    view = View("input:0", "float32", (10,), (1,)).windowed((4, 3), 0, 2, 1)
    np.testing.assert_array_equal(read(view, buffer), [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8]])


FUNCTIONS = {
    "erf": (composed.erf, math.erf),
    "erfc": (composed.erfc, math.erfc),
    "tanh": (composed.tanh, math.tanh),
    "expm1": (composed.expm1, math.expm1),
    "log1p": (composed.log1p, math.log1p),
}


def test_spelled_out_functions_keep_their_digits_in_float32() -> None:
    points = [x for exponent in range(-20, 3) for x in (-(2.0**exponent) * 0.99, 2.0**exponent * 1.37)]
    for name, (made, wanted) in FUNCTIONS.items():
        b = TensorBuilder()
        usable = np.array([x for x in points if name != "log1p" or x > -1.0], np.float32)
        graph = b.finish([made(b, b.input(0, usable.shape, "float"))])
        (got,) = run_tensors(graph, {0: usable.astype(np.float64)})
        want = np.array([wanted(float(x)) for x in usable])
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)
