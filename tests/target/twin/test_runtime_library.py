"""The toolkit's library functions, sorting and transposing against NumPy: every dtype, odd counts, padded rows."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import erf, erfc, lgamma
from typing import Any

import numpy as np
import pytest

from .programs import Array, Bench, Program, Step, check_step, run_step, step_program

RNG = np.random.default_rng(11)
COUNT = 517
FLOATS = {"float32": "float", "float16": "half"}


def values(dtype: str, low: float, high: float, count: int = COUNT) -> Array:
    return RNG.uniform(low, high, count).astype(dtype)


def wide(function: Callable[..., Any], *arrays: Array) -> Array:
    """In double precision, rounded once."""
    with np.errstate(all="ignore"):
        return np.asarray(function(*(array.astype(np.float64) for array in arrays)), np.float64).astype(arrays[0].dtype)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x**3))


def digamma(x: Any) -> Any:
    """By its series of differences from ln; arguments above 0."""
    k = np.arange(200_000)[:, None]
    near = np.sum(1 / (k + 1) - 1 / (k + x[None, :]), axis=0)
    return -0.57721566490153286 + near + (x - 1) / 200_000


ONE: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "Acos": (np.arccos, -1, 1),
    "Acosh": (np.arccosh, 1, 30),
    "Asin": (np.arcsin, -1, 1),
    "Asinh": (np.arcsinh, -30, 30),
    "Atan": (np.arctan, -30, 30),
    "Atanh": (np.arctanh, -0.99, 0.99),
    "Ceil": (np.ceil, -30, 30),
    "Cos": (np.cos, -10, 10),
    "Cosh": (np.cosh, -8, 8),
    "Erf": (np.vectorize(erf), -4, 4),
    "Erfc": (np.vectorize(erfc), -2, 3),
    "Floor": (np.floor, -30, 30),
    "Frac": (lambda x: x - np.trunc(x), -30, 30),
    "Lgamma": (np.vectorize(lgamma), 0.5, 20),
    "Log": (np.log, 1e-3, 100),
    "Log2": (np.log2, 1e-3, 100),
    "Log10": (np.log10, 1e-3, 100),
    "Rint": (np.rint, -30, 30),
    "Round": (lambda x: np.trunc(x + np.copysign(0.5, x)), -30, 30),
    "Sign": (np.sign, -3, 3),
    "Sin": (np.sin, -10, 10),
    "Sinh": (np.sinh, -8, 8),
    "Tan": (np.tan, -1.5, 1.5),
    "Tanh": (np.tanh, -5, 5),
    "Trunc": (np.trunc, -30, 30),
    "Gelu": (gelu, -6, 6),
    "FasterGelu": (lambda x: x * sigmoid(1.702 * x), -6, 6),
    "Sigmoid": (sigmoid, -12, 12),
    "Silu": (lambda x: x * sigmoid(x), -12, 12),
}


def one_source() -> Iterator[Step]:
    for name, (function, low, high) in ONE.items():
        for dtype, cpp in FLOATS.items():
            a = values(dtype, low, high)
            forms = {"count": f"{COUNT}", "buffer and count": f"w, {COUNT}"}
            for form, rest in forms.items():
                yield Step(
                    f"{name}-{dtype}-{form}", f"{name}(D<{cpp}>(), A<{cpp}>(), {rest});", a, wide(function, a), ulp=1
                )
    x = values("float32", 0.1, 20, 99)
    yield Step("Digamma-float32", "Digamma(D<float>(), A<float>(), 99);", x, wide(digamma, x), ulp=40)
    x = values("float32", -20, 20)
    yield Step(
        "Exp-float32-series", f"Exp<float, 10, false>(D<float>(), A<float>(), w, {COUNT});", x, wide(np.exp, x), ulp=1
    )
    for dtype, cpp in FLOATS.items():
        x = values(dtype, -6, 6)
        beta = float(np.float16(1.25))
        code = f"Swish(D<{cpp}>(), A<{cpp}>(), {COUNT}, ({cpp})1.25);"
        yield Step(f"Swish-{dtype}", code, x, wide(lambda x, b=beta: x * sigmoid(b * x), x), ulp=1)
        yield Step(
            f"ClampMax-{dtype}",
            f"ClampMax(D<{cpp}>(), A<{cpp}>(), ({cpp})1.5, {COUNT});",
            x,
            np.minimum(x, x.dtype.type(1.5)),
        )
        yield Step(
            f"ClampMin-{dtype}",
            f"ClampMin(D<{cpp}>(), A<{cpp}>(), w, ({cpp})1.5, {COUNT});",
            x,
            np.maximum(x, x.dtype.type(1.5)),
        )


def two_sources() -> Iterator[Step]:
    for dtype, cpp in FLOATS.items():
        a, b = values(dtype, 0.1, 6), values(dtype, -3, 3)
        args = f"D<{cpp}>(), A<{cpp}>(), B<{cpp}>()"
        scalar = np.float64(np.dtype(dtype).type(1.7))
        yield Step(f"Power-{dtype}", f"Power({args}, w, {COUNT});", a, wide(np.power, a, b), b, ulp=1)
        yield Step(
            f"Power-{dtype}-exponent",
            f"Power(D<{cpp}>(), A<{cpp}>(), ({cpp})1.7f, {COUNT});",
            a,
            wide(lambda x, s=scalar: x**s, a),
            ulp=1,
        )
        yield Step(
            f"Power-{dtype}-base",
            f"Power(D<{cpp}>(), ({cpp})1.7f, A<{cpp}>(), {COUNT});",
            b,
            wide(lambda x, s=scalar: s**x, b),
            ulp=1,
        )
        yield Step(f"Fmod-{dtype}", f"Fmod({args}, {COUNT});", a, wide(np.fmod, a, b), b, ulp=1)
        yield Step(f"GeGLU-{dtype}", f"GeGLU({args}, {COUNT});", a, wide(lambda x, y: x * gelu(y), a, b), b, ulp=1)
        yield Step(
            f"ReGlu-{dtype}", f"ReGlu({args}, w, {COUNT});", a, wide(lambda x, y: x * np.maximum(y, 0), a, b), b, ulp=1
        )
        beta = wide(lambda x, y: x * y * sigmoid(1.5 * y), a, b)
        yield Step(f"SwiGLU-{dtype}", f"SwiGLU({args}, 1.5f, w, {COUNT});", a, beta, b, ulp=1)
    whole = RNG.integers(0, 7, COUNT).astype(np.int32)
    yield Step("Power-int32", f"Power(D<int32_t>(), A<int32_t>(), (int32_t)3, {COUNT});", whole, whole**3)
    bits, more = (RNG.integers(0, 1 << 16, COUNT).astype(np.uint16) for _ in range(2))
    yield Step("Xor-uint16", f"Xor(D<uint16_t>(), A<uint16_t>(), B<uint16_t>(), w, {COUNT});", bits, bits ^ more, more)
    signed = bits.view(np.int16)
    yield Step(
        "Xor-int16",
        f"Xor(D<int16_t>(), A<int16_t>(), B<int16_t>(), {COUNT});",
        signed,
        signed ^ signed[::-1],
        signed[::-1].copy(),
    )


def progressions() -> Iterator[Step]:
    nothing = np.zeros(8, np.float32)
    for name in ("Arange", "ArithProgression"):
        for dtype, cpp in {"int16": "int16_t", "int32": "int32_t", "float16": "half", "float32": "float"}.items():
            want = (3 + 2 * np.arange(COUNT)).astype(dtype)
            yield Step(f"{name}-{dtype}", f"{name}(D<{cpp}>(), ({cpp})3, ({cpp})2, {COUNT});", nothing, want)


def quantised() -> Iterator[Step]:
    for dtype, cpp in FLOATS.items():
        a = values(dtype, -3, 3, 512)
        want = np.clip(np.rint(a.astype(np.float64) * 50 + 3), -128, 127).astype(np.int8)
        yield Step(f"AscendQuant-{dtype}", f"AscendQuant(D<int8_t>(), A<{cpp}>(), w, 50.0f, 3.0f, 512);", a, want)
        yield Step(f"AscendQuant-{dtype}-all", f"AscendQuant(D<int8_t>(), A<{cpp}>()[0], 50.0f, 3.0f, 512);", a, want)
        sums = RNG.integers(-5000, 5000, (4, 64)).astype(np.int32)
        scale = values("float32", 0.001, 0.1, 64)
        code = (
            f"LocalTensor<int32_t> s = A<int32_t>(); s.SetSize(256); AscendDequant(D<{cpp}>(), s, B<float>(), w, 64);"
        )
        product = sums.astype(np.float64) * scale.astype(np.float64)
        yield Step(f"AscendDequant-{dtype}", code, sums, product.astype(dtype), scale, ulp=0.5)
    small = RNG.integers(-128, 128, 512).astype(np.int8)
    code = "LocalTensor<int8_t> s = A<int8_t>(); s.SetSize(512); AscendAntiQuant<int8_t, half, false>(D<half>(), s, (half)3.0, (half)0.5, w, 8);"
    yield Step("AscendAntiQuant-float16", code, small, (0.5 * (small.astype(np.float64) + 3)).astype(np.float16))


def padded(dtype: str, rows: int, columns: int, pitch: int) -> Array:
    array = np.full((rows, pitch), 77, dtype)
    array[:, :columns] = RNG.uniform(-4, 4, (rows, columns))
    return array


def softmaxes() -> Iterator[Step]:
    for dtype, cpp in FLOATS.items():
        ulp = 16 if dtype == "float32" else 2
        block = 32 // np.dtype(dtype).itemsize
        for rows, columns, pitch in ((5, 64, 64), (3, 37, 48), (7, 16, 16)):
            x = padded(dtype, rows, columns, pitch)
            real = x[:, :columns].astype(np.float64)
            most = real.max(axis=1, keepdims=True)
            powers = np.exp(real - most)
            total = powers.sum(axis=1, keepdims=True)
            shape = f"SoftMaxShapeInfo{{{rows}, {pitch}, {rows}, {columns}}}"
            name = f"{dtype}-{rows}x{columns}"
            zeros = np.zeros_like(x)
            want = zeros.copy()
            want[:, :columns] = powers / total
            yield Step(
                f"SoftMax-{name}",
                f"SoftMaxTiling t; SoftMax<{cpp}>(D<{cpp}>(), A<{cpp}>(), w, t, {shape});",
                x,
                want,
                d0=zeros,
                ulp=ulp,
            )
            want = zeros.copy()
            want[:, :columns] = powers
            # a: data; b: sum, max and the factor, one block each a row
            code = f"""SoftMaxTiling t; LocalTensor<{cpp}> sum = B<{cpp}>(), max = sum[{rows * block}], factor = sum[{2 * rows * block}];
                SoftmaxFlashV2<{cpp}>(D<{cpp}>(), sum, max, A<{cpp}>(), factor, sum, max, w, t, {shape});"""
            yield Step(f"SoftmaxFlashV2-{name}", code, x, want, b=np.zeros(3 * rows * block, dtype), d0=zeros, ulp=ulp)
            stats = np.concatenate([np.repeat(total, block, 1), np.repeat(most, block, 1)]).astype(dtype)
            want = zeros.copy()
            want[:, :columns] = np.exp(real - stats[rows:, :1].astype(np.float64)) / stats[:rows, :1].astype(np.float64)
            code = f"SoftMaxTiling t; SimpleSoftMax<{cpp}>(D<{cpp}>(), B<{cpp}>(), B<{cpp}>()[{rows * block}], A<{cpp}>(), w, t, {shape});"
            yield Step(f"SimpleSoftMax-{name}", code, x, want, b=stats, d0=zeros, ulp=ulp)
            grad = padded(dtype, rows, columns, pitch)
            inner = (grad[:, :columns].astype(np.float64) * real).sum(axis=1, keepdims=True)
            code = f"SoftMaxTiling t; SoftmaxGradFront<{cpp}>(D<{cpp}>(), B<{cpp}>(), A<{cpp}>(), w, t, {shape});"
            yield Step(f"SoftmaxGradFront-{name}", code, x, np.repeat(inner, block, 1).astype(dtype), b=grad, ulp=256)


def row_folds() -> Iterator[Step]:
    for dtype, cpp in FLOATS.items():
        for rows, columns, pitch in ((8, 64, 64), (16, 37, 48)):
            x = np.abs(padded(dtype, rows, columns, pitch))
            total = x[:, :columns].astype(np.float64).sum(axis=1)
            ulp = 16 if dtype == "float32" else 1
            for name, want in (("Sum", total), ("Mean", total / columns)):
                code = f"{name}(D<{cpp}>(), A<{cpp}>(), w, {name}Params{{{rows}, {pitch}, {columns}}});"
                yield Step(f"{name}-{dtype}-{rows}x{columns}", code, x, want.astype(dtype), ulp=ulp)
            scale = values(dtype, 0.5, 2, pitch)
            real = x[:, :columns].astype(np.float64)
            root = real / np.sqrt((real**2).mean(axis=1, keepdims=True) + 1e-3) * scale[:columns].astype(np.float64)
            want = np.zeros_like(x)
            want[:, :columns] = root
            code = f"RmsNormTiling t; t.bLength = {rows}; t.sLength = 1; t.hLength = {pitch}; t.originalHLength = {columns};"
            code += f" RmsNorm(D<{cpp}>(), A<{cpp}>(), B<{cpp}>(), w, ({cpp})1e-3f, t);"
            yield Step(f"RmsNorm-{dtype}-{rows}x{columns}", code, x, want, b=scale, d0=np.zeros_like(x), ulp=8)


def sorts() -> Iterator[Step]:
    for dtype, cpp in FLOATS.items():
        size = np.dtype(dtype).itemsize
        scores = RNG.permutation(128).astype(dtype)
        scores[7] = scores[3]  # equal ones keep their order
        index = np.arange(1000, 1128, dtype=np.uint32)

        def pairs(order: Array, scores: Array = scores, index: Array = index, size: int = size) -> Array:
            made = np.zeros((len(order), 8), np.uint8)
            made[:, :size] = scores[order].reshape(-1, 1).view(np.uint8)
            made[:, 4:] = index[order].reshape(-1, 1).view(np.uint8)
            return made.reshape(-1)

        groups = [np.argsort(-scores[at : at + 32], kind="stable") + at for at in range(0, 128, 32)]
        by_group = pairs(np.concatenate(groups))
        everything = pairs(np.argsort(-scores, kind="stable"))
        yield Step(f"Sort32-{dtype}", f"Sort32(D<{cpp}>(), A<{cpp}>(), B<uint32_t>(), 4);", scores, by_group, b=index)
        code = f"LocalTensor<{cpp}> c, t = W<{cpp}>(); Concat(c, A<{cpp}>(), t, 8); Sort<{cpp}, true>(D<{cpp}>(), c, B<uint32_t>(), t, 4);"
        yield Step(f"Sort-{dtype}", code, scores, everything, b=index)
        step = f"GetSortOffset<{cpp}>(32)"
        lists = (
            f"MrgSortSrcList<{cpp}> l(A<{cpp}>(), A<{cpp}>()[{step}], A<{cpp}>()[2 * {step}], A<{cpp}>()[3 * {step}]);"
        )
        code = (
            f"{lists} const uint16_t n[4] = {{32, 32, 32, 32}}; MrgSort(D<{cpp}>(), l, MrgSort4Info(n, false, 15, 1));"
        )
        yield Step(f"MrgSort-{dtype}", code, by_group, everything)
        two = pairs(np.argsort(-scores[:64], kind="stable"))
        code = f"{lists} const uint16_t n[4] = {{32, 32, 0, 0}}; uint32_t taken[4]; MrgSort(D<{cpp}>(), l, n, taken, 3, 1);"
        yield Step(f"MrgSort-{dtype}-two", code, by_group, two)
        order = np.argsort(-scores, kind="stable")
        code = f"Extract(D<{cpp}>(), B<uint32_t>(), A<{cpp}>(), 4);"
        yield Step(f"Extract-{dtype}-scores", code, everything, scores[order], b=np.zeros(128, np.uint32))
        code = f"Extract(B<{cpp}>(), D<uint32_t>(), A<{cpp}>(), 4);"
        yield Step(f"Extract-{dtype}-indices", code, everything, index[order], b=np.zeros(128, dtype))


def transposes() -> Iterator[Step]:
    for dtype, cpp in {"float16": "half", "int16": "int16_t", "uint16": "uint16_t"}.items():
        block = RNG.integers(0, 1000, (16, 16)).astype(dtype)
        yield Step(f"Transpose-{dtype}", f"Transpose(D<{cpp}>(), A<{cpp}>());", block, block.T.copy())
    lists = "uint64_t to[16], from[16]; for (int k = 0; k < 16; ++k) {{ to[k] = (uint64_t)D<{cpp}>()[k * {width}].GetPhyAddr(); from[k] = (uint64_t)A<{cpp}>()[k * {width}].GetPhyAddr(); }}"
    for dtype, cpp in {
        "int8": "int8_t",
        "float16": "half",
        "float32": "float",
        "int32": "int32_t",
        "uint16": "uint16_t",
    }.items():
        width = 32 // np.dtype(dtype).itemsize
        source = RNG.integers(0, 100, (16, width)).astype(dtype)
        want = source.T.copy()
        if width == 32:  # the upper half of each source block, into the lower half of a result block
            want = np.zeros((16, 32), dtype)
            want[:, :16] = source[:, 16:].T
        code = (
            lists.format(cpp=cpp, width=width)
            + f" TransDataTo5HD<{cpp}>(to, from, TransDataTo5HDParams(false, true, 1, 0, 0));"
        )
        yield Step(f"TransDataTo5HD-{dtype}", code, source, want)
    planes = RNG.integers(0, 1000, (16, 64)).astype(np.float16)  # 16 channels of 64 pixels
    code = "uint64_t to[16], from[16]; for (int k = 0; k < 16; ++k) { to[k] = (uint64_t)D<half>()[k * 16].GetPhyAddr(); from[k] = (uint64_t)A<half>()[k * 64].GetPhyAddr(); }"
    yield Step(
        "TransDataTo5HD-planes",
        code + " TransDataTo5HD<half>(to, from, TransDataTo5HDParams(false, false, 4, 16, 1));",
        planes,
        planes.T.copy(),
    )


STEPS = [
    *one_source(),
    *two_sources(),
    *progressions(),
    *quantised(),
    *softmaxes(),
    *row_folds(),
    *sorts(),
    *transposes(),
]


@pytest.fixture(scope="module")
def program(bench: Bench) -> Program:
    return step_program(bench, STEPS)


@pytest.mark.parametrize("index", range(len(STEPS)), ids=[step.name for step in STEPS])
def test_a_library_function_is_what_numpy_says(program: Program, index: int) -> None:
    check_step(program, index, STEPS[index])


@pytest.mark.parametrize("name", ["Tanh-float32-count", "SoftMax-float16-3x37", "Sort-float32", "Transpose-float16"])
def test_a_library_function_takes_the_same_time_without_data(program: Program, name: str) -> None:
    index = next(k for k, step in enumerate(STEPS) if step.name == name)
    verified, timed = (run_step(program, index, STEPS[index], mode) for mode in ("verify", "time"))
    assert verified.duration_us == timed.duration_us > 0


LAYER_NORM = """
    LayerNormTiling t; t.bLength = 4; t.sLength = 2; t.hLength = 48; t.originalHLength = 40;
    LocalTensor<float> gamma = B<float>(), beta = gamma[48], mean = D<float>()[8 * 48], variance = mean[8];
    LayerNorm(D<float>(), mean, variance, A<float>(), gamma, beta, w, 1e-3f, t);
