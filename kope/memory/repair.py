"""Mend a database: what is derived is made again in place; rows of a damaged file are saved into a new one.

A damaged file is only read. What was saved is checked like rows that come from elsewhere; what does not re-hash is
left behind.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kope.errors import SchemaError, StoreError
from kope.memory.check import Problem, problems
from kope.memory.database import Database
from kope.memory.migrate import migrate, schema_of, version_known
from kope.memory.share import unit as units
from kope.memory.share.rebuild import Hint, finish, write_missing
from kope.memory.share.travel import TABLES, Table
from kope.memory.share.unit import Unit
from kope.memory.share.values import Unfit
from kope.memory.snapshot import default_place, write_snapshot

_DERIVED = frozenset({"graph", "derived", "words", "links"})
"""Kinds of problems that may lie in what can be made again."""
_STEP_LIMIT = 1 << 22
_BATCH = 200


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was done. how: "nothing", "rebuilt" (in place; file: the database as it was before) or "saved" (file: the
    new one). attempts: there now. lost: attempts that could not be saved, as far as they are known. left: problems that
    stay.
    """

    how: str
    file: Path | None
    attempts: int
    lost: int
    left: tuple[Problem, ...]


def repair(path: Path) -> Repaired:
    """Mend a database as far as it can be. Raises SchemaError for a file that is none of ours."""
    found = _problems_of(path)
    if found is not None and not found:
        return Repaired("nothing", None, _count(path), 0, ())
    if found is not None and {problem.kind for problem in found} <= _DERIVED:
        rebuilt = _rebuilt(path)
        if rebuilt is not None:
            return rebuilt
    return _saved(path)


def _problems_of(path: Path) -> tuple[Problem, ...] | None:
    """Return what is wrong, None when the file does not even open."""
    try:
        with Database.open(path, create=False, read_only=False) as database:
            return problems(database)
    except SchemaError:
        raise
    except StoreError:
        if not path.is_file():
            raise
        return None


def _count(path: Path) -> int:
    with Database.open(path, create=False, read_only=False) as database:
        return int(database.rows("SELECT count(*) FROM attempts")[0][0])


# --- in place -------------------------------------------------------------------------------------------------------

_EMPTIED = (
    "INSERT INTO node_words (node_words) VALUES ('delete-all')",
    "DELETE FROM nodes WHERE kind = 'digest'",
    "DELETE FROM nodes WHERE kind = 'attempt' AND attempt_id NOT IN (SELECT id FROM attempts)",
    "DELETE FROM edge_texts",
    "DELETE FROM edges",
    "DELETE FROM node_texts WHERE node_id NOT IN (SELECT id FROM nodes WHERE kind = 'fact')",
    "DELETE FROM journals",
)
_KNOWN = "SELECT attempt_id, bottleneck, id FROM nodes WHERE kind = 'attempt'"
_RETIRED = "SELECT retired, id FROM nodes WHERE retired IS NOT NULL"
_PROPENSITIES = "SELECT propensity, id FROM edges WHERE propensity IS NOT NULL"


def _rebuilt(path: Path) -> Repaired | None:
    """Make again what is derived; None when that does not mend the file."""
    with Database.open(path, create=False, read_only=False) as database:
        kept = default_place(path, datetime.now(UTC))
        try:
            write_snapshot(database.connection, kept)
            with database.write() as connection:
                _make_again(connection)
        except (StoreError, sqlite3.DatabaseError):
            return None
        left = problems(database)
        attempts = int(database.rows("SELECT count(*) FROM attempts")[0][0])
    return Repaired("rebuilt", kept, attempts, 0, ()) if not left else None


