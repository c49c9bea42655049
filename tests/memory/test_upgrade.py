"""Databases that earlier versions left, one of every released schema: opened, brought up to date, taken in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kope.memory import RecallQuery, Store
from kope.memory.migrate import version_known
from kope.memory.share import import_file
from tests.memory.samples import rows

DATA = Path(__file__).parents[1] / "data"
RELEASED = sorted(DATA.glob("schema-*.db"))
ATTEMPTS = 10


def version_of(path: Path) -> int:
    return int(path.stem.removeprefix("schema-"))


def test_every_released_schema_has_a_database_here() -> None:
    assert [version_of(path) for path in RELEASED] == [1, 4]
    for path in RELEASED:
        assert rows(path, "PRAGMA user_version") == [(version_of(path),)]


@pytest.mark.parametrize("kept", RELEASED, ids=lambda path: path.stem)
def test_it_upgrades_and_stays_as_it_was_beside(kept: Path, path: Path) -> None:
    shutil.copy(kept, path)
    with Store.open(path, create=False) as store:
        assert (len(store.attempts()), store.check()) == (ATTEMPTS, ())
        assert store.recall(RecallQuery(task_name="exp", text="first kernel")).items[0].experience.move == "draft"
        notes = store.notes
    assert rows(path, "PRAGMA user_version") == [(version_known(),)]
    before = path.with_name(f"kope.schema{version_of(kept)}.db")
    if version_of(kept) == version_known():
        assert (notes, before.exists()) == ((), False)
        return
    assert before.name in notes[0]
    ids = "SELECT id, content_digest FROM attempts ORDER BY id"
    assert rows(before, "PRAGMA user_version") == [(version_of(kept),)]
    assert rows(before, ids) == rows(path, ids) == rows(kept, ids)


@pytest.mark.parametrize("kept", RELEASED, ids=lambda path: path.stem)
def test_it_can_be_taken_in(kept: Path, path: Path) -> None:
    before = kept.read_bytes()
    taken = import_file(path, kept)
    assert (taken.new, taken.refused, taken.without_vector) == (ATTEMPTS, 0, 0)
    assert import_file(path, kept).known == ATTEMPTS
    with Store.open(path, create=False) as store:
        assert store.check() == ()
    assert kept.read_bytes() == before
    bottlenecks = "SELECT attempt_id, bottleneck FROM nodes WHERE kind = 'attempt' ORDER BY attempt_id"
    assert rows(path, bottlenecks) == rows(kept, bottlenecks)
