"""A proposer that hands out given proposals in order: repeats a recorded run, and is the test double of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kope.model import Converged, Proposal, State


class ReplayProposer:
    """model.Proposer over a fixed list. Sources are taken as proposals of the move "replay"."""

    name = "replay"

    def __init__(self, proposals: Sequence[Proposal | str]) -> None:
        self._proposals = tuple(p if isinstance(p, Proposal) else Proposal(p, "replay") for p in proposals)

    def propose(self, state: State) -> Proposal:
        """Return the proposal of this iteration; one without a parent starts from the incumbent.

        Which one it is follows from how many attempts the state holds, so that a resumed run goes on where it stopped.
        Raises Converged after the last.
        """
        at = len(state.history)
        if at >= len(self._proposals):
            raise Converged
        proposal = self._proposals[at]
        if proposal.parent_id is None and state.incumbent is not None:
            return replace(proposal, parent_id=state.incumbent.id)
        return proposal
