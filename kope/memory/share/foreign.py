"""A database that this installation did not make, opened so that nothing in it can act: copied, read-only, bounded.

Refuses by structure alone; what its rows say is vet's to judge. Nothing here writes a database of ours.

Protections, outermost first: no links, no devices, a limit of size; a private copy, so that nobody changes it while it
is read; a schema that is word for word one of ours, so that there are no triggers, views or columns of another's;
limits of cell size, memory and work; an authorizer that lets SELECT on the tables that travel through and nothing else.
The full-text index of a plain kope.db is recognised and never touched: its shadow tables can be damaged in ways that
SQLite's own checks do not see.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kope import __version__
from kope.errors import Corrupt, NotFound, SchemaError, StoreError
from kope.memory.database import translate
from kope.memory.migrate import APPLICATION_ID, Schema, normal, schema_of, version_known
from kope.memory.share.travel import TABLES

SIZE_LIMIT = 8 * 1024**3
"""Bytes; a million attempts take about 3 GB."""
_CELL_LIMIT = 16 * 1024 * 1024
_SCHEMA_LIMIT = 200
_STEPS, _STEPS_PER_BYTE = 100_000_000, 40
"""Steps of SQLite's machine that reading a file may take: a second or two, and ten times what honest rows need. Counted
and not timed, so that the same file is refused or taken on every machine."""
_STEPS_AT_ONCE = 100_000
_AGAIN = "ask for it again, or let kope db check --repair save what is left of it"
LINES_MAGIC = b'{"table":"export",'
"""How an export in JSON Lines begins."""
_MAGIC = b"SQLite format 3\0"
_ARCHIVES = {
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"\xfd7zXZ": "an xz archive",
    b"BZh": "a bzip2 archive",
    b"7z\xbc\xaf": "a 7z archive",
}
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _CELL_LIMIT,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 4,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 8,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_PRAGMAS = (
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
    "PRAGMA query_only = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16384",
)


@dataclass
class Foreign:
    """An open copy. path: the file it was made from; copy: where the copy is. digest: sha256 (hex) of its bytes.

    origin: the database's own id. plain: a whole kope.db, with its full-text index; else an export. notes: what a user
    should know, in sentences.
    """

    path: Path
    copy: Path
    digest: str
    version: int
    plain: bool
    connection: sqlite3.Connection
    origin: str = ""
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn SQLite's errors while the file is read into one line that refuses it."""
        with _refusing(self.path):
            yield


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Foreign]:
    """Yield the file's content, as it is at this moment, in the newest schema.

    Raises NotFound, SchemaError (not KOPE's, altered, or of a newer KOPE), Corrupt, StoreError (too large, in use).
    """
    with tempfile.TemporaryDirectory(prefix="kope-import-") as folder:
        copy = Path(folder) / "copy.db"
        notes: list[str] = []
        digest, size = _copied(path, copy, notes)
        with _refusing(path), contextlib.closing(_connected(copy, _STEPS + _STEPS_PER_BYTE * size)) as connection:
            version, plain = _recognised(path, connection)
            _guard(connection)
            _look_at_pages(path, connection, schema_of(version)[0])
            found = Foreign(path, copy, digest, version, plain, connection, notes=notes)
            if version == version_known():
                found.origin = _origin(connection)
                yield found
                return
            from kope.memory.share.older import lifted

            with lifted(found, Path(folder) / "lifted.db") as newer:
                newer.origin = _origin(newer.connection)
                yield newer


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            raise StoreError(f"{path} takes more work to read than its size explains; it is not taken") from error
        if code == sqlite3.SQLITE_AUTH:
            raise SchemaError(
                f"{path} asks for more than reading its rows ({_shown(error)}); it is not taken"
            ) from error
        if code == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
            raise StoreError(f"{path} holds a value that no KOPE writes ({_shown(error)}); it is not taken") from error
        if not code:  # Python's own: a text that is no UTF-8
            raise Corrupt(f"{path} is damaged (a text is not UTF-8); {_AGAIN}") from error
        known = translate(error, path)
        if isinstance(known, Corrupt) or code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_FORMAT):
            raise Corrupt(f"{path} is damaged ({_shown(error)}); {_AGAIN}") from error
        if known is None:
            raise
        raise known from error
    except UnicodeDecodeError as error:  # SQLite's message quotes the damage
        raise Corrupt(f"{path} is damaged (a text is not UTF-8); {_AGAIN}") from error


