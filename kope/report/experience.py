"""What memory answers, as documents (schema/recall.json, db_info.json, db_check.json) and as tables.

What is recalled and why is memory's business; the same subgraph as a prompt shows it is context.lineage's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from kope.context.lineage import outcome_phrase
from kope.memory import Info, Problem, RecallQuery
from kope.model import Experience, Recall
from kope.report.sharing import source_line


def recall_document(recall: Recall, query: RecallQuery) -> dict[str, Any]:
    """Return an answer of memory as a JSON-able value; scores have no unit, higher is better."""
    return {
        "text": query.text,
        "task": query.task_name or None,
        "hardware": query.hardware or None,
        "degraded": recall.degraded,
        "items": [
            {
                **experience_document(item.experience),
                "score": item.score,
                "reason": item.reason,
                "propensity": item.propensity,
            }
            for item in recall.items
        ],
        "neighbours": [experience_document(node) for node in recall.neighbours],
        "edges": [asdict(edge) for edge in recall.edges],
    }


def experience_document(node: Experience) -> dict[str, Any]:
    """Return an experience as a JSON-able value."""
    return {
        "id": node.id,
        "kind": node.kind,
        "attempt": node.attempt_id,
        "task": node.task_name,
        "title": node.title,
        "text": node.text,
        "move": node.move,
        "traits": list(node.traits),
        "stage": node.stage.value,
        "works": node.works,
        "label": node.label,
        "speedup": node.speedup,
        "step_ratio": node.step_ratio,
        "downstream": node.downstream,
        "confidence": node.confidence,
        "hardware": node.hardware,
        "bottleneck": node.bottleneck,
        "created_at": node.created_at,
        "before": node.before,
        "after": node.after,
        "evidence": list(node.evidence),
        "origin": node.origin,
        "standing": node.standing,
    }


def recall_table(recall: Recall) -> Table:
    """Return a row per recalled experience: what was done, what came of it, and why it was chosen."""
    table = Table(title="recalled, best first", title_justify="left")
    for heading in ("id", "task", "move", "outcome", "why"):
        table.add_column(heading, overflow="fold")
    for item in recall.items:
        node = item.experience
        outcome = node.text.partition("\n")[2] if node.kind == "digest" else outcome_phrase(node)
        table.add_row(node.id[:8], node.task_name or "several", node.move, outcome, item.reason)
    return table


def info_document(info: Info) -> dict[str, Any]:
    """Return what a database holds as a JSON-able value; sizes in bytes."""
    return {
        "path": str(info.path),
        "size_bytes": info.size_bytes,
        "read_only": info.read_only,
        "notes": list(info.notes),
        "schema_version": info.schema_version,
        "created_by": info.created_by,
        "written_by": info.written_by,
        "origin": info.origin,
        "content_hash": info.content_hash,
        "origins": [asdict(source) for source in info.origins],
        "conflicts": [
            {
                "attempt": name,
                "versions": [{"content_digest": digest, "origin": origin} for digest, origin in versions],
            }
            for name, versions in info.conflicts.items()
        ],
        "rows": info.counts,
        "edges": info.edges,
        "tasks": [asdict(task) for task in info.tasks],
        "hardware": info.hardware,
        "embedders": [{"name": name, "dimension": dim, "experiences": count} for name, dim, count in info.embedders],
        "sessions": [
            {
                "id": session.id,
                "info": dict(session.info),
                "started_at": session.started_at,
                "ended_at": session.ended_at or None,
                "end_reason": session.end_reason or None,
            }
            for session in info.sessions
        ],
    }


def info_lines(info: Info) -> list[str]:
    """Return what a database holds, in sentences."""
    rows, open_sessions = info.counts, sum(not session.ended_at for session in info.sessions)
    edges = ", ".join(f"{count} {kind}" for kind, count in info.edges.items()) or "none"
    lines = [
        f"{info.path}: {_size(info.size_bytes)}, schema {info.schema_version}, written by kope {info.written_by}"
        + (", read-only here" if info.read_only else ""),
        f"{rows['attempts']} attempts with {rows['candidates']} candidates in {rows['sessions']} sessions"
        f" ({open_sessions} not ended)",
        f"{rows['nodes']} experiences; edges: {edges}",
    ]
    for name, dim, count in info.embedders:
        lines.append(f"{count} with vectors of {name} ({dim} dimensions)" if name else f"{count} without a vector")
    lines.append(f"content {info.content_hash[:12]}")
    lines += [source_line(source) for source in info.origins if source.trust != "own"]
    if info.conflicts:
        lines.append(
            f"files disagree on {len(info.conflicts)} attempts; none of their versions is believed (see --json)"
        )
    return [*lines, *info.notes]


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 100_000 else f"{size_bytes / 1e3:.0f} kB"


def info_table(info: Info) -> Table:
    """Return a row per task: how often it was tried and how that went."""
    table = Table(title="attempts by task", title_justify="left")
    for heading in ("task", "attempts", "verified", "screened", "failed", "versions"):
        table.add_column(heading, justify="left" if heading == "task" else "right")
    for task in info.tasks:
        table.add_row(*(str(value) for value in asdict(task).values()))
    return table


def check_document(path: str, problems: Sequence[Problem]) -> dict[str, Any]:
    """Return what a check found as a JSON-able value."""
    return {"path": path, "ok": not problems, "problems": [asdict(problem) for problem in problems]}
