"""Reductions, comparisons, selections, fills and gathers against NumPy, with masks, strides and result layouts."""
# ruff: noqa: E501 - lines of kernel source stay whole

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce as fold
from typing import Any

import numpy as np
import pytest

from .programs import Array, Bench, Program, Step, check_step, run_step, step_program

RNG = np.random.default_rng(5)
CPP: dict[Any, str] = {
    np.float32: "float",
    np.float16: "half",
    np.int32: "int32_t",
    np.int16: "int16_t",
    np.uint32: "uint32_t",
}


def values(dtype: Any, count: int) -> Array:
    return RNG.uniform(-3, 3, count).astype(dtype)


def tree(lanes: Array) -> Any:
    """Pairwise sum, every step rounded to the type."""
    width = 1 << max(0, int(len(lanes) - 1).bit_length())
    lanes = np.concatenate([lanes, np.zeros(width - len(lanes), lanes.dtype)])
    while len(lanes) > 1:
        lanes = (lanes[0::2] + lanes[1::2]).astype(lanes.dtype)
    return lanes[0]


def extreme_pairs(rows: Array, largest: bool, dtype: Any) -> Array:
    """Value and index of every row's first extreme, the index as bits in an element of the type."""
    at = np.argmax(rows, axis=1) if largest else np.argmin(rows, axis=1)
    index = at.astype(np.uint32 if dtype is np.float32 else np.uint16).view(dtype)
    return np.stack([rows[np.arange(len(rows)), at], index], axis=1)


def fill(want: Array, size: int, old: Any) -> Array:
    """`want`, and what was there behind it."""
    return np.concatenate([want, np.full(size - want.size, old, want.dtype)])