def _make_again(connection: sqlite3.Connection) -> None:
    bottlenecks = {name: bottleneck for name, bottleneck, _ in connection.execute(_KNOWN)}
    retired = connection.execute(_RETIRED).fetchall()
    propensities = connection.execute(_PROPENSITIES).fetchall()
    for statement in _EMPTIED:
        connection.execute(statement)
    write_missing(connection, lambda name: Hint(bottlenecks.get(name, "")))
    finish(connection)
    connection.executemany("UPDATE nodes SET retired = ? WHERE id = ?", retired)
    connection.executemany("UPDATE edges SET propensity = ? WHERE id = ?", propensities)


# --- out of a damaged file --------------------------------------------------------------------------------------------


def _saved(path: Path) -> Repaired:
    place = path.with_name(f"{path.stem}.saved{path.suffix}")
    if place.exists():
        raise StoreError(f"{place} is there already, from an earlier repair; move it away and repeat")
    with tempfile.TemporaryDirectory(prefix=".kope-repair-", dir=path.parent) as folder:
        scratch = Path(folder) / "scratch.db"
        known = _scanned(path, Path(folder), scratch)
        building = Path(folder) / "saved.db"
        with (
            contextlib.closing(sqlite3.connect(scratch, isolation_level=None)) as source,
            Database.open(building, create=True, read_only=False) as database,
            database.write() as connection,
        ):
            saved = _written(source, connection)
        with Database.open(building, create=False, read_only=False) as database:
            left = problems(database)
        building.replace(place)
    return Repaired("saved", place, saved, max(0, known - saved), left)


def _scanned(path: Path, folder: Path, scratch: Path) -> int:
    """Copy every row that can be read into a file of our own making; returns how many attempts are known of."""
    copy = folder / "damaged.db"
    shutil.copyfile(path, copy)
    log = path.with_name(path.name + "-wal")
    if log.exists():
        shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
    else:
        _say_true_size(copy)
    with (
        contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as damaged,
        contextlib.closing(sqlite3.connect(scratch, isolation_level=None)) as own,
    ):
        version = _version(path, damaged)
        migrate(own, version)
        own.execute("BEGIN")
        own.execute("DELETE FROM origins")
        own.execute("DELETE FROM meta")
        for name, columns in _tables(own):
            _copy_rows(damaged, own, name, columns)
        own.execute("COMMIT")
        migrate(own)
        return int(own.execute(_KNOWN_OF).fetchone()[0])


