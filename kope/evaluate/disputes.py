"""When a case cannot judge: its own reference, computed in the precision a kernel has, misses the tolerance as well.

Then the case is at fault, not the candidate. A candidate is excused there as long as it does not do much worse than
that reference; what is right is still the float64 reference alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kope.evaluate.compare import Comparison, compare_output
from kope.evaluate.prepared import PreparedCase
from kope.evaluate.rules import case_tolerance
from kope.model import Diagnostic, Task, TensorFile, Tolerance

ROOM = 2.0
"""How much worse than the native reference a candidate may be where that one is wrong: in error, and in elements."""


def native_comparisons(task: Task, item: PreparedCase, natives: Sequence[TensorFile]) -> list[Comparison]:
    """Compare the native reference's outputs with the expected ones, as if a candidate had written them."""
    compared = []
    for native, want in zip(natives, item.wants, strict=True):
        assert native.path is not None and want.path is not None
        rule = case_tolerance(task, item.case, want.spec.dtype)
        compared.append(compare_output(native.path, want.path, want.spec, rule))
    return compared


def excused(got: Comparison, native: Comparison, rule: Tolerance) -> bool:
    """Whether an output that did not pass does no worse than the native reference, which does not pass either."""
    if got.passed:
        return True
    if native.passed or got.written_bytes != got.expected_bytes or got.wrong > got.positions.size:
        return False
    if not got.wrong:
        return native.wrong > 0 or got.mean <= ROOM * native.mean
    if got.wrong > ROOM * native.wrong:
        return False
    ratio = _finite_ratio(got, rule)
    native_ratio = _finite_ratio(native, rule)
    limit = ROOM * float(np.nanmax(native_ratio, initial=1.0))
    mixed_up = np.isnan(ratio)
    return bool((ratio[~mixed_up] <= limit).all()) and _as_native(got, native, mixed_up)


def _finite_ratio(one: Comparison, rule: Tolerance) -> NDArray[np.float64]:
    """Return error / tolerance of the wrong elements, NaN where NaN or inf stands in the wrong place."""
    with np.errstate(all="ignore"):
        ratio: NDArray[np.float64] = np.abs(one.got - one.want) / (rule.atol + rule.rtol * np.abs(one.want))
    return np.where(np.isfinite(one.got) & np.isfinite(one.want), ratio, np.nan)


def _as_native(got: Comparison, native: Comparison, chosen: NDArray[np.bool_]) -> bool:
    """Whether the chosen wrong elements are those of the native reference, NaN and inf in the same places."""
    _, mine, other = np.intersect1d(got.positions[chosen], native.positions, assume_unique=True, return_indices=True)
    if mine.size != np.count_nonzero(chosen):
        return False
    return bool(np.array_equal(got.got[chosen][mine], native.got[other], equal_nan=True))


def disputed_case(case_id: str, native: Sequence[Comparison]) -> Diagnostic:
    """Say that a case is at fault."""
    worst = max(one.violation for one in native)
    how = f"is {worst:.3g} times the tolerance off" if worst < 1e6 else "has NaN or inf in other places"
    message = f"case {case_id} is disputed: its reference in the kernel's own precision {how}; values were not judged"
    remedy = "the task is at fault: raise atol, name its `reduction`, or change the range of the case"
    return Diagnostic("disputed-case", message, severity="warning", remedy=remedy, case_id=case_id)
