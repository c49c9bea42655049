"""Whether a database is whole: pages, links, content ids, the graph's completeness, and what is derived from the rest.

Says what is wrong; mending is not done here.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kope.errors import Corrupt, KopeError
from kope.memory import attempts, index
from kope.memory.database import Database
from kope.memory.encode import unpack
from kope.memory.graph import downstream, label_of
from kope.memory.learn import edge_id_of, node_id_of, words_of
from kope.memory.rows import ATTEMPT_COLUMNS
from kope.model import Verdict

_VECTORS_AT_ONCE = 4_000
_WORDS_CHECKED = 500
"""Experiences whose full-text entry is made again and compared; of more, this many spread over all."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong. kind: pages, links, content, graph, derived or words. message: one line, with the row's id."""

    kind: str
    message: str


def problems(database: Database) -> tuple[Problem, ...]:
    """Return everything that is wrong, () when nothing is."""
    found: list[Problem] = []
    try:
        with database.reading() as connection:
            for look in (_pages, _links, _contents, _attempts, _graph, _scores, _vectors, _words, _index):
                found.extend(_looked(look, connection))
                if look is _pages and found:
                    break  # on damaged pages the rest would only say the same in other words
        if not database.read_only:
            found.extend(_word_index(database))
    except Corrupt as damaged:
        found.append(Problem("pages", str(damaged)))
    return tuple(found)


def _looked(look: Callable[[sqlite3.Connection], Iterator[Problem]], connection: sqlite3.Connection) -> list[Problem]:
    try:
        return list(look(connection))
    except (ValueError, KeyError, TypeError, KopeError) as unreadable:
        return [Problem("content", f"a row cannot be read ({unreadable})")]


def _pages(connection: sqlite3.Connection) -> Iterator[Problem]:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Problem("pages", line)


def _links(connection: sqlite3.Connection) -> Iterator[Problem]:
    for table, rowid, other, _ in connection.execute("PRAGMA foreign_key_check"):
        yield Problem("links", f"{table} row {rowid} points to a row of {other} that is not there")


def _contents(connection: sqlite3.Connection) -> Iterator[Problem]:
    for table, column in (("candidates", "source"), ("prompts", "text")):
        for name, data in connection.execute(f"SELECT id, {column} FROM {table}"):
            try:
                digest = hashlib.sha256(unpack(data).encode("utf-8", "surrogatepass")).hexdigest()
            except ValueError:
                digest = ""
            if digest != name:
                yield Problem("content", f"{table} {name[:12]} is not what its id says")


