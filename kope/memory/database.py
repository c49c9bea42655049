"""One SQLite file as KOPE keeps it: how it is opened, made, migrated, written to and left behind.

Knows no table but `meta` and the full-text index. SQLite's errors become KOPE's here and nowhere else.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kope import __version__
from kope.errors import Corrupt, KopeError, MachineError, NotFound, ReadOnly, SchemaError, StoreError
from kope.memory import mounts
from kope.memory.migrate import APPLICATION_ID, migrate, version_known
from kope.memory.snapshot import before_migration

IN_MEMORY = Path(":memory:")
BUSY_TIMEOUT_S = 30.0
_LEAVE_TRIES = 5
_MEND = "restore a snapshot, or let kope db check --repair save what is left of it"
_WAL_IN_HEADER = b"\x02\x02"
_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    # One fsync per attempt. NORMAL would survive kill -9 as well; FULL also survives a power cut, and an attempt takes
    # seconds where the fsync takes a fraction of a millisecond.
    "PRAGMA synchronous = FULL",
    "PRAGMA cell_size_check = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16384",
)

_open_files: list[tuple[int, int]] = []
_open_files_lock = threading.Lock()


class Database:
    """A connection. One thread at a time works with it; `lock` is theirs to share.

    read_only: asked for, or because the file or its folder cannot be written. notes: what a user should know about the
    file, one sentence each.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, read_only: bool, notes: Sequence[str]) -> None:
        self.path = path
        self.read_only = read_only
        self.notes = tuple(notes)
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = connection
        self._file = _identity(path) if path != IN_MEMORY else None
        self._wal = path == IN_MEMORY
        if self._file is not None:
            with _open_files_lock:
                _open_files.append(self._file)

    @classmethod
    def open(cls, path: Path, *, create: bool, read_only: bool) -> Self:
        """Open a file and bring it to the newest schema. Raises as Store.open says."""
        if path == IN_MEMORY:
            connection = _connected(str(path))
            _prepare(connection, path, read_only=False)
            return cls(path, connection, read_only=False, notes=())
        path = _resolve(path)
        made = _look_at(path, create=create and not read_only)
        read_only = read_only or not _can_write(path)
        bare_wal = _notes(path)
        notes = [*bare_wal, *([network] if (network := mounts.warning(path)) else [])]
        with _translated(path):
            connection = _connect(path, read_only=read_only, bare_wal=bool(bare_wal))
            try:
                notes += _prepare(connection, path, read_only=read_only)
                is_export = not _has_words(connection)
                notes += [_EXPORT.format(path.name)] if is_export else []
                return cls(path, connection, read_only=read_only or is_export, notes=notes)
            except BaseException:
                connection.close()
                if made:
                    path.unlink(missing_ok=True)
                raise

    # --- reading and writing

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection. Raises StoreError when it was closed."""
        if self._connection is None:
            raise StoreError(f"{self.path} was closed; open it again")
        return self._connection

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query."""
        with self.lock, _translated(self.path):
            return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> Any | None:
        """Return the first row of a query, None when there is none."""
        with self.lock, _translated(self.path):
            return self.connection.execute(sql, values).fetchone()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several queries that see the same state of the file, whatever others write meanwhile."""
        with self.lock, _translated(self.path):
            connection = self.connection
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One immediate transaction: all of it is on disk afterwards, or nothing when anything raises.

        Immediate, because a transaction that reads first and then writes is refused at once when another wrote between.
        """
        with self.lock, _translated(self.path):
            connection = self.connection
            if self.read_only:
                raise _cannot_write(self.path)
            self._use_wal(connection)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def compact(self) -> None:
        """Write the file anew without what was deleted; it stays as large as it is while others read it."""
        with self.lock, _translated(self.path), suppress(StoreError):
            connection = self.connection
            connection.execute("INSERT INTO node_words (node_words) VALUES ('optimize')")
            try:
                connection.execute("VACUUM")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise

    # --- leaving

    def close(self) -> None:
        """Close; the last to do so leaves one file that any reader opens, without log and index beside it."""
        with self.lock:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            try:
                if not self.read_only and self._file is not None:
                    _leave_wal(connection)
            finally:
                connection.close()
                if self._file is not None:
                    with _open_files_lock:
                        _open_files.remove(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Switch to the write-ahead log before the first write, so that those who only read change nothing."""
        if self._wal:
            return
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                # The switch needs the file for itself for a moment and does not wait on its own.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        self._wal = True


def new_generation(connection: sqlite3.Connection) -> None:
    """Note that rows went or came to count otherwise: whoever holds them in memory has to read everything again."""
    connection.execute(
        "INSERT INTO meta VALUES ('generation', '1') ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
    )


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into KOPE's. What is a mistake in KOPE's own SQL stays what it is."""
    try:
        yield
    except sqlite3.Error as error:
        found = translate(error, path)
        if found is None:
            raise
        raise found from error
    except UnicodeDecodeError as error:  # SQLite's message quotes the damage
        raise Corrupt(f"{path} is damaged (a text is not UTF-8); {_MEND}") from error


def _cannot_write(path: Path) -> ReadOnly:
    return ReadOnly(f"{path} cannot be written; make file and folder writable, or name another with --db")


def translate(error: sqlite3.Error, path: Path) -> KopeError | None:
    """Return what an SQLite error means for the user, None when it is a bug of ours. By primary result code."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if not code and "decode" in str(error):  # Python's own: a text that is no UTF-8
        return Corrupt(f"{path} is damaged (a text is not UTF-8); {_MEND}")
    match code:
        case sqlite3.SQLITE_NOTADB:
            return SchemaError(f"{path} is not a KOPE database; name another file with --db")
        case sqlite3.SQLITE_CORRUPT:
            return Corrupt(f"{path} is damaged ({error}); {_MEND}")
        case sqlite3.SQLITE_FULL:
            return MachineError(f"no space left to write {path}; free some and repeat, nothing was lost")
        case sqlite3.SQLITE_READONLY:
            return _cannot_write(path)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(f"{path} was busy for {BUSY_TIMEOUT_S:.0f} s; repeat when the other program is done")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return StoreError(f"{path} cannot be opened ({error}); check file and folder permissions")
        case sqlite3.SQLITE_IOERR:
            return MachineError(f"the disk failed on {path} ({error}); check it, then run kope db check")
        case sqlite3.SQLITE_TOOBIG:
            return StoreError(f"a value is too large for {path} ({error}); nothing was written")
        case _:
            return None


# --- opening --------------------------------------------------------------------------------------------------------


def _resolve(path: Path) -> Path:
    """Follow links, so that the log lies beside the file itself whichever name it was opened by."""
    try:
        return path.expanduser().resolve(strict=path.is_symlink())
    except (OSError, RuntimeError) as broken:
        raise StoreError(f"{path} is a link to nowhere; remove it or name another file with --db") from broken


def _look_at(path: Path, *, create: bool) -> bool:
    """Refuse what cannot be a database, before SQLite touches it. Returns whether the file is yet to be made."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder; name a file in it with --db")
    if not path.parent.is_dir():
        raise StoreError(f"the folder {path.parent} does not exist; make it, or name another file with --db")
    try:
        found = path.stat() if path.exists() else None
    except OSError as refused:
        raise StoreError(f"{path} cannot be looked at ({refused.strerror}); check permissions") from refused
    if found is not None and not path.is_file():
        raise StoreError(f"{path} is not a regular file; name another with --db")
    if found is None and not create:
        raise NotFound(f"there is no database {path}; kope optimize makes one, or name another with --db")
    if found is not None and found.st_size == 0 and not create:
        raise SchemaError(f"{path} is empty, not a KOPE database; name another with --db")
    return found is None


