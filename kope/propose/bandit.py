"""Several models at one endpoint: each prompt goes to the one that has paid most, or is still little known.

Which model answered which attempt is read from the session's own attempts, so a resumed run chooses alike. What an
answer is worth is stated in `reward`; the models themselves are llm.py's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kope.model import Attempt, Proposal, Proposer, SeveralProposer, State

EXPLORATION = 0.5
"""Weight of the confidence term; rewards lie in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What a session knows of one model. cost: mean per attempt, in money where prices are known, else in tokens."""

    model: str
    count: int
    reward: float
    cost: float


def reward(attempt: Attempt, best_before: float | None) -> float:
    """Return what an attempt was worth.

    0: it failed. 0.1: right and not better. 1: the first kernel that is right. An improvement: 0.1 to 1 by how much it
    gained (a factor of 2 gives 0.9).
    """
    if not attempt.outcome.ok:
        return 0.0
    if not attempt.promoted:
        return 0.1
    if not best_before or not attempt.speedup:
        return 1.0
    return max(0.1, math.tanh(2.0 * math.log(max(attempt.speedup / best_before, 1.0))))


def arms_of(models: Sequence[str], history: Sequence[Attempt]) -> list[Arm]:
    """Return what is known of each model; attempts of models that are not asked any more count for nothing."""
    rewards: dict[str, list[float]] = {model: [] for model in models}
    costs: dict[str, list[float]] = {model: [] for model in models}
    best: float | None = None
    for attempt in history:
        model = str(attempt.proposal.plan.get("arm", ""))
        if model in rewards:
            rewards[model].append(reward(attempt, best))
            costs[model].append(_cost(attempt))
        if attempt.promoted:
            best = attempt.speedup
    return [Arm(model, len(rewards[model]), _mean(rewards[model]), _mean(costs[model])) for model in models]


def _cost(attempt: Attempt) -> float:
    money = sum(float(call.get("charged_cost", 0.0)) for call in attempt.proposal.calls)
    return money or float(attempt.proposal.tokens)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def choose(arms: Sequence[Arm], cost_weight: float) -> str:
    """Return the model to ask: one never asked, else that with the largest upper bound on its reward, weighed by cost.

    score = (mean reward + EXPLORATION sqrt(2 ln t / n)) (least mean cost / mean cost) ^ cost_weight. Equal scores: the
    one named first.
    """
    fresh = next((arm for arm in arms if arm.count == 0), None)
    if fresh is not None:
        return fresh.model
    total = sum(arm.count for arm in arms)
    cheapest = min(arm.cost for arm in arms)

    def score(arm: Arm) -> float:
        bound = arm.reward + EXPLORATION * math.sqrt(2.0 * math.log(total) / arm.count)
        return bound * ((cheapest / arm.cost) ** cost_weight if arm.cost > 0 else 1.0)

    return max(arms, key=score).model


class BanditProposer:
    """model.Proposer over several others, by model. cost_weight 0: cost does not matter."""

    def __init__(self, arms: Mapping[str, Proposer], *, cost_weight: float = 0.5) -> None:
        self.name = f"llm:{'+'.join(arms)}"
        self._arms = dict(arms)
        self._cost_weight = cost_weight

    def propose(self, state: State) -> Proposal:
        """Return what the chosen model proposes."""
        return self.propose_several(state, 1)[0]

    def propose_several(self, state: State, count: int) -> tuple[Proposal, ...]:
        """Return what the chosen model proposes, several times."""
        model = choose(arms_of(list(self._arms), state.history), self._cost_weight)
        arm = self._arms[model]
        made = arm.propose_several(state, count) if isinstance(arm, SeveralProposer) else (arm.propose(state),)
        return tuple(replace(each, plan={**each.plan, "arm": model}) for each in made)
