"""A new database file without a full-text index: what an export is written into.

Of the newest schema, so that whoever reads a kope.db reads an export as well.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from kope.memory.migrate import migrate, schema_of, version_known

_FAST = ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA secure_delete = ON")


def make(path: Path, meta: Mapping[str, str]) -> None:
    """Make the file. meta: entries that say who made it."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in _FAST:
            connection.execute(pragma)
        migrate(connection)
        for name, (_, _, sql) in schema_of(version_known())[1].items():
            if sql.startswith("CREATE VIRTUAL TABLE"):
                connection.execute(f"DROP TABLE {name}")
        connection.execute("DELETE FROM origins")
        connection.execute("DELETE FROM meta")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", sorted(meta.items()))
