"""An open database with a session in which the sample tasks are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kope.memory import Store
from kope.memory.embedding import HashEmbedder
from tests.memory.samples import begin, task_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kope.db"


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """In a file when the test asks for its path as well, else in memory, which spares hundreds of fsyncs."""
    place = request.getfixturevalue("path") if "path" in request.fixturenames else Path(":memory:")
    with Store.open(place, embedder=HashEmbedder(512)) as opened:
        yield opened


@pytest.fixture
def session_id(store: Store) -> str:
    return begin(store, task_of(), task_of("layer_norm"), task_of("exp", ("elementwise",)))
