"""From chosen nodes to a `Recall`: texts, edges among them, and two answers put together.

Choosing is recall's business.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kope.errors import NotFound
from kope.memory.image import Node
from kope.memory.recall import Chosen
from kope.memory.scope import View
from kope.model import Edge, Experience, MoveEvidence, Recall, Recalled, Stage

_TEXTS = "SELECT title, decision, lesson FROM node_texts WHERE node_id = ?"
_DIGEST = "SELECT trigger, rationale, before, after FROM digests WHERE node_id = ?"
_EVIDENCE = """
    SELECT n.attempt_id FROM edges AS e JOIN nodes AS n ON n.id = e.dst
    WHERE e.src = ? AND e.kind = 'distilled_from' ORDER BY n.step_ratio DESC, n.id
"""
_EDGES = """
    SELECT e.id, e.src, e.dst, e.kind, coalesce(t.text, '')
    FROM edges AS e LEFT JOIN edge_texts AS t ON t.edge_id = e.id
    WHERE e.dst IN (SELECT value FROM json_each(?1)) AND e.src IN (SELECT value FROM json_each(?1)) ORDER BY e.seq
"""


def compose(
    connection: sqlite3.Connection,
    view: View,
    chosen: Sequence[Chosen],
    around: Sequence[Node],
    moves: tuple[MoveEvidence, ...],
    degraded: Sequence[str],
    origins: Mapping[str, str],
) -> Recall:
    """Return the answer with every text it needs."""
    names = json.dumps([*(item.node.id for item in chosen), *(node.id for node in around)])
    return Recall(
        items=tuple(
            Recalled(_experience(connection, view, item.node, origins), item.score, item.reason, item.propensity)
            for item in chosen
        ),
        neighbours=tuple(_experience(connection, view, node, origins) for node in around),
        edges=_edges(connection, view, names),
        moves=moves,
        degraded="; ".join(degraded),
    )


def _edges(connection: sqlite3.Connection, view: View, names: str) -> tuple[Edge, ...]:
    found = tuple(Edge(*row) for row in connection.execute(_EDGES, (names,)))
    if not view.given:
        return found
    # A contrast says which of two went well, and a reason what gained before: a placebo tells neither.
    return tuple(replace(edge, text="") for edge in found if edge.kind in ("led_to", "used"))


def one(connection: sqlite3.Connection, view: View, experience_id: str, origins: Mapping[str, str]) -> Experience:
    """Return an experience of a view. origins: labels of files that rows came from. Raises NotFound."""
    node = view.get(experience_id)
    if node is None:
        raise NotFound(f"there is no experience {experience_id}; kope recall shows ids")
    return _experience(connection, view, node, origins)


def _experience(connection: sqlite3.Connection, view: View, node: Node, origins: Mapping[str, str]) -> Experience:
    title, decision, lesson = connection.execute(_TEXTS, (node.id,)).fetchone() or ("", "", "")
    shown = view.lesson_of(node)
    if shown != node.id:
        lesson = (connection.execute(_TEXTS, (shown,)).fetchone() or ("", "", ""))[2]
    before = after = ""
    evidence: tuple[str, ...] = ()
    if node.seq in view.given:
        title = decision = f"{node.task_name}: {node.move}"
    elif node.kind == "digest":
        _, rationale, before, after = connection.execute(_DIGEST, (node.id,)).fetchone() or ("", "", "", "")
        decision = f"{decision}: {rationale}" if rationale else decision
        evidence = tuple(row[0] for row in connection.execute(_EVIDENCE, (node.id,)))
    return Experience(
        id=node.id,
        kind=node.kind,
        task_name=node.task_name,
        title=title,
        text=f"{decision}\n{lesson}",
        move=node.move,
        traits=tuple(json.loads(node.traits)),
        stage=Stage(node.stage),
        works=bool(node.works),
        label=node.label,
        speedup=node.speedup,
        step_ratio=node.step_ratio,
        downstream=node.downstream,
        confidence=node.confidence,
        hardware=node.hardware,
        bottleneck=node.bottleneck,
        attempt_id=node.attempt_id,
        created_at=node.created_at,
        origin="" if node.standing == "own" else origins.get(node.origin_id, ""),
        standing=node.standing,
        before=before,
        after=after,
        evidence=evidence,
    )


def join(first: Recall, second: Recall, limit: int) -> Recall:
    """Return two answers as one: items by score, at most `limit`; whatever is in both comes from the first."""
    items = {item.experience.id: item for item in (*second.items, *first.items)}
    kept = sorted(items.values(), key=lambda item: -item.score)[:limit]
    shown = {item.experience.id for item in kept}
    rest = {node.id: node for node in (*second.neighbours, *first.neighbours) if node.id not in shown}
    rest |= {name: item.experience for name, item in items.items() if name not in shown}
    edges = {edge.id: edge for edge in (*second.edges, *first.edges)}
    moves = {move.experience_id: move for move in (*second.moves, *first.moves)}
    degraded = dict.fromkeys(part for answer in (first, second) for part in answer.degraded.split("; ") if part)
    return Recall(tuple(kept), tuple(rest.values()), tuple(edges.values()), tuple(moves.values()), "; ".join(degraded))
