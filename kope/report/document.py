"""Attempts and results as JSON-able documents; the schemas of the same names in schema/ describe them.

Drawing them for a terminal is table's business.
"""

from __future__ import annotations

from typing import Any

from kope.model import Attempt, Diagnostic, Fingerprint, TimeKind
from kope.objective import bound_share, typical_us


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """Return one attempt: what was tried, how far it came, its times. Times in microseconds, shares in (0, 1]."""
    outcome = attempt.outcome
    return {
        "id": attempt.id,
        "session": attempt.session_id,
        "task": attempt.task_name,
        "iteration": attempt.iteration,
        "proposer": attempt.proposer,
        "move": attempt.proposal.move,
        "thought": attempt.proposal.thought,
        "parent": attempt.proposal.parent_id,
        "used": list(attempt.proposal.used),
        "candidate": attempt.candidate.id if attempt.candidate is not None else None,
        "verdict": outcome.verdict.value,
        "stage": outcome.stage.value,
        "cases_passed": outcome.passed_count,
        "cases_timed": len(outcome.times_us),
        "time_us": typical_us(outcome),
        "time_kind": outcome.time_kind.value,
        "hardware": attempt.fingerprint.hardware,
        "speedup": attempt.speedup,
        "step_ratio": attempt.step_ratio,
        "bound_share": bound_share(outcome),
        "promoted": attempt.promoted,
        "repeated": attempt.repeated,
        "diagnostics": [diagnostic_document(found) for found in outcome.diagnostics],
    }


def diagnostic_document(found: Diagnostic) -> dict[str, Any]:
    """Return one finding. line is 0 and case "" when not known."""
    return {
        "kind": found.kind,
        "severity": found.severity,
        "message": found.message,
        "remedy": found.remedy,
        "file": found.file,
        "line": found.line,
        "case": found.case_id,
        "count": found.count,
    }


def fingerprint_document(fingerprint: Fingerprint) -> dict[str, str]:
    """Return what times and verdicts depend on."""
    return {
        "target": fingerprint.target,
        "hardware": fingerprint.hardware,
        "toolchain": fingerprint.toolchain,
        "evaluator": fingerprint.evaluator,
    }


def time_label(kind: TimeKind, hardware: str) -> str:
    """Return the label every time is shown with, for example "modelled (twin:910b2:1)"."""
    return f"{kind.value} ({hardware})"
