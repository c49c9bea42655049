"""The rules of judgement as one fingerprint: when a verdict could come out differently, it changes."""

from __future__ import annotations

import math
from dataclasses import replace

from kope.evaluate import challenge, compare, needed, prepared
from kope.evaluate.dtypes import FLOATS
from kope.evaluate.inputs import INPUT_RULES
from kope.evaluate.plan import SMALL_CASES
from kope.model import Case, Task, Tolerance

EVALUATOR_VERSION = 3
"""Raised by hand whenever judging changes in a way the constants below do not show."""
TIME_AGREEMENT = 0.01
"""How far two modelled times of the same case may differ before neither is believed."""


def evaluator_fingerprint() -> str:
    """Return a short stable name for the rules: version and hash. Tolerances belong to the task and its digest."""
    rules = {
        "compare": [compare.MEAN_SHARE, compare.INTEGER_MEAN_SHARE, compare.MISMATCH],
        "inputs": INPUT_RULES,
        "challenge": challenge.CHALLENGE_RULES,
        "needed": needed.NEEDED_RULES,
        "small_cases": SMALL_CASES,
        "time_agreement": TIME_AGREEMENT,
    }
    return f"{EVALUATOR_VERSION}-{prepared.sha256_of(rules)[:12]}"


def case_tolerance(task: Task, case: Case, dtype: str) -> Tolerance:
    """Return the tolerance of an output of `dtype` in a case.

    Where the task names its reduction, atol is that of one term: rounding errors of n terms add up like sqrt(n).
    """
    rule = task.tolerance[dtype]
    terms = reduction_terms(task, case) if dtype in FLOATS else 1
    return rule if terms == 1 else replace(rule, atol=rule.atol * math.sqrt(terms))


def reduction_terms(task: Task, case: Case) -> int:
    """Return how many elements an output element of the case adds up, 1 when the task does not say."""
    if task.reduction is None:
        return 1
    name, axes = task.reduction
    shapes = [given.spec.shape for given in case.inputs if given is not None and given.spec.name == name]
    return math.prod(shape[axis] for shape in shapes for axis in axes)
