"""A damaged database: what is derived is made again, rows are saved, and a snapshot is whole while others write."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kope.errors import StoreError
from kope.memory import Store
from kope.memory.embedding import HashEmbedder
from kope.memory.mounts import file_system_of, warning
from kope.memory.repair import repair
from kope.memory.share import Choice, Form, export_file
from kope.memory.share.files import snapshot_file
from tests.memory.samples import attempt_of, begin, dump, grow, rows, task_of, works


@pytest.fixture
def db(path: Path) -> Path:
    with Store.open(path, embedder=HashEmbedder(16)) as store:
        session_id = begin(store, task_of())
        grow(store, session_id, 60)
        store.end_session(session_id, "iterations")
    return path


def evidence(path: Path) -> list[tuple[str, str]]:
    return rows(path, "SELECT id, content_digest FROM attempts ORDER BY id")


def is_whole(path: Path) -> None:
    with Store.open(path, create=False) as store:
        assert store.check() == ()


def test_nothing_is_done_to_a_whole_database(db: Path) -> None:
    before = dump(db)
    assert (repair(db).how, dump(db)) == ("nothing", before)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM journals WHERE seq % 2",
        "DELETE FROM edges WHERE kind = 'led_to' AND seq % 3 = 0",
        "UPDATE nodes SET downstream = 7, label = 'effective' WHERE seq % 4 = 0",
        "DELETE FROM node_texts WHERE rowid % 5 = 0",
        "INSERT INTO node_words (node_words) VALUES ('delete-all')",
    ],
)
def test_what_is_derived_is_made_again_in_place(db: Path, damage: str) -> None:
    before = evidence(db), rows(db, "SELECT node_id, title, decision, lesson FROM node_texts ORDER BY 1")
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute(damage)
    done = repair(db)
    assert (done.how, done.attempts, done.left) == ("rebuilt", 60, ())
    assert done.file is not None and done.file.exists()
    is_whole(db)
    assert (evidence(db), rows(db, "SELECT node_id, title, decision, lesson FROM node_texts ORDER BY 1")) == before


def test_rows_of_a_damaged_file_are_saved_into_a_new_one(db: Path) -> None:
    before = dict(evidence(db))
    with closing(sqlite3.connect(db)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'attempt_texts'").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(db.read_bytes())
    leaf = int.from_bytes(data[(root - 1) * size + 12 : (root - 1) * size + 14], "big")
    child = int.from_bytes(data[(root - 1) * size + leaf : (root - 1) * size + leaf + 4], "big")
    data[(child - 1) * size : (child - 1) * size + 200] = bytes(200)  # one leaf of many
    db.write_bytes(data)
    done = repair(db)
    assert (done.how, done.left) == ("saved", ())
    assert db.read_bytes() == bytes(data)
    assert done.file is not None
    is_whole(done.file)
    saved = dict(evidence(done.file))
    assert saved.items() <= before.items()
    assert 30 < len(saved) < 60
    assert done.lost == 60 - len(saved)
    with pytest.raises(StoreError, match="is there already, from an earlier repair"):
        repair(db)


def test_attempt_that_was_altered_is_left_behind(db: Path) -> None:
    name = rows(db, "SELECT id FROM attempts ORDER BY seq DESC LIMIT 1")[0][0]
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("UPDATE attempts SET speedup = 99 WHERE id = ?", (name,))
    done = repair(db)
    assert (done.how, done.attempts, done.lost, done.left) == ("saved", 59, 1, ())
    assert done.file is not None
    assert name not in dict(evidence(done.file))


def test_file_cut_short_keeps_what_is_in_its_beginning(db: Path) -> None:
    data = db.read_bytes()
    db.write_bytes(data[: len(data) * 3 // 4 // 4096 * 4096])
    done = repair(db)
    assert done.how == "saved"
    assert done.file is not None
    is_whole(done.file)


# --- snapshots ------------------------------------------------------------------------------------------------------


def test_snapshot_has_what_a_bare_copy_lacks(path: Path) -> None:
    with Store.open(path) as store, Store.open(path) as reader:
        session_id = begin(store)
        for number in range(100):
            store.record(attempt_of(session_id, number + 1, works()))
        assert len(reader.attempts()) == 100
        copied = shutil.copy(path, path.with_name("copied.db"))
        place = snapshot_file(path, path.with_name("snap.db"))
        assert export_file(path, path.with_name("out.db"), Choice(), Form()).attempts == 100
    is_whole(place)
    assert len(evidence(place)) == 100
    with Store.open(Path(copied), create=False, read_only=True) as store:
        assert "without its -wal file" in store.notes[0]
    assert sorted(found.name for found in path.parent.iterdir()) == ["copied.db", "kope.db", "out.db", "snap.db"]


def test_snapshot_overwrites_nothing(db: Path) -> None:
    with pytest.raises(StoreError, match="is there already"):
        snapshot_file(db, db)


# --- network file systems -------------------------------------------------------------------------------------------

_MOUNTS = r"""22 1 8:1 / / rw - ext4 /dev/sda1 rw
40 22 0:44 / /mnt/team\040share rw,relatime shared:1 - nfs4 server:/x rw
41 40 0:45 / /mnt/team\040share/scratch rw - xfs /dev/sdb rw
"""


def test_network_file_system_is_told_with_the_way_out(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(_MOUNTS)
    places = ("/home/x/kope.db", "/mnt/team share/kope.db", "/mnt/team share/scratch/kope.db")
    assert [file_system_of(Path(place), mounts) for place in places] == ["ext4", "nfs4", "xfs"]
    assert [bool(warning(Path(place), mounts)) for place in places] == [False, True, False]
    assert "kope db snapshot" in warning(Path(places[1]), mounts)
    assert file_system_of(Path("/x"), tmp_path / "none") == ""
