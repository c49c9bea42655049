"""A baseline that gives no device time is no baseline: no speedup against it, and no smaller denominator either."""

from __future__ import annotations

import pytest

from kope.errors import ConfigError
from kope.model import Candidate, Diagnostic, Outcome, Stage, Verdict
from kope.objective import speedup_over
from kope.propose.given import Given
from kope.propose.search import SearchProposer
from kope.suite import metrics
from kope.suite.results import Row
from tests.propose import states


def row(case: str, *, passed: bool = True, time_us: float | None = 5.0, baseline_us: float | None = 10.0) -> Row:
    return Row("level1/exp", case, "L1", passed=passed, time_us=time_us, baseline_us=baseline_us)


def test_cases_without_a_baseline_are_kept_out_of_means_and_counted_in_rates() -> None:
    rows = [row("1"), row("2", baseline_us=None), row("3", passed=False, time_us=None, baseline_us=None)]
    mean = metrics.mean_ratio(metrics.over_published(rows))
    assert mean is not None
    assert (mean.value, mean.count) == (0.5, 1)
    rates = metrics.rates(rows)
    assert (rates.passed, rates.cases) == (2, 3)
    assert metrics.mean_ratio(metrics.over_published(rows[1:])) is None


def test_there_is_no_speedup_over_a_kernel_that_ran_on_the_host() -> None:
    """Its entry returned without a launch: refused as no-launch, so it has no times."""
    assert speedup_over({}, {"1": 5.0}) is None
    found = Diagnostic("no-launch", "kope_entry returned 0 without launching a kernel")
    tried = states.attempt("host", Outcome(Stage.RUN, Verdict.FAILED, (found,)))
    assert tried.outcome.times_us == {}
    with pytest.raises(ConfigError, match="the kernel given as baseline failed at run"):
        Given(Candidate.of("host"), SearchProposer()).propose(states.state(last=tried))
