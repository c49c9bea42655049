"""Take out of an export what must not leave: first find the rows that hold any, then write only those anew.

An attempt that something was taken out of keeps the digest of the whole one beside its own, so that whoever has the
whole one knows it again. What is derived from such attempts, and from those that started from them, is made again.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kope.errors import StoreError
from kope.memory.encode import pack, to_json, unpack
from kope.memory.graph import rescore
from kope.memory.rows import ATTEMPT_COLUMNS, CASE_COLUMNS, TEXT_COLUMNS, AttemptRows
from kope.memory.share import unit as units
from kope.memory.share.rebuild import Hint, set_aside, write_missing
from kope.memory.share.redact import Redactor
from kope.memory.share.travel import BY_NAME, TABLES, Table
from kope.memory.share.unit import Unit

Progress = Callable[[str, int, int], None]

# Vectors are of texts that may have changed, and tell of what was taken out: they stay where the texts are the same.
_KEEP_NODES = """
    CREATE TEMP TABLE kept_nodes AS SELECT n.id, n.embedder, n.embedding, t.decision, t.lesson
    FROM nodes AS n JOIN node_texts AS t ON t.node_id = n.id WHERE n.embedding IS NOT NULL
"""
_KEEP_EDGES = """
    CREATE TEMP TABLE kept_edges AS SELECT e.id, e.embedder, e.embedding, t.text
    FROM edges AS e JOIN edge_texts AS t ON t.edge_id = e.id WHERE e.embedding IS NOT NULL
"""
_SAME_NODES = """
    UPDATE nodes SET embedder = k.embedder, embedding = k.embedding
    FROM temp.kept_nodes AS k JOIN node_texts AS t ON t.node_id = k.id
    WHERE nodes.id = k.id AND nodes.embedding IS NULL AND t.decision = k.decision AND t.lesson = k.lesson
"""
_SAME_EDGES = """
    UPDATE edges SET embedder = k.embedder, embedding = k.embedding
    FROM temp.kept_edges AS k JOIN edge_texts AS t ON t.edge_id = k.id
    WHERE edges.id = k.id AND edges.embedding IS NULL AND t.text = k.text
"""
_BATCH_ROWS = 200
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_ATTEMPTS_OF: dict[str, str] = {
    "attempts": "SELECT id FROM attempts WHERE id = ?",
    "attempt_texts": "SELECT id FROM attempts WHERE id = ?",
    "case_results": "SELECT id FROM attempts WHERE id = ?",
    "journals": "SELECT id FROM attempts WHERE id = ?",
    "candidates": "SELECT id FROM attempts WHERE candidate_id = ?",
    "prompts": "SELECT id FROM attempts WHERE prompt_id = ?",
    "nodes": "SELECT attempt_id FROM nodes WHERE id = ?",
    "node_texts": "SELECT attempt_id FROM nodes WHERE id = ?",
    "edges": "SELECT n.attempt_id FROM edges AS e JOIN nodes AS n ON n.id = e.dst WHERE e.id = ?",
    "edge_texts": "SELECT n.attempt_id FROM edges AS e JOIN nodes AS n ON n.id = e.dst WHERE e.id = ?",
}
"""Which attempts a row belongs to, by the first column of its table; the other tables are written row by row."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Something that is taken out. where: table and column; row: its first column; shown: what may be shown of it."""

    kind: str
    where: str
    row: str
    shown: str