def reductions() -> Iterator[Step]:
    for dtype in (np.float32, np.float16):
        t, lanes = CPP[dtype], 256 // np.dtype(dtype).itemsize
        a = values(dtype, 6 * lanes)
        rows = a.reshape(6, lanes)
        old = np.full(64, 9, dtype)
        sums = np.array([tree(row) for row in rows], dtype)
        yield Step(
            f"WholeReduceSum-{t}",
            f"WholeReduceSum(D<{t}>(), A<{t}>(), {lanes}, 6, 1, 1, 8);",
            a,
            fill(sums, 64, 9),
            d0=old,
        )
        part = np.array([tree(row[:37]) for row in rows], dtype)
        yield Step(
            f"WholeReduceSum-mask-{t}",
            f"WholeReduceSum(D<{t}>(), A<{t}>(), 37, 6, 1, 1, 8);",
            a,
            fill(part, 64, 9),
            d0=old,
        )
        apart = old.copy()
        apart[: 6 * 8 : 8] = sums
        yield Step(
            f"WholeReduceSum-apart-{t}", f"WholeReduceSum(D<{t}>(), A<{t}>(), {lanes}, 6, 8, 1, 8);", a, apart, d0=old
        )
        bits = RNG.integers(0, 2, lanes).astype(bool)
        words = [sum(1 << k for k in range(64) if lane + k < lanes and bits[lane + k]) for lane in (0, 64)]
        code = f"uint64_t mask[2] = {{{words[0]}ULL, {words[1]}ULL}}; WholeReduceSum(D<{t}>(), A<{t}>(), mask, 6, 1, 1, 8);"
        yield Step(
            f"WholeReduceSum-bits-{t}",
            code,
            a,
            fill(np.array([tree(np.where(bits, row, dtype(0))) for row in rows], dtype), 64, 9),
            d0=old,
        )
        yield Step(
            f"ReduceRepeat-sum-{t}",
            f"ReduceRepeat<ReduceType::SUM>(D<{t}>(), A<{t}>(), {lanes}, 6, 1, 1, 8);",
            a,
            fill(sums, 64, 9),
            d0=old,
        )
        for name, largest in (("WholeReduceMax", True), ("WholeReduceMin", False)):
            pairs = extreme_pairs(rows, largest, dtype)
            yield Step(
                f"{name}-{t}",
                f"{name}(D<{t}>(), A<{t}>(), {lanes}, 6, 1, 1, 8);",
                a,
                fill(pairs.reshape(-1), 64, 9),
                d0=old,
            )
            code = f"{name}(D<{t}>(), A<{t}>(), {lanes}, 6, 1, 1, 8, ReduceOrder::ORDER_INDEX_VALUE);"
            yield Step(f"{name}-index-first-{t}", code, a, fill(pairs[:, ::-1].reshape(-1), 64, 9), d0=old)
            code = f"{name}(D<{t}>(), A<{t}>(), {lanes}, 6, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);"
            yield Step(f"{name}-value-{t}", code, a, fill(pairs[:, 0], 64, 9), d0=old)
            only = (np.argmax if largest else np.argmin)(rows, axis=1).astype(np.uint32)
            code = f"{name}(D<{t}>(), A<{t}>(), {lanes}, 6, 1, 1, 8, ReduceOrder::ORDER_ONLY_INDEX);"
            yield Step(f"{name}-index-{t}", code, a, fill(only, 64, 9), d0=np.full(64, 9, np.uint32))
        blocks = a.reshape(48, -1)
        folded = np.array([tree(block) for block in blocks], dtype)
        yield Step(
            f"BlockReduceSum-{t}",
            f"BlockReduceSum(D<{t}>(), A<{t}>(), 6, {lanes}, 1, 1, 8);",
            a,
            fill(folded, 64, 9),
            d0=old,
        )
        code = f"ReduceDataBlock<ReduceType::MAX>(D<{t}>(), A<{t}>(), {lanes}, 6, 1, 1, 8);"
        yield Step(f"ReduceDataBlock-max-{t}", code, a, fill(blocks.max(axis=1), 64, 9), d0=old)
        yield Step(
            f"BlockReduceMin-{t}",
            f"BlockReduceMin(D<{t}>(), A<{t}>(), 6, {lanes}, 1, 1, 8);",
            a,
            fill(blocks.min(axis=1), 64, 9),
            d0=old,
        )
        first = blocks[:3].max(axis=1)
        code = f"BlockReduceMax(D<{t}>(), A<{t}>(), 1, {lanes // 8 * 3}, 1, 1, 8);"
        yield Step(f"BlockReduceMax-some-blocks-{t}", code, a, fill(first, 64, 9), d0=old)
        pairs_sum = (a[0::2] + a[1::2]).astype(dtype)
        old = np.full(3 * lanes, 9, dtype)
        yield Step(
            f"PairReduceSum-{t}", f"PairReduceSum(D<{t}>(), A<{t}>(), 6, {lanes}, 1, 1, 8);", a, pairs_sum, d0=old
        )


