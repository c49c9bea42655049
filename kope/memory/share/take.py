"""Take a file's experience into a database of ours: checked first, then in one transaction, and only evidence of it.

Two passes over the file. The first looks at every row and changes nothing, so that a refused file leaves the database
byte for byte as it was; the second writes what passed. Every rule of what stays when two versions of an attempt meet is
symmetric, so that the order in which files are taken in does not matter.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kope.errors import StoreError
from kope.memory.database import Database
from kope.memory.encode import pack, to_json, unpack
from kope.memory.learn import node_id_of
from kope.memory.record import NO_VECTOR, Vector
from kope.memory.sessions import now
from kope.memory.share import unit as units
from kope.memory.share.foreign import Foreign
from kope.memory.share.rebuild import Hint, finish, set_aside, write_missing
from kope.memory.share.travel import BY_NAME, Table
from kope.memory.share.unit import Unit, Unread
from kope.memory.share.values import Unfit, parsed, unpacked

CONFLICT = "c0" * 16
"""Origin of attempts that files disagree on: no file's, and never trusted."""
_REASONS_KEPT = 100
_ROWS_LIMIT = 5_000_000
_DIM_LIMIT = 4096

Progress = Callable[[str, int, int], None]


@dataclass
class Taken:
    """What came of taking a file in. attempts: in the file; new, known (there already, or only less of them), completed
    (a fuller copy replaced a reduced one), forgotten, distrusted (left out for that).

    conflicts: ids of attempts of which another version was there; all versions are kept, none believed.
    refused: rows that are not as KOPE writes them; reasons: the first of them, as (what, why).
    """

    name: str
    origin: str
    attempts: int = 0
    new: int = 0
    known: int = 0
    completed: int = 0
    forgotten: int = 0
    distrusted: int = 0
    conflicts: list[str] = field(default_factory=list)
    refused: int = 0
    reasons: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    without_vector: int = 0

    def refuse(self, what: str, why: object) -> None:
        """Note a row that is not taken."""
        self.refused += 1
        if len(self.reasons) < _REASONS_KEPT:
            self.reasons.append((what, str(why)))


@dataclass
class _Passed:
    """What the first pass let through: small tables whole, of attempts the places of those that did not pass."""

    origins: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    tasks: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    versions: list[Unit] = field(default_factory=list)


@dataclass
class Looked:
    """A file that was looked through: what passed, and what is to be said of it so far."""

    found: Foreign
    passed: _Passed
    taken: Taken


def look(found: Foreign, progress: Progress = lambda _what, _done, _all: None) -> Looked:
    """Check every row of a file. Raises StoreError and its kin when the file as a whole is refused."""
    taken = Taken(found.path.name, found.origin, notes=list(found.notes))
    with found.guarded():
        return Looked(found, _look(found, taken, progress), taken)


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
        _write(connection, looked, trusted, progress)
    return looked.taken


# --- the first pass -------------------------------------------------------------------------------------------------


def _look(found: Foreign, taken: Taken, progress: Progress) -> _Passed:
    passed = _Passed()
    for row in _rows(found.connection, BY_NAME["origins"], taken):
        passed.origins[row[0]] = row[1]
    for name in ("sessions", "tasks"):
        table = BY_NAME[name]
        place = list(table.columns).index("origin_id")
        for row in _rows(found.connection, table, taken):
            if row[place] not in passed.origins:
                taken.refuse(f"{name} {row[0][:40]}", "its origin is missing")
                continue
            getattr(passed, name)[row[0]] = row
    count = found.connection.execute("SELECT count(*) FROM attempts").fetchone()[0]
    if count > _ROWS_LIMIT:
        raise StoreError(f"{found.path} has {count} attempts, more than is taken at once; export a part of it")
    for place, unit in enumerate(units.read_all(found.connection)):
        taken.attempts += 1
        try:
            if isinstance(unit, Unread):
                raise Unfit(unit.why)
            _check(unit, passed)
        except Unfit as wrong:
            passed.refused.add(place)
            taken.refuse(f"attempt {unit.id[:40]!s}", wrong)
        if place % 500 == 0:
            progress("checking", place, count)
    for statement in _READ_LATER:
        for _ in found.connection.execute(statement):
            pass
    for version in _versions(found.connection, taken):
        try:
            _check(version, passed)
            passed.versions.append(version)
        except Unfit as wrong:
            taken.refuse(f"a version of attempt {version.id[:40]!s}", wrong)
    return passed


