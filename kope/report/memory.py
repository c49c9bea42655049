"""What memory holds and answers, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kope.context.lineage import Forest
from kope.model import Experience, Recall

if TYPE_CHECKING:
    from rich.table import Table

    from kope.memory.check import Problem
    from kope.memory.info import Info


def recall_document(recall: Recall) -> dict[str, Any]:
    """Return a recall as JSON-able data: items best first, each with its reason, and the edges among what is shown."""
    return {
        "degraded": recall.degraded,
        "items": [
            {"score": item.score, "reason": item.reason, **_experience(item.experience)} for item in recall.items
        ],
        "neighbours": [_experience(node) for node in recall.neighbours],
        "edges": [asdict(edge) for edge in recall.edges],
    }


def _experience(node: Experience) -> dict[str, Any]:
    return {**asdict(node), "stage": node.stage.value, "traits": list(node.traits)}


def recall_text(recall: Recall) -> str:
    """Return the recalled subgraph as trees: parent -> move -> outcome, each recalled item with its reason."""
    return Forest.of(recall).draw([item.experience.id for item in recall.items])


def info_document(info: Info) -> dict[str, Any]:
    """Return what a database holds as JSON-able data."""
    return {
        "path": str(info.path),
        "size_bytes": info.size_bytes,
        "notes": list(info.notes),
        "schema_version": info.schema_version,
        "created_by": info.created_by,
        "written_by": info.written_by,
        "origin": info.origin,
        "counts": dict(info.counts),
        "edges": dict(info.edges),
        "tasks": [asdict(task) for task in info.tasks],
        "hardware": dict(info.hardware),
        "embedders": [{"name": name, "dim": dim, "experiences": count} for name, dim, count in info.embedders],
        "unfinished_sessions": sum(session.ended_at is None for session in info.sessions),
    }


def info_table(info: Info) -> Table:
    """Return attempts by task."""
    from rich.table import Table

    table = Table("task", "attempts", "verified", "screened", "failed")
    for task in info.tasks:
        table.add_row(task.name, *(str(count) for count in (task.attempts, task.verified, task.screened, task.failed)))
    return table


def info_lines(info: Info) -> list[str]:
    """Return what a database holds beside its tasks, one fact a line."""
    counts = ", ".join(f"{count} {table.replace('_', ' ')}" for table, count in info.counts.items() if count)
    size = f"{info.size_bytes / 1024:.0f} KiB"
    lines = [
        f"{info.path}: {size}, schema {info.schema_version}, written by KOPE {info.written_by}",
        counts or "nothing recorded yet",
    ]
    lines += [f"{count} attempts on {name}" for name, count in info.hardware.items()]
    lines += [f"{count} experiences with vectors of {name}" for name, _, count in info.embedders if name]
    return [*lines, *info.notes]


def problems_document(path: str, problems: Sequence[Problem]) -> dict[str, Any]:
    """Return the findings of a check as JSON-able data."""
    return {"path": path, "clean": not problems, "problems": [asdict(problem) for problem in problems]}