def totals() -> Iterator[Step]:
    for dtype in (np.float32, np.float16):
        t, lanes = CPP[dtype], 256 // np.dtype(dtype).itemsize
        a = values(dtype, 1000)
        old = np.full(16, 9, dtype)
        parts = [tree(a[at : at + lanes]) for at in range(0, 1000, lanes)]
        in_order = fold(np.add, np.array(parts, dtype))
        yield Step(
            f"ReduceSum-{t}",
            f"ReduceSum(D<{t}>(), A<{t}>(), W<{t}>(), 1000);",
            a,
            fill(np.array([in_order]), 16, 9),
            d0=old,
        )
        rows = a[: 6 * lanes].reshape(6, lanes)
        both = tree(np.array([tree(row[:50]) for row in rows], dtype))
        yield Step(
            f"ReduceSum-masked-{t}",
            f"ReduceSum(D<{t}>(), A<{t}>(), W<{t}>(), 50, 6, 8);",
            a,
            fill(np.array([both]), 16, 9),
            d0=old,
        )
        for name, pick in (("ReduceMax", np.argmax), ("ReduceMin", np.argmin)):
            at = int(pick(a))
            index = np.array([at], np.uint32 if dtype is np.float32 else np.uint16).view(dtype)
            yield Step(
                f"{name}-{t}", f"{name}(D<{t}>(), A<{t}>(), W<{t}>(), 1000);", a, fill(a[at : at + 1], 16, 9), d0=old
            )
            code = f"{name}(D<{t}>(), A<{t}>(), W<{t}>(), 1000, true);"
            yield Step(f"{name}-index-{t}", code, a, fill(np.concatenate([a[at : at + 1], index]), 16, 9), d0=old)
    a = values(np.float32, 256)
    code = "WholeReduceSum(D<float>(), A<float>(), 64, 4, 1, 1, 8); float last = GetAccVal<float>(); D<float>().SetValue(9, last);"
    sums = np.array([tree(row) for row in a.reshape(4, 64)])
    want = fill(sums, 16, 9)
    want[9] = sums[3]
    yield Step("register-of-the-last-sum", code, a, want, d0=np.full(16, 9, np.float32))


