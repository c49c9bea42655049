"""Count tokens against a limit, calls in flight included, so that a run stops before the call that could break it.

What a call costs is said by the endpoint's usage figures, or estimated by whoever settles it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from kope.model import TokensSpent


class Spending:
    """Tokens spent and reserved. limit None: none. Safe to share between threads."""

    def __init__(self, limit: int | None = None, spent: int = 0) -> None:
        self.limit = limit
        self._spent = spent
        self._in_flight = 0
        self._lock = threading.Lock()

    @property
    def spent(self) -> int:
        """Tokens of finished calls."""
        return self._spent

    def reserve(self, worst: int) -> None:
        """Set aside the most a call can cost. Raises TokensSpent, and sets nothing aside, when that could go over."""
        with self._lock:
            if self.limit is not None and self._spent + self._in_flight + worst > self.limit:
                in_flight = f" and {self._in_flight} in flight" if self._in_flight else ""
                raise TokensSpent(
                    f"token limit: {self._spent} of {self.limit} spent{in_flight}, the next call may take {worst}"
                )
            self._in_flight += worst

    def settle(self, worst: int, actual: int) -> None:
        """Replace what was set aside for a call by what it did cost."""
        with self._lock:
            self._in_flight -= worst
            self._spent += actual


def tokens_of_usage(usage: Mapping[str, Any] | None) -> int | None:
    """Return prompt plus completion tokens as whoever counted them says, None when there are no usable figures.

    Understood are total_tokens, prompt_tokens and completion_tokens; input_tokens, output_tokens and their cache parts.
    """
    if usage is None:
        return None
    total = _count(usage.get("total_tokens"))
    parts = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
    cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
    return total or sum(_count(usage.get(name)) for name in (*parts, *cached)) or None


def _count(value: object) -> int:
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0
