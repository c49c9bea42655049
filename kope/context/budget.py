"""The token budget of a prompt, the estimate it is counted in, and the ledger that says where the tokens went.

Counting with a model's own tokenizer is for the proposers that know their model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kope.errors import ConfigError

BYTES_PER_TOKEN = 3.6
"""UTF-8 bytes per token of a large vocabulary: 3.9 for English prose, 3.6 for Chinese documents and for code."""
MARGIN = 1.10
"""Estimates are this much above the constant, since single texts scatter around it."""


def estimate_tokens(text: str) -> int:
    """Return a token estimate from the length in bytes. Never less for the whole than for a part of it."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN * MARGIN)


@dataclass(frozen=True, slots=True)
class Budget:
    """How many tokens a prompt may take: window minus system prompt, generation allowance and recency reserve.

    warm: the most that recalled experience may take of it.
    """

    window: int = 32_768
    system: int = 0
    generation: int = 8_192
    reserve: int = 0
    warm: int = 6_000

    @property
    def prompt(self) -> int:
        """B = max(0, W - S - G - R)."""
        return max(0, self.window - self.system - self.generation - self.reserve)


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One item offered to a prompt: its tier (hot, warm), estimated tokens, why it was offered, whether it is in."""

    tier: str
    name: str
    tokens: int
    reason: str
    included: bool


def require_room(hot_tokens: int, budget: Budget, largest: LedgerLine) -> None:
    """Raise ConfigError, with the numbers, when what a prompt cannot do without is over the budget."""
    if hot_tokens > budget.prompt:
        raise ConfigError(
            f"the prompt needs {hot_tokens} tokens before any experience and the budget is {budget.prompt} "
            f"(largest item: {largest.name}, {largest.tokens}); give a larger window with --window"
        )
