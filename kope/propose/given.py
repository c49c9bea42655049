"""A kernel that is there already, tried first: what later ones are measured against. Everything after is another's."""

from __future__ import annotations

from kope.errors import ConfigError
from kope.model import Candidate, Proposal, Proposer, SeveralProposer, State, Verdict

MOVE = "given"


class Given:
    """model.Proposer that proposes one candidate first and then what `then` proposes."""

    def __init__(self, candidate: Candidate, then: Proposer) -> None:
        self.name = then.name
        self._candidate = candidate
        self._then = then

    def propose(self, state: State) -> Proposal:
        """Return the given kernel, then what the other proposes. Raises what `propose_several` raises."""
        return self.propose_several(state, 1)[0]

    def propose_several(self, state: State, count: int) -> tuple[Proposal, ...]:
        """Return the given kernel alone, then what the other proposes.

        Raises ConfigError when the given kernel was tried and is not right: nothing can be measured against it.
        """
        if not state.history:
            return (Proposal(self._candidate.source, MOVE, "The kernel that others are measured against."),)
        outcome = state.history[0].outcome
        if outcome.verdict is not Verdict.VERIFIED:
            raise ConfigError(
                f"the kernel given as baseline failed at {outcome.stage.value}; see kope report {state.task.name},"
                " correct it or leave --baseline out"
            )
        if isinstance(self._then, SeveralProposer):
            return self._then.propose_several(state, count)
        return (self._then.propose(state),)
