"""What an experience is worth once it is in use: how attempts that had it went, against those that did without.

Learned per purpose of the attempt (draft, repair, refine), as the share of attempts that were helped, with a Beta
posterior. Drafts and repairs say whether something works and count on any hardware; refinements say whether it is fast
and count on their own. Credit is shared by all that an attempt had in its context, so a value says what use goes with,
not what it causes. Nothing of this is stored: it follows from the edges `used`.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from enum import StrEnum

from kope.model import TimeKind, Verdict
from kope.objective import DEAD_ZONE

MEASURED_DEAD_ZONE = 0.04
"""A measured gain below this could be noise, so it is none; modelled times have no noise."""
PRIOR_USES = 4.0
"""How many uses the prior counts for: without evidence an experience is worth what doing without it is."""
RETIRED_USES = 5
RETIRED_CHANCE = 0.95
RETIRED_SHARE = 0.8
"""Retired is what helps clearly less than doing without: a little less is what chance gives to one of many."""
_MOST_VALUE = 2.0
_FAILED = Verdict.FAILED.value


class Purpose(StrEnum):
    """What an attempt is for: a first kernel, one in place of a failure, or a faster one."""

    DRAFT = "draft"
    REPAIR = "repair"
    REFINE = "refine"


@dataclass(slots=True)
class Tally:
    """Attempts, and those that were helped."""

    uses: int = 0
    helped: int = 0

    def add(self, helped: bool) -> None:
        """Count one."""
        self.uses += 1
        self.helped += helped


Key = tuple[Purpose, str]
"""Purpose, and the hardware for refinements, "" for the others."""


def key_of(purpose: Purpose, hardware: str) -> Key:
    """Return under which key attempts of a purpose are counted on some hardware."""
    return purpose, hardware if purpose is Purpose.REFINE else ""


def purpose_of(has_parent: bool, parent_verdict: str | None) -> Purpose:
    """Return what an attempt was for, by what it started from."""
    if not has_parent:
        return Purpose.DRAFT
    return Purpose.REPAIR if parent_verdict == _FAILED else Purpose.REFINE


def was_helped(purpose: Purpose, verdict: str | None, step_ratio: float, time_kind: str | None) -> bool:
    """Whether an attempt came to what it was for: a kernel that works; a refinement, one clearly faster."""
    if verdict is None or verdict == _FAILED:
        return False
    if purpose is not Purpose.REFINE:
        return True
    zone = MEASURED_DEAD_ZONE if time_kind == TimeKind.MEASURED.value else DEAD_ZONE
    return step_ratio >= 1.0 + zone


@dataclass
class Values:
    """Tallies of all attempts, and of those that used each experience."""

    all: dict[Key, Tally] = field(default_factory=dict)
    of: dict[str, dict[Key, Tally]] = field(default_factory=dict)

    def add_attempt(self, key: Key, helped: bool) -> None:
        """Count an attempt."""
        self.all.setdefault(key, Tally()).add(helped)

    def add_use(self, experience_id: str, key: Key, helped: bool) -> None:
        """Count an attempt for one of the experiences it used."""
        self.of.setdefault(experience_id, {}).setdefault(key, Tally()).add(helped)

    def worth(self, experience_id: str, purpose: Purpose, hardware: str) -> Worth:
        """Return what is known of an experience for a purpose."""
        key = key_of(purpose, hardware)
        everything = self.all.get(key, Tally())
        own = self.of.get(experience_id, {}).get(key, Tally())
        return Worth(own.uses, own.helped, everything.uses - own.uses, everything.helped - own.helped)

    def worths(self, experience_id: str) -> dict[Key, Worth]:
        """Return what is known of an experience, by purpose and hardware."""
        return {key: self.worth(experience_id, *key) for key in self.of.get(experience_id, {})}


@dataclass(frozen=True, slots=True)
class Worth:
    """An experience's record for one purpose: attempts with it and those of them that were helped; and without it."""

    uses: int
    helped: int
    others: int
    others_helped: int

    @property
    def without(self) -> float:
        """Share of attempts helped without it, (1 + helped) / (2 + attempts)."""
        return (1.0 + self.others_helped) / (2.0 + self.others)

    @property
    def mean(self) -> float:
        """Posterior mean of the share helped with it; the prior is the share without it."""
        return (PRIOR_USES * self.without + self.helped) / (PRIOR_USES + self.uses)

    @property
    def value(self) -> float:
        """Share helped with it over share helped without it, in [0, 2]; 1 while nothing is known, 0 when retired."""
        if self.uses == 0:
            return 1.0
        return 0.0 if self.retired else min(_MOST_VALUE, self.mean / self.without)

    @property
    def retired(self) -> bool:
        """Whether it was used often and helps less than doing without: P(share with < 0.8 share without) > 0.95.

        The share with it is Beta(1 + helped, 1 + not helped); no decision before five uses.
        """
        bar = RETIRED_SHARE * self.without
        if self.uses < RETIRED_USES or self.helped >= self.uses * bar:
            return False
        return beta_below(1 + self.helped, 1 + self.uses - self.helped, bar) > RETIRED_CHANCE

    def sample(self, rng: random.Random) -> float:
        """Return a share drawn from the posterior (Thompson sampling)."""
        prior = self.without
        return rng.betavariate(PRIOR_USES * prior + self.helped, PRIOR_USES * (1.0 - prior) + self.uses - self.helped)


def beta_below(a: int, b: int, x: float) -> float:
    """Return P(X < x) for X ~ Beta(a, b) with whole a, b: the chance of at least a successes in a + b - 1 trials."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    n = a + b - 1
    logs = (
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(x) + (n - k) * math.log1p(-x)
        for k in range(a, n + 1)
    )
    return min(1.0, math.fsum(math.exp(value) for value in logs))