def _say_true_size(copy: Path) -> None:
    """Make the header of a file that was cut short say how many pages there are, or SQLite reads none."""
    with copy.open("rb+") as file:
        header = file.read(100)
        page = int.from_bytes(header[16:18], "big")
        page = 65536 if page == 1 else page
        if page:
            file.seek(28)
            file.write((copy.stat().st_size // page).to_bytes(4, "big"))


def _version(path: Path, damaged: sqlite3.Connection) -> int:
    try:
        version = int(damaged.execute("PRAGMA user_version").fetchone()[0])
    except (sqlite3.DatabaseError, UnicodeDecodeError) as gone:
        raise StoreError(f"nothing can be read of {path} ({gone}); restore a snapshot") from gone
    if not 1 <= version <= version_known():
        raise StoreError(f"{path} does not say which schema it has; restore a snapshot")
    return version


_KNOWN_OF = """
    SELECT count(*) FROM (SELECT id FROM attempts UNION SELECT attempt_id FROM nodes WHERE attempt_id IS NOT NULL)
"""
_COPIED = ("meta", "imports", "forgotten", *(table.name for table in TABLES))


def _tables(own: sqlite3.Connection) -> Iterator[tuple[str, list[str]]]:
    for name in _COPIED:
        columns = [row[1] for row in own.execute(f"PRAGMA table_info({name})")]
        if columns:
            yield name, columns


def _copy_rows(damaged: sqlite3.Connection, own: sqlite3.Connection, name: str, columns: Sequence[str]) -> None:
    write = f"INSERT OR IGNORE INTO {name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    without_rowid = "WITHOUT ROWID" in schema_of(version_known())[0][name][2]
    rows = _by_attempt(damaged, own, name, columns) if without_rowid else _by_rowid(damaged, name, columns)
    for row in rows:
        with contextlib.suppress(sqlite3.IntegrityError, sqlite3.DataError):
            own.execute(write, row)


def _by_rowid(damaged: sqlite3.Connection, name: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table from both ends, past what cannot be read in between."""
    select = f"SELECT rowid, {', '.join(columns)} FROM {name} NOT INDEXED"
    for compare, order, direction in ((">", "ASC", 1), ("<", "DESC", -1)):
        last, step = (-(1 << 62)) * direction, 1
        started = False
        while step < _STEP_LIMIT:
            ordered = f"{select} WHERE rowid {compare} ? ORDER BY rowid {order} LIMIT {_BATCH}"
            try:
                count = 0
                for row in damaged.execute(ordered, (last,)):
                    last, step, started, count = row[0], 1, True, count + 1
                    yield row[1:]
                if count < _BATCH:
                    break
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                last = last + step * direction if started else (0 if direction > 0 else 1 << 40)
                started, step = True, step * 2


def _by_attempt(
    damaged: sqlite3.Connection, own: sqlite3.Connection, name: str, columns: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table that is kept in the order of its key, attempt by attempt."""
    for (attempt_id,) in own.execute("SELECT id FROM attempts").fetchall():
        with contextlib.suppress(sqlite3.DatabaseError, UnicodeDecodeError):
            found = f"SELECT {', '.join(columns)} FROM {name} WHERE attempt_id = ?"
            yield from damaged.execute(found, (attempt_id,)).fetchall()


_WHOLE: tuple[Table, ...] = tuple(
    table for table in TABLES if table.name in ("origins", "sessions", "tasks", "conflicts")
)


def _written(source: sqlite3.Connection, connection: sqlite3.Connection) -> int:
    """Write what was saved and is what its digests say; returns the number of attempts."""
    connection.execute("PRAGMA defer_foreign_keys = ON")
    _copy_meta(source, connection)
    for table in _WHOLE:
        columns = list(table.columns)
        write = f"INSERT OR REPLACE INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        connection.executemany(write, source.execute(f"SELECT {', '.join(columns)} FROM {table.name}").fetchall())
    for name in ("imports", "forgotten"):
        rows = source.execute(f"SELECT * FROM {name}").fetchall()
        if rows:
            connection.executemany(f"INSERT OR IGNORE INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    bottlenecks = {name: bottleneck for name, bottleneck, _ in source.execute(_KNOWN)}
    saved = 0
    for unit in units.read_all(source):
        with contextlib.suppress(Unfit):
            if isinstance(unit, Unit) and _has_its_place(connection, unit):
                units.checked(unit)
                units.insert(connection, unit, unit.origin_id)
                saved += 1
    write_missing(connection, lambda name: Hint(bottlenecks.get(name, "")))
    finish(connection)
    return saved


def _copy_meta(source: sqlite3.Connection, connection: sqlite3.Connection) -> None:
    """The saved database is the same one: it keeps its origin."""
    row = source.execute("SELECT value FROM meta WHERE key = 'origin'").fetchone()
    if row is not None:
        connection.execute("DELETE FROM origins")
        connection.execute("UPDATE meta SET value = ? WHERE key = 'origin'", row)
        if source.execute("SELECT 1 FROM origins WHERE id = ?", row).fetchone() is None:
            connection.execute("INSERT INTO origins (id, trust, created_at) VALUES (?, 'own', '')", row)


_PLACE = """
    SELECT EXISTS (SELECT 1 FROM origins WHERE id = ?) AND EXISTS (SELECT 1 FROM sessions WHERE id = ?)
    AND EXISTS (SELECT 1 FROM tasks WHERE digest = ?)
"""


def _has_its_place(connection: sqlite3.Connection, unit: Unit) -> bool:
    where = (unit.origin_id, unit.value("session_id"), unit.value("task_digest"))
    return bool(connection.execute(_PLACE, where).fetchone()[0])
