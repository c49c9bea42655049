"""Write what of a file passed into a database of ours: in one transaction, and only evidence of it.

Every rule of what stays when two copies of a row meet is symmetric, so that the order in which files are taken in does
not matter. What a file may hold at all is look's business.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kope.memory.database import Database
from kope.memory.encode import to_json
from kope.memory.sessions import now
from kope.memory.share import unit as units
from kope.memory.share.claimed import CONFLICT, Origins
from kope.memory.share.dispute import dispute
from kope.memory.share.hints import Hints
from kope.memory.share.look import Looked, Passed, Taken
from kope.memory.share.rebuild import Learner, finish, set_aside, write_missing
from kope.memory.share.travel import BY_NAME, Table
from kope.memory.share.unit import Unit

Progress = Callable[[str, int, int], None]

_LARGE_CACHE = "PRAGMA cache_size = -98304"
"""96 MB: rows of a large file land all over the indexes, whose pages would go out and come back again and again."""


def take(
    database: Database,
    looked: Looked,
    *,
    trusted: bool = False,
    progress: Progress = lambda _what, _done, _all: None,
) -> Taken:
    """Write what passed into a database, in one transaction.

    trusted: its attempts count like own ones at once, because the user knows where the file is from.
    """
    with looked.found.guarded(), database.write() as connection:
        (before,) = connection.execute("PRAGMA cache_size").fetchone()
        connection.execute(_LARGE_CACHE)
        try:
            _write(connection, looked, trusted, progress)
        finally:
            connection.execute(f"PRAGMA cache_size = {before}")
    return looked.taken


def _write(connection: sqlite3.Connection, looked: Looked, trusted: bool, progress: Progress) -> None:
    found, passed, taken = looked.found, looked.passed, looked.taken
    connection.execute("PRAGMA defer_foreign_keys = ON")
    origins = Origins(connection, passed.origins, trusted=trusted)
    for row in passed.tasks.values():
        _write_task(connection, row, origins)
    for row in passed.sessions.values():
        _write_session(connection, row, origins)
    disputed = {version.id for version in passed.versions}
    hints = Hints(connection, found.connection)
    learner = Learner(connection)
    new: set[str] = set()
    for place, unit in enumerate(units.read_all(found.connection)):
        if place not in passed.refused and unit.id not in disputed:
            assert isinstance(unit, Unit)
            # What comes before its parent is learned from at the end.
            if _write_unit(connection, unit, origins, taken, learner, new) and learner.knows_parent(unit):
                learner.write(replace(unit, origin_id=origins.of(unit.origin_id)), hints.of_new(unit.id))
            learner.flush_when_full()
        if place % 500 == 0:
            progress("taking in", place, taken.attempts)
    learner.flush()
    for version in passed.versions:
        _write_unit(connection, version, origins, taken, learner, new)
        learner.flush()
    _refuse_circles(connection, taken)
    _drop_unused(connection, passed)
    set_aside(connection, hints.better_known())
    write_missing(connection, hints.of, lambda done, count: progress("learning", done, count))
    taken.without_vector = hints.without_vector
    finish(connection)
    summary = {name: getattr(taken, name) for name in ("attempts", "new", "known", "completed", "refused")}
    connection.execute(
        "INSERT OR REPLACE INTO imports (file_digest, name, origin_id, imported_at, summary) VALUES (?, ?, ?, ?, ?)",
        (found.digest, found.path.name, found.origin, now(), to_json(summary)),
    )


_TASK = BY_NAME["tasks"]
_SESSION = BY_NAME["sessions"]


def _write_task(connection: sqlite3.Connection, row: tuple[Any, ...], origins: Origins) -> None:
    """Write a task. Of two with one digest our own stays, else the fuller: no order decides."""
    _write_shared(connection, _TASK, row, origins, lambda values: False)


def _write_session(connection: sqlite3.Connection, row: tuple[Any, ...], origins: Origins) -> None:
    """Write a session. Of two copies the one that was made after its end stays, else the fuller."""
    _write_shared(connection, _SESSION, row, origins, lambda values: values[6] is None)


def _write_shared(
    connection: sqlite3.Connection,
    table: Table,
    row: tuple[Any, ...],
    origins: Origins,
    unfinished: Callable[[tuple[Any, ...]], bool],
) -> None:
    def rank(values: tuple[Any, ...]) -> tuple[bool, int, str]:
        text = to_json(values[2:])
        return unfinished(values), -len(text), text

    columns = list(table.columns)
    known = connection.execute(
        f"SELECT {', '.join(columns)} FROM {table.name} WHERE {columns[0]} = ?", (row[0],)
    ).fetchone()
    if known is None:
        values = (row[0], origins.of(row[1]), *row[2:])
        marks = ", ".join("?" * len(columns))
        connection.execute(f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})", values)
        return
    own = connection.execute("SELECT trust = 'own' FROM origins WHERE id = ?", (known[1],)).fetchone()[0]
    if not own and rank(row) < rank(known):
        sets = ", ".join(f"{name} = ?" for name in columns[2:])
        connection.execute(f"UPDATE {table.name} SET {sets} WHERE {columns[0]} = ?", (*row[2:], row[0]))


_FORGOTTEN = "SELECT 1 FROM forgotten WHERE attempt_id = ?"
_KNOWN = "SELECT content_digest, original_digest, origin_id FROM attempts WHERE id = ?"
_KNOWN_VERSION = "SELECT 1 FROM conflicts WHERE attempt_id = ? AND content_digest = ?"


def _write_unit(
    connection: sqlite3.Connection, unit: Unit, origins: Origins, taken: Taken, learner: Learner, new: set[str]
) -> bool:
    """Write an attempt as far as it belongs into the database; returns whether it is new there, and adds it to `new`.

    New ones wait to be written with what they teach.
    """
    if connection.execute(_FORGOTTEN, (unit.id,)).fetchone() is not None:
        taken.forgotten += 1
        return False
    if unit.id in new:  # a damaged file may hold an id twice
        learner.flush()
    known = connection.execute(_KNOWN, (unit.id,)).fetchone()
    if known is None:
        if origins.trust(unit.origin_id) == "distrusted":
            taken.distrusted += 1
            return False
        units.add(learner.waiting, unit, origins.of(unit.origin_id))
        new.add(unit.id)
        taken.new += 1
        return True
    digest, original, origin_id = known
    if digest == unit.content_digest or connection.execute(_KNOWN_VERSION, (unit.id, unit.content_digest)).fetchone():
        taken.known += 1
    elif origin_id == CONFLICT or (original or digest) != unit.claim:
        learner.flush()
        dispute(connection, unit, origins, taken)
    elif unit.rank < (original is not None, digest):
        learner.flush()
        set_aside(connection, (unit.id,))
        units.replace(connection, unit, origin_id)
        taken.completed += 1
    else:
        taken.known += 1
    return False


_LINEAGE = "SELECT id, parent_id FROM attempts WHERE parent_id IS NOT NULL"
_NOT_OWN = "SELECT a.id FROM attempts AS a JOIN origins AS o ON o.id = a.origin_id WHERE o.trust <> 'own'"


def _refuse_circles(connection: sqlite3.Connection, taken: Taken) -> None:
    """Remove what came in and leads back to itself: digests let two attempts name each other as parent."""
    circling = _circling(dict(connection.execute(_LINEAGE).fetchall()))
    if not circling:
        return
    refused = {name for (name,) in connection.execute(_NOT_OWN) if name in circling}
    set_aside(connection, refused)
    for name in sorted(refused):
        connection.execute("DELETE FROM attempts WHERE id = ?", (name,))
        taken.new -= 1
        taken.refuse(f"attempt {name[:40]}", "it leads back to itself")


def _circling(parents: dict[str, str]) -> set[str]:
    """Return the members of circles. parents: child to parent."""
    done: set[str] = set()
    circling: set[str] = set()
    for start in parents:
        path: list[str] = []
        places: dict[str, int] = {}
        name: str | None = start
        while name is not None and name not in done and name not in places:
            places[name] = len(path)
            path.append(name)
            name = parents.get(name)
        if name in places:
            circling.update(path[places[name] :])
        done.update(path)
    return circling


def _drop_unused(connection: sqlite3.Connection, passed: Passed) -> None:
    """Remove sessions and tasks that came in and that no attempt belongs to."""
    for table, column, names in (("sessions", "session_id", passed.sessions), ("tasks", "task_digest", passed.tasks)):
        key = next(iter(BY_NAME[table].columns))
        for name in names:
            connection.execute(
                f"DELETE FROM {table} WHERE {key} = ? AND origin_id NOT IN (SELECT id FROM origins WHERE trust = 'own')"
                f" AND NOT EXISTS (SELECT 1 FROM attempts WHERE {column} = ?)"
                f" AND NOT EXISTS (SELECT 1 FROM asks WHERE {column} = ?)",
                (name, name, name),
            )
