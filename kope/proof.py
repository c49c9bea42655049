"""Judge kernels that came from elsewhere: each is run here like any candidate, and what is found is our own evidence.

Which are worth it, memory says; how a candidate is judged is the evaluator's business.
"""

from __future__ import annotations

from kope.loop import Parts, state_of, try_proposal
from kope.memory.share import Claim
from kope.model import Attempt, Proposal, Task
from kope.session import SessionMemory

AGENT = "verify"


def prove(claim: Claim, task: Task, parts: Parts, memory: SessionMemory) -> Attempt:
    """Judge and record a claimed kernel; returns the attempt, which starts from nothing and names what it was told of.

    task: of the claim's own digest.
    """
    state = state_of(task, memory.standing(task), parts)
    thought = f"came from {claim.origin}; judged here to see whether it holds"
    proposal = Proposal(claim.source, claim.move, thought, used=(claim.experience_id,))
    attempt = try_proposal(state, proposal, parts)
    memory.record(attempt, None)
    return attempt
