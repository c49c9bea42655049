"""When a time is believed: positive and finite, above the hardware's floor, the same in two runs of one path."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from kope.evaluate.rules import TIME_AGREEMENT
from kope.model import CaseRun, Diagnostic

DATA_DEPENDENT = "data-dependent"
"""The kind of a note by which a target says that a timing run had to guess at data."""
LONGEST_US = 1e9
"""No run of a case takes a quarter of an hour; such a number comes from a broken clock."""


def untimed(case_id: str, run: CaseRun | None) -> tuple[Diagnostic, ...]:
    """Return why a timing run gave no usable time for a case, () when it did."""
    findings = run.diagnostics if run else ()
    if run is not None and run.ok and run.duration_us:
        return _unbelievable(case_id, run)
    if any(found.severity == "error" for found in findings):
        return findings
    message, remedy = (
        f"case {case_id}: the timing run gave no time for it",
        "the log shows what the program printed last",
    )
    return (*findings, Diagnostic("no-result", message, remedy=remedy, case_id=case_id))


def _unbelievable(case_id: str, run: CaseRun) -> tuple[Diagnostic, ...]:
    wrong = [time_us for time_us in run.duration_us if not 0.0 < time_us < LONGEST_US]
    if not wrong:
        return ()
    message = f"case {case_id}: {wrong[0]:g} us is no time a run can take"
    return (Diagnostic("impossible-time", message, remedy="look at what reports the time", case_id=case_id),)


def below_floor(run: CaseRun, bound_us: float | None) -> Diagnostic | None:
    """Refuse a time below what moving the case's bytes takes at peak bandwidth."""
    if bound_us is None or not run.duration_us or min(run.duration_us) >= bound_us * (1 - 1e-6):
        return None
    message = f"case {run.case_id}: {min(run.duration_us):.3f} us is below the floor of {bound_us:.3f} us"
    remedy = "every input must be read and every output written by the kernel that is timed"
    return Diagnostic("below-floor", message, remedy=remedy, case_id=run.case_id)


def supersedes(fast: CaseRun, full: CaseRun) -> bool:
    """Whether the run with data gives the time: it branched otherwise, or data was read and the times differ."""
    same_path = full.control_flow == fast.control_flow
    return not (_agree(fast, full) and same_path) and (not same_path or read_data(fast))


def mismatch(fast: CaseRun, full: CaseRun) -> Diagnostic | None:
    """Refuse a case whose two modelled times differ on the same path, without data being read."""
    if _agree(fast, full) or supersedes(fast, full):
        return None
    without, with_data = median(fast.duration_us), median(full.duration_us)
    message = f"case {full.case_id}: {without:.3f} us without data, {with_data:.3f} us with, on the same path"
    remedy = "the time must come from the work itself; remove what tells the two runs apart"
    return Diagnostic("time-mismatch", message, remedy=remedy, case_id=full.case_id)


def depends_on_data(small: Mapping[str, CaseRun], timed: Mapping[str, CaseRun]) -> bool:
    """Whether a small case took another path with its data than without, or read data and took another time.

    Reading alone is no dependence: row kernels pass a reduced scalar on as an operand. What the small cases do not show
    is found in full verification, before a time counts.
    """
    for case_id, run in small.items():
        other = timed.get(case_id)
        if other is None or run.control_flow != other.control_flow or (read_data(other) and not _agree(other, run)):
            return True
    return False


def read_data(run: CaseRun) -> bool:
    """Whether the target had to guess at data that the candidate read in a timing run."""
    return any(found.kind == DATA_DEPENDENT for found in run.diagnostics)


def _agree(fast: CaseRun, full: CaseRun) -> bool:
    if not fast.duration_us or not full.duration_us:
        return True
    fast_us, full_us = median(fast.duration_us), median(full.duration_us)
    return abs(fast_us - full_us) <= TIME_AGREEMENT * full_us
