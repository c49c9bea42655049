"""What noisy times prove: intervals of medians, and whether a kernel is faster than another, told as pairs come in.

Pure arithmetic on samples. Which runs make a pair is `duel`'s business, what a verdict changes is the loop's.

A pair is one run of each kernel, one right after the other. Its value is the log of the ratio of their times, so that
noise of any common cause (clock, temperature, neighbours) cancels. After a few pairs, and again after more, the mean is
held against zero: early looks at a very strict level, the last one at what is left of alpha, so that all looks together
are wrong about equal kernels with probability alpha at most (Haybittle-Peto; the levels add up by Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kope.objective import DEAD_ZONE

Decision = Literal["faster", "not-faster", "unsteady", "undecided"]
"""unsteady: the incumbent differs from itself, so nothing is decided. undecided: more pairs are needed."""

_RESAMPLES = 999
_CONTROL_ALPHA = 0.01


@dataclass(frozen=True, slots=True)
class Rule:
    """When to look and how sure to be. looks: numbers of pairs, rising; the last is the most that is measured.

    alpha: probability that equal kernels are called different in speed, one-sided, over all looks. early_alpha: the
    level of every look but the last. least_gain: what a gain must be besides proven.
    """

    alpha: float = 0.05
    early_alpha: float = 0.0005
    looks: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 500)
    least_gain: float = DEAD_ZONE

    def level(self, look: int) -> float:
        """Return the level of a look, the n-th from 0."""
        last = len(self.looks) - 1
        return self.early_alpha if look < last else self.alpha - last * self.early_alpha


@dataclass(frozen=True, slots=True)
class Finding:
    """What pairs have shown. gain: mean ratio of times minus one, > 0 is faster. low, high: its interval now."""

    decision: Decision
    pairs: int
    gain: float
    low: float
    high: float


def decide(log_ratios: Sequence[float], rule: Rule, controls: Sequence[float] = ()) -> Finding:
    """Return what the pairs so far say. log_ratios: log(incumbent time / candidate time) per pair.

    controls: log ratios of the incumbent's own runs, one after the other. Between looks the answer is "undecided"; so
    is it before the first. Accepted is what lies beyond the interval by Student's t and by the bootstrap alike.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    if not values.size:
        return Finding("undecided", 0, 0.0, -math.inf, math.inf)
    gain = math.expm1(values.mean())
    if len(values) not in rule.looks:
        return Finding("undecided", len(values), gain, -math.inf, math.inf)
    look = rule.looks.index(len(values))
    level = rule.level(look)
    low, high = student_interval(values, level)
    decision: Decision = "undecided"
    if differs_from_itself(controls, rule.least_gain):
        decision = "unsteady"
    elif low > 0.0 and gain >= rule.least_gain and bootstrap_interval(values, level)[0] > 0.0:
        decision = "faster"
    elif high < math.log1p(rule.least_gain) or look == len(rule.looks) - 1:
        decision = "not-faster"
    return Finding(decision, len(values), gain, math.expm1(low), math.expm1(high))


def student_interval(values: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Return the interval of a mean that it is outside of, on either side, with probability `level` each."""
    from scipy.stats import t

    count = len(values)
    mean = float(values.mean())
    if count < 2:
        return -math.inf, math.inf
    half = float(t.ppf(1.0 - level, count - 1) * values.std(ddof=1) / math.sqrt(count))
    return mean - half, mean + half


def bootstrap_interval(values: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Return the bootstrap percentile interval of a mean, `level` outside on either side; the same values, the same
    interval. Fewer resamples than 1 / level make it as wide as the resamples reach."""
    return _bootstrap(values, np.mean, level)


def median_interval(samples_us: Sequence[float], level: float = 0.025) -> tuple[float, float, float]:
    """Return (low, median, high) of samples: the median and its bootstrap interval, 95% by default.

    Raises ValueError for no samples or one that is no time.
    """
    values = np.asarray(checked(samples_us), dtype=np.float64)
    low, high = _bootstrap(values, np.median, level)
    return low, float(np.median(values)), high


def _bootstrap(values: NDArray[np.float64], statistic: object, level: float) -> tuple[float, float]:
    from scipy.stats import bootstrap

    if len(values) < 2 or float(np.ptp(values)) == 0.0:
        return float(values.min()), float(values.max())
    found = bootstrap(
        (values,),
        statistic,
        n_resamples=_RESAMPLES,
        confidence_level=1.0 - 2.0 * level,
        method="percentile",
        rng=np.random.default_rng(0),
        vectorized=True,
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def differs_from_itself(controls: Sequence[float], least: float) -> bool:
    """Whether one kernel's own consecutive runs differ by more than chance and by more than matters (A/A control)."""
    from scipy.stats import ttest_1samp

    values = np.asarray(controls, dtype=np.float64)
    if len(values) < 4 or float(np.ptp(values)) == 0.0:
        return False
    return abs(float(values.mean())) > least and float(ttest_1samp(values, 0.0).pvalue) < _CONTROL_ALPHA


def checked(samples_us: Sequence[float], longest_us: float = 60e6) -> list[float]:
    """Return samples that are times. Raises ValueError naming the first that is none: 0, negative, NaN, infinite, or
    longer than a minute."""
    for value in samples_us:
        if not 0.0 < value <= longest_us:
            raise ValueError(f"{value} us is no time of a kernel")
    if not samples_us:
        raise ValueError("no samples")
    return list(samples_us)
