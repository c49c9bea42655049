"""What the memory holds and gives back: nodes, edges, evidence on moves, and what was recalled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kope.model.attempt import Plan
from kope.model.outcome import Stage


@dataclass(frozen=True, slots=True)
class Experience:
    """A node of the graph.

    kind: "attempt", "digest" or "fact". label: effective | partial | ineffective | negative | "" (nothing timed).
    works: verified right. confidence in [0, 1]. downstream: d(v) of the method, bounded form by default.
    hardware: where its times are evidence of speed. attempt_id: the evidence, None for digests and facts.
    A digest: evidence is the attempts it was distilled from, before and after the code that was changed.
    standing: own, trusted or quarantined (taken over, and nothing of it was measured here yet).
    origin: the label of the file it was taken over from, "" for what was tried here.
    """

    id: str
    kind: str
    task_name: str
    title: str
    text: str
    move: str
    traits: tuple[str, ...]
    stage: Stage
    works: bool
    label: str
    speedup: float | None
    step_ratio: float
    downstream: float
    confidence: float
    hardware: str
    bottleneck: str
    attempt_id: str | None
    created_at: str
    origin: str = ""
    standing: str = "own"
    before: str = ""
    after: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed link src -> dst. kind is a verb: "led_to" (lineage, parent to child), "used", "contrasts" (same start,
    ended worse than dst), "distilled_from" (digest to attempt), "contradicts", "rewound" (parent to child, found by
    taking the move back). text: for led_to the move: what was changed and why."""

    id: str
    src: str
    dst: str
    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class MoveEvidence:
    """A lineage edge read as evidence about a move, with the state it was made in.

    works: the child was not refused. step_ratio: child / parent speed, 0.0 on failure. downstream: what came of it.
    fast: whether its times count as speed here (same hardware). bottleneck: of the parent ("mte2", "vector", ...).
    value: learned from attempts that used it: above 1 they went better than those without it, below 1 worse, 0 when
    retired; 1 while nothing is known.
    """

    experience_id: str
    parent_experience_id: str | None
    task_name: str
    traits: tuple[str, ...]
    move: str
    parent_plan: Plan
    plan: Plan
    works: bool
    fast: bool
    step_ratio: float
    speedup: float | None
    downstream: float
    bottleneck: str
    promoted: bool
    value: float = 1.0


@dataclass(frozen=True, slots=True)
class Recalled:
    """An experience, its score, and the one-line reason it was chosen.

    propensity: the chance with which it was chosen, 1 without exploration.
    """

    experience: Experience
    score: float
    reason: str
    propensity: float = 1.0


@dataclass(frozen=True, slots=True)
class Recall:
    """What memory answers: items best first, edges between them and their lineage neighbours, and evidence on moves.

    degraded: why recall worked with less than everything ("no embedder"), "" otherwise.
    """

    items: tuple[Recalled, ...] = ()
    neighbours: tuple[Experience, ...] = ()
    edges: tuple[Edge, ...] = ()
    moves: tuple[MoveEvidence, ...] = ()
    degraded: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of documentation. source: the document it is from; heading: where in it; text: Markdown."""

    id: str
    source: str
    heading: str
    text: str
    score: float = 0.0


class Embedder(Protocol):
    """Texts to unit vectors. `name` identifies weights, pooling and dtype; vectors of two names never meet."""

    name: str
    dim: int

    def embed(self, texts: Sequence[str]) -> Any:
        """Return a float32 array of shape (len(texts), dim), rows of unit length."""
