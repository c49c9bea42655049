"""What a proposer gives, and the attempt that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kope.model.outcome import Candidate, Fingerprint, Outcome

Plan = Mapping[str, Any]
"""A proposer's own JSON-able description of how a candidate is built (search: its schedule). {} when it has none."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a proposer wants to try.

    move: the stable name of what was changed ("draft", "double-buffer", "edit"...); thought: why, in words.
    parent_id: the attempt it starts from, None for a root. used: experiences that were in its context.
    traits: structure words of the operator, for transfer between tasks.
    source: None when the proposer had nothing usable; `reason` then says why (an outcome at stage propose).
    reply: the text it came in, word for word, "" when there was none.
    calls: one JSON-able record for every request sent or program run, failed ones too; kept with the attempt.
    """

    source: str | None
    move: str
    thought: str = ""
    parent_id: str | None = None
    plan: Plan = field(default_factory=dict)
    used: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    tokens: int = 0
    reason: str = ""
    reply: str = ""
    calls: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate tried on one task in one session.

    speedup: geometric mean over cases of baseline time / this time; 0.0 when it failed, None when nothing was timed.
    step_ratio: speedup / parent's speedup; 1.0 for a root that works, 0.0 for a failure.
    promoted: it became the incumbent. repeated: outcome taken from an earlier run of the same candidate.
    """

    id: str
    session_id: str
    iteration: int
    task_name: str
    task_digest: str
    candidate: Candidate | None
    proposal: Proposal
    outcome: Outcome
    fingerprint: Fingerprint
    proposer: str
    speedup: float | None = None
    step_ratio: float = 0.0
    promoted: bool = False
    repeated: bool = False
    created_at: str = ""
    prompt_id: str | None = None
