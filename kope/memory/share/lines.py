"""An export as JSON Lines, for tools that read no SQLite: a header, then one object per row, texts unpacked.

The form of every line is in schema/export_line.json.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kope import __version__
from kope.memory.migrate import version_known
from kope.memory.share.travel import TABLES, Table

FORMAT = 1


def write_lines(connection: sqlite3.Connection, place: Path, content_hash: str) -> None:
    """Write all rows of an export that was built, table by table in the order of travel.TABLES."""
    with place.open("x", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        for line in _lines(connection, content_hash):
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def _lines(connection: sqlite3.Connection, content_hash: str) -> Iterator[dict[str, Any]]:
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    yield {
        "table": "export",
        "format": FORMAT,
        "schema_version": version_known(),
        "kope_version": __version__,
        "origin": meta.get("origin", ""),
        "content_hash": content_hash,
    }
    for table in TABLES:
        order = ", ".join(table.key)
        for row in connection.execute(f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {order}"):
            yield {"table": table.name, **_plain(table, row)}


def _plain(table: Table, row: tuple[Any, ...]) -> dict[str, Any]:
    named = zip(table.columns.items(), row, strict=True)
    return {name: _finite(kind.plain(value)) for (name, kind), value in named if name != "embedding"}


def _finite(value: Any) -> Any:
    """JSON has no infinity: it is the text "inf" there, as it is inside JSON columns."""
    return str(value) if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