_READ_LATER = (
    "SELECT id, attempt_id, bottleneck, embedder, embedding FROM nodes",
    "SELECT dst, kind, embedder, embedding FROM edges",
)
"""What the second pass reads beside attempts: read once before, so that nothing fails after writing began."""


def _rows(connection: sqlite3.Connection, table: Table, taken: Taken) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a small table whose every value is of its kind."""
    kinds = tuple(table.columns.values())
    for row in connection.execute(f"SELECT {', '.join(table.columns)} FROM {table.name}"):
        try:
            for kind, value in zip(kinds, row, strict=True):
                kind.check(value)
        except Unfit as wrong:
            taken.refuse(f"{table.name} {str(row[0])[:40]}", wrong)
            continue
        yield row


def _check(unit: Unit, passed: _Passed) -> None:
    units.checked(unit)
    for what, name, known in (
        ("session", unit.value("session_id"), passed.sessions),
        ("task", unit.value("task_digest"), passed.tasks),
        ("origin", unit.origin_id, passed.origins),
    ):
        if name not in known:
            raise Unfit(f"its {what} is missing")


def _versions(connection: sqlite3.Connection, taken: Taken) -> Iterator[Unit]:
    """Yield the versions of attempts that the file itself holds as being disagreed on."""
    for name, digest, origin_id, document in connection.execute(
        "SELECT attempt_id, content_digest, origin_id, document FROM conflicts"
    ):
        try:
            data = parsed(unpacked(document))
            version = Unit.of_document(data if isinstance(data, dict) else {})
            if (version.id, version.content_digest, version.origin_id) != (name, digest, origin_id):
                raise Unfit("it is not what its row says")
            yield version
        except Unfit as wrong:
            taken.refuse(f"a version of attempt {str(name)[:40]}", wrong)


# --- the second pass ------------------------------------------------------------------------------------------------


def _write(connection: sqlite3.Connection, looked: Looked, trusted: bool, progress: Progress) -> None:
    found, passed, taken = looked.found, looked.passed, looked.taken
    connection.execute("PRAGMA defer_foreign_keys = ON")
    origins = _Origins(connection, passed.origins, trusted=trusted)
    forgotten = {name for (name,) in connection.execute("SELECT attempt_id FROM forgotten")}
    for row in passed.tasks.values():
        _write_task(connection, row, origins)
    for row in passed.sessions.values():
        _write_session(connection, row, origins)
    disputed = {version.id for version in passed.versions}
    for place, unit in enumerate(units.read_all(found.connection)):
        if place not in passed.refused and unit.id not in disputed:
            assert isinstance(unit, Unit)
            _write_unit(connection, unit, origins, forgotten, taken)
        if place % 500 == 0:
            progress("taking in", place, taken.attempts)
    for version in passed.versions:
        _write_unit(connection, version, origins, forgotten, taken)
    _refuse_circles(connection, taken)
    _drop_unused(connection, passed)
    hints = _Hints(connection, found.connection)
    set_aside(connection, hints.better_known())
    write_missing(connection, hints.of, lambda done, count: progress("learning", done, count))
    taken.without_vector = hints.without_vector
    finish(connection)
    summary = {name: getattr(taken, name) for name in ("attempts", "new", "known", "completed", "refused")}
    connection.execute(
        "INSERT OR REPLACE INTO imports (file_digest, name, origin_id, imported_at, summary) VALUES (?, ?, ?, ?, ?)",
        (found.digest, found.path.name, found.origin, now(), to_json(summary)),
    )


_DISAGREEING = "INSERT INTO origins VALUES (?, 'disagreeing files', 'quarantined', ?) ON CONFLICT DO NOTHING"


class _Origins:
    """Whose rows come in under which origin here.

    A file can claim any origin. What claims to be our own, or one that is trusted, and is not here, comes in under an
    origin derived from that claim, in quarantine like all that is new.
    """

    def __init__(self, connection: sqlite3.Connection, claimed: dict[str, str], *, trusted: bool) -> None:
        self._connection = connection
        self._claimed = claimed
        self._trusted = trusted
        self._here: dict[str, str] = {}

    def of(self, claimed: str) -> str:
        """Return the origin under which rows of an origin are kept, made where it is new."""
        if claimed not in self._here:
            self._here[claimed] = self._resolved(claimed)
        return self._here[claimed]

    def trust(self, claimed: str) -> str:
        """Return what an origin is believed."""
        return self._trust_of(self.of(claimed)) or "quarantined"

    def _trust_of(self, name: str) -> str | None:
        row = self._connection.execute("SELECT trust FROM origins WHERE id = ?", (name,)).fetchone()
        return row[0] if row is not None else None

    def _resolved(self, claimed: str) -> str:
        if claimed == CONFLICT:
            self._connection.execute(_DISAGREEING, (CONFLICT, now()))
            return CONFLICT
        trust, label = self._trust_of(claimed), self._claimed.get(claimed, "")
        if trust in ("own", "trusted") and not self._trusted:
            label = f"claims to be {label or claimed[:8]}"
            claimed = hashlib.sha256(f"claimed {claimed}".encode()).hexdigest()[:32]
            trust = self._trust_of(claimed)
        if trust is None:
            new = "trusted" if self._trusted else "quarantined"
            self._connection.execute("INSERT INTO origins VALUES (?, ?, ?, ?)", (claimed, label, new, now()))
        elif trust == "quarantined" and self._trusted:
            self._connection.execute("UPDATE origins SET trust = 'trusted' WHERE id = ?", (claimed,))
        return claimed


_TASK = BY_NAME["tasks"]
_SESSION = BY_NAME["sessions"]


def _write_task(connection: sqlite3.Connection, row: tuple[Any, ...], origins: _Origins) -> None:
    """Write a task. Of two with one digest our own stays, else the fuller: no order decides."""
    _write_shared(connection, _TASK, row, origins, lambda values: False)


def _write_session(connection: sqlite3.Connection, row: tuple[Any, ...], origins: _Origins) -> None:
    """Write a session. Of two copies the one that was made after its end stays, else the fuller."""
    _write_shared(connection, _SESSION, row, origins, lambda values: values[6] is None)


def _write_shared(
    connection: sqlite3.Connection,
    table: Table,
    row: tuple[Any, ...],
    origins: _Origins,
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


_KNOWN = "SELECT content_digest, original_digest, origin_id FROM attempts WHERE id = ?"
_VERSIONS = "SELECT content_digest, origin_id, document FROM conflicts WHERE attempt_id = ?"
_KNOWN_VERSION = "SELECT 1 FROM conflicts WHERE attempt_id = ? AND content_digest = ?"
_NEW_VERSION = """
    INSERT INTO conflicts (attempt_id, content_digest, origin_id, document) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_NO_VERSION = "DELETE FROM conflicts WHERE attempt_id = ? AND content_digest = ?"
