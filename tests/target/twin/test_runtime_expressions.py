"""Whole tensors joined by operators, and slices of tensors of several axes, against NumPy."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from .programs import Array, Bench, Program, Step, check_step, step_program, variants

RNG = np.random.default_rng(11)
COUNT = 128
CPP = {"float32": "float", "float16": "half", "int16": "int16_t", "int32": "int32_t", "uint16": "uint16_t"}
OPERATORS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "+": (np.add, ("float32", "float16", "int16", "int32")),
    "-": (np.subtract, ("float32", "float16", "int16", "int32")),
    "*": (np.multiply, ("float32", "float16", "int16", "int32")),
    "/": (np.divide, ("float32", "float16")),
    "&": (np.bitwise_and, ("int16", "uint16")),
    "|": (np.bitwise_or, ("int16", "uint16")),
}
COMPARISONS: dict[str, Callable[..., Any]] = {
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def numbers(dtype: str) -> Array:
    return RNG.integers(1, 9, COUNT).astype(dtype)


def steps() -> Iterator[Step]:
    for sign, (function, dtypes) in OPERATORS.items():
        for dtype in dtypes:
            a, b, cpp = numbers(dtype), numbers(dtype), CPP[dtype]
            code = f"LocalTensor<{cpp}> r = D<{cpp}>(); r.SetSize({COUNT}); r = A<{cpp}>() {sign} B<{cpp}>();"
            yield Step(f"{sign} {dtype}", code, a, function(a, b).astype(dtype), b)
    for sign, function in COMPARISONS.items():
        a, b = numbers("float32"), numbers("float32")
        code = f"LocalTensor<float> x = A<float>(); x.SetSize({COUNT}); LocalTensor<uint8_t> bits = d; bits = x {sign} B<float>();"
        yield Step(f"{sign} bits", code, a, np.packbits(function(a, b), bitorder="little"), b)
    a = numbers("float32")
    yield Step(
        "bits in wider integers",
        f"Compare(D<uint16_t>(), A<float>(), B<float>(), CMPMODE::GE, {COUNT});",
        a,
        np.packbits(a >= a[::-1], bitorder="little").view(np.uint16),
        np.ascontiguousarray(a[::-1]),
    )


STEPS = list(steps())


@pytest.fixture(scope="module")
def program(bench: Bench) -> Program:
    return step_program(bench, STEPS)


@pytest.mark.parametrize("index", range(len(STEPS)), ids=map(str, STEPS))
def test_an_operator_gives_what_numpy_gives(program: Program, index: int) -> None:
    check_step(program, index, STEPS[index])


def test_a_sum_of_types_the_chip_cannot_add_does_not_compile(bench: Bench) -> None:
    said = bench.compile_error("__aicore__ void f(LocalTensor<bfloat16_t> x, LocalTensor<bfloat16_t> y) { y = x + x; }")
    assert "Add takes half, float, int16_t or int32_t on this chip" in said


SLICES = [
    """__global__ __vector__ void add(GM_ADDR x, GM_ADDR, GM_ADDR out) {
    GlobalTensor<float> in, z; in.SetGlobalBuffer((__gm__ float*)x); z.SetGlobalBuffer((__gm__ float*)out);
    TPipe pipe; TBuf<TPosition::VECCALC> buf; pipe.InitBuffer(buf, 2048); LocalTensor<float> t = buf.Get<float>();
    SliceInfo from[] = {{5, 36, 8, 1, 41}, {1, 3, 1, 1, 4}, {0, 1, 0, 1, 2}}, to[] = {{0, 15, 0, 1, 16}, {0, 1, 0, 1, 2}, {0, 1, 0, 1, 2}};
    DataCopy(t, in, to, from, 3); PipeBarrier<PIPE_ALL>();
    DataCopy(z, t, to, to, 3); }""",
    """__global__ __vector__ void add(GM_ADDR x, GM_ADDR, GM_ADDR out) {
    GlobalTensor<float> in, z; in.SetGlobalBuffer((__gm__ float*)x); z.SetGlobalBuffer((__gm__ float*)out);
    TPipe pipe; TBuf<TPosition::VECCALC> buf; pipe.InitBuffer(buf, 2048); LocalTensor<float> t = buf.Get<float>();
    DataCopy(t, in, 64); PipeBarrier<PIPE_ALL>();
    SliceInfo from[] = {{0, 31, 0, 4, 32}, {0, 1, 0, 1, 2}}, to[] = {{3, 34, 0, 4, 41}, {1, 3, 1, 1, 4}};
    DataCopy(z, t, to, from, 2); }""",
]


@pytest.fixture(scope="module")
def slices(bench: Bench) -> Program:
    return variants(bench, SLICES)


def test_pieces_of_a_tensor_of_three_axes_are_copied(slices: Program) -> None:
    x = np.arange(2 * 4 * 41, dtype=np.float32).reshape(2, 4, 41)
    shown = slices.run([x, x], [2 * 2 * 16 * 4], attrs={"which": 0, "blocks": 1})
    assert shown.result["findings"] == []
    want = np.concatenate([x[:, 1::2, 5:13], x[:, 1::2, 21:29]], axis=-1)
    np.testing.assert_array_equal(np.frombuffer(shown.outputs[0], np.float32).reshape(2, 2, 16), want)


def test_rows_are_written_into_a_slice(slices: Program) -> None:
    x = np.arange(64, dtype=np.float32)
    shown = slices.run([x, x], [4 * 41 * 4], attrs={"which": 1, "blocks": 1})
    got = np.frombuffer(shown.outputs[0], np.float32).reshape(4, 41)
    np.testing.assert_array_equal(got[1::2, 3:35], x.reshape(2, 32))
    assert np.all(got.view(np.uint8).reshape(4, -1)[[0, 2]] == 0x7A)
