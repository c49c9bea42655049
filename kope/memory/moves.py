"""Lineage edges read as evidence on moves: what was changed from which plan, and what came of it.

Which move to make next is the proposer's business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from kope.memory.image import Group, Image, Node, is_trusted
from kope.memory.outcome import is_fast_evidence
from kope.memory.query import RecallQuery
from kope.memory.scope import View
from kope.memory.value import Purpose, Values
from kope.model import MoveEvidence, Verdict

MOST = 5_000
"""More evidence than this is not handed out: own task first, then operators most alike, newest first."""


class MoveReader:
    """Makes evidence from nodes, and keeps what it made for as long as the node and its parent stay as they are."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, bool], tuple[Node, Node | None, MoveEvidence]] = {}
        self._plans: dict[str, Mapping[str, Any]] = {}

    def read(self, image: Image, view: View, query: RecallQuery) -> tuple[MoveEvidence, ...]:
        """Return the evidence a view holds, in the order it came about."""
        nodes = [node for node in _nearest(image, view, query) if _is_evidence(node)]
        names = [node.id for node in nodes]
        above = image.parents(names)
        parents = view.named({name for name in above.values() if name is not None})
        plans = image.plans({*names, *parents})
        made = [self._evidence(node, parents.get(above[node.id] or ""), plans, query.hardware) for node in nodes]
        if not view.real:
            return tuple(made)
        values = image.values(names)
        return tuple(
            _with_value(evidence, node, values, query.hardware) for node, evidence in zip(nodes, made, strict=True)
        )

    def _evidence(self, node: Node, parent: Node | None, plans: Mapping[str, str], hardware: str) -> MoveEvidence:
        fast = is_fast_evidence(node, hardware)
        known = self._made.get((node.id, fast))
        if known is not None and known[0] is node and known[1] is parent:
            return known[2]
        made = MoveEvidence(
            experience_id=node.id,
            parent_experience_id=parent.id if parent is not None else None,
            task_name=node.task_name,
            traits=tuple(json.loads(node.traits)),
            move=node.move,
            parent_plan=self._plan(parent.id, plans) if parent is not None else {},
            plan=self._plan(node.id, plans),
            works=node.verdict != Verdict.FAILED.value,
            fast=fast,
            step_ratio=node.step_ratio,
            speedup=node.speedup,
            downstream=node.downstream,
            bottleneck=parent.bottleneck if parent is not None else "",
            promoted=bool(node.promoted),
        )
        self._made[node.id, fast] = node, parent, made
        return made

    def _plan(self, node_id: str, plans: Mapping[str, str]) -> Mapping[str, Any]:
        if node_id not in self._plans:
            self._plans[node_id] = json.loads(plans[node_id])
        return self._plans[node_id]


def _with_value(evidence: MoveEvidence, node: Node, values: Values, hardware: str) -> MoveEvidence:
    """Return evidence with what was learned from refinements that used it."""
    if node.retired is None and not values.of[node.id]:
        return evidence
    worth = values.worth(node.id, Purpose.REFINE, hardware)
    value = worth.value if node.retired is None else float(not node.retired)
    return evidence if value == 1.0 else replace(evidence, value=value)


def _is_evidence(node: Node) -> bool:
    """Whether a node tells of a move: of an attempt that had a candidate, and was made here or is trusted."""
    return node.verdict is not None and node.stage != "propose" and bool(node.move) and is_trusted(node)


def _nearest(image: Image, view: View, query: RecallQuery) -> list[Node]:
    """Return at most MOST nodes of a view, those of the most similar operators, in the order they came about."""
    if (image.count if view.only is None else len(view.only)) <= MOST:
        return view.at(sorted(view.only) if view.only is not None else image.all_seqs())
    near = {scene: nearness(group, image.tags, query) for scene, group in image.scenes.items()}
    kept: list[Node] = []
    for scene in sorted(near, key=lambda scene: (-near[scene], image.scenes[scene])):
        kept.extend(view.first(reversed(image.of_scene(scene)), MOST - len(kept)))
        if len(kept) >= MOST:
            break
    return sorted(kept, key=lambda node: node.seq)


def nearness(group: Group, tags: Mapping[str, Sequence[str]], query: RecallQuery) -> float:
    """Return how much alike the operator of a group and that of a query are: 3 the same version of a task, 2 another
    version, else the share of structure words they have in common, in [0, 1]."""
    digest, task_name, traits = group
    if query.task_digest and digest == query.task_digest:
        return 3.0
    if query.task_name and task_name == query.task_name:
        return 2.0
    return max(likeness(query.traits, _listed(traits)), likeness(query.tags, tags.get(digest, ())))


@lru_cache(maxsize=4096)
def _listed(traits: str) -> tuple[str, ...]:
    return tuple(json.loads(traits))


def likeness(left: Sequence[str], right: Sequence[str]) -> float:
    """Return shared structure words over all structure words, dtypes left aside; 0 when there are none."""
    a, b = _structure(tuple(left)), _structure(tuple(right))
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


@lru_cache(maxsize=4096)
def _structure(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word for word in words if not word.startswith("dtype:"))
