"""Count tokens, cost and time against limits, calls in flight included, so that a run stops before it could break one.

What a call costs is said by the endpoint's usage figures, or estimated by whoever settles it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kope.errors import ConfigError
from kope.model import CostSpent, TimeSpent, TokensSpent

_MILLION = 1_000_000
_PRICE = re.compile(r"(?P<model>\S+)=(?P<prompt>\d+(?:\.\d+)?)/(?P<reply>\d+(?:\.\d+)?)")
ANY_MODEL = "*"


@dataclass(frozen=True, slots=True)
class Price:
    """Cost per million tokens of prompts and of replies, in the currency the limit is in."""

    prompt: float = 0.0
    reply: float = 0.0

    def of(self, prompt_tokens: int, reply_tokens: int) -> float:
        """Return what a call costs."""
        return (prompt_tokens * self.prompt + reply_tokens * self.reply) / _MILLION


def price_of(model: str, words: Sequence[str]) -> Price | None:
    """Return a model's price among words such as "glm-5=0.6/2.2" ("*" for any model), None when none is for it.

    Raises ConfigError for a word that is no price.
    """
    found: dict[str, Price] = {}
    for word in words:
        match = _PRICE.fullmatch(word)
        if match is None:
            raise ConfigError(
                f"{word!r} is no price; write MODEL=PROMPT/REPLY per million tokens, such as glm-5=0.6/2.2"
            )
        found[match["model"]] = Price(float(match["prompt"]), float(match["reply"]))
    return found.get(model, found.get(ANY_MODEL))


class Spending:
    """Tokens and cost, spent and reserved. A limit of None: none. Safe to share between threads.

    deadline_s: of `clock`, when nothing more is begun.
    """

    def __init__(
        self,
        limit: int | None = None,
        spent: int = 0,
        *,
        cost_limit: float | None = None,
        cost_spent: float = 0.0,
        deadline_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self.cost_limit = cost_limit
        self._spent, self._cost_spent = spent, cost_spent
        self._in_flight, self._cost_in_flight = 0, 0.0
        self._deadline_s = deadline_s
        self._clock = clock
        self._lock = threading.Lock()

    @property
    def spent(self) -> int:
        """Tokens of finished calls."""
        return self._spent

    @property
    def cost_spent(self) -> float:
        """Cost of finished calls."""
        return self._cost_spent

    @property
    def seconds_left(self) -> float:
        """Time until the deadline, infinite without one."""
        return self._deadline_s - self._clock() if self._deadline_s is not None else float("inf")

    def reserve(self, worst: int, worst_cost: float = 0.0) -> None:
        """Set aside the most a call can take.

        Raises TokensSpent, CostSpent or TimeSpent, and sets nothing aside, when that could go over a limit.
        """
        if self.seconds_left <= 0:
            raise TimeSpent("time limit: nothing more is begun")
        with self._lock:
            if self.limit is not None and self._spent + self._in_flight + worst > self.limit:
                in_flight = f" and {self._in_flight} in flight" if self._in_flight else ""
                raise TokensSpent(
                    f"token limit: {self._spent} of {self.limit} spent{in_flight}, the next call may take {worst}"
                )
            cost = self._cost_spent + self._cost_in_flight
            if self.cost_limit is not None and (cost + worst_cost > self.cost_limit or cost >= self.cost_limit):
                raise CostSpent(
                    f"cost limit: {cost:.4f} of {self.cost_limit:g} spent or in flight, the next call may cost"
                    f" {worst_cost:.4f}"
                )
            self._in_flight += worst
            self._cost_in_flight += worst_cost

    def settle(self, worst: int, actual: int, worst_cost: float = 0.0, cost: float = 0.0) -> None:
        """Replace what was set aside for a call by what it did take."""
        with self._lock:
            self._in_flight -= worst
            self._spent += actual
            self._cost_in_flight -= worst_cost
            self._cost_spent += cost


def tokens_of_usage(usage: Mapping[str, Any] | None) -> int | None:
    """Return prompt plus completion tokens as whoever counted them says, None when there are no usable figures.

    Understood are total_tokens, prompt_tokens and completion_tokens; input_tokens, output_tokens and their cache parts.
    """
    if usage is None:
        return None
    total = _count(usage.get("total_tokens"))
    return total or sum(parts_of_usage(usage)) or None


def parts_of_usage(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Return (prompt, reply) tokens of usage figures; what only the total counts belongs to the reply."""
    prompts = ("prompt_tokens", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    prompt = sum(_count(usage.get(name)) for name in prompts)
    reply = sum(_count(usage.get(name)) for name in ("completion_tokens", "output_tokens"))
    return prompt, max(reply, _count(usage.get("total_tokens")) - prompt)


def _count(value: object) -> int:
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0
