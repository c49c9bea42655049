"""ReplayProposer: the given proposals in order, also after a resumption, then the end."""

from __future__ import annotations

import pytest

from kope.model import Converged, Proposal
from kope.propose.replay import ReplayProposer
from tests.derive.operators import small_task
from tests.propose.test_search import attempted, state_of

TASK = small_task("return x", [{"x": (4, 8)}])


def test_sources_come_out_in_order_and_then_it_ends() -> None:
    proposer = ReplayProposer(["// one", Proposal("// two", "edit", "because")])
    first = proposer.propose(state_of(TASK))
    assert (first.source, first.move, first.parent_id) == ("// one", "replay", None)
    history = (attempted(state_of(TASK), first, 10.0),)
    second = ReplayProposer(["// one", Proposal("// two", "edit", "because")]).propose(state_of(TASK, history))
    assert (second.source, second.move, second.thought, second.parent_id) == ("// two", "edit", "because", "a1")
    with pytest.raises(Converged):
        proposer.propose(state_of(TASK, (*history, attempted(state_of(TASK, history), second, 9.0))))
