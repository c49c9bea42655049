"""The file: one after closing, never harmed, and every unusable one answered in a line."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from kope.errors import Corrupt, KopeError, MachineError, NotFound, ReadOnly, SchemaError, StoreError
from kope.memory import RecallQuery, Store
from kope.memory.database import Database
from kope.memory.migrate import APPLICATION_ID, schema_files, version_known
from tests.memory.samples import attempt_of, begin, grow, rows, works

SNAPSHOT = Path(__file__).parent / "schema.sql"


def beside(path: Path) -> list[str]:
    return sorted(place.name for place in path.parent.iterdir())


def fill(path: Path, count: int = 5) -> str:
    with Store.open(path) as store:
        session_id = begin(store)
        grow(store, session_id, count)
    return session_id


def one_line(error: KopeError, path: Path) -> str:
    text = str(error)
    assert "\n" not in text
    assert str(path) in text or path.name in text
    return text


# --- closing --------------------------------------------------------------------------------------------------------


def test_closed_database_is_one_file_complete_in_itself(path: Path) -> None:
    with Store.open(path) as store:
        grow(store, begin(store), 3)
        assert beside(path) == ["kope.db", "kope.db-shm", "kope.db-wal"]
    assert beside(path) == ["kope.db"]
    assert path.read_bytes()[18:20] == b"\x01\x01"  # no write-ahead log expected by a reader
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    with Store.open(copy, create=False, read_only=True) as store:
        assert (len(store.attempts()), store.notes) == (3, ())


def test_last_of_two_to_close_leaves_one_file(path: Path) -> None:
    fill(path)
    first, second = Store.open(path), Store.open(path)
    begin(first, key="a")
    begin(second, key="b")
    first.close()
    assert second.attempts()
    second.close()
    assert beside(path) == ["kope.db"]
    assert path.read_bytes()[18:20] == b"\x01\x01"


def test_reader_that_closes_last_leaves_one_file(path: Path) -> None:
    fill(path)
    writer, reader = Store.open(path), Store.open(path)
    begin(writer, key="a")
    assert reader.sessions()
    writer.close()
    reader.close()
    assert beside(path) == ["kope.db"]
    assert path.read_bytes()[18:20] == b"\x01\x01"


def test_only_reading_changes_nothing(path: Path) -> None:
    fill(path)
    before, when = path.read_bytes(), path.stat().st_mtime_ns
    with Store.open(path, create=False) as store:
        store.recall(RecallQuery(text="variant"))
        store.info()
    with Store.open(path, create=False, read_only=True) as store:
        store.recall(RecallQuery(text="variant"))
        assert store.check() == ()
    assert (path.read_bytes(), path.stat().st_mtime_ns, beside(path)) == (before, when, ["kope.db"])


def test_closed_store_says_so(path: Path) -> None:
    store = Store.open(path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="was closed"):
        store.attempts()


def test_store_in_memory_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(Path(":memory:")) as store:
        grow(store, begin(store), 3)
        assert (len(store.attempts()), store.check()) == (3, ())
    assert list(tmp_path.iterdir()) == []


# --- what cannot be opened ------------------------------------------------------------------------------------------


def test_missing_file_is_named_with_the_way_to_make_one(path: Path) -> None:
    for read_only in (False, True):
        with pytest.raises(NotFound, match="there is no database .* kope optimize makes one") as caught:
            Store.open(path, create=False, read_only=read_only)
        one_line(caught.value, path)
    with pytest.raises(NotFound):
        Store.open(path, read_only=True)
    assert not path.exists()


def test_missing_folder_is_named(path: Path) -> None:
    with pytest.raises(StoreError, match="folder .*nowhere does not exist"):
        Store.open(path.parent / "nowhere" / "kope.db")


def test_folder_instead_of_a_file(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreError, match="is a folder"):
        Store.open(path)


def test_device_or_pipe_instead_of_a_file(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(StoreError, match="is not a regular file"):
        Store.open(path)


def test_link_to_a_database_is_followed(path: Path, tmp_path: Path) -> None:
    fill(path)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(path)
    with Store.open(link) as store:
        begin(store, key="x")
        assert beside(link) == ["link.db"]
        assert store.path == path
    assert len(rows(path, "SELECT 1 FROM sessions")) == 2


@pytest.mark.parametrize("target", ["nowhere.db", "loop.db"])
def test_link_to_nowhere_is_refused(tmp_path: Path, target: str) -> None:
    link = tmp_path / "loop.db"
    link.symlink_to(tmp_path / target)
    with pytest.raises(StoreError, match="is a link to nowhere"):
        Store.open(link)
    assert link.is_symlink()


def test_empty_file_becomes_a_database_but_is_not_read_as_one(path: Path) -> None:
    path.touch()
    with pytest.raises(SchemaError, match="is empty, not a KOPE database"):
        Store.open(path, create=False)
    with Store.open(path) as store:
        assert store.attempts() == ()


@pytest.mark.parametrize(
    "content",
    [b"hello", b"\0" * 4096, b"PK\x03\x04" + b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 4080],
    ids=range(4),
)
def test_other_file_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for read_only in (False, True):
        with pytest.raises((SchemaError, Corrupt)) as caught:
            Store.open(path, read_only=read_only)
        one_line(caught.value, path)
    assert path.read_bytes() == content


def alter(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def test_other_programs_database_is_refused_and_left_alone(path: Path) -> None:
    alter(path, "CREATE TABLE recipes (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(SchemaError, match="is an SQLite database but not KOPE's"):
        Store.open(path)
    alter(path, "PRAGMA application_id = 7; DROP TABLE recipes")
    with pytest.raises(SchemaError, match="not KOPE's"):
        Store.open(path)
    assert len(before) > 0


def test_newer_schema_is_refused_with_the_version_needed(path: Path) -> None:
    fill(path)
    alter(path, "PRAGMA user_version = 99; UPDATE meta SET value = '7.8.9' WHERE key = 'written_by'")
    before = path.read_bytes()
    with pytest.raises(SchemaError, match=r"newer KOPE \(schema 99, .*\); install kope 7\.8\.9 or later"):
        Store.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t AFTER INSERT ON nodes BEGIN UPDATE nodes SET downstream = 9e9; END",
        "CREATE VIEW v AS SELECT * FROM nodes",
    ],
)
def test_triggers_and_views_are_refused(path: Path, sql: str) -> None:
    fill(path)
    alter(path, sql)
    with pytest.raises(SchemaError, match="triggers or views"):
        Store.open(path)


def test_damaged_pages_are_found(path: Path) -> None:
    fill(path, 30)
    data = bytearray(path.read_bytes())
    ((root,),) = rows(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'attempt_texts'")
    data[(root - 1) * 4096 : (root - 1) * 4096 + 64] = b"\xee" * 64
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="is damaged .*restore a snapshot") as caught, Store.open(path) as store:
        store.attempts()
    one_line(caught.value, path)
    with Store.open(path) as store:
        assert {problem.kind for problem in store.check()} == {"pages"}


def test_truncated_file_is_found(path: Path) -> None:
    fill(path, 30)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(Corrupt), Store.open(path) as store:
        store.attempts()


# --- files and folders that cannot be written -----------------------------------------------------------------------


def cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """What os.access says of a read-only file system, for the super-user too."""
    monkeypatch.setattr("kope.memory.database.os.access", lambda place, mode: mode != os.W_OK)


def holds_read_only(path: Path, session_id: str, count: int) -> None:
    with Store.open(path) as store:
        assert store.read_only
        assert len(store.recall(RecallQuery(text="variant of the loop")).items) > 0
        assert len(store.attempts()) == count
        assert store.check() == ()
        with pytest.raises(ReadOnly, match="cannot be written; make file and folder writable"):
            store.record(attempt_of(session_id, 99, works()))
        with pytest.raises(ReadOnly):
            store.begin_session("key")


AS_ANOTHER = """
import os, sys
from pathlib import Path
from kope.errors import ReadOnly
from kope.memory import RecallQuery, Store

