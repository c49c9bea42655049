"""Writing one attempt: every statement of its one transaction. Which values they get is decided in rows and learn."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kope.errors import StoreError
from kope.memory import index
from kope.memory.contrast import recontrast
from kope.memory.encode import pack, to_json, unpack
from kope.memory.graph import raise_ancestors
from kope.memory.learn import Learned, Parent, edge_id_of
from kope.memory.rows import ATTEMPT_COLUMNS, CASE_COLUMNS, TEXT_COLUMNS, AttemptRows, packed
from kope.model import Attempt, Experience, Stage, Task

_PARENT = """
    SELECT n.id, a.id, t.plan, c.source FROM attempts AS a
    JOIN nodes AS n ON n.attempt_id = a.id
    JOIN attempt_texts AS t ON t.attempt_id = a.id
    LEFT JOIN candidates AS c ON c.id = a.candidate_id
    WHERE a.id = ?
"""
_KNOWN_ATTEMPT = "SELECT content_digest FROM attempts WHERE id = ?"
_KNOWN = """
    SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1), EXISTS (SELECT 1 FROM tasks WHERE digest = ?2),
           ?3 IS NULL OR EXISTS (SELECT 1 FROM prompts WHERE id = ?3)
"""
_CANDIDATE = "INSERT INTO candidates (id, size_bytes, source) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"
PROMPT = "INSERT INTO prompts (id, template, tokens, text) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
_ATTEMPT = (
    f"INSERT INTO attempts ({', '.join(ATTEMPT_COLUMNS)}, origin_id, content_digest)"
    f" VALUES ({', '.join('?' * (len(ATTEMPT_COLUMNS) + 2))})"
)
_TEXTS = f"INSERT INTO attempt_texts (attempt_id, {', '.join(TEXT_COLUMNS)}) VALUES (?, ?, ?, ?, ?)"
_CASE = f"INSERT INTO case_results (attempt_id, {', '.join(CASE_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_JOURNAL = "INSERT INTO journals (attempt_id, markdown) VALUES (?, ?)"
_NEXT_REVISION = "SELECT coalesce(max(revision), 0) + 1 FROM nodes"
_NODE = """
    INSERT INTO nodes (id, origin_id, kind, attempt_id, task_name, move, traits, stage, works, label, speedup,
                       step_ratio, downstream, confidence, hardware, bottleneck, created_at, revision, embedder,
                       embedding)
    VALUES (?, ?, 'attempt', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_NODE_TEXTS = "INSERT INTO node_texts (node_id, title, decision, lesson) VALUES (?, ?, ?, ?)"
_NODE_WORDS = "INSERT INTO node_words (rowid, text, move, code, diagnostics) VALUES (?, ?, ?, ?, ?)"
_EDGE = "INSERT INTO edges (id, origin_id, src, dst, kind, embedder, embedding) VALUES (?, ?, ?, ?, ?, ?, ?)"
_EDGE_TEXT = "INSERT INTO edge_texts (edge_id, text) VALUES (?, ?)"
_USED = """
    INSERT INTO edges (id, origin_id, src, dst, kind, propensity) SELECT ?, ?, ?, id, 'used', ? FROM nodes WHERE id = ?
    ON CONFLICT DO NOTHING
"""
REWIND = "rewind"
"""Proposer of attempts that were found by taking a move back; their lineage is marked as such."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as it was sent. ledger: one JSON-able record per item offered to it, in or out."""

    text: str
    template: str = ""
    tokens: int = 0
    ledger: Sequence[Mapping[str, Any]] = ()

    @property
    def id(self) -> str:
        """sha256 (hex) of the text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Vector:
    """An embedding as it is stored, and the embedder's name; both None when there is none."""

    data: bytes | None = None
    embedder: str | None = None


NO_VECTOR = Vector()


def require_known(connection: sqlite3.Connection, attempt: Attempt, prompt: Prompt | None) -> None:
    """Raise StoreError when the session, the task or the prompt of an attempt is not in the database."""
    given = attempt.prompt_id if prompt is None else None
    session, task, kept = connection.execute(_KNOWN, (attempt.session_id, attempt.task_digest, given)).fetchone()
    if not session:
        raise StoreError(f"session {attempt.session_id} is not in the database; begin it before recording")
    if not task:
        raise StoreError(f"task {attempt.task_name} is not in the database; add it before recording")
    if not kept:
        raise StoreError(f"prompt {given} is not in the database; record it with its text")


def read_parent(connection: sqlite3.Connection, attempt_id: str | None) -> Parent | None:
    """Return the attempt another starts from; None for a root, or when the parent lives in another database."""
    row = connection.execute(_PARENT, (attempt_id,)).fetchone() if attempt_id is not None else None
    if row is None:
        return None
    return Parent(row[0], row[1], json.loads(row[2]), unpack(row[3]) if row[3] is not None else "")


def write_attempt(
    connection: sqlite3.Connection,
    origin_id: str,
    attempt: Attempt,
    rows: AttemptRows,
    learned: Learned,
    parent: Parent | None,
    prompt: Prompt | None,
    vectors: tuple[Vector, Vector],
    *,
    bottleneck: str,
    propensities: Mapping[str, float],
) -> None:
    """Write all rows of an attempt, inside the caller's transaction.

    vectors: of the node and of the edge that led to it. propensities: of the experiences it used, where known.
    """
    _refuse_known(connection, attempt, rows)
    if attempt.candidate is not None:
        connection.execute(_CANDIDATE, packed(attempt.candidate))
    if prompt is not None:
        connection.execute(PROMPT, (prompt.id, prompt.template, prompt.tokens, pack(prompt.text)))
    connection.execute(_ATTEMPT, (*rows.attempt, origin_id, rows.content_digest))
    thought, plan, diagnostics, details = rows.texts
    connection.execute(_TEXTS, (attempt.id, thought, plan, diagnostics, pack(details)))
    connection.executemany(_CASE, [(attempt.id, *case) for case in rows.cases])
    connection.execute(_JOURNAL, (attempt.id, learned.journal))
    revision = _write_node(connection, origin_id, rows, learned, vectors[0], bottleneck)
    link(connection, origin_id, attempt, learned, parent, vectors[1], propensities)
    raise_ancestors(connection, learned.node_id, revision)
    index.extend(connection)


def _refuse_known(connection: sqlite3.Connection, attempt: Attempt, rows: AttemptRows) -> None:
    known = connection.execute(_KNOWN_ATTEMPT, (attempt.id,)).fetchone()
    if known is not None:
        what = "with the same content" if known[0] == rows.content_digest else "with other content"
        raise StoreError(
            f"attempt {attempt.id} is recorded already, {what}; two runs work on one session, end one of them"
        )


def _write_node(
    connection: sqlite3.Connection,
    origin_id: str,
    rows: AttemptRows,
    learned: Learned,
    vector: Vector,
    bottleneck: str,
) -> int:
    """Write the node with its texts and words; returns its revision."""
    at = dict(zip(ATTEMPT_COLUMNS, rows.attempt, strict=True))
    revision: int = connection.execute(_NEXT_REVISION).fetchone()[0]
    cursor = connection.execute(
        _NODE,
        (
            learned.node_id, origin_id, at["id"], at["task_name"], at["move"], at["traits"], at["stage"],
            int(learned.works), learned.label, at["speedup"], at["step_ratio"], at["step_ratio"], learned.confidence,
            at["hardware"], bottleneck, at["created_at"], revision, vector.embedder, vector.data,
        ),
    )  # fmt: skip
    connection.execute(_NODE_TEXTS, (learned.node_id, learned.title, learned.decision, learned.lesson))
    connection.execute(_NODE_WORDS, (cursor.lastrowid, *learned.words))
    return revision


def link(
    connection: sqlite3.Connection,
    origin_id: str,
    attempt: Attempt,
    learned: Learned,
    parent: Parent | None,
    vector: Vector,
    propensities: Mapping[str, float],
) -> None:
    """Write the edges of an attempt: what led to it, what it used, how it contrasts with its siblings.

    vector: of the move that led to it.
    """
    if parent is not None:
        for kind in ("led_to", "rewound") if attempt.proposer == REWIND else ("led_to",):
            edge_id = edge_id_of(parent.node_id, kind, learned.node_id)
            found = vector if kind == "led_to" else NO_VECTOR
            connection.execute(
                _EDGE, (edge_id, origin_id, parent.node_id, learned.node_id, kind, found.embedder, found.data)
            )
            connection.execute(_EDGE_TEXT, (edge_id, learned.edge_text))
        recontrast(connection, parent.node_id)
    for name in dict.fromkeys(attempt.proposal.used):
        if name != learned.node_id:
            edge_id = edge_id_of(learned.node_id, "used", name)
            connection.execute(_USED, (edge_id, origin_id, learned.node_id, propensities.get(name), name))


def experience_of(rows: AttemptRows, learned: Learned, bottleneck: str) -> Experience:
    """Return the node of an attempt that was just written: a leaf, so its downstream score is its own step ratio."""
    at = dict(zip(ATTEMPT_COLUMNS, rows.attempt, strict=True))
    return Experience(
        id=learned.node_id,
        kind="attempt",
        task_name=at["task_name"],
        title=learned.title,
        text=f"{learned.decision}\n{learned.lesson}",
        move=at["move"],
        traits=tuple(json.loads(at["traits"])),
        stage=Stage(at["stage"]),
        works=learned.works,
        label=learned.label,
        speedup=at["speedup"],
        step_ratio=at["step_ratio"],
        downstream=at["step_ratio"],
        confidence=learned.confidence,
        hardware=at["hardware"],
        bottleneck=bottleneck,
        attempt_id=at["id"],
        created_at=at["created_at"],
    )


def task_row(task: Task, origin_id: str, created_at: str) -> tuple[str, ...]:
    """Return the row of a task; its definition as one JSON document."""
    definition = {
        "inputs": task.inputs,
        "outputs": [[item.name, item.dtype] for item in task.outputs],
        "attrs": task.attrs,
        "reference": task.reference,
        "symbol": task.symbol,
        "framework": task.framework,
        "tolerance": {dtype: [rule.rtol, rule.atol] for dtype, rule in task.tolerance.items()},
        "reduction": task.reduction,
        "fixed_shapes": task.fixed_shapes,
        "cases": [
            {
                "id": case.id,
                "attrs": case.attrs,
                "inputs": [
                    None
                    if given is None
                    else {
                        "name": given.spec.name,
                        "shape": given.spec.shape,
                        "dtype": given.spec.dtype,
                        "values": [given.values.low, given.values.high, given.values.special],
                    }
                    for given in case.inputs
                ],
            }
            for case in task.cases
        ],
    }
    return task.digest, origin_id, task.name, task.text, to_json(task.tags), to_json(definition), created_at