_DISPUTED = (
    "UPDATE attempts SET origin_id = ? WHERE id = ?",
    "UPDATE nodes SET origin_id = ?, revision = (SELECT max(revision) + 1 FROM nodes) WHERE attempt_id = ?",
)


def _write_unit(
    connection: sqlite3.Connection, unit: Unit, origins: _Origins, forgotten: set[str], taken: Taken
) -> None:
    if unit.id in forgotten:
        taken.forgotten += 1
        return
    known = connection.execute(_KNOWN, (unit.id,)).fetchone()
    if known is None:
        if origins.trust(unit.origin_id) == "distrusted":
            taken.distrusted += 1
            return
        units.insert(connection, unit, origins.of(unit.origin_id))
        taken.new += 1
        return
    digest, original, origin_id = known
    if digest == unit.content_digest or connection.execute(_KNOWN_VERSION, (unit.id, unit.content_digest)).fetchone():
        taken.known += 1
    elif origin_id == CONFLICT or (original or digest) != unit.claim:
        _dispute(connection, unit, origins, taken)
    elif unit.rank < (original is not None, digest):
        set_aside(connection, (unit.id,))
        units.replace(connection, unit, origin_id)
        taken.completed += 1
    else:
        taken.known += 1


def _dispute(connection: sqlite3.Connection, unit: Unit, origins: _Origins, taken: Taken) -> None:
    """Keep every version of an attempt that files disagree on, and believe none.

    In place stays our own version, else the one whose claim sorts first. Of two copies of a version the fuller counts.
    """
    if origins.trust(unit.origin_id) == "distrusted":
        taken.distrusted += 1
        return
    versions = [unit, *_known_versions(connection, unit.id)]
    own = {row[0] for row in connection.execute("SELECT id FROM origins WHERE trust = 'own'")}
    best: dict[str, Unit] = {}
    for version in sorted(versions, key=lambda each: each.rank):
        best.setdefault(version.claim, version)
    for version in versions:
        kept = best[version.claim] is version
        origin_id = version.origin_id if version is not unit else origins.of(unit.origin_id)
        if kept:
            document = pack(to_json({**version.document(), "origin_id": origin_id}))
            connection.execute(_NEW_VERSION, (unit.id, version.content_digest, origin_id, document))
        else:
            connection.execute(_NO_VERSION, (unit.id, version.content_digest))
    in_place = min(best.values(), key=lambda each: (each is unit or each.origin_id not in own, each.claim))
    connection.execute(_DISAGREEING, (CONFLICT, now()))
    here = connection.execute(_KNOWN, (unit.id,)).fetchone()
    if here[0] != in_place.content_digest:
        set_aside(connection, (unit.id,))
        units.replace(connection, in_place, CONFLICT)
    for statement in _DISPUTED:
        connection.execute(statement, (CONFLICT, unit.id))
    taken.conflicts.append(unit.id)


