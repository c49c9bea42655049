"""The rules of judgement as one fingerprint: when a verdict could come out differently, it changes."""

from __future__ import annotations

from kope.evaluate import compare, prepared
from kope.evaluate.inputs import INPUT_RULES

EVALUATOR_VERSION = 1
"""Raised by hand whenever judging changes in a way the constants below do not show."""
SMALL_CASES = 3
TIME_AGREEMENT = 0.01
"""How far two modelled times of the same case may differ before neither is believed."""


def evaluator_fingerprint() -> str:
    """Return a short stable name for the rules: version and hash. Tolerances belong to the task and its digest."""
    rules = {
        "compare": [compare.MEAN_SHARE, compare.INTEGER_MEAN_SHARE, compare.MISMATCH],
        "inputs": INPUT_RULES,
        "small_cases": SMALL_CASES,
        "time_agreement": TIME_AGREEMENT,
    }
    return f"{EVALUATOR_VERSION}-{prepared.sha256_of(rules)[:12]}"
