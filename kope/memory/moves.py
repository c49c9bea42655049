"""Lineage edges read as evidence on moves: what was changed from which plan, and what came of it.

Which move to make next is the proposer's business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kope.memory.image import Image, Node
from kope.memory.query import RecallQuery
from kope.memory.scope import View
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
        plans = image.read_plans()
        nodes = [node for node in view.nodes.values() if node.verdict is not None and node.stage != "propose"]
        if len(nodes) > MOST:
            nodes = sorted(_nearest_first(nodes, query)[:MOST], key=lambda node: node.seq)
        return tuple(self._evidence(node, image, view, plans, query.hardware) for node in nodes if node.move)

    def _evidence(self, node: Node, image: Image, view: View, plans: Mapping[str, str], hardware: str) -> MoveEvidence:
        fast = bool(hardware) and node.hardware == hardware and bool(node.label)
        parent = view.nodes.get(image.parents.get(node.id, ""))
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
            self._plans[node_id] = json.loads(plans.get(node_id, "{}"))
        return self._plans[node_id]


def _nearest_first(nodes: list[Node], query: RecallQuery) -> list[Node]:
    near: dict[tuple[str, str], float] = {}
    for node in nodes:
        group = node.task_name, node.traits
        if group not in near:
            near[group] = 2.0 if node.task_name == query.task_name else likeness(query.traits, json.loads(node.traits))
    return sorted(nodes, key=lambda node: (-near[node.task_name, node.traits], -node.seq))


def likeness(left: Sequence[str], right: Sequence[str]) -> float:
    """Return shared structure words over all structure words, dtypes left aside; 0 when there are none."""
    a = {word for word in left if not word.startswith("dtype:")}
    b = {word for word in right if not word.startswith("dtype:")}
    return len(a & b) / len(a | b) if a and b else 0.0