def comparisons() -> Iterator[Step]:
    modes = {
        "LT": np.less,
        "GT": np.greater,
        "EQ": np.equal,
        "LE": np.less_equal,
        "GE": np.greater_equal,
        "NE": np.not_equal,
    }
    for dtype in (np.float32, np.float16):
        t = CPP[dtype]
        a, b = np.round(values(dtype, 512)), np.round(values(dtype, 512))
        a[3], b[4] = np.nan, np.nan
        for mode, function in modes.items():
            bits = np.packbits(function(a, b), bitorder="little")
            yield Step(
                f"Compare-{mode}-{t}",
                f"Compare(d, A<{t}>(), B<{t}>(), CMPMODE::{mode}, 512);",
                a,
                bits,
                b,
                np.zeros(64, np.uint8),
            )
            bits = np.packbits(function(a, dtype(1)), bitorder="little")
            yield Step(
                f"CompareScalar-{mode}-{t}",
                f"CompareScalar(d, A<{t}>(), ({t})1, CMPMODE::{mode}, 512);",
                a,
                bits,
                d0=np.zeros(64, np.uint8),
            )
        lanes = 256 // np.dtype(dtype).itemsize
        bits = np.packbits(np.less(a[: 3 * lanes], np.tile(b[:lanes], 3)), bitorder="little")
        code = (
            f"Compare(d, A<{t}>(), B<{t}>(), CMPMODE::LT, (uint64_t){lanes}, 3, BinaryRepeatParams(1, 1, 1, 8, 8, 0));"
        )
        yield Step(f"Compare-repeats-{t}", code, a, bits, b, np.zeros(3 * lanes // 8, np.uint8))
        chosen = RNG.integers(0, 2, 512).astype(bool)
        packed = np.packbits(chosen, bitorder="little")
        c = values(dtype, 512)
        code = f"Select(D<{t}>(), B<uint8_t>(), A<{t}>(), D<{t}>(), SELMODE::VSEL_TENSOR_TENSOR_MODE, 500);"
        yield Step(
            f"Select-tensors-{t}", code, a, np.where(chosen | (np.arange(512) >= 500), a, c)[:500], packed, c[:500]
        )
        code = f"Select(D<{t}>(), B<uint8_t>(), A<{t}>(), ({t})-2.5, SELMODE::VSEL_TENSOR_SCALAR_MODE, 500);"
        yield Step(f"Select-scalar-{t}", code, a, np.where(chosen, a, dtype(-2.5))[:500].astype(dtype), packed)
        again = np.tile(chosen[:lanes], 512 // lanes)
        code = f"Select(D<{t}>(), B<uint8_t>(), A<{t}>(), D<{t}>(), SELMODE::VSEL_CMPMASK_SPR, (uint64_t){lanes}, {512 // lanes}, BinaryRepeatParams(1, 1, 1, 8, 8, 8));"
        yield Step(f"Select-same-bits-{t}", code, a, np.where(again, a, c), packed, c)
    a = RNG.integers(-2, 2, 128).astype(np.int32)
    yield Step(
        "Compare-EQ-int32",
        "CompareScalar(d, A<int32_t>(), (int32_t)1, CMPMODE::EQ, 128);",
        a,
        np.packbits(a == 1, bitorder="little"),
        d0=np.zeros(16, np.uint8),
    )


def fills() -> Iterator[Step]:
    old = np.full(128, 9, np.float32)
    nothing = np.zeros(8, np.uint8)
    yield Step(
        "Duplicate", "Duplicate(D<float>(), 2.5f, 101);", nothing, fill(np.full(101, 2.5, np.float32), 128, 9), d0=old
    )
    yield Step("Duplicate-half", "Duplicate(D<half>(), (half)-0.75, 101);", nothing, np.full(101, -0.75, np.float16))
    yield Step(
        "Duplicate-bf16", "Duplicate(D<bfloat16_t>(), bfloat16_t(1.5f), 64);", nothing, np.full(64, 0x3FC0, np.uint16)
    )
    yield Step("Duplicate-int", "Duplicate(D<int32_t>(), (int32_t)-7, 64);", nothing, np.full(64, -7, np.int32))
    masked = np.where(np.arange(128) % 64 < 10, np.float32(2.5), old)
    yield Step("Duplicate-mask", "Duplicate(D<float>(), 2.5f, (uint64_t)10, 2, 1, 8);", nothing, masked, d0=old)
    yield Step(
        "CreateVecIndex", "CreateVecIndex(D<int32_t>(), (int32_t)5, 100);", nothing, np.arange(5, 105, dtype=np.int32)
    )
    yield Step(
        "CreateVecIndex-half", "CreateVecIndex(D<half>(), (half)0, 100);", nothing, np.arange(100).astype(np.float16)
    )
    a = values(np.float32, 16)
    yield Step("Brcb", "Brcb(D<float>(), A<float>(), 2, BrcbRepeatParams(1, 8));", a, np.repeat(a, 8))
    h = values(np.float16, 8)
    yield Step("Brcb-half", "Brcb(D<half>(), A<half>(), 1, BrcbRepeatParams(1, 8));", h, np.repeat(h, 16))
    c = values(np.float32, 128)
    yield Step("Copy", "Copy(D<float>(), A<float>(), (uint64_t)64, 2, CopyRepeatParams(1, 1, 8, 8));", c, c)
    yield Step("DataCopy-in-UB", "DataCopy(D<float>(), A<float>(), 128);", c, c)
    strided = fill(np.concatenate([c[:8], c[16:24], c[32:40]]), 32, 9)
    yield Step(
        "DataCopy-in-UB-strided",
        "DataCopy(D<float>(), A<float>(), DataCopyParams(3, 1, 1, 0));",
        c,
        strided,
        d0=np.full(32, 9, np.float32),
    )
    at = RNG.integers(0, 128, 100)
    yield Step("Gather", "Gather(D<float>(), A<float>(), B<uint32_t>(), 0, 100);", c, c[at], (at * 4).astype(np.uint32))
    g = values(np.float16, 128)
    yield Step(
        "Gather-half-base",
        "Gather(D<half>(), A<half>(), B<uint32_t>(), 8, 100);",
        g,
        g[at // 2 + 4],
        (at // 2 * 2).astype(np.uint32),
    )
    column = values(np.float16, 5)
    code = "const uint32_t to[2] = {5, 19}, from[2] = {5, 1}; Broadcast<half, 2, 1>(D<half>(), A<half>(), to, from);"
    yield Step("Broadcast-column", code, column, np.repeat(column, 19))
    code = (
        "const uint32_t to[2] = {3, 16}, from[2] = {1, 16}; Broadcast<float, 2, 0>(D<float>(), A<float>(), to, from);"
    )
    yield Step("Broadcast-row", code, a, np.tile(a, 3))
    code = "const uint32_t to[1] = {40}, from[1] = {1}; Broadcast<float, 1, 0>(D<float>(), A<float>(), to, from);"
    yield Step("Broadcast-element", code, a, np.full(40, a[0]))
    count = "D<float>().SetValue(127, (float)kept);"
    for pattern in range(1, 8):
        index = np.arange(128) % 64
        chosen = index % 2 == pattern - 1 if pattern < 3 else (index % 4 == pattern - 3) | (pattern == 7)
        code = f"uint64_t kept = 0; GatherMask(D<float>(), A<float>(), (uint8_t){pattern}, false, 0, GatherMaskParams(1, 2, 8, 0), kept); {count}"
        want = fill(c[chosen], 128, 9)
        want[127] = chosen.sum()
        yield Step(f"GatherMask-{pattern}", code, c, want, d0=old)
    bits = RNG.integers(0, 2, 128).astype(bool)
    bits[64:] = bits[:64]  # the pattern does not move on: repeat stride 0
    code = f"uint64_t kept = 0; GatherMask(D<float>(), A<float>(), B<uint32_t>(), true, 50, GatherMaskParams(1, 2, 8, 0), kept); {count}"
    part = bits & (np.arange(128) % 64 < 50)
    want = fill(c[part], 128, 9)
    want[127] = part.sum()
    yield Step("GatherMask-bits", code, c, want, np.packbits(bits[:64], bitorder="little"), old)
    code = "float x = A<float>().GetValue(3); D<float>().SetValue(2, x * 2); D<float>()(4) = 1.25f; D<float>()(5) = A<float>()(7);"
    want = np.full(16, 9, np.float32)
    want[[2, 4, 5]] = c[3] * 2, 1.25, c[7]
    yield Step("scalar-access", code, c, want, d0=np.full(16, 9, np.float32))


STEPS = [*reductions(), *totals(), *comparisons(), *fills()]


@pytest.fixture(scope="module")
def program(bench: Bench) -> Program:
    return step_program(bench, STEPS)


@pytest.mark.parametrize("index", range(len(STEPS)), ids=[str(step) for step in STEPS])
def test_instruction_gives_what_numpy_gives(program: Program, index: int) -> None:
    check_step(program, index, STEPS[index])


def test_half_sums_drift_as_the_hardware_s_do(bench: Bench) -> None:
    """16384 times 0.1 in half: a tree inside repeats, repeats in order. The exact sum is 1638.0."""
    a = np.full(16384, 0.1, np.float16)
    step = Step("drift", "ReduceSum(D<half>(), A<half>(), W<half>(), 16384);", a, np.array([1654], np.float16))
    check_step(step_program(bench, [step]), 0, step)


def test_a_comparison_of_part_of_a_repeat_is_refused(bench: Bench) -> None:
    step = Step(
        "odd",
        "Compare(d, A<float>(), B<float>(), CMPMODE::LT, 100);",
        values(np.float32, 128),
        np.zeros(16, np.uint8),
        values(np.float32, 128),
    )
    shown = run_step(step_program(bench, [step]), 0, step)
    assert shown.errors == ["count-align"]
    assert "compares only 64" in shown.finding("count-align")["message"]


def test_comparing_integers_for_order_is_refused(bench: Bench) -> None:
    a = np.arange(64, dtype=np.int32)
    step = Step(
        "order",
        "CompareScalar(d, A<int32_t>(), (int32_t)1, CMPMODE::LT, 64);",
        a,
        np.zeros(8, np.uint8),
        d0=np.zeros(8, np.uint8),
    )
    assert run_step(step_program(bench, [step]), 0, step).errors == ["unsupported"]
