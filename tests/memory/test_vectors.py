"""The nearest vectors are found among many, whatever the file holds; what cannot be compared is only counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from kope.memory.database import Database
from kope.memory.image import Vectors


class Rows:
    """Vectors as a database hands them out."""

    def __init__(self, vectors: NDArray[np.float32], embedder: str = "e") -> None:
        self.given = [(n, v.astype("<f2").tobytes(), embedder, f"n{n}") for n, v in enumerate(vectors)]

    def rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        return [row for row in self.given if row[0] > values[0]]


def vectors_of(rows: Rows) -> Vectors:
    return Vectors(cast(Database, rows), "nodes")


def unit(count: int, dim: int, seed: int = 0, spread: float = 1.0) -> NDArray[np.float32]:
    """Unit vectors around 40 centres, as texts of a few topics have."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((40, dim))
    made = centres[rng.integers(0, 40, count)] + spread * rng.standard_normal((count, dim))
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def exact(vectors: NDArray[np.float32], asked: NDArray[np.float32], count: int) -> list[str]:
    return [f"n{place}" for place in np.argsort(-(vectors.astype(np.float16).astype(np.float32) @ asked))[:count]]


@pytest.mark.parametrize("dim", [384, 100])
def test_nearest_of_many_are_those_of_a_full_comparison(dim: int) -> None:
    given = unit(12_000, dim)
    vectors = vectors_of(Rows(given))
    found = wanted = 0
    for asked in unit(20, dim, seed=1):
        near = [name for name, _ in vectors.nearest(asked, "e", None, 10)]
        found += len(set(near) & set(exact(given, asked, 10)))
        wanted += 10
    assert found / wanted >= 0.97


def test_few_are_compared_in_full() -> None:
    given = unit(500, 64)
    vectors = vectors_of(Rows(given))
    for asked in unit(5, 64, seed=1):
        near = vectors.nearest(asked, "e", None, 25)
        assert [name for name, _ in near] == exact(given, asked, 25)
        assert [cosine for _, cosine in near] == pytest.approx(
            [float(given[int(name[1:])].astype(np.float16).astype(np.float32) @ asked) for name, _ in near]
        )


def test_only_what_is_allowed_is_found() -> None:
    given = unit(5_000, 64)
    allowed = {f"n{number}" for number in range(0, 5_000, 7)}
    near = vectors_of(Rows(given)).nearest(unit(1, 64, seed=2)[0], "e", allowed, 50)
    assert len(near) == 50
    assert {name for name, _ in near} <= allowed


def test_vectors_that_come_later_are_found_too() -> None:
    given = unit(900, 64)
    rows = Rows(given)
    kept, rows.given = rows.given, rows.given[:700]
    vectors = vectors_of(rows)
    asked = given[850]
    assert vectors.nearest(asked, "e", None, 1)[0][0] != "n850"
    rows.given = kept
    assert vectors.nearest(asked, "e", None, 1)[0] == ("n850", pytest.approx(1.0, abs=1e-3))
    assert len(vectors.node_ids) == 900


def test_two_embedders_and_two_dimensions_never_meet() -> None:
    rows = Rows(unit(10, 64))
    rows.given += [
        (10, np.ones(32, "<f2").tobytes(), "e", "short"),
        (11, np.ones(64, "<f2").tobytes(), "other", "foreign"),
    ]
    vectors = vectors_of(rows)
    assert len(vectors.nearest(unit(1, 64)[0], "e", None, 100)) == 10
    assert vectors.foreign == 2
    assert [name for name, _ in vectors.nearest(np.ones(64, np.float32), "other", None, 100)] == ["foreign"]


def test_bytes_that_are_no_numbers_win_nothing() -> None:
    rows = Rows(unit(5, 64))
    rows.given += [
        (5, np.full(64, np.nan, "<f2").tobytes(), "e", "nan"),
        (6, np.full(64, np.inf, "<f2").tobytes(), "e", "inf"),
    ]
    near = vectors_of(rows).nearest(unit(5, 64)[3], "e", None, 10)
    assert near[0][0] == "n3"
    assert dict(near)["nan"] == dict(near)["inf"] == 0.0
