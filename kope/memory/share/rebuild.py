"""Make again what is derived from attempts: experiences, journals, lineage, words, scores, lessons.

After rows came in from elsewhere, or were lost. What one attempt teaches is learn's to say; recording a new one is
record's business.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from dataclasses import dataclass

from kope.memory import digests, index
from kope.memory.database import new_generation
from kope.memory.encode import unpack
from kope.memory.forget import drop_words
from kope.memory.graph import rescore
from kope.memory.learn import Learned, Parent, edge_id_of, learn, node_id_of
from kope.memory.record import NO_VECTOR, REWIND, Vector
from kope.memory.share.bulk import Waiting
from kope.memory.share.unit import Unit, read_one

_MISSING = "SELECT id FROM attempts WHERE id NOT IN (SELECT attempt_id FROM journals) ORDER BY seq"
_UNLINKED = """
    SELECT a.id FROM attempts AS a JOIN attempts AS p ON p.id = a.parent_id JOIN journals AS j ON j.attempt_id = a.id
    JOIN nodes AS n ON n.attempt_id = a.id
    WHERE NOT EXISTS (SELECT 1 FROM edges AS e WHERE e.dst = n.id AND e.kind = 'led_to')
"""
_UNUSED = """
    SELECT n.id, u.id, a.origin_id FROM attempts AS a, json_each(a.used) AS j
    JOIN nodes AS n ON n.attempt_id = a.id JOIN nodes AS u ON u.id = j.value
    WHERE a.used <> '[]' AND u.id <> n.id
    AND NOT EXISTS (SELECT 1 FROM edges AS e WHERE e.src = n.id AND e.kind = 'used' AND e.dst = u.id)
"""
_PARENT = """
    SELECT a.id, t.plan, c.source FROM attempts AS a JOIN attempt_texts AS t ON t.attempt_id = a.id
    LEFT JOIN candidates AS c ON c.id = a.candidate_id WHERE a.id = ?
"""
_IS_THERE = "SELECT 1 FROM attempts WHERE id = ?"
_CHILDREN = "SELECT id FROM attempts WHERE parent_id IN (SELECT value FROM json_each(?))"
_AGAIN = (
    "DELETE FROM edge_texts WHERE edge_id IN (SELECT e.id FROM edges AS e JOIN nodes AS n ON n.id = e.dst"
    " WHERE e.kind IN ('led_to', 'rewound') AND n.attempt_id = ?)",
    "DELETE FROM edges WHERE kind IN ('led_to', 'rewound') AND dst IN (SELECT id FROM nodes WHERE attempt_id = ?)",
    "DELETE FROM node_texts WHERE node_id IN (SELECT id FROM nodes WHERE attempt_id = ?)",
    "DELETE FROM journals WHERE attempt_id = ?",
)
_NEXT = "SELECT coalesce(max(revision), 0) + 1, coalesce(max(seq), 0) + 1 FROM nodes"
_NODE_COLUMNS = (
    "origin_id", "task_name", "move", "traits", "stage", "works", "label", "speedup", "step_ratio", "downstream",
    "confidence", "hardware", "bottleneck", "created_at", "revision", "embedder", "embedding",
)  # fmt: skip
_NODE = (
    f"INSERT INTO nodes (seq, id, kind, attempt_id, {', '.join(_NODE_COLUMNS)})"
    f" VALUES (?, ?, 'attempt', ?, {', '.join('?' * len(_NODE_COLUMNS))}) ON CONFLICT (id) DO UPDATE"
    f" SET {', '.join(f'{name} = excluded.{name}' for name in _NODE_COLUMNS)}"
)
_SEQ = "SELECT seq FROM nodes WHERE id = ?"
_TEXTS = "INSERT INTO node_texts (node_id, title, decision, lesson) VALUES (?, ?, ?, ?)"
_JOURNAL = "INSERT INTO journals (attempt_id, markdown) VALUES (?, ?)"
_WORDS = "INSERT INTO node_words (rowid, text, move, code, diagnostics) VALUES (?, ?, ?, ?, ?)"
_EDGE = "INSERT INTO edges (id, origin_id, src, dst, kind, embedder, embedding) VALUES (?, ?, ?, ?, ?, ?, ?)"
_EDGE_TEXT = "INSERT INTO edge_texts (edge_id, text) VALUES (?, ?)"
_USED = "INSERT INTO edges (id, origin_id, src, dst, kind) VALUES (?, ?, ?, ?, 'used') ON CONFLICT DO NOTHING"
_HAS_WORDS = "SELECT 1 FROM sqlite_schema WHERE name = 'node_words'"
_STEP = 500


@dataclass(frozen=True, slots=True)
class Hint:
    """What is known of an attempt beside its rows. bottleneck: what its time goes to. node, edge: vectors."""

    bottleneck: str = ""
    node: Vector = NO_VECTOR
    edge: Vector = NO_VECTOR


NO_HINT = Hint()
Progress = Callable[[int, int], None]


def set_aside(connection: sqlite3.Connection, attempt_ids: Collection[str]) -> None:
    """Take back what was derived from attempts that are about to change, and from those that started from them.

    `write_missing` makes it again. Their nodes stay, so that what points to them does.
    """
    listed = json.dumps(sorted(attempt_ids))
    everything = {*attempt_ids, *(name for (name,) in connection.execute(_CHILDREN, (listed,)))}
    if _has_words(connection):
        drop_words(connection, everything)
    for statement in _AGAIN:
        connection.executemany(statement, [(name,) for name in sorted(everything)])


def write_missing(
    connection: sqlite3.Connection,
    hint_of: Callable[[str], Hint] = lambda _attempt_id: NO_HINT,
    progress: Progress = lambda _done, _all: None,
) -> int:
    """Learn from every attempt that has no journal entry, and link what can be linked; returns how many there were.

    Inside the caller's transaction. A child may come before its parent.
    """
    connection.execute("PRAGMA defer_foreign_keys = ON")
    late = [name for (name,) in connection.execute(_UNLINKED)]
    if late:
        set_aside(connection, late)
    missing = [name for (name,) in connection.execute(_MISSING)]
    learner = Learner(connection)
    for done, name in enumerate(missing):
        unit = read_one(connection, name)
        assert unit is not None
        learner.write(unit, hint_of(name))
        learner.flush_when_full()
        if done % _STEP == 0:
            progress(done, len(missing))
    learner.flush()
    for src, dst, origin_id in connection.execute(_UNUSED).fetchall():
        connection.execute(_USED, (edge_id_of(src, "used", dst), origin_id, src, dst))
    return len(missing)


def finish(connection: sqlite3.Connection) -> None:
    """Bring scores and lessons up to date after rows came or went, inside the caller's transaction."""
    index.clear(connection)
    rescore(connection)
    digests.rebuild(connection)
    new_generation(connection)


