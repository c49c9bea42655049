"""Which prompt a state calls for, and which attempt's source it shows: draft, repair, refine or explore.

What the prompt then says is assemble's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kope.model import Attempt, Outcome, Stage, State


@dataclass(frozen=True, slots=True)
class Policy:
    """When a prompt repairs and when it explores.

    repairs: how many prompts in a row repair one failure and what came of it. explore_after: attempts without a new
    best kernel after which one prompt starts from another kernel, and again after as many; 0: never.
    """

    repairs: int = 2
    explore_after: int = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """A template, and the attempt whose source is in the prompt: what edits apply to, the parent of the answer."""

    template: str
    base: Attempt | None


def choose(state: State, policy: Policy) -> Choice:
    """Return the prompt for a state."""
    last = state.last
    is_fresh_failure = last is not None and last.candidate is not None and not last.outcome.ok
    if last is not None and is_fresh_failure and len(list(_failures_above(state, last))) < policy.repairs:
        return Choice(repair_template(last.outcome), last)
    if state.incumbent is None:
        return Choice("prompts/draft", None)
    other = _other_start(state, policy)
    if other is not None:
        return Choice("prompts/explore", other)
    return Choice("prompts/refine", state.incumbent)


def repair_template(outcome: Outcome) -> str:
    """Return the template for what went wrong: it does not compile, it is wrong, or it fails while it runs."""
    if outcome.stage is Stage.COMPILE:
        return "prompts/repair_compile"
    wrong = outcome.stage is Stage.VERIFY or any(found.kind == "wrong-value" for found in outcome.diagnostics)
    return "prompts/repair_wrong" if wrong else "prompts/repair_run"


def _failures_above(state: State, attempt: Attempt) -> Iterator[Attempt]:
    """Yield the failed attempts that this one was meant to repair."""
    by_id = {known.id: known for known in state.history}
    parent = by_id.get(attempt.proposal.parent_id or "")
    while parent is not None and not parent.outcome.ok:
        yield parent
        parent = by_id.get(parent.proposal.parent_id or "")


def stuck_for(state: State) -> int:
    """Return how many attempts ended since the last new best kernel of this session."""
    count = 0
    for attempt in reversed(state.history):
        if attempt.promoted:
            break
        count += 1
    return count


def _other_start(state: State, policy: Policy) -> Attempt | None:
    """Return a working kernel besides the incumbent to start from: the one least started from, then the fastest."""
    stuck = stuck_for(state)
    if policy.explore_after <= 0 or stuck == 0 or stuck % policy.explore_after:
        return None
    incumbent = state.incumbent.candidate if state.incumbent is not None else None
    started = [attempt.proposal.parent_id for attempt in state.history]
    others = [
        attempt
        for attempt in state.history
        if attempt.outcome.ok and attempt.candidate is not None and attempt.candidate != incumbent
    ]
    return min(others, key=lambda other: (started.count(other.id), -(other.speedup or 0.0)), default=None)