def _known_versions(connection: sqlite3.Connection, attempt_id: str) -> list[Unit]:
    """Return the versions that are here: those on record, else the one in place, with the origins they came from."""
    found = []
    for _, _, document in connection.execute(_VERSIONS, (attempt_id,)):
        found.append(Unit.of_document(parsed(unpack(document))))
    if not found:
        here = units.read_one(connection, attempt_id)
        assert here is not None
        found.append(here)
    return found


_LINEAGE = "SELECT id, parent_id FROM attempts WHERE parent_id IS NOT NULL"
_NOT_OWN = "SELECT a.id FROM attempts AS a JOIN origins AS o ON o.id = a.origin_id WHERE o.trust <> 'own'"


def _refuse_circles(connection: sqlite3.Connection, taken: Taken) -> None:
    """Remove what came in and leads back to itself: digests let two attempts name each other as parent."""
    parents = dict(connection.execute(_LINEAGE).fetchall())
    circling = _circling(parents)
    if not circling:
        return
    for (name,) in connection.execute(_NOT_OWN).fetchall():
        if name in circling:
            set_aside(connection, (name,))
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


def _drop_unused(connection: sqlite3.Connection, passed: _Passed) -> None:
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


# --- what comes with an attempt beside its rows -----------------------------------------------------------------------

_HINT = "SELECT id, bottleneck, embedder, embedding FROM nodes WHERE attempt_id = ?"
_EDGE_VECTOR = "SELECT embedder, embedding FROM edges WHERE dst = ? AND kind = 'led_to'"
_BOTTLENECKS = "SELECT attempt_id, bottleneck FROM nodes WHERE bottleneck <> '' AND attempt_id IS NOT NULL"
_HERE = """
    SELECT n.bottleneck, o.trust = 'own' FROM nodes AS n JOIN origins AS o ON o.id = n.origin_id WHERE n.attempt_id = ?
"""


class _Hints:
    """Bottleneck and vectors of attempts: what is known of them here, and what the file says that is usable."""

    def __init__(self, here: sqlite3.Connection, there: sqlite3.Connection) -> None:
        self._here = here
        self._there = there
        self.without_vector = 0

    def better_known(self) -> list[str]:
        """Return the attempts that are here and of which the file knows a bottleneck that belongs in its place."""
        found = []
        for name, told in self._there.execute(_BOTTLENECKS):
            row = self._here.execute(_HERE, (name,)).fetchone() if type(name) is str else None
            if row is not None and self._joined(row, told) != row[0]:
                found.append(name)
        return found

    def of(self, attempt_id: str) -> Hint:
        """Return what is known beside an attempt's rows."""
        here = self._here.execute(_HERE, (attempt_id,)).fetchone() or ("", False)
        row = self._there.execute(_HINT, (attempt_id,)).fetchone()
        if row is None or row[0] != node_id_of(attempt_id):
            self.without_vector += 1
            return Hint(here[0])
        edge = self._there.execute(_EDGE_VECTOR, (row[0],)).fetchone() or (None, None)
        node = _vector(row[2], row[3])
        self.without_vector += node is NO_VECTOR
        return Hint(self._joined(here, row[1]), node, _vector(*edge))

    @staticmethod
    def _joined(here: tuple[str, bool], told: object) -> str:
        """Return one of two bottlenecks: our own, else the one that sorts first, so that no order decides."""
        known, own = here
        if own or type(told) is not str or not 0 < len(told) <= 200:
            return known
        return min(known, told) if known else told


def _vector(embedder: object, data: object) -> Vector:
    """Return a vector of unit length, NO_VECTOR for anything else."""
    import numpy as np

    if type(embedder) is not str or not 0 < len(embedder) <= 300 or type(data) is not bytes:
        return NO_VECTOR
    if not data or len(data) % 2 or len(data) > 2 * _DIM_LIMIT:
        return NO_VECTOR
    values = np.frombuffer(data, "<f2").astype(np.float32)
    length = float(np.dot(values, values))
    return Vector(data, embedder) if 0.97 <= length <= 1.03 else NO_VECTOR
