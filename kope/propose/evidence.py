"""What earlier attempts say about a move: a posterior over whether it works and how much it gains, in a like situation.

Gains are natural logarithms of time ratios. A move's prior is its place in the default order: without evidence the
default order is what comes out, and every attempt shifts it a little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kope.model import MoveEvidence, Plan

PRIOR_GAINS = (0.12, 0.004)
"""Expected gain of the first and of the last move of the default order; in between it falls geometrically."""
PRIOR_WEIGHT = 1.0
"""How many observations in an equal situation the prior counts for."""
WORKS_PRIOR = (3.0, 1.0)
"""Beta prior of a move's kernel being right and running: three that worked, one that did not."""
SAME_START, OTHER_START = 3.0, 0.4
"""Weight of a move made from the same values of the fields it changes, and from others: doubling a tile of 1024 says
little about doubling one of 8192."""
OTHER_BOTTLENECK = 0.6
UNPROVEN = 1.1
"""Step ratio up to which a gain is believed that no later attempt started from."""
NO_GAIN = 0.01
"""Gains below one percent are none: the loop's dead zone."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a move is to be made: the operator's structure words, the bottleneck, and the plan it starts from."""

    task_name: str
    traits: tuple[str, ...]
    bottleneck: str
    plan: Plan


@dataclass
class Belief:
    """Posterior of one move. weight: evidence in units of observations in an equal situation."""

    move: str
    prior_gain: float
    worked: float = WORKS_PRIOR[0]
    failed: float = WORKS_PRIOR[1]
    weight: float = 0.0
    total_gain: float = 0.0
    seen: list[tuple[float, MoveEvidence]] = field(default_factory=list)

    def add(self, evidence: MoveEvidence, weight: float) -> None:
        """Take one observation into account. Times of other hardware count as "works" evidence alone."""
        self.worked += weight * evidence.works
        self.failed += weight * (not evidence.works)
        if not evidence.works or (evidence.fast and evidence.step_ratio > 0.0):
            self.weight += weight
            self.total_gain += weight * gain(evidence)
        self.seen.append((weight, evidence))

    @property
    def chance(self) -> float:
        """Probability that the kernel is right and runs."""
        return self.worked / (self.worked + self.failed)

    @property
    def expected_gain(self) -> float:
        """Expected logarithm of the time ratio, a loss counting as none because it is not taken."""
        prior = self.chance * self.prior_gain
        return (PRIOR_WEIGHT * prior + self.total_gain) / (PRIOR_WEIGHT + self.weight)

    def deciding(self, limit: int = 4) -> tuple[MoveEvidence, ...]:
        """The observations that weighed most, heaviest first."""
        ranked = sorted(self.seen, key=lambda pair: (-pair[0], pair[1].experience_id))
        return tuple(evidence for weight, evidence in ranked[:limit] if weight > 0.05)


def believed(evidence: Sequence[MoveEvidence]) -> list[MoveEvidence]:
    """Return evidence with large gains that nobody built upon cut to UNPROVEN, and no faster than their parent.

    A search goes on from the best it has: what was far faster and yet was left alone is more likely wrong than right.
    """
    built_on = {item.parent_experience_id for item in evidence}
    return [item if item.step_ratio <= UNPROVEN or item.experience_id in built_on else _cut(item) for item in evidence]


def _cut(item: MoveEvidence) -> MoveEvidence:
    before = item.speedup / item.step_ratio if item.speedup is not None else None
    return replace(item, step_ratio=UNPROVEN, speedup=before)


def gain(evidence: MoveEvidence) -> float:
    """What an observation was worth: the log of its time ratio; 0 for failures, losses, and below the dead zone."""
    if not evidence.works or evidence.step_ratio <= 1.0 + NO_GAIN:
        return 0.0
    return math.log(evidence.step_ratio)


def prior_gain(place: int, count: int) -> float:
    """Expected gain of the move at this place of the default order."""
    first, last = PRIOR_GAINS
    return first * math.pow(last / first, place / max(count - 1, 1))


def similarity(left: Sequence[str], right: Sequence[str]) -> float:
    """How alike two operators are: shared structure words over all structure words, dtypes left aside."""
    a = {word for word in left if not word.startswith("dtype:")}
    b = {word for word in right if not word.startswith("dtype:")}
    return len(a & b) / len(a | b) if a | b else 0.0


def relevance(evidence: MoveEvidence, situation: Situation, fields: Sequence[str]) -> float:
    """Weight of an observation for a situation.

    The product of: how alike the operators are, squared (1 for the same task); 1 for an equal bottleneck, else
    OTHER_BOTTLENECK; SAME_START or OTHER_START by the values of the fields that the move changes; and what use taught
    of the experience.
    """
    alike = 1.0 if evidence.task_name == situation.task_name else similarity(evidence.traits, situation.traits) ** 2
    known = bool(evidence.bottleneck and situation.bottleneck)
    bottleneck = OTHER_BOTTLENECK if known and evidence.bottleneck != situation.bottleneck else 1.0
    same = all(evidence.parent_plan.get(name) == situation.plan.get(name) for name in fields)
    return alike * bottleneck * (SAME_START if same else OTHER_START) * evidence.value


def beliefs(
    order: Sequence[str],
    fields: Mapping[str, Sequence[str]],
    evidence: Iterable[MoveEvidence],
    situation: Situation,
) -> dict[str, Belief]:
    """Posterior of every move in the default order."""
    known = {name: Belief(name, prior_gain(place, len(order))) for place, name in enumerate(order)}
    for item in evidence:
        if item.move in known:
            known[item.move].add(item, relevance(item, situation, fields[item.move]))
    return known


def sentence(belief: Belief) -> str:
    """What the evidence says, in words; "" without any."""
    told = belief.deciding()
    if not told:
        return ""
    gains = [item for item in told if gain(item) > 0.0]
    where = f" when {told[0].bottleneck}-bound" if told[0].bottleneck else ""
    names = ", ".join(dict.fromkeys(item.task_name for item in told))
    if not gains:
        broke = sum(not item.works for item in told)
        return (
            f"gained nothing on {names} ({broke} of {len(told)} tries were wrong)"
            if broke
            else f"gained nothing on {names}"
        )
    best = max(item.step_ratio for item in gains)
    return f"gained up to {best:.2f}x on {names} ({len(gains)} of {len(told)} tries){where}"
