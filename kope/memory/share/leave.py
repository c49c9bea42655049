"""Write what a database knows into a file that may leave: the chosen attempts, rid of what must not leave with them.

A file is built under another name beside its place, and takes its name only when it is whole and was looked through.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from kope import __version__
from kope.errors import MachineError, NotFound, StoreError
from kope.memory.database import Database
from kope.memory.encode import to_json
from kope.memory.share import slim
from kope.memory.share.clean import Cleaner, Removal
from kope.memory.share.content import content_hash
from kope.memory.share.lines import write_lines
from kope.memory.share.redact import Redactor
from kope.memory.share.signature import sign, signature_of
from kope.memory.share.travel import META, TABLES, Table

Progress = Callable[[str, int, int], None]
_FAST = (
    "PRAGMA secure_delete = ON",
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA cache_size = -65536",
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which attempts leave: those that meet every condition given.

    tasks: names or digests. since: ISO 8601. targets: "twin", ... best: of every task and hardware the fastest verified
    one only.
    """

    tasks: tuple[str, ...] = ()
    since: datetime | None = None
    targets: tuple[str, ...] = ()
    best: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """What left, or would. attempts: how many. content_hash: of the file. removals: what was taken out of them.

    size_bytes: of the file, 0 when none was written. signature: of the file, beside it.
    """

    attempts: int
    content_hash: str
    removals: tuple[Removal, ...] = ()
    size_bytes: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    signature: Path | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """How it leaves. lines: JSON Lines instead of a database. redactor: None for one's own backups.

    code, text: whether kernel sources, and whether free texts, leave. vectors: whether embeddings do. label: its maker.
    key: to sign it with.
    """

    lines: bool = False
    redactor: Redactor | None = None
    code: bool = True
    text: bool = True
    vectors: bool = True
    label: str = ""
    key: Path | None = None


def leave(
    database: Database,
    place: Path | None,
    choice: Choice,
    form: Form,
    progress: Progress = lambda _what, _done, _all: None,
) -> Left:
    """Write the file; place None: only say what would be written. Raises NotFound when nothing meets the choice."""
    if place is not None:
        look_at_place(place)
        if form.key is not None:
            look_at_place(signature_of(place))
    place = place.absolute() if place is not None else None
    with _scratch(place.parent if place is not None else Path(tempfile.gettempdir())) as scratch:
        built = scratch / "export.db"
        count = _copied(database, built, choice, form)
        with contextlib.closing(sqlite3.connect(built, isolation_level=None)) as connection:
            for pragma in _FAST:
                connection.execute(pragma)
            cleaner = Cleaner(connection, form.redactor, code=form.code, text=form.text)
            removals = cleaner.clean(progress)
            found = content_hash(connection)
            rows = {table.name: _count(connection, table) for table in TABLES}
            if place is None:
                return Left(count, found, removals, 0, rows)
            whole = scratch / "whole"
            if form.lines:
                write_lines(connection, whole, found)
            elif cleaner.changed:
                connection.execute("VACUUM INTO ?", (str(whole),))
        if not whole.exists():
            built.replace(whole)
        with whole.open("rb+") as file:
            os.fsync(file.fileno())
        whole.chmod(0o644)
        signature = sign(whole, form.key) if form.key is not None else None
        if signature is not None:
            signature = signature.replace(signature_of(place))
        whole.replace(place)
        return Left(count, found, removals, place.stat().st_size, rows, signature)


def _count(connection: sqlite3.Connection, table: Table) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0])


def look_at_place(place: Path) -> None:
    """Raise StoreError unless a new file can be made there."""
    if place.exists() or place.is_symlink():
        raise StoreError(f"{place} is there already; name a new file, or remove that one")
    if not place.parent.is_dir():
        raise StoreError(f"the folder {place.parent} does not exist; make it, or name another")
    if not os.access(place.parent, os.W_OK):
        raise StoreError(f"the folder {place.parent} cannot be written; name another")


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Yield a folder for this user alone, gone afterwards: what is in it has not been looked through yet."""
    try:
        made = tempfile.TemporaryDirectory(prefix=".kope-export-", dir=folder)
    except OSError as refused:
        raise MachineError(f"nothing can be written to {folder} ({refused.strerror}); name another folder") from refused
    with made as name:
        yield Path(name)


# --- choosing and copying -------------------------------------------------------------------------------------------

_CHOSEN = """
    INSERT INTO temp.chosen SELECT id FROM main.attempts
    WHERE (?1 = '[]' OR task_name IN (SELECT value FROM json_each(?1))
           OR task_digest IN (SELECT value FROM json_each(?1)))
    AND (?2 = '[]' OR target IN (SELECT value FROM json_each(?2)))
    AND origin_id NOT IN (SELECT id FROM main.origins WHERE trust = 'distrusted')
"""
_DISTRUSTED = """
    SELECT 1 FROM main.attempts WHERE origin_id IN (SELECT id FROM main.origins WHERE trust = 'distrusted') LIMIT 1