def _attempts(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Every attempt re-hashes to its digest, and its node and its edge are those it leads to."""
    nodes = {row[0]: row[1:] for row in connection.execute(_NODES)}
    parents = dict(connection.execute("SELECT dst, src FROM edges WHERE kind = 'led_to'").fetchall())
    for row in attempts.every_row(connection):
        name = row[0]
        try:
            rows, _, digest = attempts.rows_of(connection, row)
        except ValueError as unreadable:
            yield Problem("content", f"attempt {name} cannot be read ({unreadable})")
            continue
        if rows.content_digest != digest:
            yield Problem("content", f"attempt {name} is not what its digest says")
        if name not in nodes:
            yield Problem("graph", f"attempt {name} has no experience")
            continue
        at = dict(zip(ATTEMPT_COLUMNS, rows.attempt, strict=True))
        works = int(at["verdict"] == Verdict.VERIFIED.value)
        label = label_of(at["speedup"], at["step_ratio"])
        node_id, *told = nodes[name]
        if told != [label, works, at["stage"], at["step_ratio"], at["speedup"]]:
            yield Problem("graph", f"experience {node_id} does not say what attempt {name} came to")
        parent_id = nodes[at["parent_id"]][0] if at["parent_id"] in nodes else None
        if parents.get(node_id) != parent_id:
            yield Problem("graph", f"experience {node_id} is not linked to the one it started from")


_NODES = """
    SELECT attempt_id, id, label, works, stage, step_ratio, speedup FROM nodes WHERE attempt_id IS NOT NULL
"""
_INCOMPLETE = (
    ("SELECT id FROM nodes WHERE id NOT IN (SELECT node_id FROM node_texts)", "experience {} has no text"),
    ("SELECT id FROM attempts WHERE id NOT IN (SELECT attempt_id FROM journals)", "attempt {} has no journal entry"),
    (
        "SELECT id FROM edges WHERE kind = 'led_to' AND id NOT IN (SELECT edge_id FROM edge_texts)",
        "edge {} has no text",
    ),
    (
        "SELECT node_id FROM digests WHERE node_id NOT IN (SELECT src FROM edges WHERE kind = 'distilled_from')",
        "lesson {} has no evidence",
    ),
    (
        "SELECT id FROM nodes WHERE kind = 'digest' AND id NOT IN (SELECT node_id FROM digests)",
        "lesson {} is incomplete",
    ),
)


def _graph(connection: sqlite3.Connection) -> Iterator[Problem]:
    for sql, message in _INCOMPLETE:
        for (name,) in connection.execute(sql):
            yield Problem("graph", message.format(name))
    for name, attempt_id in connection.execute("SELECT id, attempt_id FROM nodes WHERE attempt_id IS NOT NULL"):
        if name != node_id_of(attempt_id):
            yield Problem("graph", f"experience {name} does not have the id of attempt {attempt_id}")
    for name, src, kind, dst in connection.execute("SELECT id, src, kind, dst FROM edges"):
        if name != edge_id_of(src, kind, dst):
            yield Problem("graph", f"edge {name} does not have the id of what it links")


def _scores(connection: sqlite3.Connection) -> Iterator[Problem]:
    ratios, stored = {}, {}
    for name, step_ratio, score, label, speedup, kind in connection.execute(
        "SELECT id, step_ratio, downstream, label, speedup, kind FROM nodes"
    ):
        ratios[name], stored[name] = step_ratio, score
        if kind == "attempt" and label != label_of(speedup, step_ratio):
            yield Problem("derived", f"experience {name} is labelled {label!r} with a step ratio of {step_ratio}")
    parents = dict(connection.execute("SELECT dst, src FROM edges WHERE kind = 'led_to'"))
    try:
        scores = downstream(ratios, parents)
    except ValueError as circle:
        yield Problem("graph", str(circle))
        return
    for name, score in scores.items():
        if not math.isclose(score, stored[name], rel_tol=1e-9, abs_tol=1e-12):
            yield Problem("derived", f"experience {name} has the downstream score {stored[name]}, not {score}")


def _vectors(connection: sqlite3.Connection) -> Iterator[Problem]:
    import numpy as np

    for table in ("nodes", "edges"):
        cursor = connection.execute(f"SELECT id, embedding FROM {table} WHERE embedding IS NOT NULL")
        while rows := cursor.fetchmany(_VECTORS_AT_ONCE):
            by_dim: dict[int, list[tuple[str, bytes]]] = {}
            for row in rows:
                by_dim.setdefault(len(row[1]), []).append(row)
            for same in by_dim.values():
                values = np.frombuffer(b"".join(data for _, data in same), "<f2").reshape(len(same), -1)
                lengths = np.linalg.norm(values.astype(np.float32), axis=1)
                for place in np.flatnonzero(~((lengths >= 0.98) & (lengths <= 1.02))):
                    name, length = same[place][0], lengths[place]
                    yield Problem("derived", f"the vector of {table} {name} has length {length:.3f}, not 1")


def _index(connection: sqlite3.Connection) -> Iterator[Problem]:
    for name, count in index.differences(connection).items():
        yield Problem("derived", f"{count} entries of the table {name} are not what experiences say")


# --- the full-text index --------------------------------------------------------------------------------------------

_COUNTED = """
    SELECT count(*) FROM nodes AS n LEFT JOIN node_words_docsize AS d ON d.id = n.seq WHERE d.id IS NULL
    UNION ALL SELECT count(*) FROM node_words_docsize WHERE id NOT IN (SELECT seq FROM nodes)
"""
_PROBE = """
    CREATE VIRTUAL TABLE temp.probe USING fts5(
        text, move, code, diagnostics, content = '', tokenize = 'porter unicode61 remove_diacritics 2')
"""
_FILL = "INSERT INTO temp.probe (rowid, text, move, code, diagnostics) VALUES (?, ?, ?, ?, ?)"
_HAS_INDEX = "SELECT 1 FROM sqlite_schema WHERE name = 'node_words'"
_SAMPLE = """
    SELECT n.seq, n.attempt_id, t.decision, t.lesson, coalesce(x.text, '')
    FROM nodes AS n JOIN node_texts AS t ON t.node_id = n.id
    LEFT JOIN edges AS e ON e.dst = n.id AND e.kind = 'led_to' LEFT JOIN edge_texts AS x ON x.edge_id = e.id
    WHERE n.attempt_id IS NOT NULL AND n.seq % ? = 0 ORDER BY n.seq
"""
_DIFFERENT = """
    SELECT n.id FROM temp.probe_docsize AS p JOIN nodes AS n ON n.seq = p.id
    LEFT JOIN node_words_docsize AS d ON d.id = p.id WHERE d.sz IS NOT p.sz
"""


def _words(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Every experience is in the index and nothing else is; what is there is what would be put there now."""
    if connection.execute(_HAS_INDEX).fetchone() is None:
        return  # an export has none
    missing, stale = (row[0] for row in connection.execute(_COUNTED))
    if missing:
        yield Problem("words", f"{missing} experiences are missing from the full-text index")
    if stale:
        yield Problem("words", f"the full-text index has {stale} entries of experiences that are gone")
    step = 1 + connection.execute("SELECT count(*) FROM nodes").fetchone()[0] // _WORDS_CHECKED
    connection.execute(_PROBE)
    try:
        for seq, attempt_id, *texts in connection.execute(_SAMPLE, (step,)).fetchall():
            connection.execute(_FILL, (seq, *words_of(attempts.by_id(connection, attempt_id), *texts)))
        for (name,) in connection.execute(_DIFFERENT):
            yield Problem("words", f"the full-text index does not hold the words of experience {name}")
    finally:
        connection.execute("DROP TABLE temp.probe")


def _word_index(database: Database) -> Iterator[Problem]:
    """The index's own check; SQLite counts it as writing, so a read-only file goes without."""
    try:
        with database.write() as connection:
            connection.execute("INSERT INTO node_words (node_words) VALUES ('integrity-check')")
    except Corrupt:
        yield Problem("words", "the full-text index is damaged inside")
