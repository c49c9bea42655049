"""What is in a database: versions, counts, and what was tried, by task, hardware and embedder."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kope.memory import sessions
from kope.memory.database import IN_MEMORY, Database
from kope.memory.sessions import Session
from kope.memory.share.content import content_hash
from kope.memory.share.origins import Source, disagreements, sources

TABLES = (
    "sessions", "tasks", "asks", "candidates", "prompts", "attempts", "case_results", "journals", "nodes", "edges",
)  # fmt: skip
_TASKS = """
    SELECT task_name, count(*), sum(verdict = 'verified'), sum(verdict = 'screened'), sum(verdict = 'failed'),
           count(DISTINCT task_digest)
    FROM attempts GROUP BY task_name ORDER BY task_name
"""
_HARDWARE = "SELECT hardware, count(*) FROM attempts GROUP BY hardware ORDER BY hardware"
_EMBEDDERS = """
    SELECT coalesce(embedder, ''), count(*), coalesce(max(length(embedding) / 2), 0) FROM nodes
    GROUP BY embedder ORDER BY embedder
"""
_EDGES = "SELECT kind, count(*) FROM edges GROUP BY kind ORDER BY kind"


@dataclass(frozen=True, slots=True)
class TaskCount:
    """Attempts on a task of this name. versions: how many digests of it were tried."""

    name: str
    attempts: int
    verified: int
    screened: int
    failed: int
    versions: int


@dataclass(frozen=True, slots=True)
class Info:
    """What a database holds. counts: rows by table; edges: by kind; hardware: attempts by it.

    embedders: experiences by embedder and its dimension; "" and 0 for those without a vector. content_hash: equal for
    equal attempts. conflicts: attempts that files disagree on, each with its versions (digest, whose).
    """

    path: Path
    size_bytes: int
    read_only: bool
    notes: tuple[str, ...]
    schema_version: int
    created_by: str
    written_by: str
    origin: str
    counts: dict[str, int]
    edges: dict[str, int]
    tasks: tuple[TaskCount, ...]
    hardware: dict[str, int]
    embedders: tuple[tuple[str, int, int], ...]
    sessions: tuple[Session, ...]
    content_hash: str
    origins: tuple[Source, ...]
    conflicts: Mapping[str, tuple[tuple[str, str], ...]]


def read_info(database: Database) -> Info:
    """Return what a database holds, all of it from one moment."""
    with database.reading() as connection:
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        return Info(
            path=database.path,
            size_bytes=database.path.stat().st_size if database.path != IN_MEMORY else 0,
            read_only=database.read_only,
            notes=database.notes,
            schema_version=connection.execute("PRAGMA user_version").fetchone()[0],
            created_by=meta.get("created_by", ""),
            written_by=meta.get("written_by", ""),
            origin=meta.get("origin", ""),
            counts={table: _count(connection, table) for table in TABLES},
            edges=dict(connection.execute(_EDGES).fetchall()),
            tasks=tuple(TaskCount(*row) for row in connection.execute(_TASKS)),
            hardware=dict(connection.execute(_HARDWARE).fetchall()),
            embedders=tuple((name, dim, count) for name, count, dim in connection.execute(_EMBEDDERS)),
            sessions=sessions.read_all(connection),
            content_hash=content_hash(connection),
            origins=sources(connection),
            conflicts=disagreements(connection),
        )


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
