"""Cast between all pairs of types the chip converts, in all rounding modes, against exact arithmetic."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from .programs import Array, Bench, Program, Step, check_step, step_program

RNG = np.random.default_rng(11)
COUNT = 300
BF16 = np.dtype(ml_dtypes.bfloat16)
CPP = {
    "float32": "float",
    "float16": "half",
    "bfloat16": "bfloat16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
}
DTYPES = {name: BF16 if name == "bfloat16" else np.dtype(name) for name in CPP}
MODES = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")
DIGITS = {"float32": 24, "float16": 11, "bfloat16": 8}
LOWEST = {"float32": -149, "float16": -24, "bfloat16": -133}


def rounded(value: Fraction, mode: str) -> int:
    """Round to an integer."""
    whole = value.numerator // value.denominator
    rest = value - whole
    if rest == 0:
        return whole
    if mode == "FLOOR":
        return whole
    if mode == "CEIL":
        return whole + 1
    if mode == "TRUNC":
        return whole if value > 0 else whole + 1
    if mode == "ODD":
        toward_zero = whole if value > 0 else whole + 1
        return toward_zero + (1 if value > 0 else -1) if toward_zero % 2 == 0 else toward_zero
    if rest == Fraction(1, 2):
        if mode == "ROUND":
            return whole + 1 if value > 0 else whole
        return whole if whole % 2 == 0 else whole + 1
    return whole if rest < Fraction(1, 2) else whole + 1


def to_float(value: Fraction, dtype: str, mode: str) -> float:
    """Round to a binary floating type."""
    if value == 0:
        return 0.0
    exponent = max((abs(value.numerator).bit_length() - value.denominator.bit_length()) - 1, -200)
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    spacing = max(exponent - DIGITS[dtype] + 1, LOWEST[dtype])
    return float(rounded(value / Fraction(2) ** spacing, mode) * Fraction(2) ** spacing)


def convert(values: Array, target: str, mode: str) -> Array:
    """The wanted result, element by element. Integers saturate, NaN becomes 0 in them."""
    dtype = DTYPES[target]
    results = []
    for item in values.tolist() if values.dtype != BF16 else values.astype(np.float32).tolist():
        if isinstance(item, float) and not np.isfinite(item):
            if dtype.kind in "iu":
                info = np.iinfo(dtype)
                results.append(0 if np.isnan(item) else info.max if item > 0 else info.min)
            else:
                results.append(item)
        elif dtype.kind in "iu":
            info = np.iinfo(dtype)
            results.append(min(max(rounded(Fraction(item), mode), info.min), info.max))
        elif values.dtype == dtype:
            results.append(float(rounded(Fraction(item), mode)))
        else:
            results.append(to_float(Fraction(item), target, mode))
    with np.errstate(over="ignore"):
        return np.array(results, np.float64 if dtype.kind not in "iu" else dtype).astype(dtype)


def source(name: str, target: str) -> Array:
    dtype = DTYPES[name]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = RNG.integers(info.min, info.max, COUNT, dtype=dtype, endpoint=True)
        values[100:150] = RNG.integers(-100 if info.min < 0 else 0, 100, 50)
        values[150:200] = values[150:200] // 257 if info.max > 1000 else values[150:200]
        return values
    scale = {"int8": 90, "uint8": 160, "int16": 3e4, "float16": 300}.get(target, 1e4)
    values = RNG.uniform(-scale, scale, COUNT)
    values[:40] = np.arange(-20, 20) / 2  # ties
    values[40:60] = [
        0.0,
        0.49999997,
        0.50000006,
        -0.49999997,
        1e-8,
        -1e-8,
        6.1e-5,
        3e-6,
        2049,
        2051,
        -2049,
        1e9,
        -1e9,
        3e38,
        70000,
        -70000,
        65504,
        65519,
        65521,
        128.5,
    ]
    if target == "uint8":
        values = np.abs(values)  # negative input is documented as an error
    with np.errstate(over="ignore"):
        result = values.astype(dtype)
    result[60:63] = [np.inf, -np.inf, np.nan] if target != "uint8" else [np.inf, 1, np.nan]
    return result


MODE_PAIRS = [
    ("float32", "float16"), ("float32", "bfloat16"), ("float32", "int16"), ("float32", "int32"), ("float32", "int64"), ("float32", "float32"),
    ("float16", "int8"), ("float16", "uint8"), ("float16", "int16"), ("float16", "int32"), ("bfloat16", "int32"), ("int16", "float16"),
    ("int32", "float32"), ("int64", "float32"),
]  # fmt: skip
EXACT_PAIRS = [
    ("float16", "float32"), ("bfloat16", "float32"), ("int8", "float16"), ("uint8", "float16"), ("int16", "float32"), ("int32", "int64"),
    ("int32", "int16"), ("int64", "int32"),
]  # fmt: skip


def steps() -> Iterator[Step]:
    def cast(a: Array, name: str, target: str, mode: str) -> Step:
        code = f"Cast(D<{CPP[target]}>(), A<{CPP[name]}>(), RoundMode::CAST_{mode}, {COUNT});"
        return Step(f"{name}-{target}-{mode}", code, a, convert(a, target, "RINT" if mode == "NONE" else mode))

    for name, target in MODE_PAIRS:
        for mode in MODES:
            yield cast(source(name, target), name, target, mode)
    yield cast(source("float32", "float16"), "float32", "float16", "ODD")
    for name, target in EXACT_PAIRS:
        yield cast(source(name, target), name, target, "NONE")
    a = RNG.integers(-40000, 40000, COUNT, dtype=np.int32)
    code = f"SetDeqScale((half)0.25); Cast(D<half>(), A<int32_t>(), RoundMode::CAST_NONE, {COUNT});"
    yield Step("int32-float16-scaled", code, a, (a * 0.25).astype(np.float16))
    # the wider type decides what a repeat is: 64 elements, four blocks of half and eight of float
    half = RNG.uniform(-5, 5, 512).astype(np.float16)
    old = np.full(512, 7, np.float32)
    code = "Cast(D<float>(), A<half>(), RoundMode::CAST_NONE, (uint64_t)32, 8, UnaryRepeatParams(1, 1, 8, 4));"
    yield Step(
        "half-float-masked", code, half, np.where(np.arange(512) % 64 < 32, half.astype(np.float32), old), None, old
    )
    wide = RNG.uniform(-5, 5, 512).astype(np.float32)
    code = "Cast(D<half>(), A<float>(), RoundMode::CAST_RINT, (uint64_t)64, 8, UnaryRepeatParams(1, 1, 4, 8));"
    yield Step("float-half-repeats", code, wide, wide.astype(np.float16), None, np.zeros(512, np.float16))


STEPS = list(steps())


@pytest.fixture(scope="module")
def program(bench: Bench) -> Program:
    return step_program(bench, STEPS)


@pytest.mark.parametrize("index", range(len(STEPS)), ids=[str(step) for step in STEPS])
def test_cast_rounds_as_documented(program: Program, index: int) -> None:
    check_step(program, index, STEPS[index])


@pytest.mark.parametrize(
    ("target", "name"), [("bfloat16_t", "half"), ("int8_t", "float"), ("uint8_t", "int32_t"), ("half", "int64_t")]
)
def test_a_conversion_the_chip_lacks_does_not_compile(bench: Bench, target: str, name: str) -> None:
    said = bench.compile_error(
        f"__aicore__ void f(const LocalTensor<{target}>& d, const LocalTensor<{name}>& s) {{ Cast(d, s, RoundMode::CAST_NONE, 8); }}\n"
    )
    assert "Cast: this chip does not convert between these two types; go through float" in said


def test_int32_to_half_without_a_scale_is_pointed_out(bench: Bench) -> None:
    step = Step(
        "unscaled",
        "Cast(D<half>(), A<int32_t>(), RoundMode::CAST_NONE, 16);",
        np.arange(16, dtype=np.int32),
        np.arange(16).astype(np.float16),
    )
    from .programs import run_step

    shown = run_step(step_program(bench, [step]), 0, step)
    assert shown.kinds == ["deq-scale"] and shown.errors == []
    assert "SetDeqScale" in shown.finding("deq-scale")["remedy"]
