"""One verdict on one candidate: as a table with a line per case, and as a document (schema/eval.json).

Where the verdict comes from, and where it is printed, is the caller's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.table import Table

from kope.model import Attempt, Candidate, CaseResult, Diagnostic, Fingerprint, Outcome, Task, Verdict
from kope.objective import bound_share, typical_us
from kope.report.document import diagnostic_document, fingerprint_document, time_label
from kope.report.table import duration
from kope.target.profile import bottleneck, pipe_shares

FAILURES_SHOWN = 3


def verdict_document(task: Task, candidate: Candidate, fingerprint: Fingerprint, outcome: Outcome) -> dict[str, Any]:
    """Return a verdict as a JSON-able value. Times in microseconds, error in multiples of the tolerance."""
    return {
        "task": task.name,
        "digest": task.digest,
        "candidate": candidate.id,
        "verdict": outcome.verdict.value,
        "stage": outcome.stage.value,
        "cases_passed": outcome.passed_count,
        "case_count": len(task.cases),
        "time_us": typical_us(outcome),
        "time_kind": outcome.time_kind.value,
        "bound_share": bound_share(outcome),
        "fingerprint": fingerprint_document(fingerprint),
        "wall_s": round(outcome.wall_s, 3),
        "cases": [_case_document(result) for result in outcome.cases],
        "diagnostics": [diagnostic_document(found) for found in outcome.diagnostics],
        "steps": [dict(step) for step in outcome.steps],
        "evidence": dict(outcome.evidence),
        "log": outcome.log,
    }


def _case_document(result: CaseResult) -> dict[str, Any]:
    return {
        "case": result.case_id,
        "passed": result.passed,
        "error": result.error,
        "official": result.official,
        "time_us": median(result.duration_us) if result.duration_us else None,
        "bound_us": result.bound_us,
        "counters": dict(result.counters),
    }


def verdict_table(task: Task, fingerprint: Fingerprint, outcome: Outcome) -> Table:
    """Return a line per case that was reached: shapes, whether it passed, its largest error, its time.

    With a column for the verdict of the suite that the task comes from, where it has one.
    """
    label = time_label(outcome.time_kind, fingerprint.hardware)
    table = Table(
        title=f"{task.name}: times {label}",
        caption="error: largest difference, in multiples of the tolerance; 1 passes. of bound: hardware bound / time",
        title_justify="left",
        caption_justify="left",
    )
    for heading in ("case", "inputs"):
        table.add_column(heading)
    official = any(result.official is not None for result in outcome.cases)
    for heading in ("passed", *(["official"] if official else []), "error", "time", "of bound"):
        table.add_column(heading, justify="right")
    shown = {case.id: describe_inputs(task, case.id) for case in task.cases}
    for result in outcome.cases:
        passed, *measures = _measures(result)
        verdicts = [passed, _word(result.official)] if official else [passed]
        table.add_row(result.case_id, shown[result.case_id], *verdicts, *measures)
    return table


def _measures(result: CaseResult) -> tuple[str, str, str, str]:
    time_us = median(result.duration_us) if result.duration_us else None
    share = f"{result.bound_us / time_us:.0%}" if result.bound_us and time_us else "-"
    return _word(result.passed), _error(result.error), duration(time_us), share


def _error(error: float | None) -> str:
    """Return an error for people: from a million on, and for NaN in the wrong place, its size says nothing."""
    return "-" if error is None else f"{error:.2g}" if error < 1e6 else "> 1e6"


def _word(passed: bool | None) -> str:
    return {True: "yes", False: "NO", None: "-"}[passed]


def describe_inputs(task: Task, case_id: str) -> str:
    """Return the inputs of a case on one line, for example "x [64, 100] float16, gamma [100] float16"."""
    case = next(case for case in task.cases if case.id == case_id)
    specs = [given.spec for given in case.inputs if given is not None]
    return ", ".join(f"{spec.name} {list(spec.shape)} {spec.dtype}" for spec in specs)


def finding_lines(found: Sequence[Diagnostic]) -> list[str]:
    """Return findings as text, each with its place, and what to do on a line below."""
    lines = []
    for finding in found:
        place = f"{finding.file}:{finding.line}: " if finding.file and finding.line else ""
        times = f" ({finding.count} times)" if finding.count > 1 and finding.kind != "wrong-value" else ""
        lines.append(f"{place}{finding.severity}: {finding.message} [{finding.kind}]{times}")
        if finding.remedy:
            lines.append(f"    {finding.remedy}")
    return lines


def failure_lines(attempts: Sequence[Attempt]) -> list[str]:
    """Return what the latest failed attempts stopped at: the first error of each, at most FAILURES_SHOWN of them."""
    failed = [attempt for attempt in attempts if attempt.outcome.verdict is Verdict.FAILED]
    lines = []
    for attempt in failed[-FAILURES_SHOWN:]:
        errors = [found for found in attempt.outcome.diagnostics if found.severity == "error"]
        lines.append(f"attempt {attempt.iteration} ({attempt.proposal.move}) failed at {attempt.outcome.stage.value}:")
        lines += [f"    {line}" for line in finding_lines(errors[:1])]
    return lines


def spending_line(outcome: Outcome) -> str | None:
    """Return what the time of an outcome's cases goes to, and how busy the pipes are; None without a profile."""
    found = [result.counters for result in outcome.cases if bottleneck(result.counters)]
    if not found:
        return None
    units = Counter(bottleneck(counters) for counters in found)
    shares = [pipe_shares(counters) for counters in found]
    means = {pipe: sum(share[pipe] for share in shares) / len(shares) for pipe in shares[0]}
    busy = ", ".join(f"{pipe} {mean:.0%}" for pipe, mean in sorted(means.items(), key=lambda item: -item[1]) if mean)
    where = ", ".join(f"{unit} in {count}" for unit, count in units.most_common())
    return f"cases by what limits them: {where}; of the cores' time, on average: {busy}"


def verdict_line(task: Task, outcome: Outcome) -> str:
    """Return the verdict in one sentence."""
    count = f"{outcome.passed_count}/{len(task.cases)} cases passed"
    if outcome.verdict is Verdict.FAILED:
        return f"failed at {outcome.stage.value}: {count}"
    share = bound_share(outcome)
    tail = "" if share is None else f", {share:.0%} of the hardware bound (geometric mean)"
    return f"{outcome.verdict.value}: {count}, {duration(typical_us(outcome))} ({outcome.time_kind.value}){tail}"
