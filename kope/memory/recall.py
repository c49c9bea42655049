"""Find the experiences that fit a state: by structure, words, meaning and outcome, fused by reciprocal rank.

Each way of looking gives a ranking; an experience's score is the sum over rankings of 1 / (60 + rank), so that a
missing way (no embedder) only means one ranking less. Two count half: the move's vector, since it answers the same
question as the node's, and the outcome, which says what an experience is worth, not whether it fits. Structure counts
by how much alike the operators are. What a session may see is scope's business.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kope.memory.graph import LABELS
from kope.memory.image import Image, Node
from kope.memory.moves import nearness
from kope.memory.query import RecallQuery
from kope.memory.reasons import Found, reason_for
from kope.memory.scope import View
from kope.memory.words import Question
from kope.model import Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RANK_OFFSET = 60
_POOL = 100
"""How deep each ranking is read."""
_FAILED = Verdict.FAILED.value
_LEAST_COSINE = 0.2
"""Below it texts are unrelated, and their order is noise."""
_SAME_TASK = 2.0
_BELOW = 2_000
"""How many descendants of an item are looked at for the best of them."""
_SAME_MOVE = 2
"""Items of one task, move and outcome, before others go first."""

_MATCHES = """
    SELECT rowid FROM node_words WHERE node_words MATCH ? ORDER BY bm25(node_words, 1.0, 1.5, 0.5, 1.0)
"""
_HAS_WORD = "SELECT 1 FROM node_words WHERE node_words MATCH ? AND rowid = ?"


@dataclass
class Ranked:
    """What was found. order: node ids best first. found: how each was found. terms: words that were asked for.

    degraded: what could not be used.
    """

    order: list[str] = field(default_factory=list)
    found: dict[str, Found] = field(default_factory=dict)
    terms: tuple[str, ...] = ()
    degraded: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Chosen:
    """An item of the answer."""

    node: Node
    score: float
    reason: str


def choose(
    connection: sqlite3.Connection,
    image: Image,
    view: View,
    query: RecallQuery,
    vector: NDArray[np.float32] | None,
    embedder_name: str,
) -> tuple[list[Chosen], list[str]]:
    """Return the items of the answer, best first, and what was missing while looking for them."""
    if query.limit <= 0:
        return [], []
    narrow = view.narrowed(query.filters)
    ranked = _rank(connection, image, narrow, query, vector, embedder_name)
    picked = _pick(ranked, narrow.nodes, query.limit)
    chosen = []
    for node in picked:
        found = ranked.found[node.id]
        if "words" in found.ranks:
            found.words = _words_in(connection, node.seq, ranked.terms)
        tags = image.tags.get(node.task_digest or "", ())
        reason = reason_for(node, tags, found, query, _best_below(image, view, node))
        chosen.append(Chosen(node, found.score, reason))
    return chosen, ranked.degraded


# --- rankings -------------------------------------------------------------------------------------------------------


def _rank(
    connection: sqlite3.Connection,
    image: Image,
    view: View,
    query: RecallQuery,
    vector: NDArray[np.float32] | None,
    embedder_name: str,
) -> Ranked:
    ranked = Ranked()
    visible = view.nodes
    allowed = None if view.complete else visible
    _add(ranked, "structure", by_structure(view, image.tags, query))
    _add(ranked, "words", ((name, 1.0) for name in _by_words(connection, image, visible, query, ranked)))
    if vector is not None:
        for way, table in (("meaning", "nodes"), ("move", "edges")):
            near = [
                hit
                for hit in image.vectors[table].nearest(vector, embedder_name, allowed, _POOL)
                if hit[1] >= _LEAST_COSINE
            ]
            weight = 1.0 if way == "meaning" else 0.5
            _add(ranked, way, [(name, weight) for name, _ in near if name in visible])
            for name, cosine in near:
                if name in visible:
                    ranked.found[name].cosines[way] = cosine
        missing = len(image.by_id) - len(image.vectors["nodes"].node_ids)
        if missing:
            ranked.degraded.append(f"{missing} of {len(image.by_id)} experiences have no vector of {embedder_name}")
    by_outcome = sorted(ranked.found, key=lambda name: outcome_key(visible[name], query.hardware))
    # Failures among themselves: what must not be repeated is worth as much as what works.
    _add(ranked, "outcome", ((name, 0.5) for name in by_outcome if not is_failure(visible[name])))
    _add(ranked, "outcome", ((name, 0.5) for name in by_outcome if is_failure(visible[name])))
    ranked.order = sorted(ranked.found, key=lambda name: (-ranked.found[name].score, visible[name].seq))
    return ranked


def _add(ranked: Ranked, way: str, names: Iterable[tuple[str, float]]) -> None:
    """Take a ranking into account: node ids with their weights, best first."""
    for rank, (name, weight) in enumerate(names, start=1):
        found = ranked.found.setdefault(name, Found())
        found.ranks[way] = rank
        found.score += weight / (RANK_OFFSET + rank)


def by_structure(view: View, tags: Mapping[str, Sequence[str]], query: RecallQuery) -> list[tuple[str, float]]:
    """Return the experiences of the same task, then of operators that share structure words, in order of outcome, and
    how much each counts: 2 for the same task, else the share of words in common.

    A third of the places is for failures: what was refused here before is worth knowing too.
    """
    near = {group: nearness(group, tags, query) for group in view.groups}
    names: list[tuple[str, float]] = []
    for group in sorted((group for group in near if near[group] > 0.0), key=lambda group: (-near[group], group)):
        room = _POOL - len(names)
        if room <= 0:
            break
        nodes = [view.nodes[name] for name in view.groups[group]]
        failed = [node for node in nodes if is_failure(node)]
        works = [node for node in nodes if not is_failure(node)]
        places = min(len(failed), max(room // 3, room - len(works)))
        best = heapq.nsmallest(room - places, works, key=lambda node: outcome_key(node, query.hardware))
        newest = heapq.nlargest(places, failed, key=lambda node: node.seq)
        names.extend((node.id, min(_SAME_TASK, near[group])) for node in (*best, *newest))
    return names


def _by_words(
    connection: sqlite3.Connection, image: Image, visible: Mapping[str, Node], query: RecallQuery, ranked: Ranked
) -> list[str]:
    """Return what the full-text index finds. A damaged index costs this ranking, not the answer."""
    names: list[str] = []
    try:
        text, documents = f"{query.code} {query.text}", len(image.by_id)
        question = Question.of(text, image.vocabulary.counts(connection, text, documents), documents)
        if question.match:
            for (seq,) in connection.execute(_MATCHES, (question.match,)):
                name = image.by_seq.get(seq, "")
                if name in visible:
                    names.append(name)
                    if len(names) == _POOL:
                        break
            ranked.terms = question.terms
        return names
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            raise
        ranked.degraded.append("the full-text index is damaged (see kope db check)")
        return []


def _words_in(connection: sqlite3.Connection, seq: int, terms: Iterable[str]) -> tuple[str, ...]:
    return tuple(term for term in terms if connection.execute(_HAS_WORD, (f'"{term}"', seq)).fetchone())


# --- outcome --------------------------------------------------------------------------------------------------------


def is_failure(node: Node) -> bool:
    """Whether an experience is of a candidate that was refused."""
    return node.verdict == _FAILED


def is_fast_evidence(node: Node, hardware: str) -> bool:
    """Whether an experience's times say something about speed on this hardware."""
    return bool(hardware) and node.hardware == hardware and bool(node.label)