class Cleaner:
    """Cleans the file of an export that is being built. changed: something was written anew, and left gaps behind."""

    def __init__(self, connection: sqlite3.Connection, redactor: Redactor | None, *, code: bool, text: bool) -> None:
        self._connection = connection
        self._redactor = redactor
        self._code = code
        self._text = text
        self.changed = False

    def clean(self, progress: Progress) -> tuple[Removal, ...]:
        """Write anew what has to be; returns what was found, in the order of the tables.

        Raises StoreError when something is found again afterwards.
        """
        if self._redactor is None and self._code and self._text:
            return ()
        touched: dict[str, None] = {}
        removals: list[Removal] = []
        self._connection.execute("BEGIN")
        for number, table in enumerate(TABLES):
            progress("looking through", number, len(TABLES))
            for row in self._unclean(table):
                removals += self._removals(table, row)
                if table.name in _ATTEMPTS_OF:
                    found = self._connection.execute(_ATTEMPTS_OF[table.name], (row[0],))
                    touched.update(dict.fromkeys(name for (name,) in found))
                else:
                    self._write_row(table, row)
        if not self._code or not self._text:
            touched = dict.fromkeys(name for (name,) in self._connection.execute("SELECT id FROM attempts"))
            self._strip_tables()
        self._write_attempts(list(touched), progress)
        for name, column in (("candidates", "candidate_id"), ("prompts", "prompt_id")):
            self._connection.execute(
                f"DELETE FROM {name} WHERE id NOT IN (SELECT {column} FROM attempts WHERE {column} IS NOT NULL)"
            )
        self._connection.execute("COMMIT")
        self.changed = bool(removals or touched)
        for table in TABLES if self.changed else ():
            if left := self._unclean(table):
                name = f"{table.name} {str(left[0][0])[:12]}"
                raise StoreError(f"{name} could not be cleaned; leave its attempt out, or export without text")
        return tuple(removals)

    # --- finding

    def _unclean(self, table: Table) -> list[tuple[Any, ...]]:
        """Return the rows of a table that hold something; looked at many at once, since nearly all are clean."""
        found: list[tuple[Any, ...]] = []
        redactor = self._redactor
        if redactor is None:
            return found
        cursor = self._connection.execute(f"SELECT {', '.join(table.columns)} FROM {table.name}")
        while rows := cursor.fetchmany(_BATCH_ROWS):
            columns = zip(table.columns.values(), zip(*rows, strict=True), strict=True)
            texts = [text for kind, values in columns for value in set(values) for text in kind.texts(value)]
            if not redactor.is_clean("\n".join(texts)):
                found += (row for row in rows if not redactor.is_clean("\n".join(_texts(table, row))))
        return found

    def _removals(self, table: Table, row: tuple[Any, ...]) -> Iterator[Removal]:
        assert self._redactor is not None
        for (column, kind), value in zip(table.columns.items(), row, strict=True):
            found = {item: None for text in kind.texts(value) for item in self._redactor.find(text)}
            for item in found:
                yield Removal(item.kind, f"{table.name}.{column}", str(row[0])[:24], item.masked)

    # --- writing anew

    def _replace(self, text: str) -> str:
        return self._redactor.replace(text) if self._redactor is not None else text

    def _write_row(self, table: Table, row: tuple[Any, ...]) -> None:
        if table.name == "conflicts":
            self._write_version(row)
            return
        values = [kind.replaced(value, self._replace) for kind, value in zip(table.columns.values(), row, strict=True)]
        key, columns = table.key[0], list(table.columns)
        sets = ", ".join(f"{name} = ?" for name in columns)
        self._connection.execute(f"UPDATE {table.name} SET {sets} WHERE {key} = ?", (*values, row[0]))

    def _write_version(self, row: tuple[Any, ...]) -> None:
        version = self._cleaned(Unit.of_document(json.loads(unpack(row[3]))))
        self._connection.execute("DELETE FROM conflicts WHERE attempt_id = ? AND content_digest = ?", row[:2])
        values = (version.id, version.content_digest, version.origin_id, pack(to_json(version.document())))
        self._connection.execute("INSERT OR IGNORE INTO conflicts VALUES (?, ?, ?, ?)", values)

    def _strip_tables(self) -> None:
        if not self._code:
            self._connection.execute("UPDATE tasks SET definition = json_set(definition, '$.reference', '')")
        if not self._text:
            self._connection.execute("UPDATE tasks SET text = ''")
            self._connection.execute("UPDATE sessions SET info = '{}'")
        versions = f"SELECT {', '.join(BY_NAME['conflicts'].columns)} FROM conflicts"
        for row in self._connection.execute(versions).fetchall():
            self._write_version(row)

    def _write_attempts(self, names: list[str], progress: Progress) -> None:
        self._connection.execute(_KEEP_NODES)
        self._connection.execute(_KEEP_EDGES)
        set_aside(self._connection, names)
        hints: dict[str, Hint] = {}
        for place, name in enumerate(names):
            whole = units.read_one(self._connection, name)
            assert whole is not None
            cleaned = self._cleaned(whole)
            row = self._connection.execute("SELECT bottleneck FROM nodes WHERE attempt_id = ?", (name,)).fetchone()
            hints[cleaned.id] = Hint(self._replace(row[0]) if row is not None else "")
            if cleaned.id == name:
                units.replace(self._connection, cleaned, cleaned.origin_id)
            else:
                self._remove(name)
                units.insert(self._connection, cleaned, cleaned.origin_id)
            if place % 500 == 0:
                progress("cleaning", place, len(names))
        write_missing(self._connection, lambda name: hints.get(name) or self._kept_hint(name))
        rescore(self._connection)
        self._connection.execute(_SAME_NODES)
        self._connection.execute(_SAME_EDGES)

    def _kept_hint(self, name: str) -> Hint:
        """Of an attempt that started from one that was changed."""
        row = self._connection.execute("SELECT bottleneck FROM nodes WHERE attempt_id = ?", (name,)).fetchone()
        return Hint(row[0] if row is not None else "")

    def _remove(self, name: str) -> None:
        """Remove an attempt whose very id had to change."""
        for statement in (
            "DELETE FROM edge_texts WHERE edge_id IN"
            " (SELECT e.id FROM edges AS e JOIN nodes AS n ON n.id IN (e.src, e.dst) WHERE n.attempt_id = ?)",
            "DELETE FROM edges WHERE src IN (SELECT id FROM nodes WHERE attempt_id = ?1)"
            " OR dst IN (SELECT id FROM nodes WHERE attempt_id = ?1)",
            "DELETE FROM nodes WHERE attempt_id = ?",
            "DELETE FROM attempt_texts WHERE attempt_id = ?",
            "DELETE FROM case_results WHERE attempt_id = ?",
            "DELETE FROM attempts WHERE id = ?",
        ):
            self._connection.execute(statement, (name,))

    # --- one attempt

    def _cleaned(self, unit: Unit) -> Unit:
        """Return an attempt without what must not leave, and with the digest of the whole one."""
        stripped = _stripped(unit, code=self._code, text=self._text)
        rows = AttemptRows(
            _replaced("attempts", ATTEMPT_COLUMNS, stripped.rows.attempt, self._replace),
            (
                *_replaced("attempt_texts", TEXT_COLUMNS[:3], stripped.rows.texts[:3], self._replace),
                to_json(units.replaced_details(stripped.rows.texts[3], self._replace)),
            ),
            tuple(_replaced("case_results", CASE_COLUMNS, case, self._replace) for case in stripped.rows.cases),
        )
        source, prompt = stripped.source, stripped.prompt
        if source is not None:
            text = self._replace(unpack(source))
            source = pack(text)
            rows = _with(rows, "candidate_id", units.sha256_of(text))
        if prompt is not None:
            text = self._replace(unpack(prompt[3]))
            prompt = (units.sha256_of(text), self._replace(prompt[1]), prompt[2], pack(text))
            rows = _with(rows, "prompt_id", prompt[0])
        digest = rows.content_digest
        if digest == unit.content_digest:
            return unit
        return replace(unit, rows=rows, content_digest=digest, original_digest=unit.claim, source=source, prompt=prompt)


