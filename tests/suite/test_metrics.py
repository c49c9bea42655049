"""Rates count everything declared, means stand with their count, and the score is the suite's own formula."""

from __future__ import annotations

import math

import pytest

from kope.suite.metrics import (
    Mean,
    Rates,
    cases_hash,
    common_cases,
    faster_than_published,
    hap,
    is_capped,
    mean_ratio,
    over_published,
    rates,
    score,
)
from kope.suite.results import Row


def row(operator: str, case: str, *, passed: bool = True, **facts: object) -> Row:
    return Row(operator, case, "L1", passed, ran=bool(facts.pop("ran", passed)), **facts)  # type: ignore[arg-type]


def test_a_case_that_was_never_judged_counts_as_failed() -> None:
    rows = [
        row("exp", "1"),
        row("exp", "2"),
        row("add", "1"),
        row("add", "2", passed=False),
        row("gru", "1", passed=False),
    ]
    assert rates(rows) == Rates(passed=3, cases=5, operators=3, any_passed=2, all_passed=1)
    assert rates(rows).rate == 0.6
    assert rates([]).rate == 0.0


def test_another_verdict_may_be_counted() -> None:
    rows = [
        row("exp", "1", official=True),
        row("exp", "2", official=False),
        row("add", "1", passed=False, official=True),
    ]
    assert rates(rows, lambda one: one.official is True) == Rates(2, 3, 2, 2, 1)


def test_times_are_set_against_published_ones_only_where_both_are_there() -> None:
    rows = [
        row("exp", "1", time_us=5.0, baseline_us=10.0, limit_us=2.0),
        row("exp", "2", time_us=40.0, baseline_us=20.0, limit_us=2.0),
        row("exp", "3", time_us=5.0),
        row("exp", "4", baseline_us=10.0),
        row("exp", "5", passed=False, time_us=1.0, baseline_us=10.0),
    ]
    assert over_published(rows) == {("exp", "1"): 0.5, ("exp", "2"): 2.0}
    assert over_published(rows, without_capped=True) == {("exp", "1"): 0.5}
    assert faster_than_published(rows, 1) == faster_than_published(rows, 2) == 1


@pytest.mark.parametrize(
    ("baseline_us", "limit_us", "capped"),
    [(10.0, 1.0, True), (10.0, 0.2, True), (25.0, 2.5, True), (24.0, 2.5, False), (9.0, 1.0, False)],
)
def test_a_baseline_on_the_cap_is_no_measurement(baseline_us: float, limit_us: float, capped: bool) -> None:
    assert is_capped(row("exp", "1", baseline_us=baseline_us, limit_us=limit_us)) is capped


def test_a_mean_stands_with_its_count_and_an_interval_over_operators() -> None:
    assert mean_ratio({}) is None
    assert mean_ratio({("exp", "1"): 2.0, ("exp", "2"): 8.0}) == Mean(pytest.approx(4.0), 2, *[pytest.approx(4.0)] * 2)
    found = mean_ratio({(f"op{k}", "1"): float(2**k) for k in range(9)})
    assert found is not None
    assert (found.value, found.count) == (pytest.approx(16.0), 9)
    assert 1.5 < found.low < 10 < 26 < found.high < 170
    assert mean_ratio({(f"op{k}", "1"): float(2**k) for k in range(9)}) == found


def test_the_intersection_holds_the_cases_that_all_systems_timed() -> None:
    one = [row("exp", "1", time_us=1.0), row("exp", "2", time_us=1.0), row("add", "1", time_us=1.0)]
    two = [row("exp", "1", time_us=2.0), row("exp", "2", passed=False, time_us=2.0), row("add", "1")]
    assert common_cases([one, two]) == [("exp", "1")]
    assert common_cases([]) == []
    assert cases_hash([("a", "1"), ("b", "2")]) == cases_hash([("b", "2"), ("a", "1")]) != cases_hash([("a", "1")])


def test_hap_is_a_half_at_the_baseline_and_one_at_the_limit() -> None:
    assert hap(row("exp", "1", time_us=10.0, baseline_us=10.0, limit_us=1.0)) == 0.5
    assert hap(row("exp", "1", time_us=1.0, baseline_us=10.0, limit_us=1.0)) == 1.0
    assert hap(row("exp", "1", time_us=19.0, baseline_us=10.0, limit_us=1.0)) == pytest.approx(1 / 3)
    assert hap(row("exp", "1", time_us=19.0, limit_us=1.9)) == 0.5  # no baseline: the cap stands for it
    assert hap(row("exp", "1", time_us=19.0, baseline_us=10.0)) is None
    assert hap(row("exp", "1", baseline_us=10.0, limit_us=1.0)) is None
    assert hap(row("exp", "1", time_us=0.81, baseline_us=1.2, limit_us=1.0)) == pytest.approx(20.0)  # as the suite does
    assert hap(row("exp", "1", time_us=0.5, baseline_us=1.2, limit_us=1.0)) is None


def test_the_score_is_the_suites_formula() -> None:
    at_baseline = {"time_us": 10.0, "baseline_us": 10.0, "limit_us": 1.0}
    rows = [
        row("exp", "1", **at_baseline),
        row("exp", "2", passed=False, ran=True),
        row("add", "1", time_us=0.81, baseline_us=1.2, limit_us=1.0),
        row("gru", "1", passed=False, ran=False),
        row("gru", "2", passed=False, ran=False),
    ]
    found = score(rows)
    exp, add, gru = 20 + (30 + 25) / 2, 20 + 30 + 50 * 20.0, 0.0
    assert found.total == pytest.approx(exp + add + gru)
    assert found.capped == pytest.approx(exp + 100 + gru)
    assert found.average == pytest.approx((exp + add + gru) / 3)
    assert found.above_limit == (("add", "1"),)
    assert math.isclose(score([row("exp", str(k), **at_baseline) for k in range(20)]).total, 75.0)
