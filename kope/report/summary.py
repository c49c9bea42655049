"""What came of a session: as one document (schema/optimize.json) and as the last lines a person reads.

Its attempts as a table are table's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kope.loop import TaskResult
from kope.memory import Session
from kope.model import Fingerprint
from kope.objective import bound_share, typical_us
from kope.report.document import attempt_document, fingerprint_document, time_label
from kope.report.table import duration


@dataclass(frozen=True, slots=True)
class Finished:
    """A session that came to its end. plan: what it was asked for."""

    session: Session
    fingerprint: Fingerprint
    plan: Mapping[str, Any]
    results: tuple[TaskResult, ...]

    def document(self) -> dict[str, Any]:
        """Return the session as a JSON-able value."""
        return {
            "session": self.session.id,
            "resumed": self.session.resumed,
            "fingerprint": fingerprint_document(self.fingerprint),
            "plan": dict(self.plan),
            "tasks": [_task_document(result) for result in self.results],
        }


def _task_document(result: TaskResult) -> dict[str, Any]:
    standing = result.standing
    return {
        "task": result.task.name,
        "digest": result.task.digest,
        "case_count": len(result.task.cases),
        "stop": result.stop.value,
        "baseline": attempt_document(standing.baseline) if standing.baseline is not None else None,
        "best": attempt_document(standing.incumbent) if standing.incumbent is not None else None,
        "attempts": [attempt_document(attempt) for attempt in standing.history],
    }


def best_line(result: TaskResult) -> str:
    """Return one line on the best kernel of a task: its speedup, against what, and how near the bound."""
    best = result.standing.incumbent
    name = result.task.name
    if best is None:
        return f"{name}: no kernel yet is right on all cases"
    share = bound_share(best.outcome)
    of_bound = f", {share:.0%} of the hardware bound" if share is not None else ""
    return (
        f"{name}: best kernel {duration(typical_us(best.outcome))}, {best.speedup or 1.0:.2f}x over the first verified"
        f" kernel{of_bound}; right on {best.outcome.passed_count}/{len(result.task.cases)} cases;"
        f" times {time_label(best.outcome.time_kind, best.fingerprint.hardware)}"
    )


def next_line(results: Sequence[TaskResult], words: Mapping[str, str], db_words: str) -> str:
    """Return the last line of a finished run: what to run next. words: what names a task on a command line, by name."""
    solved = [result.task.name for result in results if result.standing.incumbent is not None]
    failed = [result.task.name for result in results if result.standing.incumbent is None]
    steps = [f"kope report {name}{db_words} shows what failed" for name in failed]
    if solved:
        name = solved[0] if len(solved) == 1 else "TASK"
        steps = [f"kope best {words.get(name, name)} -o {name}.asc{db_words}", *(steps or [f"kope report{db_words}"])]
    return f"Next: {'; '.join(steps)}"
