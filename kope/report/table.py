"""The attempts of a task as a terminal table, and the last attempt as one line.

Where the rows come from, and where they are printed, is the caller's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from kope.model import Attempt
from kope.objective import bound_share, typical_us
from kope.report.document import time_label

HEADINGS = ("#", "move", "stage reached", "cases passed", "time", "speedup", "of bound")


def duration(time_us: float | None) -> str:
    """Return a time with its unit: microseconds, from 10,000 on milliseconds."""
    if time_us is None:
        return "-"
    return f"{time_us:.2f} us" if time_us < 10_000 else f"{time_us / 1000:.2f} ms"


def reached(attempt: Attempt) -> str:
    """Return how far an attempt came: its verdict, or the stage it failed at with the first finding's kind."""
    outcome = attempt.outcome
    if outcome.ok:
        return outcome.verdict.value
    errors = [found.kind for found in outcome.diagnostics if found.severity == "error"]
    return f"failed at {outcome.stage.value}" + (f": {errors[0]}" if errors else "")


def cells(attempt: Attempt, case_count: int) -> tuple[str, ...]:
    """Return one row under HEADINGS."""
    outcome = attempt.outcome
    time_us, share = (typical_us(outcome), bound_share(outcome)) if outcome.ok else (None, None)
    speed = f"{attempt.speedup:.2f}x" if attempt.speedup else "-"
    return (
        f"{attempt.iteration}{'*' if attempt.promoted else ''}",
        attempt.proposal.move + (" (seen before)" if attempt.repeated else ""),
        reached(attempt),
        f"{outcome.passed_count}/{case_count}",
        duration(time_us),
        speed,
        f"{share:.0%}" if share is not None else "-",
    )


def attempts_table(name: str, case_count: int, attempts: Sequence[Attempt]) -> Table:
    """Return the table of a task's attempts; its title says what its times are and what speedups are against."""
    label = time_label(attempts[0].outcome.time_kind, attempts[0].fingerprint.hardware) if attempts else "no attempts"
    table = Table(
        title=f"{name}: times {label}, geometric mean over cases; speedup over the first verified kernel",
        caption="* became the best kernel so far",
        title_justify="left",
        caption_justify="left",
        show_edge=False,
    )
    words = [len(word) for attempt in attempts for word in attempt.proposal.move.split()]
    for heading in HEADINGS:
        right = heading in ("#", "cases passed", "time", "speedup", "of bound")
        least = min(24, max(words, default=1)) if heading == "move" else None
        table.add_column(heading, justify="right" if right else "left", overflow="fold", min_width=least)
    for attempt in attempts:
        table.add_row(*cells(attempt, case_count), style="bold" if attempt.promoted else None)
    return table


def attempt_line(attempt: Attempt, case_count: int) -> str:
    """Return one attempt as a plain line of progress."""
    number, move, stage, passed, time, speed, share = cells(attempt, case_count)
    tail = "" if not attempt.outcome.ok else f", {time}, {speed}, {share} of bound"
    return f"{number:>4} {move}: {stage}, {passed} cases{tail}"
