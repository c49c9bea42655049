"""Look through a file before anything of it is written: every row is checked, and nothing changes.

So a file that is refused leaves the database byte for byte as it was. Writing what passed is take's business.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kope.errors import StoreError
from kope.memory.share import unit as units
from kope.memory.share.foreign import Foreign
from kope.memory.share.signature import Signer
from kope.memory.share.travel import BY_NAME, Table
from kope.memory.share.unit import Unit, Unread
from kope.memory.share.values import Unfit, parsed, unpacked

_REASONS_KEPT = 100
_ROWS_LIMIT = 5_000_000

Progress = Callable[[str, int, int], None]


@dataclass
class Taken:
    """What came of taking a file in. attempts: in the file; new, known (there already, or only less of them), completed
    (a fuller copy replaced a reduced one), forgotten, distrusted (left out for that).

    conflicts: ids of attempts of which another version was there; all versions are kept, none believed.
    refused: rows that are not as KOPE writes them; reasons: the first of them, as (what, why). signer: who signed it.
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
    signer: Signer | None = None

    def refuse(self, what: str, why: object) -> None:
        """Note a row that is not taken."""
        self.refused += 1
        if len(self.reasons) < _REASONS_KEPT:
            self.reasons.append((what, str(why)))


@dataclass
class Passed:
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
    passed: Passed
    taken: Taken


def look(found: Foreign, progress: Progress = lambda _what, _done, _all: None) -> Looked:
    """Check every row of a file. Raises StoreError and its kin when the file as a whole is refused."""
    taken = Taken(found.path.name, found.origin, notes=list(found.notes))
    with found.guarded():
        return Looked(found, _look(found, taken, progress), taken)


def _look(found: Foreign, taken: Taken, progress: Progress) -> Passed:
    passed = Passed()
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


def _check(unit: Unit, passed: Passed) -> None:
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
