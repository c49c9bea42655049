"""Ways of looking for experiences, each a ranking: by structure, words, code, meaning, the move's meaning, and outcome.

They are fused by reciprocal rank: a score is the sum over rankings of weight / (60 + rank), so that a missing way (no
embedder) only means one ranking less. What is taken of the fused order is recall's business.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from kope.memory.image import Image, Node
from kope.memory.moves import nearness
from kope.memory.outcome import is_failure, outcome_key
from kope.memory.query import RecallQuery
from kope.memory.reasons import Found
from kope.memory.scope import View
from kope.memory.words import Question, terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RANK_OFFSET = 60
POOL = 100
"""How deep each ranking is read."""
WEIGHTS = {"structure": 1.0, "words": 1.0, "code": 0.5, "meaning": 1.0, "move": 0.5, "outcome": 0.5, "value": 1.0}
"""The move's vector answers the same question as the node's, code is alike in kernels that are not, and an outcome says
what an experience is worth, not whether it fits: these count half. Structure is further weighted by likeness."""
_LEAST_COSINE = 0.2
"""Below it texts are unrelated, and their order is noise."""
_SAME_TASK = 2.0

_MATCHES = """
    SELECT rowid FROM node_words WHERE node_words MATCH ? ORDER BY bm25(node_words, 1.0, 1.5, 0.5, 1.0)
