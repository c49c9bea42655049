"""Imports under pressure: no room, no permission, killed in the middle, others writing and reading at the same time."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kope.errors import MachineError, ReadOnly, StoreError
from kope.memory import RecallQuery, Store
from kope.memory.database import Database
from kope.memory.share import Choice, Form, export_file, foreign, import_file
from tests.memory.samples import begin, grow, rows, task_of
from tests.memory.test_crash import start

ROOT = Path(__file__).parents[2]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.db"
    with Store.open(path) as store:
        grow(store, begin(store), 120)
    return path


def own(path: Path) -> Path:
    with Store.open(path) as store:
        grow(store, begin(store, key="own"), 5, seed=3)
    return path


def test_no_room_while_importing_changes_nothing(theirs: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(own(path), "SELECT id, content_digest FROM attempts ORDER BY id")
    opened = Database.open

    def cramped(*arguments: object, **named: object) -> Database:
        database: Database = opened(*arguments, **named)  # type: ignore[arg-type]
        pages = database.connection.execute("PRAGMA page_count").fetchone()[0]
        database.connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        return database

    monkeypatch.setattr("kope.memory.share.files.Database.open", cramped)
    with pytest.raises(MachineError, match="no space left to write .* nothing was lost"):
        import_file(path, theirs)
    monkeypatch.undo()
    assert rows(path, "SELECT id, content_digest FROM attempts ORDER BY id") == before
    with Store.open(path) as store:
        assert store.check() == ()
    assert import_file(path, theirs).new == 120


def test_database_that_cannot_be_written_takes_nothing_and_can_be_exported(
    theirs: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = own(path).read_bytes()
    monkeypatch.setattr("kope.memory.database._can_write", lambda _path: False)
    with pytest.raises(ReadOnly, match="cannot be written"):
        import_file(path, theirs)
    assert path.read_bytes() == before
    assert export_file(path, tmp_path / "out.db", Choice(), Form()).attempts == 5
    assert path.read_bytes() == before


def killed_import(path: Path, theirs: Path, after_s: float) -> None:
    code = (
        "import sys; from pathlib import Path; from kope.memory.share import import_file; print('go', flush=True);"
        "import_file(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    argv = [sys.executable, "-c", code, str(path), str(theirs)]
    program = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert program.stdout is not None
    program.stdout.readline()
    time.sleep(after_s)
    program.send_signal(signal.SIGKILL)
    program.communicate(timeout=60)


def test_import_that_is_killed_is_all_or_nothing(theirs: Path, path: Path) -> None:
    own(path)
    rng = random.Random(4)
    for _ in range(6):
        killed_import(path, theirs, rng.uniform(0.0, 0.5))
        with Store.open(path, create=False) as store:
            assert store.check() == ()
            assert len(store.attempts()) in (5, 125)
    import_file(path, theirs)
    with Store.open(path, create=False) as store:
        assert len(store.attempts()) == 125


def test_writers_go_on_while_a_file_is_taken_in_and_one_leaves(theirs: Path, path: Path, tmp_path: Path) -> None:
    own(path)
    programs = [start(path, f"writer-{number}", 15) for number in range(2)]
    assert import_file(path, theirs).new == 120
    assert export_file(path, tmp_path / "out.db", Choice(), Form()).attempts >= 125
    answers = [program.communicate(timeout=120) for program in programs]
    assert [(program.returncode, err) for program, (_, err) in zip(programs, answers, strict=True)] == [(0, "")] * 2
    with Store.open(path) as store:
        assert len(store.attempts()) == 5 + 120 + 30
        assert store.check() == ()


@pytest.mark.slow(minutes=2)
def test_four_writers_and_eight_readers_for_a_minute(path: Path) -> None:
    own(path)
    programs = [start(path, f"writer-{number}", 100_000) for number in range(4)]
    failures: list[BaseException] = []
    until = time.monotonic() + 60.0

    def read() -> None:
        try:
            while time.monotonic() < until:
                with Store.open(path) as store:
                    store.recall(RecallQuery(text="double buffer", task_name=task_of().name))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test has to see it
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    acknowledged: set[str] = set()
    for program in programs:
        assert program.poll() is None, program.communicate()[1]
        program.send_signal(signal.SIGKILL)
        lines = program.communicate(timeout=60)[0].splitlines(keepends=True)
        acknowledged |= {line.strip() for line in lines if line.endswith("\n") and line != "begin\n"}
    assert failures == []
    assert len(acknowledged) > 100
    with Store.open(path) as store:
        assert acknowledged <= {attempt.id for attempt in store.attempts()}
        assert store.check() == ()


def test_sqlite_alone_reads_an_export(theirs: Path, tmp_path: Path) -> None:
    place = tmp_path / "out.db"
    export_file(theirs, place, Choice(), Form())
    connection = sqlite3.connect(place.as_uri() + "?mode=ro", uri=True)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("SELECT count(*) FROM attempts JOIN nodes ON attempt_id = attempts.id").fetchone() == (
        120,
    )
    connection.close()


def test_file_exchanged_while_it_is_taken_in_is_read_as_it_was(theirs: Path, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with Store.open(other) as store:
        grow(store, begin(store, task_of("exp")), 3, task=task_of("exp"))
    expected = rows(theirs, "SELECT id, content_digest FROM attempts ORDER BY id")

    def exchange(what: str, _done: int, _all: int) -> None:
        if what == "checking" and other.exists():
            other.replace(theirs)

    assert import_file(path, theirs, progress=exchange).refused == 0
    assert not other.exists()
    assert rows(path, "SELECT id, content_digest FROM attempts ORDER BY id") == expected


@pytest.mark.parametrize("change", ["grows", "is written", "shrinks"])
def test_file_that_changes_while_it_is_copied_is_refused(
    theirs: Path, path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    room = foreign._require_room

    def then_changed(file: Path, folder: Path, size_bytes: int) -> None:
        room(file, folder, size_bytes)
        with file.open("rb+") as written:
            if change == "grows":
                written.seek(0, 2)
                written.write(b"more")
            elif change == "shrinks":
                written.truncate(size_bytes - 4096)
            else:
                written.seek(5000)
                written.write(b"else")
        os.utime(file, ns=(1, 1))

    monkeypatch.setattr(foreign, "_require_room", then_changed)
    with pytest.raises(StoreError, match="changed while it was read; wait until it is complete"):
        import_file(path, theirs)
    assert not path.exists()
