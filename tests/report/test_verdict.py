"""The line on what limits a kernel: what the profile says of its cases, and nothing where there is no profile."""

from __future__ import annotations

from kope.model import CaseResult, Outcome, Stage, Verdict
from kope.report.verdict import spending_line

MEMORY_BOUND = {"Task Duration(us)": 20.0, "aiv_time(us)": 16.0, "aiv_mte2_ratio": 0.9, "aiv_vec_ratio": 0.4}
SMALL = {"Task Duration(us)": 4.0, "aiv_time(us)": 1.0, "aiv_mte2_ratio": 0.1, "aiv_vec_ratio": 0.2}


def outcome(*counters: dict[str, float]) -> Outcome:
    cases = tuple(CaseResult(str(number), True, counters=found) for number, found in enumerate(counters, 1))
    return Outcome(Stage.PROFILE, Verdict.VERIFIED, cases=cases)


def test_cases_are_counted_by_what_limits_them_and_pipes_averaged() -> None:
    line = spending_line(outcome(MEMORY_BOUND, MEMORY_BOUND, SMALL, {}))
    assert line == (
        "cases by what limits them: mte2 in 2, launch in 1; of the cores' time, on average: mte2 63%, vector 33%"
    )


def test_without_a_profile_nothing_is_said() -> None:
    assert spending_line(outcome()) is None
    assert spending_line(outcome({}, {"Task Duration(us)": 4.0})) is None