def _shown(error: object) -> str:
    """Return what SQLite says, on one line and without control characters: it may quote names from the file."""
    return "".join(each if each.isprintable() else " " for each in str(error))[:160]


# --- the copy -------------------------------------------------------------------------------------------------------


def _copied(path: Path, copy: Path, notes: list[str]) -> tuple[str, int]:
    """Copy a regular file through one handle; returns the digest of what was copied, and its size in bytes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as missing:
        raise NotFound(f"there is no file {path}; name the database or export to take in") from missing
    except OSError as refused:
        what = "is a link; name the file itself" if path.is_symlink() else f"cannot be read ({refused.strerror})"
        raise StoreError(f"{path} {what}") from refused
    before = os.fstat(handle)
    if not stat.S_ISREG(before.st_mode):
        os.close(handle)
        raise StoreError(f"{path} is not a regular file; name a database or an export")
    with os.fdopen(handle, "rb") as file:
        if before.st_size > SIZE_LIMIT:
            raise StoreError(f"{path} has {before.st_size / 1e9:.1f} GB, more than is taken; export a part of it")
        _look_at_header(path, file.read(100), before.st_size, notes)
        _require_room(path, copy.parent, before.st_size)
        file.seek(0)
        digest = hashlib.sha256()
        with copy.open("xb") as out:
            while part := file.read(1 << 20):
                digest.update(part)
                out.write(part)
        after = os.fstat(handle)
    same = (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    if not same or copy.stat().st_size != after.st_size:
        raise StoreError(f"{path} changed while it was read; wait until it is complete and repeat")
    return digest.hexdigest(), after.st_size


def _require_room(path: Path, folder: Path, size_bytes: int) -> None:
    if shutil.disk_usage(folder).free < size_bytes + (64 << 20):
        raise StoreError(f"no room in {folder} for a copy of {path} ({size_bytes / 1e6:.0f} MB); free some and repeat")


def _look_at_header(path: Path, header: bytes, size_bytes: int, notes: list[str]) -> None:
    """Refuse what the first 100 bytes say is none of ours, before SQLite sees it."""
    for magic, what in _ARCHIVES.items():
        if header.startswith(magic):
            raise SchemaError(f"{path} is {what}, not a database; unpack it and name what was in it")
    if header.startswith(b"version https://git-lfs"):
        raise SchemaError(f"{path} is only the pointer of a file in git-lfs; run git lfs pull and repeat")
    if header.startswith(LINES_MAGIC):
        raise SchemaError(f"{path} is an export in JSON Lines, for other tools; ask for one as a database (FILE.db)")
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise SchemaError(f"{path} is not a KOPE database; name a database or an export")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise SchemaError(f"{path} is an SQLite database but not KOPE's; name another")
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    if page < 512 or page & (page - 1) or size_bytes % page:
        raise Corrupt(f"{path} is cut off or damaged (its size fits no page size); ask for it again")
    if int.from_bytes(header[56:60], "big") != 1:
        raise SchemaError(f"{path} keeps its text in another encoding than KOPE does; it is not taken")
    log = path.with_name(path.name + "-wal")
    if header[18:20] == b"\x02\x02":
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{path} is in use, its newest attempts are in {log.name}; make a whole file of it with"
                f" kope db snapshot --db {path}, and take that"
            )
        notes.append(
            f"{path.name} was copied while in use, without its -wal file; attempts that were not yet in the file itself"
            " are missing"
        )


# --- the connection -------------------------------------------------------------------------------------------------


def _connected(copy: Path, steps: int) -> sqlite3.Connection:
    connection = sqlite3.connect(copy.as_uri() + "?mode=ro&immutable=1", uri=True, isolation_level=None)
    try:
        # What is no UTF-8 gets another text, which is then not what its digest says.
        connection.text_factory = functools.partial(str, encoding="utf-8", errors="replace")
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        left = iter(range(steps // _STEPS_AT_ONCE))
        connection.set_progress_handler(lambda: next(left, None) is None, _STEPS_AT_ONCE)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


_UNREAD = {"_sqlite_migrations": "table", "idx__sqlite_migrations_migration_set_name": "index", "sqlite_stat1": "table"}
"""What other programs make as they like, and nobody here reads."""
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid LIMIT ?"


def _recognised(path: Path, connection: sqlite3.Connection) -> tuple[int, bool]:
    """Return the schema version, and whether the full-text tables are there. Raises SchemaError for another schema."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > version_known():
        raise SchemaError(
            f"{path} was made by a newer KOPE (schema {version}, this is {__version__} with schema {version_known()});"
            " install the version it was made with, or later"
        )
    if version < 1:
        raise SchemaError(f"{path} has no schema version; it is not KOPE's")
    found = {row[1]: (row[0], row[2], normal(row[3])) for row in connection.execute(_SCHEMA, (_SCHEMA_LIMIT + 1,))}
    base, words = schema_of(version)
    for name, item in found.items():
        if name in _UNREAD and item[0] == _UNREAD[name]:
            continue
        expected = base.get(name) or words.get(name)
        if expected is None:
            raise SchemaError(f"{path} has a {_word(item[0])} {_word(name)} that KOPE never makes; it is not taken")
        if item != expected:
            raise SchemaError(f"{path}: the {expected[0]} {name} is not as KOPE makes it; it is not taken")
    missing = sorted(base.keys() - found.keys() - _UNREAD.keys())
    if missing:
        raise SchemaError(f"{path} lacks {missing[0]}; it is not a whole KOPE database")
    some = found.keys() & words.keys()
    if some and some != words.keys():
        raise SchemaError(f"{path} has only a part of its full-text index; it is not taken")
    return version, bool(some)


