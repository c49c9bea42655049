"""How fast a run got anywhere: the time of its best kernel after each attempt, and the attempts it took.

Two runs are compared by attempts, not by seconds: an attempt costs the same in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from kope.model import Attempt
from kope.objective import typical_us

WITHIN = 1.05
"""A run has arrived when its best kernel is within 5% of the best time known."""


def best_so_far(attempts: Sequence[Attempt]) -> tuple[float | None, ...]:
    """Return after each attempt the time of the best verified kernel in microseconds, None before the first."""
    best: float | None = None
    times: list[float | None] = []
    for attempt in attempts:
        if attempt.promoted:
            best = typical_us(attempt.outcome)
        times.append(best)
    return tuple(times)


def attempts_to(times: Sequence[float | None], best_us: float) -> int | None:
    """Return the number of attempts after which a run was within 5% of a time; None when it never was."""
    for number, time_us in enumerate(times, start=1):
        if time_us is not None and time_us <= best_us * WITHIN:
            return number
    return None
