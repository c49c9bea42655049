"""How much faster one outcome is than another: ratios of times over cases, and how near the hardware bound they are.

Pure arithmetic. Which outcomes may be compared at all (same task, same hardware) is the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kope.model import Outcome

DEAD_ZONE = 0.01
"""How much better than the incumbent a candidate must be. The twin is deterministic, so this is not about noise: a
gain below one percent is less than what its timing model can tell."""

SINGLE_RUN_NOISE = 0.05
"""How much single measured runs may mislead: a kernel that looks slower by less is still compared in turns."""


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return exp(mean(log(x))). Raises ValueError for no ratios, or one that is not positive."""
    logs = [math.log(ratio) for ratio in ratios]
    if not logs:
        raise ValueError("geometric mean of nothing")
    return math.exp(math.fsum(logs) / len(logs))


def speedup_over(reference_us: Mapping[str, float], times_us: Mapping[str, float]) -> float | None:
    """Return the geometric mean over cases of reference time / this time, > 1 is faster.

    None when a case that the reference was timed on is missing here, or nothing was timed: a mean over the cases a
    candidate happened to reach would reward failing on the slow ones.
    """
    if not reference_us or any(case not in times_us for case in reference_us):
        return None
    return geometric_mean(reference / times_us[case] for case, reference in reference_us.items())


def is_better(times_us: Mapping[str, float], incumbent_us: Mapping[str, float] | None) -> bool:
    """Whether these times beat the incumbent's beyond the dead zone. Anything timed beats no incumbent."""
    if incumbent_us is None:
        return bool(times_us)
    gain = speedup_over(incumbent_us, times_us)
    return gain is not None and gain >= 1.0 + DEAD_ZONE


def may_be_better(times_us: Mapping[str, float], incumbent_us: Mapping[str, float] | None) -> bool:
    """Whether measured times of two single runs leave it open that these are better; a comparison in turns decides."""
    if incumbent_us is None:
        return bool(times_us)
    gain = speedup_over(incumbent_us, times_us)
    return gain is not None and gain >= 1.0 - SINGLE_RUN_NOISE


def bound_share(outcome: Outcome) -> float | None:
    """Return the geometric mean over timed cases of hardware bound / time, in (0, 1]; None when no bound is known."""
    times = outcome.times_us
    ratios = [case.bound_us / times[case.case_id] for case in outcome.cases if case.bound_us and case.case_id in times]
    return geometric_mean(ratios) if ratios else None


def typical_us(outcome: Outcome) -> float | None:
    """Return the geometric mean of the case times in microseconds; None when nothing was timed."""
    times = outcome.times_us
    return geometric_mean(times.values()) if times else None
