"""How many tokens a text is: exact with a model's tokenizer, else an estimate that the endpoint's own figures correct.

What an endpoint said a prompt cost is read from the records of its calls; nothing is kept here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kope.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from kope.model import Attempt

BYTES_PER_TOKEN = 3.6
"""UTF-8 bytes per token of a large vocabulary: 3.9 for English prose, 3.6 for Chinese documents and for code."""
MARGIN = 1.10
"""Estimates are this much above the figure they go by, since single texts scatter around it."""
_FEWEST_TOKENS = 500
"""Usage figures that add up to less than this correct nothing: a chat template's own words would weigh too much."""
_MOST_BYTES_PER_TOKEN, _FEWEST_BYTES_PER_TOKEN = 8.0, 1.0
"""Outside of these, usage figures are not believed: a server that counts cached tokens as none, or other units."""

Usage = tuple[int, int]
"""A prompt's size in bytes, and its tokens as the endpoint counted them."""


class Counter(Protocol):
    """Counts tokens. Never less for a whole than for a part of it."""

    def count(self, text: str) -> int:
        """Return the tokens of a text."""

    def corrected(self, usage: Iterable[Usage]) -> Counter:
        """Return a counter that goes by these figures of the endpoint as well."""

    @property
    def about(self) -> str:
        """How it counts, in a few words."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens from the length in bytes, MARGIN above what `usage` shows, or above BYTES_PER_TOKEN without it."""

    usage: tuple[Usage, ...] = ()

    def count(self, text: str) -> int:
        """Return the estimate. An upper bound for texts like those the figures are from."""
        size_bytes = len(text.encode("utf-8", "surrogatepass"))
        return math.ceil(size_bytes / self.bytes_per_token * MARGIN)

    def corrected(self, usage: Iterable[Usage]) -> Estimate:
        """Return an estimate that goes by these figures as well."""
        return Estimate((*self.usage, *usage))

    @property
    def bytes_per_token(self) -> float:
        """What the figures show, BYTES_PER_TOKEN while they are too few or cannot be."""
        size_bytes = sum(size for size, _ in self.usage)
        tokens = sum(count for _, count in self.usage)
        if tokens < _FEWEST_TOKENS:
            return BYTES_PER_TOKEN
        ratio = size_bytes / tokens
        return ratio if _FEWEST_BYTES_PER_TOKEN <= ratio <= _MOST_BYTES_PER_TOKEN else BYTES_PER_TOKEN

    @property
    def about(self) -> str:
        """For example "estimated, 3.42 bytes per token + 10%"."""
        return f"estimated, {self.bytes_per_token:.2f} bytes per token + {MARGIN - 1:.0%}"


@dataclass(frozen=True, slots=True)
class Exact:
    """Tokens by a model's own tokenizer: a `tokenizer.json` on disk."""

    file: Path

    def count(self, text: str) -> int:
        """Return the tokens of a text, without those a chat template adds."""
        return len(_tokenizer(self.file).encode(text, add_special_tokens=False).ids)

    def corrected(self, usage: Iterable[Usage]) -> Exact:
        """Return itself: what is exact needs no correction."""
        return self

    @property
    def about(self) -> str:
        """For example "counted by tokenizer.json"."""
        return f"counted by {self.file.name}"


@functools.cache
def _tokenizer(file: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as broken:  # noqa: BLE001  The library raises bare exceptions for a missing file and for a malformed one.
        raise ConfigError(
            f"the tokenizer {file} cannot be read ({broken}); set `tokenizer` to a tokenizer.json"
        ) from None


def counter_for(tokenizer: Path | None) -> Counter:
    """Return the counter for a tokenizer file, an estimate without one. Raises ConfigError for an unusable file."""
    if tokenizer is None:
        return Estimate()
    _tokenizer(tokenizer)
    return Exact(tokenizer)


def usage_of(attempts: Iterable[Attempt]) -> list[Usage]:
    """Return what the endpoints said about the prompts of these attempts' calls; calls without figures are left out."""
    found = []
    for attempt in attempts:
        for call in attempt.proposal.calls:
            size_bytes, usage = call.get("prompt_bytes"), call.get("usage")
            tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
            if isinstance(size_bytes, int) and isinstance(tokens, int) and size_bytes > 0 and tokens > 0:
                found.append((size_bytes, tokens))
    return found


def estimate_tokens(text: str) -> int:
    """Return the estimate for a model nothing is known about. Never less for the whole than for a part of it."""
    return Estimate().count(text)
