"""Choose the experiences that help a state: the fused ranking, what their use taught, and several kinds of them.

How experiences are found is ranking's business, what a session may see scope's.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kope.memory.image import Image, Node, is_trusted
from kope.memory.neighbours import best_below
from kope.memory.outcome import is_failure
from kope.memory.query import RecallQuery
from kope.memory.ranking import RANK_OFFSET, WEIGHTS, Ranked, rank, words_in
from kope.memory.reasons import WORDS_SHOWN, reason_for
from kope.memory.scope import View
from kope.memory.value import Worth
from kope.memory.words import terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SAME_MOVE = 2
"""Items of one task, move and outcome, before others go first."""
_SHORTLIST = 4
"""How many times as many as asked for are weighed by what their use taught."""
_DRAWS = 64
"""How often the choice is repeated to say with which chance it fell."""


@dataclass(frozen=True)
class Chosen:
    """An item of the answer. propensity: the chance with which it was chosen."""

    node: Node
    score: float
    reason: str
    propensity: float


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
    ranked = rank(connection, image, narrow, query, vector, embedder_name)
    scores = {name: ranked.found[name].score for name in ranked.order(narrow)}
    worths = _worths(image, narrow, query, scores)
    nodes = narrow.named(scores)
    alive = [name for name in scores if not _is_retired(nodes[name], worths.get(name))]
    picked, propensity = _weighed(alive, scores, worths, nodes, query)
    chosen = []
    for node in picked:
        reason = _reason(connection, image, view, ranked, node, query, worths.get(node.id))
        chosen.append(Chosen(node, scores[node.id], reason, propensity[node.id]))
    return chosen, ranked.degraded


def _reason(
    connection: sqlite3.Connection,
    image: Image,
    view: View,
    ranked: Ranked,
    node: Node,
    query: RecallQuery,
    worth: Worth | None,
) -> str:
    found = ranked.found[node.id]
    if "words" in found.ranks or "code" in found.ranks:
        found.words = words_in(connection, node, ranked.terms, WORDS_SHOWN)
    if "structure" in found.ranks and not (query.task_name or query.tags or query.traits):
        says = image.says.get(node.task_digest or "", frozenset())
        found.task_words = tuple(word for word in terms_of(query.text) if word in says)
    tags = image.tags.get(node.task_digest or "", ())
    origin = "" if is_trusted(node) else image.origins.get(node.origin_id, "another file")
    return reason_for(node, tags, found, query, best_below(image, view, node), worth=worth, origin=origin)


# --- what use taught ------------------------------------------------------------------------------------------------


def _worths(image: Image, view: View, query: RecallQuery, names: Collection[str]) -> dict[str, Worth]:
    """Return what use taught about each, {} when none was used yet or the outcomes shown are not the real ones."""
    values = image.values(names) if view.real else None
    if values is None or not any(values.of[name] for name in names):
        return {}
    return {name: values.worth(name, query.purpose, query.hardware) for name in names}


def _is_retired(node: Node, worth: Worth | None) -> bool:
    if node.retired is not None:
        return bool(node.retired)
    return worth is not None and worth.retired


def _weighed(
    names: Sequence[str],
    scores: dict[str, float],
    worths: Mapping[str, Worth],
    visible: Mapping[str, Node],
    query: RecallQuery,
) -> tuple[list[Node], dict[str, float]]:
    """Choose from the best by score and value, and say with which chance each was chosen.

    Without exploration the values' means decide. With it a value is drawn from each posterior; the chance is the share
    of further draws that would have chosen the same, (1 + times) / (1 + draws).
    """
    shortlist = list(names[: _SHORTLIST * query.limit])
    rest = [visible[name] for name in names[_SHORTLIST * query.limit :]]
    if not worths:
        picked = pick([visible[name] for name in shortlist] + rest, query.limit)
        return picked, {node.id: 1.0 for node in picked}

    def chosen(share: Callable[[Worth], float]) -> tuple[list[Node], dict[str, float]]:
        shares = {name: share(worths[name]) for name in shortlist}
        total = dict(scores)
        for place, name in enumerate(sorted(shortlist, key=lambda name: -shares[name]), start=1):
            total[name] += WEIGHTS["value"] / (RANK_OFFSET + place)
        order = sorted(shortlist, key=lambda name: -total[name])
        return pick([visible[name] for name in order] + rest, query.limit), total

    if query.explore is None:
        picked, total = chosen(lambda worth: worth.mean)
        scores.update(total)
        return picked, {node.id: 1.0 for node in picked}
    rng = random.Random(query.explore)
    picked, total = chosen(lambda worth: worth.sample(rng))
    scores.update(total)
    times = Counter(node.id for _ in range(_DRAWS) for node in chosen(lambda worth: worth.sample(rng))[0])
    return picked, {node.id: (1 + times[node.id]) / (1 + _DRAWS) for node in picked}


# --- several kinds --------------------------------------------------------------------------------------------------


def pick(nodes: Sequence[Node], limit: int) -> list[Node]:
    """Take the best, but of all kinds where there are: at least a quarter failures, at least half that work.

    What comes from a file that is not trusted gets a quarter, or what is left, and stands last.
    """
    distinct = _distinct(nodes)
    own = [node for node in distinct if is_trusted(node)]
    foreign = [node for node in distinct if not is_trusted(node)]
    given = min(len(foreign), max(limit // 4, limit - len(own)))
    return _both_kinds(own, limit - given) + foreign[:given]


def _both_kinds(nodes: list[Node], limit: int) -> list[Node]:
    failed = [node for node in nodes if is_failure(node)]
    works = [node for node in nodes if not is_failure(node)]
    natural = sum(is_failure(node) for node in nodes[:limit])
    places = min(len(failed), max(natural, limit // 4, limit - len(works)))
    places = max(0, min(places, limit - min(len(works), (limit + 1) // 2)))
    taken = {node.id for node in (*failed[:places], *works[: limit - places])}
    return [node for node in nodes if node.id in taken]


def _distinct(nodes: Sequence[Node]) -> list[Node]:
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
