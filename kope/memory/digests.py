"""Digests in the database: nodes with text, evidence and contradictions, brought up to date with what was distilled.

What a lesson says is distil's business.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from kope.memory import contrast, index
from kope.memory.database import new_generation
from kope.memory.distil import Digest, distil
from kope.memory.learn import edge_id_of
from kope.memory.record import NO_VECTOR, Vector
from kope.memory.words import indexed

_OWN = "SELECT value FROM meta WHERE key = 'origin'"
_REVISION = "SELECT coalesce(max(revision), 0) + 1 FROM nodes"
_KNOWN = """
    SELECT n.id, n.task_name, n.move, n.traits, n.stage, n.works, n.label, n.step_ratio, n.confidence, n.hardware,
           n.bottleneck, n.created_at, t.title, t.decision, t.lesson, d.rule, d.trigger, d.rationale, d.before, d.after,
           n.seq
    FROM nodes AS n JOIN node_texts AS t ON t.node_id = n.id JOIN digests AS d ON d.node_id = n.id
"""
_INSERT = """
    INSERT INTO nodes (id, origin_id, kind, task_name, move, traits, stage, works, label, step_ratio, downstream,
                       confidence, hardware, bottleneck, created_at, revision, embedder, embedding)
    VALUES (?, ?, 'digest', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE = """
    UPDATE nodes SET task_name = ?, move = ?, traits = ?, stage = ?, works = ?, label = ?, step_ratio = ?,
                     downstream = ?, confidence = ?, hardware = ?, bottleneck = ?, created_at = ?, revision = ?
    WHERE id = ?
"""
_TEXTS = "INSERT OR REPLACE INTO node_texts (node_id, title, decision, lesson) VALUES (?, ?, ?, ?)"
_DIGEST = "INSERT OR REPLACE INTO digests (node_id, rule, trigger, rationale, before, after) VALUES (?, ?, ?, ?, ?, ?)"
_WORDS = "INSERT INTO node_words (rowid, text, move, code, diagnostics) VALUES (?, ?, ?, ?, ?)"
_NO_WORDS = """
    INSERT INTO node_words (node_words, rowid, text, move, code, diagnostics) VALUES ('delete', ?, ?, ?, ?, ?)
"""
_DELETE = "DELETE FROM nodes WHERE id = ?"
_EDGES = "SELECT src, kind, dst FROM edges WHERE kind IN ('distilled_from', 'contradicts')"
_EDGE = "INSERT INTO edges (id, origin_id, src, dst, kind) VALUES (?, ?, ?, ?, ?)"
_NO_EDGE = "DELETE FROM edges WHERE src = ? AND kind = ? AND dst = ?"
_EDGE_TEXT = "INSERT INTO edge_texts (edge_id, text) VALUES (?, ?)"
_FOLLOWED = """
    SELECT e.src, d.node_id FROM edges AS e JOIN digests AS d ON d.node_id = e.dst JOIN nodes AS g ON g.id = d.node_id
    JOIN nodes AS n ON n.id = e.src JOIN origins AS o ON o.id = n.origin_id
    WHERE e.kind = 'used' AND d.rule = 'gain' AND n.move = g.move AND n.hardware = g.hardware
    AND n.label IN ('ineffective', 'negative') AND o.trust IN ('own', 'trusted')
"""


def rebuild(
    connection: sqlite3.Connection, made: Sequence[Digest] | None = None, vectors: Mapping[str, Vector] | None = None
) -> tuple[int, int, int]:
    """Bring contrasts and digests up to date, inside the caller's transaction; returns (new, changed, gone).

    made: what was distilled, when that was done before. vectors: of digests, by id; those without are found by words.
    """
    before = connection.total_changes
    contrast.rebuild(connection)
    made = distil(connection) if made is None else made
    origin: str = connection.execute(_OWN).fetchone()[0]
    revision: int = connection.execute(_REVISION).fetchone()[0]
    known = {row[0]: row for row in connection.execute(_KNOWN)}
    wanted = {digest.id: digest for digest in made}
    gone = known.keys() - wanted.keys()
    for name in sorted(gone):
        _remove(connection, known[name])
    new, changed = 0, []
    for digest in made:
        if digest.id not in known:
            _insert(connection, origin, digest, revision, (vectors or {}).get(digest.id, NO_VECTOR))
            new += 1
        elif known[digest.id][1:-1] != (*_columns(digest), *_texts(digest), *_parts(digest)):
            _update(connection, digest, revision)
            changed.append(known[digest.id][-1])
    _write_edges(connection, origin, made)
    index.replace(connection, changed, [known[name][-1] for name in gone])
    index.extend(connection)
    if connection.total_changes > before:  # numbers of edges that went come again
        new_generation(connection)
    return new, len(changed), len(gone)


def known_ids(connection: sqlite3.Connection) -> set[str]:
    """Return the ids of the digests there are."""
    return {row[0] for row in connection.execute("SELECT node_id FROM digests")}


def meaning(digest: Digest) -> str:
    """The text whose vector finds a digest: situation and change, the same however much evidence comes."""
    return digest.decision


def words_of(digest_move: str, title: str, decision: str) -> tuple[str, str, str, str]:
    """Return the columns of a digest's entry in the full-text index."""
    return indexed(f"{title} {decision}"), indexed(digest_move), "", ""


def _columns(digest: Digest) -> tuple[object, ...]:
    traits = json.dumps(digest.traits, separators=(",", ":"), ensure_ascii=False)
    return (
        digest.task_name, digest.move, traits, digest.stage, int(digest.works), digest.label, digest.step_ratio,
        digest.confidence, digest.hardware, digest.bottleneck, digest.created_at,
    )  # fmt: skip


def _texts(digest: Digest) -> tuple[str, str, str]:
    return digest.title, digest.decision, digest.lesson


def _parts(digest: Digest) -> tuple[str, str, str, str, str]:
    return digest.rule, digest.trigger, digest.rationale, digest.before, digest.after


def _insert(connection: sqlite3.Connection, origin: str, digest: Digest, revision: int, vector: Vector) -> None:
    columns = _columns(digest)
    values = (digest.id, origin, *columns[:7], digest.step_ratio, *columns[7:], revision, vector.embedder, vector.data)
    cursor = connection.execute(_INSERT, values)
    connection.execute(_TEXTS, (digest.id, *_texts(digest)))
    connection.execute(_DIGEST, (digest.id, *_parts(digest)))
    connection.execute(_WORDS, (cursor.lastrowid, *words_of(digest.move, digest.title, digest.decision)))


def _update(connection: sqlite3.Connection, digest: Digest, revision: int) -> None:
    columns = _columns(digest)
    connection.execute(_UPDATE, (*columns[:7], digest.step_ratio, *columns[7:], revision, digest.id))
    connection.execute(_TEXTS, (digest.id, *_texts(digest)))
    connection.execute(_DIGEST, (digest.id, *_parts(digest)))


def _remove(connection: sqlite3.Connection, row: Sequence[object]) -> None:
    move, title, decision, seq = str(row[2]), str(row[12]), str(row[13]), row[-1]
    connection.execute(_NO_WORDS, (seq, *words_of(move, title, decision)))
    connection.execute(_DELETE, (row[0],))


def _write_edges(connection: sqlite3.Connection, origin: str, made: Sequence[Digest]) -> None:
    wanted = {(digest.id, "distilled_from", name): "" for digest in made for name in digest.evidence}
    wanted |= dict(_contradictions(made))
    followed = connection.execute(_FOLLOWED).fetchall()
    wanted |= {(src, "contradicts", dst): "it followed this lesson and came out slower" for src, dst in followed}
    known = set(connection.execute(_EDGES).fetchall())
    connection.executemany(_NO_EDGE, sorted(known - wanted.keys()))
    for src, kind, dst in sorted(wanted.keys() - known):
        edge_id = edge_id_of(src, kind, dst)
        connection.execute(_EDGE, (edge_id, origin, src, dst, kind))
        if wanted[src, kind, dst]:
            connection.execute(_EDGE_TEXT, (edge_id, wanted[src, kind, dst]))


def _contradictions(made: Iterable[Digest]) -> Iterable[tuple[tuple[str, str, str], str]]:
    """A loss contradicts the gain of the same change in the same situation."""
    gains = {(each.decision, each.hardware): each for each in made if each.rule == "gain"}
    for each in made:
        other = gains.get((each.decision, each.hardware)) if each.rule == "loss" else None
        if other is not None:
            yield (each.id, "contradicts", other.id), f"{each.lesson} But: {other.lesson}"