"""
_ORIGINS = """
    INSERT INTO out.origins (id, label, trust, created_at)
    SELECT id, CASE WHEN id = ?1 AND ?2 <> '' THEN ?2 ELSE label END,
           CASE WHEN id = ?1 THEN 'own' ELSE 'quarantined' END, created_at
    FROM main.origins WHERE id = ?1 OR id IN (
        SELECT origin_id FROM out.attempts UNION SELECT origin_id FROM out.sessions
        UNION SELECT origin_id FROM out.tasks UNION SELECT origin_id FROM out.conflicts
    )
"""
_CHOSEN_NODES = """
    INSERT INTO temp.chosen_nodes SELECT id FROM main.nodes WHERE attempt_id IN (SELECT id FROM temp.chosen)
"""
_TIMES = "SELECT id, created_at FROM main.attempts WHERE id IN (SELECT id FROM temp.chosen)"
_NOT_BEST = """
    DELETE FROM temp.chosen WHERE id NOT IN (
        SELECT id FROM (
            SELECT id, row_number() OVER (
                PARTITION BY task_digest, hardware ORDER BY typical_us, created_at, id
            ) AS place
            FROM main.attempts
            WHERE id IN (SELECT id FROM temp.chosen) AND verdict = 'verified' AND typical_us IS NOT NULL
        ) WHERE place = 1
    )
"""


_INDEXES = "SELECT name, sql FROM out.sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"


def _copied(database: Database, built: Path, choice: Choice, form: Form) -> int:
    """Copy the chosen rows, all of one moment, into a new file; returns the number of attempts."""
    meta = {name: value for name, value in database.rows("SELECT key, value FROM meta") if name in META}
    meta["written_by"] = __version__
    meta["made_by"] = "export"
    slim.make(built, meta)
    with database.lock, _attached(database, built), database.reading() as connection:
        every = choice == Choice() and connection.execute(_DISTRUSTED).fetchone() is None
        if not every:
            _choose(connection, choice)
        counted = "main.attempts" if every else "temp.chosen"
        count = int(connection.execute(f"SELECT count(*) FROM {counted}").fetchone()[0])
        if not count:
            raise NotFound(f"nothing in {database.path} meets the conditions; kope db info shows what there is")
        indexes = connection.execute(_INDEXES).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX out.{name}")
        for table in TABLES:
            if table.name != "origins":
                connection.execute(_copy_statement(connection, table, form, every=every))
        for _, sql in indexes:  # made at once, which is quicker than row by row
            connection.execute(sql.replace(" INDEX ", " INDEX out.", 1))
        connection.execute(_ORIGINS, (meta.get("origin", ""), form.label))
        connection.execute("COMMIT")
    return count


@contextlib.contextmanager
def _attached(database: Database, built: Path) -> Iterator[None]:
    """Attach the new file.

    Links and the rules of rows are not checked meanwhile: they were when the rows were written, and a table that is
    copied whole is then copied by pages.
    """
    connection = database.connection
    for table in ("chosen", "chosen_nodes"):
        connection.execute(f"CREATE TEMP TABLE {table} (id TEXT PRIMARY KEY) WITHOUT ROWID")
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    try:
        connection.execute("ATTACH ? AS out", (built.as_uri() + "?mode=rw",))
        try:
            for pragma in _FAST:
                connection.execute(pragma.replace("PRAGMA ", "PRAGMA out."))
            yield
        finally:
            connection.execute("DETACH out")
    finally:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA ignore_check_constraints = OFF")
        for table in ("chosen", "chosen_nodes"):
            connection.execute(f"DROP TABLE temp.{table}")


def _choose(connection: sqlite3.Connection, choice: Choice) -> None:
    connection.execute(_CHOSEN, (to_json(choice.tasks), to_json(choice.targets)))
    if choice.since is not None:
        early = [(name,) for name, created_at in connection.execute(_TIMES) if not _is_since(created_at, choice.since)]
        connection.executemany("DELETE FROM temp.chosen WHERE id = ?", early)
    if choice.best:
        connection.execute(_NOT_BEST)
    connection.execute(_CHOSEN_NODES)


def _is_since(created_at: str, since: datetime) -> bool:
    try:
        return datetime.fromisoformat(created_at) >= since
    except (ValueError, TypeError):
        return False


def _copy_statement(connection: sqlite3.Connection, table: Table, form: Form, *, every: bool) -> str:
    """Return the statement that copies what leaves of a table; a whole one without local columns as it stands."""
    condition = table.all if every else table.chosen
    there = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table.name})")]
    if not condition and there == list(table.columns):
        return f"INSERT INTO out.{table.name} SELECT * FROM main.{table.name}"
    columns: Sequence[str] = list(table.columns)
    values = ["NULL" if name in ("embedder", "embedding") and not form.vectors else name for name in columns]
    if "revision" in table.local and "revision" in there:
        columns, values = [*columns, "revision"], [*values, "0"]
    where = f" WHERE {condition}" if condition else ""
    order = " ORDER BY seq" if "seq" in there else ""
    chosen = f"SELECT {', '.join(values)} FROM main.{table.name}{where}{order}"
    return f"INSERT INTO out.{table.name} ({', '.join(columns)}) {chosen}"
