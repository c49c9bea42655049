"""Inputs are the same bytes for everybody, lie in their range, and hold special values where the docs say."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from kope.evaluate.dtypes import file_dtype, smallest_normal
from kope.evaluate.inputs import draw
from kope.model import CaseInput, TensorSpec, Values

ORDINARY = Values(-2, 3)


def given(dtype: str = "float32", numel: int = 8000, values: Values = ORDINARY) -> CaseInput:
    return CaseInput(TensorSpec("x", (numel,), dtype), values)


def test_values_follow_from_task_case_input_and_seed_alone() -> None:
    first = draw("exp", "1", given())
    assert np.array_equal(first, draw("exp", "1", given()))
    others = [
        draw("gelu", "1", given()),
        draw("exp", "2", given()),
        draw("exp", "1", given(), seed=1),
        draw("exp", "1", CaseInput(TensorSpec("z", (8000,), "float32"), Values(-2, 3))),
    ]
    assert all(not np.array_equal(first, other) for other in others)


def test_the_bytes_are_fixed_for_good() -> None:
    """A changed hash means that verdicts of two versions are about different inputs: raise INPUT_RULES."""
    hashes = {
        dtype: hashlib.sha256(
            draw("exp", "1", given(dtype, 600_000, Values(0, 1 if dtype == "bool" else 5))).tobytes()
        ).hexdigest()[:16]
        for dtype in ("float32", "float16", "bfloat16", "int8", "bool")
    }
    assert hashes == {
        "float32": "059f4d3e56f6e632",
        "float16": "2e18dffe7f0be5c1",
        "bfloat16": "91687eda7f95b15e",
        "int8": "38a5bac2a4eb1148",
        "bool": "927460177287d12b",
    }


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_floats_fill_their_range(dtype: str) -> None:
    data = draw("t", "1", given(dtype, 600_001)).astype(np.float64)
    assert data.size == 600_001
    assert -2 <= data.min() < -1.98
    assert 2.98 < data.max() <= 3
    assert abs(data.mean() - 0.5) < 0.01


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("int8", -128, 127), ("uint8", 0, 1), ("int32", -5, 5), ("int64", 0, 9), ("bool", 0, 1)]
)
def test_integers_include_both_ends(dtype: str, low: int, high: int) -> None:
    data = draw("t", "1", given(dtype, 20_000, Values(low, high)))
    assert data.dtype == file_dtype(dtype)
    assert set(np.unique(data).tolist()) == set(range(low, high + 1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_special_values_stay_in_one_window_of_an_eighth(dtype: str) -> None:
    for special, count, test in [
        ("nan", 62, np.isnan),
        ("inf", 62, np.isinf),
        ("zeros", 1000, lambda data: data == 0),
        ("denormal", 1000, lambda data: np.abs(data) <= smallest_normal(dtype)),
    ]:
        data = draw("t", "1", given(dtype, 8000, Values(1, 2, special))).astype(np.float64)
        places = np.flatnonzero(test(data))
        assert places.size == count, special
        assert places[-1] - places[0] < 1000
        if special == "inf":
            assert (data == np.inf).sum() == (data == -np.inf).sum() == 31
        if special == "denormal":
            assert (data[places] < 0).any() and (data[places] > 0).any()


def test_a_tensor_of_one_element_can_be_special() -> None:
    assert np.isnan(draw("t", "1", given(numel=1, values=Values(0, 1, "nan")))).all()