class Learner:
    """Writes what attempts teach, many at once with `flush`, inside the caller's transaction.

    waiting: rows that are written with them; the caller may add to it.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.waiting = Waiting(connection)
        self._connection = connection
        self._revision: int
        self._next_seq: int
        self._revision, self._next_seq = connection.execute(_NEXT).fetchone()
        self._with_words = _has_words(connection)
        self._recent: dict[str, Parent] = {}  # those that wait; what is written may be replaced by another version

    def knows_parent(self, unit: Unit) -> bool:
        """Whether an attempt starts from nothing, or from one that was learned from or is in the database."""
        parent = unit.value("parent_id")
        known = parent is None or parent in self._recent
        return known or self._connection.execute(_IS_THERE, (parent,)).fetchone() is not None

    def write(self, unit: Unit, hint: Hint) -> None:
        """Write node, texts, journal, words and lineage of an attempt that has none of them; its node may be there.

        Has to be followed by `flush`; links are to be checked at the end of the transaction.
        """
        attempt, value, add = unit.attempt(), unit.value, self.waiting.add
        parent = self._parent(attempt.proposal.parent_id)
        learned = learn(attempt, parent, bottleneck=hint.bottleneck)
        seq = self._seq_of(learned.node_id)
        add(_NODE, (
            seq, learned.node_id, unit.id,
            unit.origin_id, attempt.task_name, value("move"), value("traits"), value("stage"), int(learned.works),
            learned.label, value("speedup"), value("step_ratio"), value("step_ratio"), learned.confidence,
            value("hardware"), hint.bottleneck, value("created_at"), self._revision, hint.node.embedder,
            hint.node.data,
        ))  # fmt: skip
        add(_TEXTS, (learned.node_id, learned.title, learned.decision, learned.lesson))
        add(_JOURNAL, (unit.id, learned.journal))
        if self._with_words:
            add(_WORDS, (seq, *learned.words))
        if parent is not None:
            self._link(unit.origin_id, parent.node_id, learned, hint.edge, rewound=attempt.proposer == REWIND)
        self._recent[unit.id] = Parent(learned.node_id, unit.id, attempt.proposal.plan, attempt.proposal.source or "")

    def flush(self) -> None:
        """Write what waits."""
        self.waiting.write()
        self._recent.clear()

    def flush_when_full(self) -> None:
        """Write what waits when that is much."""
        if self.waiting.is_full:
            self.flush()

    def _seq_of(self, node_id: str) -> int:
        row = self._connection.execute(_SEQ, (node_id,)).fetchone()
        if row is not None:
            return int(row[0])
        self._next_seq += 1
        return self._next_seq - 1

    def _link(self, origin_id: str, parent: str, learned: Learned, vector: Vector, *, rewound: bool) -> None:
        for kind in ("led_to", "rewound") if rewound else ("led_to",):
            edge_id = edge_id_of(parent, kind, learned.node_id)
            found = vector if kind == "led_to" else NO_VECTOR
            values = (edge_id, origin_id, parent, learned.node_id, kind, found.embedder, found.data)
            self.waiting.add(_EDGE, values)
            self.waiting.add(_EDGE_TEXT, (edge_id, learned.edge_text))

    def _parent(self, attempt_id: str | None) -> Parent | None:
        """Return the attempt another starts from, whether its own node is written yet or not."""
        if attempt_id is None or attempt_id in self._recent:
            return self._recent[attempt_id] if attempt_id is not None else None
        row = self._connection.execute(_PARENT, (attempt_id,)).fetchone()
        if row is None:
            return None
        source = unpack(row[2]) if row[2] is not None else ""
        return Parent(node_id_of(row[0]), row[0], json.loads(row[1]), source)


def _has_words(connection: sqlite3.Connection) -> bool:
    """Whether the file has a full-text index; an export has none."""
    return connection.execute(_HAS_WORDS).fetchone() is not None