query = RecallQuery(text="variant of the loop")
with Store.open(Path(sys.argv[1]), read_only=True) as store:  # loads what it needs while everything may still be read
    store.recall(query)
    store.attempts()
    store.check()
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with Store.open(Path(sys.argv[1])) as store:
    items = len(store.recall(query).items)
    try:
        store.begin_session("key")
    except ReadOnly as refused:
        print(store.read_only, items, len(store.attempts()), store.check(), "cannot be written" in str(refused))
"""


@pytest.mark.parametrize("protected", ["file", "folder"])
def test_protected_file_or_folder_still_recalls(protected: str) -> None:
    """As another user when this one is root, who may write everything."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "kope.db"
        fill(path, 15)
        before = path.read_bytes()
        path.chmod(0o444 if protected == "file" else 0o666)
        path.parent.chmod(0o777 if protected == "file" else 0o555)
        argv = [sys.executable, "-c", AS_ANOTHER, str(path)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        path.parent.chmod(0o700)
        assert (done.stdout, done.stderr) == ("True 8 15 () True\n", "")
        assert (path.read_bytes(), beside(path)) == (before, ["kope.db"])


def test_read_only_file_system_still_recalls(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = fill(path)
    cannot_write(monkeypatch)
    before = path.read_bytes()
    holds_read_only(path, session_id, 5)
    assert (path.read_bytes(), beside(path)) == (before, ["kope.db"])


def leave_log(path: Path) -> None:
    """Leave the file as a killed program does: header says WAL, the log lies beside it with the newest session."""
    store = Store.open(path)
    begin(store, key="late")
    saved = {place.name: place.read_bytes() for place in path.parent.iterdir()}
    store.close()
    for name, data in saved.items():
        (path.parent / name).write_bytes(data)


def test_killed_programs_log_is_read_and_taken_in(path: Path) -> None:
    fill(path)
    leave_log(path)
    with Store.open(path, read_only=True) as store:
        assert (len(store.sessions()), store.notes) == (2, ())
    with Store.open(path) as store:
        assert len(store.sessions()) == 2
    assert beside(path) == ["kope.db"]


def test_copy_without_its_log_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path)
    leave_log(path)
    path.with_name("kope.db-wal").unlink()
    path.with_name("kope.db-shm").unlink()
    with Store.open(path, read_only=True) as store:
        assert store.notes == (
            "kope.db was copied while in use, without its -wal file; the newest attempts may be missing",
        )
        assert len(store.attempts()) == 5
    assert beside(path) == ["kope.db"]
    with monkeypatch.context() as patched:
        cannot_write(patched)
        with Store.open(path) as store:
            assert (store.read_only, len(store.attempts()), len(store.notes)) == (True, 5, 1)
    with Store.open(path) as store:
        assert (store.read_only, len(store.notes)) == (False, 1)
    with Store.open(path) as store:
        assert store.notes == ()


# --- full disk ------------------------------------------------------------------------------------------------------


def test_full_disk_leaves_the_file_as_it_was(path: Path) -> None:
    session_id = fill(path)
    with Store.open(path) as store:
        database: Database = store._database
        pages = database.rows("PRAGMA page_count")[0][0]
        database.rows(f"PRAGMA max_page_count = {pages}")
        kept = store.attempts()
        with pytest.raises(MachineError, match="no space left to write .*; free some and repeat") as caught:
            for number in range(50, 150):
                store.record(attempt_of(session_id, number, works(), source="".join(map(chr, range(300, 20_000)))))
        one_line(caught.value, path)
        after = store.attempts()
        assert after[: len(kept)] == kept
        assert store.check() == ()
        database.rows("PRAGMA max_page_count = 1000000")
        store.record(attempt_of(session_id, 200, works()))
    with Store.open(path) as store:
        assert store.attempts()[:-1] == after
        assert store.check() == ()


# --- the schema -----------------------------------------------------------------------------------------------------


def test_schema_is_the_one_on_record(path: Path) -> None:
    """A released migration is never edited; a new one changes the snapshot, which shows in review."""
    Store.open(path).close()
    found = rows(
        path, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'node_words_%' ORDER BY rowid"
    )
    text = "".join(f"{sql};\n\n" for (sql,) in found)
    assert text == SNAPSHOT.read_text("utf-8"), f"write the new one with: python -m tests.memory.test_file > {SNAPSHOT}"


def test_file_is_marked_as_kopes(path: Path) -> None:
    fill(path)
    assert rows(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert path.read_bytes()[68:72] == b"KOPE"
    assert rows(path, "PRAGMA user_version") == [(len(schema_files()),)]


def test_migrations_are_numbered_without_gap() -> None:
    assert [int(file.name[:4]) for file in schema_files()] == list(range(1, version_known() + 1))


def test_failed_migration_leaves_nothing(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / f"{version_known() + 1:04}_broken.sql"
    broken.write_text("CREATE TABLE extra (x TEXT) STRICT; CREATE TABLE extra (x TEXT) STRICT;")
    fill(path)
    before = path.read_bytes()
    files = (*schema_files(), broken)
    monkeypatch.setattr("kope.memory.migrate.schema_files", lambda: files)
    with pytest.raises(sqlite3.OperationalError):
        Store.open(path)
    with pytest.raises(sqlite3.OperationalError):
        Store.open(path.with_name("new.db"))
    assert path.read_bytes() == before
    assert sorted(beside(path)) == [broken.name, "kope.db", f"kope.schema{version_known() - 1}.db"]


def test_older_file_is_migrated_and_only_read_where_it_cannot_be(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path)
    added = tmp_path / f"{version_known() + 1:04}_more.sql"
    added.write_text("CREATE TABLE extra (x TEXT) STRICT;")
    files = (*schema_files(), added)
    monkeypatch.setattr("kope.memory.migrate.schema_files", lambda: files)
    with pytest.raises(ReadOnly, match="older schema"):
        Store.open(path, read_only=True)
    with Store.open(path) as store:
        assert (store.info().schema_version, len(store.attempts())) == (len(files), 5)
    assert rows(path, "SELECT count(*) FROM extra") == [(0,)]


if __name__ == "__main__":
    place = Path(tempfile.mkdtemp()) / "kope.db"
    Store.open(place).close()
    for (sql,) in rows(
        place, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'node_words_%' ORDER BY rowid"
    ):
        sys.stdout.write(f"{sql};\n\n")
