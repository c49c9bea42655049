"""The nearest vectors are found among many, whatever the file holds; what cannot be compared is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from kope.memory import index
from kope.memory.database import IN_MEMORY, Database
from kope.memory.vectors import Vectors

_NODE = """
    INSERT INTO nodes (id, origin_id, kind, task_name, move, traits, stage, works, label, step_ratio, downstream,
                       confidence, hardware, bottleneck, created_at, revision, embedder, embedding)
    SELECT ?1, id, 'fact', '', '', '[]', 'profile', 1, '', 1.0, 1.0, 1.0, '', '', '', 1, ?2, ?3 FROM origins
"""


@pytest.fixture
def database() -> Iterator[Database]:
    with Database.open(IN_MEMORY, create=True, read_only=False) as opened:
        yield opened


def put(database: Database, vectors: Sequence[NDArray[np.float32]], embedder: str = "e") -> None:
    """Write vectors as recording does: numbers go on from 1, and full ranges are coded."""
    with database.write() as connection:
        start = connection.execute("SELECT count(*) FROM nodes").fetchone()[0]
        rows = [(f"n{start + n}", embedder, vector.astype("<f2").tobytes()) for n, vector in enumerate(vectors)]
        connection.executemany(_NODE, rows)
        index.extend(connection)


def unit(count: int, dim: int, seed: int = 0, spread: float = 1.0) -> NDArray[np.float32]:
    """Unit vectors around 40 centres, as texts of a few topics have."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((40, dim))
    made = centres[rng.integers(0, 40, count)] + spread * rng.standard_normal((count, dim))
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def exact(vectors: NDArray[np.float32], asked: NDArray[np.float32], count: int) -> list[int]:
    return [1 + int(n) for n in np.argsort(-(vectors.astype(np.float16).astype(np.float32) @ asked))[:count]]


@pytest.mark.parametrize("dim", [384, 100])
def test_nearest_of_many_are_those_of_a_full_comparison(database: Database, dim: int) -> None:
    given = unit(12_000, dim)
    put(database, given)
    vectors = Vectors(database, "nodes")
    found = wanted = 0
    for asked in unit(20, dim, seed=1):
        near = [seq for seq, _ in vectors.nearest(asked, "e", None, 10)]
        found += len(set(near) & set(exact(given, asked, 10)))
        wanted += 10
    assert found / wanted >= 0.97


def test_few_are_compared_in_full(database: Database) -> None:
    given = unit(390, 64)
    put(database, given)
    vectors = Vectors(database, "nodes")
    for asked in unit(5, 64, seed=1):
        near = vectors.nearest(asked, "e", None, 25)
        assert [seq for seq, _ in near] == exact(given, asked, 25)
        assert [cosine for _, cosine in near] == pytest.approx(
            [float(given[seq - 1].astype(np.float16).astype(np.float32) @ asked) for seq, _ in near]
        )


def test_only_what_is_allowed_is_found(database: Database) -> None:
    put(database, unit(5_000, 64))
    allowed = set(range(1, 5_000, 7))
    near = Vectors(database, "nodes").nearest(unit(1, 64, seed=2)[0], "e", allowed, 50)
    assert len(near) == 50
    assert {seq for seq, _ in near} <= allowed


def test_vectors_that_come_later_are_found_by_whoever_has_read_before(database: Database) -> None:
    """Whether they are coded by then or not."""
    given = unit(1_900, 64)
    put(database, given[:700])
    vectors = Vectors(database, "nodes")
    asked = given[850]
    assert vectors.nearest(asked, "e", None, 1)[0][0] != 851
    for upto in (900, 1_900):
        put(database, given[len(vectors) : upto])
        assert vectors.nearest(asked, "e", None, 1)[0] == (851, pytest.approx(1.0, abs=1e-3))
        assert len(vectors) == upto
    again = Vectors(database, "nodes")
    assert again.nearest(asked, "e", None, 5) == vectors.nearest(asked, "e", None, 5)
    assert len(again) == 1_900


@pytest.mark.parametrize("more", [0, 600])
def test_two_embedders_and_two_dimensions_never_meet(database: Database, more: int) -> None:
    """Coded or not: 600 rows more code those before."""
    put(database, unit(10, 64))
    put(database, [np.ones(32, np.float32)])
    put(database, [np.ones(64, np.float32)], "other")
    put(database, unit(more, 64, seed=5))
    vectors = Vectors(database, "nodes")
    near = vectors.nearest(unit(1, 64)[0], "e", None, 1_000)
    assert {seq for seq, _ in near} == {*range(1, 11), *range(13, 13 + more)}
    assert len(vectors) == 10 + more
    assert [seq for seq, _ in vectors.nearest(np.ones(64, np.float32), "other", None, 100)] == [12]
    assert [seq for seq, _ in vectors.nearest(np.ones(32, np.float32), "e", None, 100)] == [11]


@pytest.mark.parametrize("more", [0, 600])
def test_bytes_that_are_no_numbers_win_nothing(database: Database, more: int) -> None:
    given = unit(5, 64)
    put(database, [*given, np.full(64, np.nan, np.float32), np.full(64, np.inf, np.float32)])
    put(database, 0.1 * unit(more, 64, seed=5))
    near = Vectors(database, "nodes").nearest(given[3], "e", None, 1_000)
    assert near[0][0] == 4
    assert dict(near)[6] == dict(near)[7] == 0.0