def _word(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) < 60 else shown[:57] + "..."


_ALLOWED = {table.name for table in TABLES} | {"meta", "sqlite_schema", "sqlite_master"}
_FUNCTIONS = {"json_valid", "length", "count", "coalesce"}
_CHECKS = {"quick_check"}


def _guard(connection: sqlite3.Connection) -> None:
    """From here on nothing but reading the tables that travel is possible, whatever statement might be run."""

    def allowed(action: int, first: str | None, second: str | None, schema: str | None, _inner: str | None) -> int:
        match action:
            case sqlite3.SQLITE_SELECT:
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_READ:
                return sqlite3.SQLITE_OK if first in _ALLOWED else sqlite3.SQLITE_DENY
            case sqlite3.SQLITE_FUNCTION:
                return sqlite3.SQLITE_OK if second in _FUNCTIONS else sqlite3.SQLITE_DENY
            case sqlite3.SQLITE_PRAGMA:
                return sqlite3.SQLITE_OK if first in _CHECKS else sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(allowed)


def _look_at_pages(path: Path, connection: sqlite3.Connection, there: Schema) -> None:
    """Let SQLite check the pages of the tables that are read, one by one: a check of all would wake the full text."""
    for table in TABLES:
        if table.name not in there:
            continue
        for (line,) in connection.execute(f"PRAGMA quick_check({table.name})"):
            if line != "ok":
                raise Corrupt(f"{path} is damaged ({_shown(line)}); {_AGAIN}")


def _origin(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT value FROM meta WHERE key = 'origin'").fetchone()
    return row[0] if row is not None and isinstance(row[0], str) else ""
