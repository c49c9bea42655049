"""The token budget of a prompt and the ledger that says where the tokens went.

How tokens are counted is count.py's business; what is shortened when they do not suffice, assemble.py's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kope.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Budget:
    """How many tokens a prompt may take: window minus system prompt, generation allowance and recency reserve.

    reserve: kept free for what follows the prompt in one conversation (the turn that asks for a repair).
    warm, cold: the most that warm and cold items may take of it; 0: none.
    """

    window: int = 32_768
    system: int = 0
    generation: int = 8_192
    reserve: int = 0
    warm: int = 6_000
    cold: int = 3_000

    @property
    def prompt(self) -> int:
        """B = max(0, W - S - G - R)."""
        return max(0, self.window - self.system - self.generation - self.reserve)


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One item offered to a prompt: its tier (hot, warm, cold), tokens, why it was offered, whether it is in."""

    tier: str
    name: str
    tokens: int
    reason: str
    included: bool


def refusal(lines: Iterable[LedgerLine], budget: Budget) -> ConfigError:
    """Return the error, with the numbers, for a prompt whose indispensable part is over the budget."""
    known = tuple(lines)
    largest = max(known, key=lambda line: line.tokens)
    return ConfigError(
        f"the prompt needs {sum(line.tokens for line in known)} tokens before any experience and the budget is "
        f"{budget.prompt} (window {budget.window}, {budget.generation} of it for the reply; largest item: "
        f"{largest.name}, {largest.tokens}); give a larger window with --window, or set llm_max_tokens lower"
    )
