"""What noisy times prove: equal kernels are rarely promoted, a gain is found, drift and absurd times are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kope.evaluate.timing import Finding, Rule, checked, decide, median_interval

NOISE = 0.3


def compare(gain: float, seed: int, rule: Rule) -> Finding:
    """Simulate one comparison with log-normal noise on every sample, looking as pairs come in."""
    random = np.random.default_rng(seed)
    noise = random.normal(0.0, NOISE, (2, rule.looks[-1]))
    ratios = math.log1p(gain) + noise[0] - noise[1]
    for look in rule.looks:
        found = decide(ratios[:look].tolist(), rule)
        if found.decision != "undecided":
            break
    return found


def test_equal_kernels_are_promoted_in_at_most_70_of_1000_comparisons() -> None:
    promoted = sum(compare(0.0, seed, Rule()).decision == "faster" for seed in range(1000))
    assert 10 <= promoted <= 70, promoted


def test_a_gain_of_5_percent_is_found_with_power_80_within_500_pairs() -> None:
    found = [compare(0.05, seed, Rule()) for seed in range(1000, 2000)]
    assert sum(one.decision == "faster" for one in found) >= 800
    assert max(one.pairs for one in found) <= 500


def test_few_pairs_are_no_licence_to_promote() -> None:
    rule = Rule(looks=(4, 8, 16))
    promoted = sum(compare(0.0, seed, rule).decision == "faster" for seed in range(1000))
    assert promoted <= 70, promoted


def test_a_clear_gain_needs_few_pairs() -> None:
    random = np.random.default_rng(1)
    ratios = math.log(1.3) + random.normal(0.0, 0.02, 8)
    found = decide(ratios.tolist(), Rule())
    assert (found.decision, found.pairs) == ("faster", 8)
    assert found.low < 0.3 < found.high


def test_a_clear_loss_ends_early() -> None:
    random = np.random.default_rng(2)
    found = decide((math.log(0.8) + random.normal(0.0, 0.02, 8)).tolist(), Rule())
    assert found.decision == "not-faster"


def test_a_proven_gain_that_does_not_matter_is_not_taken() -> None:
    ratios = [math.log(1.004) + sign * 1e-4 for sign in (1, -1) * 4]
    assert decide(ratios, Rule()).decision == "not-faster"


def test_times_without_any_noise_are_decided_too() -> None:
    assert decide([math.log(1.05)] * 8, Rule()).decision == "faster"
    assert decide([0.0] * 8, Rule()).decision == "not-faster"


def test_between_looks_nothing_is_decided() -> None:
    for count in (0, 1, 7, 9):
        assert decide([math.log(2.0) + 0.001 * k for k in range(count)], Rule()).decision == "undecided"


def test_an_incumbent_that_differs_from_itself_decides_nothing() -> None:
    random = np.random.default_rng(3)
    ratios = (math.log(1.3) + random.normal(0.0, 0.02, 8)).tolist()
    drift = (0.1 + random.normal(0.0, 0.01, 8)).tolist()
    steady = random.normal(0.0, 0.01, 8).tolist()
    assert decide(ratios, Rule(), drift).decision == "unsteady"
    assert decide(ratios, Rule(), steady).decision == "faster"


def test_a_median_comes_with_its_interval_and_the_same_samples_give_the_same() -> None:
    samples = [10.0, 11.0, 10.5, 10.2, 10.9, 10.4, 30.0]
    low, middle, high = median_interval(samples)
    assert middle == 10.5 and low < middle < high < 30.0
    assert median_interval(samples) == (low, middle, high)
    assert median_interval([5.0]) == (5.0, 5.0, 5.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 1e9])
def test_what_is_no_time_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="no time of a kernel"):
        checked([10.0, bad])


def test_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])
