"""A file of an older schema in today's: its rows are copied into a file of our own of that version, which is migrated.

The file itself is never migrated: that would run statements on tables and indexes of another's making.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kope.memory.migrate import migrate
from kope.memory.share.travel import TABLES, Table

if TYPE_CHECKING:
    from kope.memory.share.foreign import Foreign

_NEEDED = {"revision": "0"}
"""Local columns that a row cannot do without, and what they hold in a copy."""


@contextlib.contextmanager
def lifted(found: Foreign, place: Path) -> Iterator[Foreign]:
    """Yield the content of a file in the newest schema. Rows that its own version would not take are left out."""
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as own:
        own.execute("PRAGMA journal_mode = OFF")
        own.execute("PRAGMA synchronous = OFF")
        migrate(own, found.version)
        own.execute("BEGIN")
        own.execute("DELETE FROM origins")
        left_out = sum(_copied(found.connection, own, table) for table in TABLES)
        origin = found.connection.execute("SELECT value FROM meta WHERE key = 'origin'").fetchone()
        if origin is not None:
            own.execute("UPDATE meta SET value = ? WHERE key = 'origin'", origin)
        own.execute("COMMIT")
        migrate(own)
        if left_out:
            found.notes.append(f"{left_out} rows of {found.path.name} do not keep the rules of its own schema")
        yield replace(found, connection=own)


def _copied(source: sqlite3.Connection, own: sqlite3.Connection, table: Table) -> int:
    """Copy a table in the order of its rows; returns how many were left out."""
    there = [row[1] for row in own.execute(f"PRAGMA table_info({table.name})")]
    columns = [name for name in table.columns if name in there]
    if not columns:
        return 0
    needed = [name for name in _NEEDED if name in there]
    write = (
        f"INSERT INTO {table.name} ({', '.join((*columns, *needed))})"
        f" VALUES ({', '.join(['?'] * len(columns) + [_NEEDED[name] for name in needed])})"
    )
    order = "seq" if "seq" in there else ", ".join(table.key)
    left_out = 0
    for row in source.execute(f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY {order}"):
        try:
            own.execute(write, row)
        except (sqlite3.IntegrityError, sqlite3.DataError):
            left_out += 1
    return left_out
