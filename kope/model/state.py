"""What a proposer sees, and the protocol of proposers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from kope.model.attempt import Attempt, Proposal
from kope.model.experience import Recall
from kope.model.outcome import Fingerprint
from kope.model.task import Task


@dataclass(frozen=True, slots=True)
class State:
    """Everything a proposer may decide on: state `s` of the method plus what was recalled for it.

    history: this session's attempts on this task, oldest first. baseline: the first verified attempt.
    prompt: the assembled context, None for proposers that read the state itself; role: which prompt it is ("draft",
    "refine", ...).
    """

    task: Task
    fingerprint: Fingerprint
    seed: int
    iteration: int
    incumbent: Attempt | None
    baseline: Attempt | None
    last: Attempt | None
    history: tuple[Attempt, ...]
    recall: Recall
    prompt: str | None = None
    role: str = ""


class Proposer(Protocol):
    """Writes the next candidate. Same state, same seed, same answer (search, replay)."""

    name: str

    def propose(self, state: State) -> Proposal:
        """Return the next proposal. Raises ProposerError when its own machinery fails."""


@runtime_checkable
class SeveralProposer(Protocol):
    """A proposer that can answer one prompt several times at once."""

    def propose_several(self, state: State, count: int) -> tuple[Proposal, ...]:
        """Return up to `count` proposals for one state, at least one. Raises what `propose` raises."""


class Converged(Exception):
    """A proposer has nothing left to try. Control flow for the loop, not an error."""


class TokensSpent(Converged):
    """A proposer makes no further call because it could go over the token limit, calls in flight counted."""


class CostSpent(TokensSpent):
    """The same for the cost limit."""


class TimeSpent(TokensSpent):
    """The same for the time limit."""