def _notes(path: Path) -> tuple[str, ...]:
    """Say when a file was copied away from its log.

    While KOPE works with a file its header says WAL and the log lies beside it; when it is closed neither is so. A
    header that says WAL without a log means a copy of the file alone, taken meanwhile.
    """
    if not path.exists() or path.with_name(path.name + "-wal").exists() or _is_open_here(path):
        return ()
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return ()
    if header[18:20] != _WAL_IN_HEADER:
        return ()
    return (f"{path.name} was copied while in use, without its -wal file; the newest attempts may be missing",)


def _is_open_here(path: Path) -> bool:
    """Whether this process has the file open: reading it by other means would then drop SQLite's locks on it."""
    with _open_files_lock:
        return _identity(path) in _open_files


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _can_write(path: Path) -> bool:
    """Whether SQLite may write the file and its log: both the file and its folder are needed."""
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def _connect(path: Path, *, read_only: bool, bare_wal: bool) -> sqlite3.Connection:
    """Connect and read the first page.

    Reading a file that says WAL makes SQLite write a log beside it; where that is not wanted or not possible and there
    is no log yet, the file is read as one that never changes.
    """
    try:
        return _connected(path.as_uri() + ("" if not read_only else "?immutable=1" if bare_wal else "?mode=ro"))
    except sqlite3.Error as error:
        if read_only and error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise ReadOnly(
                f"{path} needs its -wal file, which cannot be read here; copy both to a folder you can write"
            ) from error
        raise


def _connected(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        connection.execute("PRAGMA schema_version").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


_EXPORT = "{} is an export: it is read as it is, without full text; kope db import takes it into a database"


def _has_words(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'node_words'").fetchone() is not None


def _prepare(connection: sqlite3.Connection, path: Path, *, read_only: bool) -> list[str]:
    """Check whose file it is and migrate it, keeping it as it was; returns what a user should know of that."""
    _refuse_foreign(connection, path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < version_known():
        if read_only:
            raise ReadOnly(f"{path} has an older schema and cannot be written; copy it to a folder you can write")
        kept = before_migration(connection, path, version) if version and path != IN_MEMORY else None
        migrate(connection)
        if kept is not None:
            return [f"{path.name} was brought from schema {version} to {version_known()}; as it was: {kept.name}"]
    return []


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    code = connection.execute("SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')").fetchone()[0]
    if application != APPLICATION_ID and (tables or version or application):
        raise SchemaError(f"{path} is an SQLite database but not KOPE's; name another file with --db")
    if code:
        raise SchemaError(f"{path} has triggers or views, which KOPE never makes; do not use it, get a clean copy")
    if version > version_known():
        needed = ""
        with suppress(sqlite3.Error):
            row = connection.execute("SELECT value FROM meta WHERE key = 'written_by'").fetchone()
            needed = f" {row[0]}" if row else ""
        raise SchemaError(
            f"{path} was made by a newer KOPE (schema {version}, this is {__version__} with schema {version_known()}); "
            f"install kope{needed} or later"
        )


def _leave_wal(connection: sqlite3.Connection) -> None:
    """Copy the log into the file and stop using one. Refused while others have the file open; the last one does it."""
    connection.execute("PRAGMA busy_timeout = 0")
    for _ in range(_LEAVE_TRIES):
        try:
            if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
                connection.execute("PRAGMA journal_mode = DELETE")
            return
        except sqlite3.Error as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                return  # closing must not fail: the log stays beside the file and is read with it
            time.sleep(0.01)
