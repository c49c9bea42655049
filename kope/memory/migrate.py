"""Bring a database to the newest schema: schema/NNNN_*.sql, in order, all or nothing.

The version is the number of the last file applied, kept in the file's user_version.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kope import __version__
from kope.errors import ConfigError
from kope.resources import folder

if TYPE_CHECKING:
    from sqlite_utils import Database, Migrations

APPLICATION_ID = int.from_bytes(b"KOPE", "big")
"""Marks the file as ours; `file kope.db` shows it."""


@cache
def schema_files() -> tuple[Path, ...]:
    """Return the migrations in order. Raises ConfigError when the installation lacks one or a number is given twice."""
    found = tuple(sorted(folder("schema").glob("[0-9][0-9][0-9][0-9]_*.sql")))
    numbers = [int(file.name[:4]) for file in found]
    if not found or numbers != list(range(1, len(found) + 1)):
        raise ConfigError(f"KOPE's schema files are numbered {numbers}, with a gap or twice; install KOPE again")
    return found


def version_known() -> int:
    """Return the newest schema version this KOPE knows."""
    return len(schema_files())


def migrate(connection: sqlite3.Connection, version: int | None = None) -> None:
    """Apply what is missing in one transaction; another process may be doing the same at this moment.

    version: stop at this one; None: the newest.
    """
    import sqlite_utils

    version = version_known() if version is None else version
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] < version:
            _migrations(version).apply(sqlite_utils.Database(connection, execute_plugins=False))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version}")
            _sign(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migrations(version: int) -> Migrations:
    from sqlite_utils import Migrations

    migrations = Migrations("kope")
    for file in schema_files()[:version]:

        def apply(database: Database, text: str = file.read_text("utf-8")) -> None:
            database.executescript(text)

        migrations(name=file.stem)(apply)
    return migrations


Schema = Mapping[str, tuple[str, str, str]]
"""Type, table and SQL text of every entry of sqlite_schema, by name; white space as `normal` makes it."""


@cache
def schema_of(version: int) -> tuple[Schema, Schema]:
    """Return how a file of this version looks: what holds rows, and what belongs to full-text indexes."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, version)
        entries = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    indexes = [name for _, name, _, sql in entries if (sql or "").startswith("CREATE VIRTUAL TABLE")]
    rows: dict[str, tuple[str, str, str]] = {}
    words: dict[str, tuple[str, str, str]] = {}
    for kind, name, table, sql in entries:
        of_index = any(table == index or table.startswith(f"{index}_") for index in indexes)
        (words if of_index else rows)[name] = (kind, table, normal(sql))
    return rows, words


def normal(sql: object) -> str:
    """Return SQL text with every run of white space as one blank."""
    return " ".join(sql.split()) if isinstance(sql, str) else ""


def _sign(connection: sqlite3.Connection) -> None:
    """Note which KOPE wrote the schema, and give a new file its origin: the id its own rows carry wherever they go."""
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('created_by', ?)", (__version__,))
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('written_by', ?)", (__version__,))
    if connection.execute("SELECT 1 FROM meta WHERE key = 'origin'").fetchone() is None:
        origin = secrets.token_hex(16)
        connection.execute("INSERT INTO meta VALUES ('origin', ?)", (origin,))
        connection.execute(
            "INSERT INTO origins (id, trust, created_at) VALUES (?, 'own', strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
            (origin,),
        )
