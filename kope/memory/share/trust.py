"""Whom attempts are believed from: the origins a database knows, and a person's word on them.

Honouring it is recall's business: quarantined ones are quoted and rank last, distrusted ones are not recalled.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from kope.errors import NotFound, StoreError
from kope.memory import digests
from kope.memory.database import Database, new_generation
from kope.memory.sessions import prefix_range
from kope.memory.share.take import CONFLICT

_ALL = """
    SELECT o.id, o.label, o.trust, o.created_at, count(a.id), coalesce(sum(a.verdict = 'verified'), 0)
    FROM origins AS o LEFT JOIN attempts AS a ON a.origin_id = o.id GROUP BY o.id ORDER BY o.created_at, o.id
"""
_NAMED = "SELECT id, label, trust FROM origins WHERE (id >= ?1 AND id < ?2) OR label = ?3"
_TRUST = "UPDATE origins SET trust = ? WHERE id = ?"
_TOUCHED = "UPDATE nodes SET revision = (SELECT max(revision) + 1 FROM nodes) WHERE origin_id = ?"
_CONFLICTS = """
    SELECT c.attempt_id, c.content_digest, o.label, o.id FROM conflicts AS c JOIN origins AS o ON o.id = c.origin_id
    ORDER BY c.attempt_id, c.content_digest
"""


@dataclass(frozen=True, slots=True)
class Source:
    """An origin of attempts. trust: own, trusted, quarantined or distrusted."""

    id: str
    label: str
    trust: str
    created_at: str
    attempts: int
    verified: int


def sources(connection: sqlite3.Connection) -> tuple[Source, ...]:
    """Return every origin in the order it became known."""
    return tuple(Source(*row) for row in connection.execute(_ALL))


def disagreements(connection: sqlite3.Connection) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return the attempts that files disagree on, each with its versions: (content digest, whose it is)."""
    found: dict[str, list[tuple[str, str]]] = {}
    for attempt_id, digest, label, origin_id in connection.execute(_CONFLICTS):
        found.setdefault(attempt_id, []).append((digest, label or origin_id[:8]))
    return {name: tuple(versions) for name, versions in found.items()}


def set_trust(database: Database, name: str, trust: str) -> Source:
    """Say what an origin is believed from now on; name: its id, the beginning of it, or its label.

    Raises NotFound, and StoreError for one that cannot be changed.
    """
    with database.write() as connection:
        rows = connection.execute(_NAMED, (*prefix_range(name), name)).fetchall()
        if len(rows) != 1:
            what = "several origins are" if rows else "no origin is"
            raise NotFound(f"{what} called {name!r}; kope db info lists them")
        found, _, before = rows[0]
        if before == "own":
            raise StoreError("what was tried here is believed as it is; kope db forget removes what is not wanted")
        if found == CONFLICT:
            raise StoreError("files disagree on these attempts, so none is believed; kope db forget removes them")
        connection.execute(_TRUST, (trust, found))
        connection.execute(_TOUCHED, (found,))
        digests.rebuild(connection)
        new_generation(connection)
        return next(source for source in sources(connection) if source.id == found)
