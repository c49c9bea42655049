"""Model calls of sessions that go on, kept as soon as they were answered: a resumed run does not pay for one again.

An attempt keeps the records of its own calls when it is written; what is here only bridges the time until then.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from kope.errors import NotFound
from kope.memory.encode import pack, to_json, unpack
from kope.memory.sessions import now

_SESSION = "SELECT 1 FROM sessions WHERE id = ?"
_FIND = "SELECT record FROM calls WHERE session_id = ? AND key = ?"
_KEEP = "INSERT OR REPLACE INTO calls (session_id, key, created_at, record) VALUES (?, ?, ?, ?)"
_DROP = "DELETE FROM calls WHERE session_id = ?"


def find(connection: sqlite3.Connection, session_id: str, key: str) -> Mapping[str, Any] | None:
    """Return the record of a call, None when it was not made."""
    row = connection.execute(_FIND, (session_id, key)).fetchone()
    found: Mapping[str, Any] | None = json.loads(unpack(row[0])) if row is not None else None
    return found


def keep(connection: sqlite3.Connection, session_id: str, key: str, record: Mapping[str, Any]) -> None:
    """Write the record of a call. Raises NotFound for a session that is not there."""
    if connection.execute(_SESSION, (session_id,)).fetchone() is None:
        raise NotFound(f"there is no session {session_id}; kope db info lists them")
    connection.execute(_KEEP, (session_id, key, now(), pack(to_json(record))))


def drop(connection: sqlite3.Connection, session_id: str) -> None:
    """Forget the calls of a session: it is not resumed any more."""
    connection.execute(_DROP, (session_id,))
