"""Scores of the experience graph: step labels and the downstream score, whole forests at once or up one path.

Formulas of the KOPE paper (arXiv 2608.25570): label thresholds 1.05, 1 and 0.85; d(leaf) = r,
d(v) = 0.5 r(v) + 0.5 * 0.7 * sum over successors of d. The sum grows with the number of successors: with three or more
a level it diverges with depth, so that the parent of many poor attempts outranks a good leaf. That form is kept as
PAPER; what is stored and used is BEST, the best successor in place of the sum: at most the largest step ratio below.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from enum import StrEnum

W_SELF = 0.5
W_SUCCESSORS = 0.5
GAMMA = 0.7

LABELS = ("effective", "partial", "ineffective", "negative")


class Downstream(StrEnum):
    """How successors count: their sum (the paper's, unbounded), their mean, or the best of them (both bounded)."""

    PAPER = "paper"
    MEAN = "mean"
    BEST = "best"


def label_of(speedup: float | None, step_ratio: float) -> str:
    """Return the step label; "" when nothing was timed."""
    if speedup is None:
        return ""
    if step_ratio >= 1.05:
        return "effective"
    if step_ratio >= 1.0:
        return "partial"
    return "ineffective" if step_ratio >= 0.85 else "negative"


def score(step_ratio: float, successors: Sequence[float], mode: Downstream = Downstream.BEST) -> float:
    """Return d of one node from its own step ratio and the d of its successors. A leaf's is its step ratio."""
    if not successors:
        return step_ratio
    match mode:
        case Downstream.PAPER:
            after = sum(successors)
        case Downstream.MEAN:
            after = sum(successors) / len(successors)
        case Downstream.BEST:
            after = max(successors)
    return W_SELF * step_ratio + W_SUCCESSORS * GAMMA * after


def downstream(
    step_ratios: Mapping[str, float], parents: Mapping[str, str], mode: Downstream = Downstream.BEST
) -> dict[str, float]:
    """Return d of every node of a forest. parents: child to parent, roots left out.

    Works from the leaves up without recursion: lineages may be thousands deep. Raises ValueError when the links form a
    circle.
    """
    children: dict[str, list[str]] = {}
    for child, parent in parents.items():  # a link from outside the forest counts for nothing
        if parent in step_ratios and child in step_ratios:
            children.setdefault(parent, []).append(child)
    waiting = {node: len(children.get(node, ())) for node in step_ratios}
    ready = [node for node, count in waiting.items() if count == 0]
    scores: dict[str, float] = {}
    while ready:
        node = ready.pop()
        scores[node] = score(step_ratios[node], [scores[child] for child in children.get(node, ())], mode)
        above = parents.get(node)
        if above in waiting:
            waiting[above] -= 1
            if waiting[above] == 0:
                ready.append(above)
    if len(scores) < len(step_ratios):
        raise ValueError(f"{len(step_ratios) - len(scores)} experiences lead back to themselves")
    return scores


# --- up the path of ancestors, in SQL -------------------------------------------------------------------------------

_PARENT = "SELECT src FROM edges WHERE dst = ? AND kind = 'led_to'"
_OWN = "SELECT step_ratio, downstream FROM nodes WHERE id = ?"
_BEST_SUCCESSOR = """
    SELECT max(n.downstream) FROM edges AS e JOIN nodes AS n ON n.id = e.dst WHERE e.src = ? AND e.kind = 'led_to'
"""
_SET = "UPDATE nodes SET downstream = ?, revision = ? WHERE id = ?"


def raise_ancestors(connection: sqlite3.Connection, node_id: str, revision: int) -> int:
    """Bring the scores above a new leaf up to date; returns how many changed.

    Stops at the first ancestor whose score stays, so the cost is at most the depth of the path, never the size of the
    graph. Belongs into the transaction that wrote the leaf.
    """
    changed = 0
    seen = {node_id}
    row = connection.execute(_PARENT, (node_id,)).fetchone()
    while row is not None and row[0] not in seen:
        parent = row[0]
        seen.add(parent)
        step_ratio, before = connection.execute(_OWN, (parent,)).fetchone()
        best = connection.execute(_BEST_SUCCESSOR, (parent,)).fetchone()[0]
        after = score(step_ratio, [best])
        if after == before:
            break
        connection.execute(_SET, (after, revision, parent))
        changed += 1
        row = connection.execute(_PARENT, (parent,)).fetchone()
    return changed


# --- the whole graph ------------------------------------------------------------------------------------------------

_RATIOS = "SELECT id, step_ratio, downstream FROM nodes"
_LINEAGE = "SELECT dst, src FROM edges WHERE kind = 'led_to'"


def rescore(connection: sqlite3.Connection) -> int:
    """Bring every score up to date after rows came or went; returns how many changed.

    What leads back to itself, as only a foreign file's rows can, is scored as if it led nowhere.
    """
    ratios, known = {}, {}
    for name, step_ratio, score_before in connection.execute(_RATIOS):
        ratios[name], known[name] = step_ratio, score_before
    scores = downstream(ratios, _without_circles(dict(connection.execute(_LINEAGE).fetchall())))
    revision = connection.execute("SELECT coalesce(max(revision), 0) + 1 FROM nodes").fetchone()[0]
    changed = [(value, revision, name) for name, value in scores.items() if value != known[name]]
    connection.executemany(_SET, changed)
    return len(changed)


def _without_circles(parents: Mapping[str, str]) -> dict[str, str]:
    """Return the links without those that lie on a circle. Every node has one parent, so a walk up finds them."""
    on_circle: set[str] = set()
    done: set[str] = set()
    for start in parents:
        path: dict[str, int] = {}
        at: str | None = start
        while at is not None and at not in done and at not in path:
            path[at] = len(path)
            at = parents.get(at)
        if at in path:
            on_circle.update(name for name, place in path.items() if place >= path[at])
        done.update(path)
    return {child: parent for child, parent in parents.items() if child not in on_circle}
