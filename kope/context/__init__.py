"""What a prompt may read: the state in tiers, under a token budget, with a ledger of every item.

`assemble` is the door. Retrieval is memory's, the wording is in templates/prompts, sending is a proposer's.
"""

from __future__ import annotations

from kope.context.assemble import Assembled, Briefing, Sources, assemble
from kope.context.budget import Budget, LedgerLine
from kope.context.change import Change
from kope.context.choice import Policy
from kope.context.contract import check_own
from kope.context.count import Counter, counter_for, estimate_tokens

__all__ = [
    "Assembled",
    "Briefing",
    "Budget",
    "Change",
    "Counter",
    "LedgerLine",
    "Policy",
    "Sources",
    "assemble",
    "check_own",
    "counter_for",
    "estimate_tokens",
]
