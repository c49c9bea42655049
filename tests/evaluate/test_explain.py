"""A wrong output is explained by the region that is wrong, with values, in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.evaluate.compare import compare_output
from kope.evaluate.explain import wrong_value
from kope.model import Diagnostic, TensorSpec, Tolerance


def explain(tmp_path: Path, shape: tuple[int, ...], change: Any) -> Diagnostic:
    want = np.random.default_rng(0).uniform(1, 2, shape)
    got = want.copy()
    got = change(got) if callable(change) else got
    got.astype(np.float32).tofile(tmp_path / "got")
    want.tofile(tmp_path / "want")
    found = compare_output(
        tmp_path / "got", tmp_path / "want", TensorSpec("y", shape, "float32"), Tolerance(1e-4, 1e-6)
    )
    assert not found.passed
    return wrong_value("5", found)


def setting(index: Any, value: float = 9.0) -> Any:
    def change(got: Any) -> Any:
        got[index] = value
        return got

    return change


@pytest.mark.parametrize(
    ("shape", "change", "begin", "remedy"),
    [
        (
            (4097,),
            setting(slice(-17, None)),
            "last 17 of 4097 elements wrong of output y in case 5: [4080] got 9 want",
            "tail",
        ),
        ((4097,), setting(slice(None, 64)), "first 64 of 4097 elements wrong of output y in case 5", "first tile"),
        ((4097,), setting(slice(128, 256)), "elements 128 to 255 of 4097 wrong", "tile or core"),
        ((40, 10), setting((slice(None), slice(8, 10))), "columns 8 to 9 of 10 wrong in every row", "tail of a row"),
        ((40, 10), setting([3, 7]), "2 of 40 rows wrong as a whole (first: 3)", "which core"),
        (
            (40, 10),
            setting(([1, 5, 9], [2, 3, 3])),
            "3 of 400 elements wrong of output y in case 5: [1, 2] got 9",
            "formula",
        ),
        ((300,), lambda got: got * 2, "all 300 elements wrong", "2 times the expected value"),
        ((300,), lambda got: got * 0, "all 300 elements wrong", "only zeros there"),
        (
            (300,),
            lambda got: got * np.nan,
            "all 300 elements wrong of output y in case 5: [0] got nan",
            "NaN where a number",
        ),
    ],
)
def test_the_wrong_region_is_named(
    tmp_path: Path, shape: tuple[int, ...], change: Any, begin: str, remedy: str
) -> None:
    found = explain(tmp_path, shape, change)
    assert found.message.startswith(begin)
    assert remedy in found.remedy
    assert (found.kind, found.severity, found.case_id) == ("wrong-value", "error", "5")
    assert "\n" not in found.message


def test_a_wrong_size_says_both_sizes(tmp_path: Path) -> None:
    found = explain(tmp_path, (10, 3), lambda got: got[:, :2])
    assert found.kind == "wrong-size"
    assert found.message == "output y in case 5: 80 bytes written, 120 expected for [10, 3] float32"


def test_a_biased_mean_is_told_from_wrong_elements(tmp_path: Path) -> None:
    found = explain(tmp_path, (1000,), lambda got: got * (1 + 8e-5))
    assert "every element is within tolerance, but the mean error is 0.7" in found.message
    assert "biased" in found.remedy
