"""The origins a database knows, what each is believed, and on which attempts files disagree.

Changing what is believed is trust's business.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

_ALL = """
    SELECT o.id, o.label, o.trust, o.created_at, count(a.id), coalesce(sum(a.verdict = 'verified'), 0)
    FROM origins AS o LEFT JOIN attempts AS a ON a.origin_id = o.id GROUP BY o.id
    ORDER BY o.trust <> 'own', o.label, o.id
"""
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
    """Return every origin, our own first, then by label."""
    return tuple(Source(*row) for row in connection.execute(_ALL))


def disagreements(connection: sqlite3.Connection) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return the attempts that files disagree on, each with its versions: (content digest, whose it is)."""
    found: dict[str, list[tuple[str, str]]] = {}
    for attempt_id, digest, label, origin_id in connection.execute(_CONFLICTS):
        found.setdefault(attempt_id, []).append((digest, label or origin_id[:8]))
    return {name: tuple(versions) for name, versions in found.items()}
