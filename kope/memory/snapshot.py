"""A whole copy of a database as it is at one moment, while others may be writing it.

By SQLite, never by copying the file: what is still in the write-ahead log would be missing.
"""

from __future__ import annotations

import os
import sqlite3
from datetime import datetime
from pathlib import Path

from kope.errors import StoreError


def default_place(path: Path, at: datetime) -> Path:
    """Return where a snapshot goes that was given no name: beside the database, with the time in its name."""
    return path.with_name(f"{path.stem}.{at:%Y%m%d-%H%M%S}{path.suffix}")


def write_snapshot(connection: sqlite3.Connection, place: Path) -> None:
    """Write the copy; it appears under its name only when it is whole. Raises StoreError when the name is taken."""
    if place.exists() or place.is_symlink():
        raise StoreError(f"{place} is there already; name a new file for the snapshot")
    if not place.parent.is_dir() or not os.access(place.parent, os.W_OK):
        raise StoreError(f"nothing can be written to {place.parent}; name a file in another folder")
    building = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        connection.execute("VACUUM INTO ?", (str(building),))
        with building.open("rb+") as file:
            os.fsync(file.fileno())
        building.replace(place)
    finally:
        building.unlink(missing_ok=True)


def before_migration(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """Keep a database as it was before its schema changes; returns where. One that is there already stays."""
    place = path.with_name(f"{path.stem}.schema{version}{path.suffix}")
    if not place.exists():
        write_snapshot(connection, place)
    return place