def outcome_key(node: Node, hardware: str) -> tuple[float, float, int]:
    """Return the sort key of the graph's outcome signal: label bucket, then downstream score x confidence, then age.

    What ran on other hardware ranks by whether it works: between "effective" and "partial here", times unseen.
    """
    if is_failure(node):
        return 5.0, -node.confidence, -node.seq
    if is_fast_evidence(node, hardware):
        return float(LABELS.index(node.label)), -node.downstream * node.confidence, -node.seq
    return (0.5 if node.works else 1.5), -node.confidence, -node.seq


def _best_below(image: Image, view: View, node: Node) -> Node | None:
    """Return the fastest verified experience in the lineage below a node, None when nothing below is faster."""
    best: Node | None = None
    waiting = list(image.children.get(node.id, ()))
    seen = set(waiting)
    while waiting and len(seen) < _BELOW:
        below = view.nodes.get(waiting.pop())
        if below is None:
            continue
        if below.works and (below.speedup or 0.0) > ((best.speedup if best is not None else node.speedup) or 0.0):
            best = below
        fresh = [child for child in image.children.get(below.id, ()) if child not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return best


# --- choosing -------------------------------------------------------------------------------------------------------


def _pick(ranked: Ranked, visible: Mapping[str, Node], limit: int) -> list[Node]:
    """Take the best, but of both kinds where there are both: at least a quarter failures, at least half that work."""
    distinct = _distinct([visible[name] for name in ranked.order])
    failed = [node for node in distinct if is_failure(node)]
    works = [node for node in distinct if not is_failure(node)]
    natural = sum(is_failure(node) for node in distinct[:limit])
    places = min(len(failed), max(natural, limit // 4, limit - len(works)))
    places = max(0, min(places, limit - min(len(works), (limit + 1) // 2)))
    taken = {node.id for node in (*failed[:places], *works[: limit - places])}
    return [node for node in distinct if node.id in taken]


def _distinct(nodes: list[Node]) -> list[Node]:
    """Put aside the same source again, and the third of one task, move and outcome; they go last."""
    first: list[Node] = []
    last: list[Node] = []
    sources: set[str] = set()
    alike: dict[tuple[str, str, str, str], int] = {}
    for node in nodes:
        kind = node.task_name, node.move, node.label, node.stage
        again = node.candidate_id is not None and node.candidate_id in sources
        (last if again or alike.get(kind, 0) >= _SAME_MOVE else first).append(node)
        alike[kind] = alike.get(kind, 0) + 1
        if node.candidate_id is not None:
            sources.add(node.candidate_id)
    return first + last


def neighbourhood(image: Image, view: View, chosen: Iterable[Node], hardware: str) -> list[Node]:
    """Return what stands around the chosen: the parent of each, its best child, and a sibling that ended otherwise."""
    picked = {node.id: node for node in chosen}
    around: dict[str, Node] = {}
    for node in picked.values():
        parent = view.nodes.get(image.parents.get(node.id, ""))
        children = _seen(view, image.children.get(node.id, ()))
        siblings = _seen(view, image.children.get(parent.id, ())) if parent is not None else []
        contrast = [other for other in siblings if is_failure(other) != is_failure(node)]
        for group in ([parent] if parent is not None else [], children, contrast):
            if group:
                best = min(group, key=lambda other: outcome_key(other, hardware))
                around.setdefault(best.id, best)
    return [node for name, node in around.items() if name not in picked]


def _seen(view: View, names: Iterable[str]) -> list[Node]:
    return [view.nodes[name] for name in names if name in view.nodes]