def _texts(table: Table, row: tuple[Any, ...]) -> list[str]:
    return [text for kind, value in zip(table.columns.values(), row, strict=True) for text in kind.texts(value)]


def _replaced(table: str, names: tuple[str, ...], values: tuple[Any, ...], change: Callable[[str], str]) -> Any:
    kinds = BY_NAME[table].columns
    return tuple(kinds[name].replaced(value, change) for name, value in zip(names, values, strict=True))


def _with(rows: AttemptRows, column: str, value: Any) -> AttemptRows:
    at = list(rows.attempt)
    at[ATTEMPT_COLUMNS.index(column)] = value
    return replace(rows, attempt=tuple(at))


def _stripped(unit: Unit, *, code: bool, text: bool) -> Unit:
    """Return an attempt without its code or its free texts.

    Code is in more than the source: replies, prompts and logs quote it. Numbers, moves, plans, kinds of findings stay.
    """
    if code and text:
        return unit
    thought, plan, diagnostics, details = unit.rows.texts
    kept = {**json.loads(details), "log": "", "reply": "", "calls": [], "ledger": []}
    findings = json.loads(diagnostics)
    for item in findings:
        item["message"] = item["message"].split("\n")[0][:300] if text else ""
        item["remedy"] = item.get("remedy", "") if text else ""
    if not text:
        kept["reason"] = ""
    thought = _FENCED.sub("[code]", thought) if text else ""
    rows = replace(unit.rows, texts=(thought, plan, to_json(findings), to_json(kept)))
    rows = _with(rows, "prompt_id", None)
    if not code:
        rows = _with(rows, "candidate_id", None)
    return replace(unit, rows=rows, source=unit.source if code else None, prompt=None)