"""


def test_layer_norm_gives_values_mean_and_variance(bench: Bench) -> None:
    x = padded("float32", 8, 40, 48)
    gamma, beta = values("float32", 0.5, 2, 48), values("float32", -1, 1, 48)
    real = x[:, :40].astype(np.float64)
    mean, variance = real.mean(axis=1), real.var(axis=1)
    step = Step("LayerNorm", LAYER_NORM, x, np.zeros(8 * 48 + 16, np.float32), b=np.concatenate([gamma, beta]))
    shown = run_step(step_program(bench, [step]), 0, step)
    got = np.frombuffer(shown.outputs[0], np.float32)
    want = (real - mean[:, None]) / np.sqrt(variance[:, None] + 1e-3) * gamma[:40] + beta[:40]
    np.testing.assert_allclose(got[: 8 * 48].reshape(8, 48)[:, :40], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[8 * 48 :], np.concatenate([mean, variance]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "Tanh(a.ReinterpretCast<int32_t>(), a.ReinterpretCast<int32_t>(), 8);",
            "Tanh takes half or float on this chip",
        ),
        (
            "Transpose(a.ReinterpretCast<float>(), a.ReinterpretCast<float>());",
            "Transpose takes int16_t, uint16_t or half",
        ),
        (
            "Sort32(a.ReinterpretCast<int32_t>(), a.ReinterpretCast<int32_t>(), a.ReinterpretCast<uint32_t>(), 1);",
            "Sort32 takes half or float",
        ),
        (
            "Xor(a.ReinterpretCast<float>(), a.ReinterpretCast<float>(), a.ReinterpretCast<float>(), 8);",
            "Xor takes int16_t or uint16_t",
        ),
        (
            "SoftMax<float, false, false, true>(a.ReinterpretCast<float>(), a.ReinterpretCast<float>(), a.ReinterpretCast<float>(), a.ReinterpretCast<float>(), SoftMaxTiling(), {});",
            "the twin has the ND format only",
        ),
    ],
)
def test_a_form_that_is_not_there_is_a_compile_error_that_says_so(bench: Bench, code: str, words: str) -> None:
    assert words in bench.compile_error(f"__global__ __vector__ void k() {{ LocalTensor<uint8_t> a; {code} }}")


def test_the_temporary_buffer_holds_nothing_of_use_afterwards(bench: Bench) -> None:
    code = "Tanh(D<float>(), A<float>(), w, 64); PipeBarrier<PIPE_V>(); Adds(D<float>(), W<float>(), 0.0f, 64);"
    step = Step("tmp", code, values("float32", -1, 1, 64), np.zeros(64, np.float32))
    assert run_step(step_program(bench, [step]), 0, step).kinds == ["uninit"]