"""
_HAS_WORD = "SELECT 1 FROM node_words WHERE node_words MATCH ? AND rowid = ?"


@dataclass
class Ranked:
    """What was found. found: how, by node id. terms: words that were asked for. degraded: what could not be used."""

    found: dict[str, Found] = field(default_factory=dict)
    terms: tuple[str, ...] = ()
    degraded: list[str] = field(default_factory=list)

    def add(self, way: str, names: Iterable[tuple[str, float]]) -> None:
        """Take a ranking into account: node ids with what the ranking counts for each, best first."""
        for rank, (name, share) in enumerate(names, start=1):
            found = self.found.setdefault(name, Found())
            found.ranks[way] = rank
            found.score += WEIGHTS[way] * share / (RANK_OFFSET + rank)

    def order(self, view: View) -> list[str]:
        """Return node ids, best first; of equals the older."""
        nodes = view.named(self.found)
        return sorted(nodes, key=lambda name: (-self.found[name].score, nodes[name].seq))


def rank(
    connection: sqlite3.Connection,
    image: Image,
    view: View,
    query: RecallQuery,
    vector: NDArray[np.float32] | None,
    embedder_name: str,
) -> Ranked:
    """Look in every way there is. vector: of the question, None without an embedder."""
    ranked = Ranked()
    ranked.add("structure", by_structure(image, view, query))
    words, ranked.terms = _by_words(connection, image, view, query.text, "", ranked)
    ranked.add("words", words)
    code, terms = _by_words(connection, image, view, query.code, "{code diagnostics} : ", ranked)
    ranked.add("code", code)
    ranked.terms += tuple(term for term in terms if term not in ranked.terms)
    if vector is not None:
        _add_meaning(image, view, vector, embedder_name, ranked)
    by_outcome = sorted(view.named(ranked.found).values(), key=lambda node: outcome_key(node, query.hardware))
    # Failures among themselves: what must not be repeated is worth as much as what works.
    ranked.add("outcome", [(node.id, 1.0) for node in by_outcome if not is_failure(node)])
    ranked.add("outcome", [(node.id, 1.0) for node in by_outcome if is_failure(node)])
    return ranked


def _add_meaning(image: Image, view: View, vector: NDArray[np.float32], embedder: str, ranked: Ranked) -> None:
    for way, part in (("meaning", "nodes"), ("move", "edges")):
        near = image.vectors[part].nearest(vector, embedder, view.only, POOL)
        cosines = {seq: cosine for seq, cosine in near if cosine >= _LEAST_COSINE}
        nodes = view.at(cosines)
        ranked.add(way, [(node.id, 1.0) for node in nodes])
        for node in nodes:
            ranked.found[node.id].cosines[way] = cosines[node.seq]
    missing = image.count - len(image.vectors["nodes"])
    if missing:
        ranked.degraded.append(f"{missing} of {image.count} experiences have no vector of {embedder}")


# --- structure ------------------------------------------------------------------------------------------------------


def by_structure(image: Image, view: View, query: RecallQuery) -> list[tuple[str, float]]:
    """Return the experiences of the same task, then of operators that share structure words, in order of outcome, and
    how much each counts: 2 for the same task, else the share of words in common.

    A question without a task is held against what tasks say they compute. A third of the places is for failures: what
    was refused here before is worth knowing too.
    """
    asked = {} if query.task_name or query.tags or query.traits else _tasks_meant(image, query.text)
    near = {
        scene: nearness(group, image.tags, query) or asked.get(group[0], 0.0) for scene, group in image.scenes.items()
    }
    names: list[tuple[str, float]] = []
    alike = sorted((-share, image.scenes[scene], scene) for scene, share in near.items() if share > 0.0)
    for _, _, scene in alike:
        room = POOL - len(names)
        if room <= 0:
            break
        works, failed = _best_of(image, view, scene, query.hardware)
        places = min(len(failed), max(room // 3, room - len(works)))
        share = min(_SAME_TASK, near[scene])
        names.extend((name, share) for name in (*works[: room - places], *failed[:places]))
    return names


def _best_of(image: Image, view: View, scene: int, hardware: str) -> tuple[list[str], list[str]]:
    """Return the best of a scene that works and the newest that failed, at most POOL of each.

    For all of memory they are kept until the scene changes: sorting a large one takes longer than the rest of recall.
    """
    key = "best", scene, hardware
    known = image.seen.get(key) if view.complete else None
    if known is not None and known[0] == image.touched.get(scene):
        return known[1], known[2]
    nodes = view.at(image.of_scene(scene))
    works = heapq.nsmallest(
        POOL, (node for node in nodes if not is_failure(node)), key=lambda node: outcome_key(node, hardware)
    )
    failed = heapq.nlargest(POOL, (node for node in nodes if is_failure(node)), key=lambda node: node.seq)
    made = [node.id for node in works], [node.id for node in failed]
    if view.complete:
        image.seen[key] = (image.touched.get(scene), *made)
    return made


def _tasks_meant(image: Image, text: str) -> dict[str, float]:
    """Return for each task, by digest, the share of a question's words that its name and text have; rare words count
    more, words that most tasks have nothing."""
    words = terms_of(text)
    held = {word: sum(word in says for says in image.says.values()) for word in words}
    worth = {word: 1.0 / count for word, count in held.items() if 0 < count <= max(1, len(image.says) // 2)}
    whole = sum(worth.values())
    if not whole:
        return {}
    # A word that no task has says that the question is about something else as well.
    known = sum(1 for word in words if held[word]) / len(words)
    return {
        digest: known * sum(value for word, value in worth.items() if word in says) / whole
        for digest, says in image.says.items()
    }


# --- words ----------------------------------------------------------------------------------------------------------


def _by_words(
    connection: sqlite3.Connection, image: Image, view: View, text: str, columns: str, ranked: Ranked
) -> tuple[list[tuple[str, float]], tuple[str, ...]]:
    """Return what the full-text index finds, and the words asked for. A damaged index costs this ranking alone."""
    names: list[tuple[str, float]] = []
    if not text:
        return names, ()
    try:
        question = Question.of(text, image.vocabulary.counts(connection, text, image.count), image.count)
        if question.match:
            found = connection.execute(_MATCHES, (f"{columns}({question.match})",))
            names = [(node.id, 1.0) for node in view.first((seq for (seq,) in found), POOL)]
        return names, question.terms
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            raise
        message = "the full-text index is damaged (see kope db check)"
        if message not in ranked.degraded:
            ranked.degraded.append(message)
        return [], ()


def words_in(connection: sqlite3.Connection, node: Node, terms: Iterable[str], most: int) -> tuple[str, ...]:
    """Return those of the words that an experience holds, at most as many as asked for."""
    held = (term for term in terms if connection.execute(_HAS_WORD, (f'"{term}"', node.seq)).fetchone())
    return tuple(islice(held, most))
