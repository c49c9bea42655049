"""The strict verdict: what passes, what does not, and the tricks that public checkers let through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.evaluate.compare import MISMATCH, Comparison, compare_output
from kope.evaluate.dtypes import file_dtype, overflow_limit, want_dtype
from kope.model import TensorSpec, Tolerance
from kope.task.native import DEFAULT_TOLERANCE


def compare(
    tmp_path: Path, dtype: str, got: Any, want: Any, rule: Tolerance | None = None, write_as: str = ""
) -> Comparison:
    """Judge `got` (rounded to the output dtype, or written in another) against an exact `want`."""
    want = np.asarray(want, np.float64 if dtype not in ("int64",) else np.int64)
    with np.errstate(over="ignore"):
        np.asarray(got).astype(file_dtype(write_as or dtype)).tofile(tmp_path / "got.bin")
    want.astype(want_dtype(dtype)).tofile(tmp_path / "want.bin")
    spec = TensorSpec("y", want.shape, dtype)
    return compare_output(tmp_path / "got.bin", tmp_path / "want.bin", spec, rule or DEFAULT_TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("dtype", "error", "mean"), [("float32", 0.001, 0.0005), ("float16", 0.25, 0.1), ("bfloat16", 0.5, 0.2)]
)
def test_correct_rounding_passes_with_room(tmp_path: Path, dtype: str, error: float, mean: float) -> None:
    want = np.random.default_rng(1).uniform(-100, 100, 200_001)
    found = compare(tmp_path, dtype, want, want)
    assert found.passed
    assert 0 < found.error <= error
    assert found.mean < mean


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("position", [0, 65_535, 65_536, 99_999])
def test_one_wrong_element_anywhere_fails(tmp_path: Path, dtype: str, position: int) -> None:
    want = np.full(100_000, 3.0)
    got = want.copy()
    got[position] = 3.2
    found = compare(tmp_path, dtype, got, want)
    assert (found.passed, found.wrong, found.positions.tolist()) == (False, 1, [position])
    assert (found.got[0], found.want[0]) == (pytest.approx(3.2, rel=1e-2), 3.0)
    assert found.violation == found.error > 1


def test_a_bias_within_tolerance_fails_by_its_mean(tmp_path: Path) -> None:
    want = np.random.default_rng(2).uniform(1, 2, 10_000)
    found = compare(tmp_path, "float32", want * (1 + 8e-5), want)
    assert found.error < 1
    assert not found.passed
    assert found.violation > 1
    assert compare(tmp_path, "float32", want * (1 + 2e-5), want).passed


def test_a_float32_operator_computed_in_half_fails(tmp_path: Path) -> None:
    want = np.random.default_rng(3).uniform(1, 2, 10_000)
    assert not compare(tmp_path, "float32", want.astype(np.float16), want).passed


def test_nan_must_stand_where_nan_is_expected(tmp_path: Path) -> None:
    assert compare(tmp_path, "float32", [1, np.nan, 3], [1, np.nan, 3]).passed
    missing = compare(tmp_path, "float32", [1, 2, 3], [1, np.nan, 3])
    assert (missing.passed, missing.error, missing.positions.tolist()) == (False, MISMATCH, [1])
    extra = compare(tmp_path, "float32", [1, np.nan, np.nan], [1, np.nan, 3])
    assert (extra.passed, extra.error, extra.positions.tolist()) == (False, MISMATCH, [2])


def test_inf_must_stand_where_inf_is_expected_with_its_sign(tmp_path: Path) -> None:
    assert compare(tmp_path, "float16", [np.inf, -np.inf, 1], [np.inf, -np.inf, 1]).passed
    for got in ([-np.inf, 1], [65504, 1], [np.nan, 1], [0, 1]):
        found = compare(tmp_path, "float16", got, [np.inf, 1])
        assert (found.passed, found.error, found.positions.tolist()) == (False, MISMATCH, [0])
    assert not compare(tmp_path, "float16", [1, np.inf], [1, 2]).passed


def test_overflow_is_neither_free_nor_forbidden(tmp_path: Path) -> None:
    """A value beyond the dtype is right as inf, wrong as anything finite; just below the edge both are right."""
    beyond = [1e6, -1e6]
    assert compare(tmp_path, "float16", [np.inf, -np.inf], beyond).passed
    for got in ([65504, -65504], [0, 0], [1, 1], [-np.inf, np.inf]):
        assert not compare(tmp_path, "float16", got, beyond).passed
    edge = overflow_limit("float16")
    assert edge == 65520
    for got in (np.inf, 65504):
        assert compare(tmp_path, "float16", [got], [edge - 10]).passed
    assert not compare(tmp_path, "float16", [np.inf], [60000]).passed


def test_all_nan_passes_only_where_the_reference_is_all_nan(tmp_path: Path) -> None:
    nothing = np.full(100, np.nan)
    assert compare(tmp_path, "float32", nothing, nothing).passed
    assert compare(tmp_path, "float32", nothing, np.zeros(100)).wrong == 100


@pytest.mark.parametrize(
    ("dtype", "write_as"), [("float32", "bfloat16"), ("float32", "int8"), ("float16", "int8"), ("int8", "int32")]
)
def test_another_dtype_is_refused_by_size_before_values(tmp_path: Path, dtype: str, write_as: str) -> None:
    found = compare(tmp_path, dtype, np.zeros(64), np.zeros(64), write_as=write_as)
    assert not found.passed
    assert (found.error, found.wrong) == (MISMATCH, 64)
    assert (found.written_bytes, found.expected_bytes) == (
        64 * file_dtype(write_as).itemsize,
        64 * file_dtype(dtype).itemsize,
    )


def test_bits_of_another_dtype_in_the_right_size_are_wrong_values(tmp_path: Path) -> None:
    want = np.random.default_rng(4).uniform(0.5, 1, 64)
    want.astype(np.float16).tofile(tmp_path / "got.bin")
    want.astype(np.float32).tofile(tmp_path / "want.bin")
    spec = TensorSpec("y", (64,), "bfloat16")
    found = compare_output(tmp_path / "got.bin", tmp_path / "want.bin", spec, DEFAULT_TOLERANCE["bfloat16"])
    assert found.wrong == 64


def test_a_missing_file_and_a_short_one_fail(tmp_path: Path) -> None:
    np.zeros(8).tofile(tmp_path / "want.bin")
    spec, rule = TensorSpec("y", (8,), "float32"), DEFAULT_TOLERANCE["float32"]
    missing = compare_output(tmp_path / "got.bin", tmp_path / "want.bin", spec, rule)
    assert (missing.passed, missing.written_bytes, missing.expected_bytes) == (False, 0, 32)
    (tmp_path / "got.bin").write_bytes(bytes(31))
    assert not compare_output(tmp_path / "got.bin", tmp_path / "want.bin", spec, rule).passed


def test_zeros_do_not_pass_for_small_values_of_a_relative_task(tmp_path: Path) -> None:
    want = np.full(100, 5e-6)
    assert compare(tmp_path, "float16", np.zeros(100), want).passed  # below the default atol of float16
    assert not compare(tmp_path, "float16", np.zeros(100), want, Tolerance(2**-9, 2.4e-7)).passed


def test_a_purely_relative_tolerance_accepts_exact_zeros(tmp_path: Path) -> None:
    rule = Tolerance(1e-4, 0.0)
    assert compare(tmp_path, "float32", [0.0, -0.0, 1.0], [0.0, 0.0, 1.0], rule).passed
    found = compare(tmp_path, "float32", [1e-30, 0.0], [0.0, 0.0], rule)
    assert (found.passed, found.wrong, found.error) == (False, 1, MISMATCH)


def test_integers_are_exact_unless_the_task_says_otherwise(tmp_path: Path) -> None:
    want = np.arange(-100, 100)
    assert compare(tmp_path, "int8", want, want).passed
    off = want.copy()
    off[7] += 1
    found = compare(tmp_path, "int8", off, want)
    assert (found.passed, found.wrong, found.error) == (False, 1, 2.0)
    assert compare(tmp_path, "int8", off, want, Tolerance(0, 1)).passed
    off[9] += 2
    assert compare(tmp_path, "int8", off, want, Tolerance(0, 1)).error == 2.0


def test_cutting_off_instead_of_rounding_fails_by_its_mean(tmp_path: Path) -> None:
    exact = np.random.default_rng(5).uniform(-127, 127, 4096)
    rounded, cut = np.round(exact), np.trunc(exact)
    found = compare(tmp_path, "int8", cut, rounded, Tolerance(0, 1))
    assert (found.error, found.passed) == (1.0, False)
    assert found.violation > 1


def test_int64_values_beyond_float64_are_told_apart(tmp_path: Path) -> None:
    want = np.array([2**60 + 1, -(2**60)])
    assert compare(tmp_path, "int64", want, want).passed
    assert compare(tmp_path, "int64", want - [1, 0], want).positions.tolist() == [0]


def test_a_bool_is_one_byte_of_0_or_1(tmp_path: Path) -> None:
    assert compare(tmp_path, "bool", [0, 1, 1], [0, 1, 1]).passed
    assert compare(tmp_path, "bool", [0, 2, 1], [0, 1, 1]).positions.tolist() == [1]


def test_many_wrong_elements_are_all_counted(tmp_path: Path) -> None:
    count = 1_500_000
    found = compare(tmp_path, "float16", np.ones(count), np.full(count, 2.0))
    assert found.wrong == count
    assert found.positions.size < count  # only the first are kept, to bound memory
    first = compare_output(
        tmp_path / "got.bin", tmp_path / "want.bin", found.spec, DEFAULT_TOLERANCE["float16"], first_wrong_block=True
    )
    assert (first.passed, first.wrong < count) == (False, True)


def test_scalars_are_compared(tmp_path: Path) -> None:
    assert compare(tmp_path, "float32", 2.5, 2.5).passed
    assert not compare(tmp_path, "float32", 2.6, 2.5).passed


def test_an_output_without_elements_is_right_when_nothing_was_written(tmp_path: Path) -> None:
    spec = TensorSpec("y", (0, 5), "float16")
    nothing, something = tmp_path / "nothing.bin", tmp_path / "something.bin"
    something.write_bytes(bytes(2))
    assert compare_output(nothing, nothing, spec, DEFAULT_TOLERANCE["float16"]).passed
    assert not compare_output(something, nothing, spec, DEFAULT_TOLERANCE["float16"]).passed
