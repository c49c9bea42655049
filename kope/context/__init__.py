"""What a prompt may read: the state in tiers, under a token budget, with a ledger of every item.

`assemble` is the door. Retrieval is memory's, the wording is in templates/prompts, sending is a proposer's.
"""

from __future__ import annotations

from kope.context.assemble import Assembled, Briefing, assemble
from kope.context.budget import Budget, LedgerLine, estimate_tokens

__all__ = ["Assembled", "Briefing", "Budget", "LedgerLine", "assemble", "estimate_tokens"]
