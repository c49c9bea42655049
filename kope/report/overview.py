"""All attempts of a database grouped by task: one row per task and hardware, and as a document (schema/report.json).

The attempts of one task as a table are table's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from kope.model import Attempt, Verdict
from kope.objective import bound_share, typical_us
from kope.report.document import attempt_document, time_label
from kope.report.table import duration


def by_task(attempts: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    """Group attempts by task name and, within it, definition; the title tells two definitions of a name apart."""
    groups: dict[tuple[str, str, str], list[Attempt]] = {}
    for attempt in attempts:
        groups.setdefault((attempt.task_name, attempt.task_digest, attempt.fingerprint.hardware), []).append(attempt)
    names = [name for name, _, _ in groups]
    return {
        name if names.count(name) == 1 else f"{name} ({digest[:8]}, {hardware})": group
        for (name, digest, hardware), group in groups.items()
    }


def of_session(attempts: Sequence[Attempt], session: str | None) -> tuple[Attempt, ...]:
    """Return the attempts of one session by id or beginning of it; None: of the newest; "all": all."""
    if session == "all" or not attempts:
        return tuple(attempts)
    wanted = attempts[-1].session_id if session is None else session
    return tuple(attempt for attempt in attempts if attempt.session_id.startswith(wanted))


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the attempt with the least time among those that became the best kernel of their session."""
    promoted = [attempt for attempt in attempts if attempt.promoted]
    return min(promoted, key=lambda attempt: typical_us(attempt.outcome) or 0.0, default=None)


def tasks_table(attempts: Sequence[Attempt], case_counts: Mapping[str, int]) -> Table:
    """Return one row per task: how much was tried and the best kernel. case_counts: of each task, by digest."""
    label = ", ".join(
        dict.fromkeys(time_label(attempt.outcome.time_kind, attempt.fingerprint.hardware) for attempt in attempts)
    )
    table = Table(title=f"tasks; times {label}, geometric mean over cases", title_justify="left")
    for heading in ("task", "attempts", "verified", "cases passed", "best time", "speedup", "of bound"):
        table.add_column(heading, justify="left" if heading == "task" else "right", overflow="fold")
    for name, group in by_task(attempts).items():
        table.add_row(*_row(name, group, case_counts[group[0].task_digest]))
    return table


def _row(name: str, group: Sequence[Attempt], case_count: int) -> tuple[str, ...]:
    verified = sum(attempt.outcome.verdict is Verdict.VERIFIED for attempt in group)
    best = best_of(group)
    if best is None:
        return name, str(len(group)), str(verified), f"0/{case_count}", "-", "-", "-"
    share = bound_share(best.outcome)
    return (
        name,
        str(len(group)),
        str(verified),
        f"{best.outcome.passed_count}/{case_count}",
        duration(typical_us(best.outcome)),
        f"{best.speedup:.2f}x" if best.speedup else "-",
        f"{share:.0%}" if share is not None else "-",
    )


def report_document(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Return the attempts by task as a JSON-able value."""
    tasks = []
    for group in by_task(attempts).values():
        best = best_of(group)
        tasks.append(
            {
                "task": group[0].task_name,
                "digest": group[0].task_digest,
                "hardware": group[0].fingerprint.hardware,
                "best": attempt_document(best) if best is not None else None,
                "attempts": [attempt_document(attempt) for attempt in group],
            }
        )
    return {"tasks": tasks}
