"""Elementwise vector instructions against NumPy: every dtype, odd counts, special values, masks, strides."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from .programs import Array, Bench, Program, Step, check_step, step_program

RNG = np.random.default_rng(7)
COUNT = 1003
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 65504.0, 1e-7, -6e-8]
CPP = {
    "float32": "float",
    "float16": "half",
    "int16": "int16_t",
    "int32": "int32_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
}
FLOATS = ("float32", "float16")
ARITH = ("float32", "float16", "int16", "int32")


def numbers(dtype: str, low: float = -8.0, high: float = 8.0, count: int = COUNT, special: bool = True) -> Array:
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    values = RNG.uniform(low, high, count).astype(dtype)
    if special:
        values[5 : 5 + len(SPECIAL)] = SPECIAL
    return values


def in_double(function: Callable[..., Any], *arrays: Any) -> Any:
    """Compute in float64 and round once, as an exactly rounded unit would."""
    dtype = arrays[0].dtype
    with np.errstate(all="ignore"):
        if dtype.kind != "f":
            return function(*arrays)
        return function(*(np.asarray(array, np.float64) for array in arrays)).astype(dtype)


def unary() -> Iterator[Step]:
    functions: dict[str, tuple[Callable[..., Any], float, float, float]] = {
        "Abs": (np.abs, -8, 8, 0),
        "Exp": (np.exp, -100, 95, 2),
        "Ln": (np.log, 1e-6, 50, 2),
        "Sqrt": (np.sqrt, 0, 1e4, 0),
        "Rsqrt": (lambda x: 1 / np.sqrt(x), 1e-3, 1e4, 2),
        "Reciprocal": (lambda x: 1 / x, 0.01, 100, 0),
        "Relu": (lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)), -8, 8, 0),
    }
    for name, (function, low, high, ulp) in functions.items():
        for dtype in FLOATS:
            a = numbers(
                dtype, max(low, -9) if dtype == "float16" else low, min(high, 11) if dtype == "float16" else high
            )
            tolerance = min(ulp, 1) if dtype == "float16" else ulp
            yield Step(
                f"{name}-{dtype}",
                f"{name}(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), {COUNT});",
                a,
                in_double(function, a),
                ulp=tolerance,
            )
    a = numbers("int32")
    yield Step("Relu-int32", f"Relu(D<int32_t>(), A<int32_t>(), {COUNT});", a, np.maximum(a, 0))
    for dtype in ("int16", "uint16"):
        a = numbers(dtype)
        yield Step(f"Not-{dtype}", f"Not(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), {COUNT});", a, ~a)


def nan_first(pick: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: (
        np.where(np.isnan(x), x, np.where(np.isnan(y), y, pick(x, y))) if x.dtype.kind == "f" else pick(x, y)
    )


def binary() -> Iterator[Step]:
    functions: dict[str, Callable[..., Any]] = {
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "Max": nan_first(np.maximum),
        "Min": nan_first(np.minimum),
    }
    with np.errstate(all="ignore"):
        for name, function in functions.items():
            for dtype in ARITH:
                a, b = numbers(dtype), numbers(dtype, special=False)
                code = f"{name}(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), B<{CPP[dtype]}>(), {COUNT});"
                yield Step(f"{name}-{dtype}", code, a, in_double(function, a, b), b)
        for dtype in FLOATS:
            a, b = numbers(dtype), numbers(dtype, 0.5, 9, special=False)
            yield Step(
                f"Div-{dtype}",
                f"Div(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), B<{CPP[dtype]}>(), {COUNT});",
                a,
                in_double(np.divide, a, b),
                b,
            )
        for name, function in (("AddRelu", np.add), ("SubRelu", np.subtract)):
            for dtype in (*FLOATS, "int16"):
                a, b = numbers(dtype, special=False), numbers(dtype, special=False)
                want = np.maximum(in_double(function, a, b), 0).astype(dtype)
                yield Step(
                    f"{name}-{dtype}",
                    f"{name}(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), B<{CPP[dtype]}>(), {COUNT});",
                    a,
                    want,
                    b,
                )
        for name, function in (("And", np.bitwise_and), ("Or", np.bitwise_or)):
            a, b = numbers("uint16"), numbers("uint16")
            yield Step(
                f"{name}-uint16", f"{name}(D<uint16_t>(), A<uint16_t>(), B<uint16_t>(), {COUNT});", a, function(a, b), b
            )
        for name, function in (
            ("MulAddDst", lambda x, y, d: x * y + d),
            ("FusedMulAdd", lambda x, y, d: x * d + y),
            ("FusedMulAddRelu", lambda x, y, d: np.maximum(x * d + y, 0)),
            ("MulAddRelu", lambda x, y, d: np.maximum(x * d + y, 0)),
        ):
            for dtype in FLOATS:
                a, b, d = (numbers(dtype, -2, 2, special=False) for _ in range(3))
                code = f"{name}(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), B<{CPP[dtype]}>(), {COUNT});"
                yield Step(f"{name}-{dtype}", code, a, in_double(function, a, b, d), b, d)
    a, b = (numbers("float16", -2, 2, special=False) for _ in range(2))
    d = numbers("float32", -2, 2, special=False)
    want = (a.astype(np.float64) * b + d).astype(np.float32)
    yield Step("MulAddDst-half-to-float", f"MulAddDst(D<float>(), A<half>(), B<half>(), {COUNT});", a, want, b, d)


def scalar() -> Iterator[Step]:
    functions: dict[str, Callable[..., Any]] = {
        "Adds": np.add,
        "Muls": np.multiply,
        "Maxs": nan_first(np.maximum),
        "Mins": nan_first(np.minimum),
    }
    with np.errstate(all="ignore"):
        for name, function in functions.items():
            for dtype in ARITH:
                a = numbers(dtype)
                value = np.array(-3 if dtype.startswith("int") else -1.625, dtype)
                code = f"{name}(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), ({CPP[dtype]}){value}, {COUNT});"
                yield Step(f"{name}-{dtype}", code, a, in_double(function, a, np.full_like(a, value)))
        for dtype in FLOATS:
            a = numbers(dtype, special=False)
            code = f"LeakyRelu(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), ({CPP[dtype]})0.25, {COUNT});"
            yield Step(f"LeakyRelu-{dtype}", code, a, in_double(lambda x: np.where(x >= 0, x, x * 0.25), a))
            d = numbers(dtype, special=False)
            code = f"Axpy(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), ({CPP[dtype]})1.5, {COUNT});"
            yield Step(f"Axpy-{dtype}", code, a, in_double(lambda x, y: 1.5 * x + y, a, d), d0=d)
    a, d = numbers("float16", special=False), numbers("float32", special=False)
    want = (a.astype(np.float64) * 1.5 + d).astype(np.float32)
    yield Step("Axpy-half-to-float", f"Axpy(D<float>(), A<half>(), (half)1.5, {COUNT});", a, want, d0=d)
    for dtype in ("int16", "uint16", "int32", "uint32"):
        a = numbers(dtype)
        yield Step(
            f"ShiftLeft-{dtype}",
            f"ShiftLeft(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), ({CPP[dtype]})3, {COUNT});",
            a,
            a << 3,
        )
        yield Step(
            f"ShiftRight-{dtype}",
            f"ShiftRight(D<{CPP[dtype]}>(), A<{CPP[dtype]}>(), ({CPP[dtype]})3, {COUNT});",
            a,
            a >> 3,
        )
    a = numbers("int16", count=128)
    code = "ShiftRight(D<int16_t>(), A<int16_t>(), (int16_t)5, (uint64_t)128, 1, UnaryRepeatParams(1, 1, 8, 8), true);"
    yield Step("ShiftRight-rounding", code, a, (a >> 5) + (a >> 4 & 1))


def forms() -> Iterator[Step]:
    a, b = numbers("float32", count=512, special=False), numbers("float32", count=512, special=False)
    old = numbers("float32", count=512, special=False)
    whole = np.arange(512) % 64

    def only(lanes: Array, value: Array) -> Array:
        return np.where(lanes, value, old).astype(np.float32)

    plain = "BinaryRepeatParams(1, 1, 1, 8, 8, 8)"
    yield Step(
        "prefix-mask",
        f"Add(D<float>(), A<float>(), B<float>(), (uint64_t)40, 8, {plain});",
        a,
        only(whole < 40, a + b),
        b,
        old,
    )
    yield Step("full-mask", f"Add(D<float>(), A<float>(), B<float>(), (uint64_t)64, 8, {plain});", a, a + b, b, old)
    yield Step(
        "mask-past-the-end-is-full",
        f"Add(D<float>(), A<float>(), B<float>(), (uint64_t)999, 8, {plain});",
        a,
        a + b,
        b,
        old,
    )
    yield Step("no-mask-no-work", f"Add(D<float>(), A<float>(), B<float>(), (uint64_t)0, 8, {plain});", a, old, b, old)
    yield Step(
        "no-repeat-no-work", f"Add(D<float>(), A<float>(), B<float>(), (uint64_t)64, 0, {plain});", a, old, b, old
    )
    yield Step("no-count-no-work", "Add(D<float>(), A<float>(), B<float>(), 0);", a, old, b, old)
    bits = int("0x69A569A569A569A5", 16)
    chosen = np.array([bits >> lane & 1 for lane in whole], bool)
    code = f"uint64_t mask[1] = {{{bits}ULL}}; Add(D<float>(), A<float>(), B<float>(), mask, 8, {plain});"
    yield Step("bit-mask", code, a, only(chosen, a + b), b, old)
    code = f"SetVectorMask<float>(0, {bits}ULL); Add<float, false>(D<float>(), A<float>(), B<float>(), MASK_PLACEHOLDER, 8, {plain}); ResetMask();"
    yield Step("mask-register", code, a, only(chosen, a + b), b, old)
    code = f"SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(130); Add<float, false>(D<float>(), A<float>(), B<float>(), MASK_PLACEHOLDER, 1, {plain}); SetMaskNorm(); ResetMask();"
    yield Step("counter-register", code, a, only(np.arange(512) < 130, a + b), b, old)
    code = "SetMaskCount(); uint64_t mask[2] = {130, 0}; Adds(D<float>(), A<float>(), 1.0f, mask, 1, UnaryRepeatParams(1, 1, 8, 8)); SetMaskNorm();"
    yield Step("counter-argument", code, a, only(np.arange(512) < 130, a + np.float32(1)), None, old)
    # every second block of the destination, sources without gaps
    want = old.copy().reshape(-1, 8)
    want[::2] = (a + b).reshape(-1, 8)[:32]
    yield Step(
        "destination-blocks-apart",
        "Add(D<float>(), A<float>(), B<float>(), (uint64_t)64, 4, BinaryRepeatParams(2, 1, 1, 16, 8, 8));",
        a,
        want.reshape(-1),
        b,
        old,
    )
    # the second source is the same block for all repeats, and one block for all blocks
    row = np.tile(b[:64], 8)
    yield Step(
        "source-repeat-stride-0",
        "Mul(D<float>(), A<float>(), B<float>(), (uint64_t)64, 8, BinaryRepeatParams(1, 1, 1, 8, 8, 0));",
        a,
        a * row,
        b,
        old,
    )
    block = np.tile(b[:8], 64)
    yield Step(
        "source-block-stride-0",
        "Mul(D<float>(), A<float>(), B<float>(), (uint64_t)64, 8, BinaryRepeatParams(1, 1, 0, 8, 8, 0));",
        a,
        a * block,
        b,
        old,
    )
    per_row = np.repeat(b[:64].reshape(8, 8), 8, axis=0).reshape(
        -1
    )  # one block per repeat, spread over its eight blocks
    yield Step(
        "row-broadcast",
        "Mul(D<float>(), A<float>(), B<float>(), (uint64_t)64, 8, BinaryRepeatParams(1, 1, 0, 8, 8, 1));",
        a,
        a * per_row,
        b,
        old,
    )
    half, other = numbers("float16", count=512, special=False), numbers("float16", count=512, special=False)
    high = np.arange(512) % 128 >= 64
    code = "uint64_t mask[2] = {0, UINT64_MAX}; Sub(D<half>(), A<half>(), B<half>(), mask, 4, BinaryRepeatParams(1, 1, 1, 8, 8, 8));"
    yield Step("half-upper-mask-word", code, half, np.where(high, half - other, other), other, other)
    total = a[:64].copy()
    for repeat in range(1, 8):
        total = total + a[repeat * 64 : repeat * 64 + 64]
    code = "Add(D<float>(), A<float>()[64], D<float>(), (uint64_t)64, 7, BinaryRepeatParams(1, 1, 1, 0, 8, 0));"
    yield Step("repeats-accumulate-in-order", code, a, total, None, a[:64])
    code = "Adds(A<float>(), A<float>(), 2.0f, 512); Muls(D<float>(), A<float>(), 0.5f, 512);"
    yield Step("in-place", code, a, (a + np.float32(2)) * np.float32(0.5))


STEPS = [*unary(), *binary(), *scalar(), *forms()]


@pytest.fixture(scope="module")
def program(bench: Bench) -> Program:
    return step_program(bench, STEPS)


@pytest.mark.parametrize("index", range(len(STEPS)), ids=[str(step) for step in STEPS])
def test_instruction_gives_what_numpy_gives(program: Program, index: int) -> None:
    check_step(program, index, STEPS[index])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("Exp(d, d, 8)", "Exp takes half or float on this chip"),
        ("Add(d, d, d, 8)", "Add takes half, float, int16_t or int32_t on this chip"),
        ("And(d, d, d, 8)", "ReinterpretCast wider integers to uint16_t"),
        ("SetFlag<HardEvent::M_V>(0)", "a vector core has no such pair of pipes"),
        ("PipeBarrier<PIPE_M>()", "PipeBarrier on a vector core takes"),
        ("SyncAll<false>()", "use SyncAll<true>"),
        ("TQue<TPosition::A1, 1> q", "queues in the unified buffer only"),
        ("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2)", "the twin runs vector kernels"),
    ],
)
def test_what_the_chip_lacks_does_not_compile(bench: Bench, call: str, says: str) -> None:
    dtype = "uint32_t" if call.startswith("And") else "uint8_t"
    assert says in bench.compile_error(f"__aicore__ void f(const LocalTensor<{dtype}>& d) {{ (void)d; {call}; }}\n")
