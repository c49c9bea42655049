"""What results come to: rates over everything declared, means over what was timed, and the suite's own score.

Pure arithmetic over rows. A mean never stands without the number of cases in it, a rate never without its denominator.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kope.objective import geometric_mean
from kope.suite.results import Row

CAP_FLOOR_US = 10.0
CAP_FACTOR = 10.0
"""CANN Bench publishes at most max(CAP_FACTOR * limit, CAP_FLOOR_US) as a baseline; one that lies there says little."""
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Mean:
    """A geometric mean over `count` cases. low, high: 95% interval from drawing operators anew; equal with one."""

    value: float
    count: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Passed cases over everything declared; an operator with `all_passed` has none that failed."""

    passed: int
    cases: int
    operators: int
    any_passed: int
    all_passed: int

    @property
    def rate(self) -> float:
        """Share of declared cases that passed."""
        return self.passed / self.cases if self.cases else 0.0


def by_operator(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by operator, in the order of first sight."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.operator, []).append(row)
    return groups


def rates(rows: Sequence[Row], verdict: Callable[[Row], bool] = lambda row: row.passed) -> Rates:
    """Return pass rates; cases that were never judged are in `rows` and count as failed."""
    groups = [[verdict(row) for row in members] for members in by_operator(rows).values()]
    return Rates(
        passed=sum(map(sum, groups)),
        cases=len(rows),
        operators=len(groups),
        any_passed=sum(map(any, groups)),
        all_passed=sum(map(all, groups)),
    )


def mean_ratio(pairs: Mapping[tuple[str, str], float]) -> Mean | None:
    """Return the geometric mean of ratios by case, None without any. Cases of an operator are drawn together."""
    if not pairs:
        return None
    value = geometric_mean(pairs.values())
    groups: dict[str, list[float]] = {}
    for (operator, _), ratio in pairs.items():
        groups.setdefault(operator, []).append(math.log(ratio))
    members = list(groups.values())
    if len(members) == 1:
        return Mean(value, len(pairs), value, value)
    draw = random.Random(0)
    means = []
    for _ in range(_RESAMPLES):
        sample = draw.choices(members, k=len(members))
        means.append(math.fsum(map(math.fsum, sample)) / sum(map(len, sample)))
    means.sort()
    low, high = (means[round(share * (_RESAMPLES - 1))] for share in (0.025, 0.975))
    return Mean(value, len(pairs), math.exp(low), math.exp(high))


def over_published(rows: Iterable[Row], *, without_capped: bool = False) -> dict[tuple[str, str], float]:
    """Return time / published baseline per case that passed with a time and has one; below 1 is less time."""
    ratios = {}
    for row in rows:
        if row.passed and row.time_us and row.baseline_us and not (without_capped and is_capped(row)):
            ratios[row.key] = row.time_us / row.baseline_us
    return ratios


def is_capped(row: Row) -> bool:
    """Whether a published baseline is the cap and no measurement."""
    if not row.baseline_us or not row.limit_us:
        return False
    cap = max(CAP_FACTOR * row.limit_us, CAP_FLOOR_US)
    return abs(row.baseline_us - cap) <= 0.005 * cap


def faster_than_published(rows: Sequence[Row], factor: float) -> int:
    """Return how many cases take at most 1 / factor of the published baseline's time."""
    return sum(ratio <= 1 / factor for ratio in over_published(rows).values())


def common_cases(systems: Sequence[Sequence[Row]]) -> list[tuple[str, str]]:
    """Return the cases that every system passed with a time, sorted: the exact intersection."""
    timed = [{row.key for row in rows if row.passed and row.time_us} for rows in systems]
    return sorted(set.intersection(*timed)) if timed else []


def cases_hash(cases: Iterable[tuple[str, str]]) -> str:
    """Return a short name of a set of cases, so that two reports can be seen to speak of the same set."""
    text = "\n".join(f"{operator} {case}" for operator, case in sorted(cases))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# --- the score of CANN Bench ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Score:
    """Sum over operators of 0 to 100 points. capped: with each case's performance limited to that of the hardware.

    above_limit: cases whose time is below the published limit of the hardware, which no kernel can be.
    """

    total: float
    capped: float
    operators: int
    above_limit: tuple[tuple[str, str], ...]

    @property
    def average(self) -> float:
        """Points per operator."""
        return self.total / self.operators if self.operators else 0.0


def hap(row: Row) -> float | None:
    """Return how near to the hardware's limit a case is: 0.5 at the baseline, 1 at the limit; None where undefined.

    (Tb - Tl) / ((T - Tl) + (Tb - Tl)), with baseline Tb and limit Tl, as the suite computes it. It is not capped there.
    """
    if not row.time_us or not row.limit_us:
        return None
    baseline = row.baseline_us or max(CAP_FACTOR * row.limit_us, CAP_FLOOR_US)
    room = baseline - row.limit_us
    denominator = (row.time_us - row.limit_us) + room
    return room / denominator if denominator > 0 else None


def score(rows: Sequence[Row]) -> Score:
    """Return the suite's score: per operator 20 points for cases that ran, and 30 + 50 * HAP for each that passed.

    Only measured times make sense here.
    """
    total = capped = 0.0
    groups = by_operator(rows)
    for members in groups.values():
        count = len(members)
        ran = 20.0 * sum(row.ran for row in members) / count
        passed = [hap(row) or 0.0 for row in members if row.passed]
        total += ran + math.fsum(30 + 50 * share for share in passed) / count
        capped += ran + math.fsum(30 + 50 * min(share, 1.0) for share in passed) / count
    above = tuple(row.key for row in rows if row.passed and (hap(row) or 0.0) > 1)
    return Score(total, capped, len(groups), above)
