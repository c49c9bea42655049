"""Attempts as rows and back: which part of an attempt is in which column, and the digest over all of them.

No query and no connection here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kope.memory.encode import clean, cut, cut_within, finite, pack, to_json, unpack
from kope.model import (
    Attempt,
    Candidate,
    CaseResult,
    Diagnostic,
    Fingerprint,
    Outcome,
    Proposal,
    Stage,
    TimeKind,
    Verdict,
)
from kope.objective import typical_us

LOG_LIMIT = 65_536
"""Characters of tool output kept: head and tail."""
REPLY_LIMIT = 1_048_576
MESSAGE_LIMIT = 8_192
DIAGNOSTIC_LIMIT = 200
RECORDS_LIMIT = 4_194_304
"""Characters of JSON that the records of calls and steps may take before the texts in them are cut."""

ATTEMPT_COLUMNS = (
    "id", "session_id", "iteration", "task_digest", "task_name", "candidate_id", "parent_id", "prompt_id", "proposer",
    "move", "traits", "used", "tokens", "stage", "verdict", "time_kind", "typical_us", "speedup", "step_ratio",
    "promoted", "repeated", "wall_s", "target", "hardware", "toolchain", "evaluator", "created_at",
)  # fmt: skip
TEXT_COLUMNS = ("thought", "plan", "diagnostics", "details")
CASE_COLUMNS = ("position", "case_id", "passed", "error_ratio", "bound_us", "duration_us")


@dataclass(frozen=True, slots=True)
class AttemptRows:
    """An attempt as column values. texts: `details` uncompressed. content_digest: over all of it."""

    attempt: tuple[Any, ...]
    texts: tuple[str, str, str, str]
    cases: tuple[tuple[Any, ...], ...]

    @property
    def content_digest(self) -> str:
        """sha256 (hex) of the JSON array [attempt columns, text columns, case rows]: compact, ASCII, in order."""
        document = json.dumps([self.attempt, self.texts, self.cases], separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(document.encode("ascii")).hexdigest()


def to_rows(attempt: Attempt, *, ledger: Sequence[Mapping[str, Any]]) -> AttemptRows:
    """Return the rows of an attempt, texts cut to the limits above. Raises StoreError for what cannot be kept."""
    proposal, outcome, where = attempt.proposal, attempt.outcome, attempt.fingerprint
    time_us = typical_us(outcome) if _all_finite(outcome) else None
    narrow = (
        clean(attempt.id),
        clean(attempt.session_id),
        attempt.iteration,
        attempt.task_digest,
        clean(attempt.task_name),
        attempt.candidate.id if attempt.candidate is not None else None,
        proposal.parent_id,
        attempt.prompt_id,
        clean(attempt.proposer),
        clean(proposal.move),
        to_json(proposal.traits),
        to_json(proposal.used),
        proposal.tokens,
        outcome.stage.value,
        outcome.verdict.value,
        outcome.time_kind.value,
        finite(time_us),
        finite(attempt.speedup),
        finite(attempt.step_ratio) or 0.0,
        int(attempt.promoted),
        int(attempt.repeated),
        finite(outcome.wall_s) or 0.0,
        clean(where.target),
        clean(where.hardware),
        clean(where.toolchain),
        clean(where.evaluator),
        attempt.created_at,
    )
    texts = (
        clean(cut(proposal.thought, LOG_LIMIT)),
        to_json(proposal.plan),
        _diagnostics_json(outcome.diagnostics),
        _details_json(attempt, ledger),
    )
    return AttemptRows(narrow, texts, tuple(_case_row(place, case) for place, case in enumerate(outcome.cases)))


def _all_finite(outcome: Outcome) -> bool:
    return all(0.0 < sample < float("inf") for case in outcome.cases for sample in case.duration_us)


def _diagnostics_json(found: Sequence[Diagnostic]) -> str:
    kept = [asdict(item) for item in found[:DIAGNOSTIC_LIMIT]]
    if len(found) > DIAGNOSTIC_LIMIT:
        more = f"{len(found) - DIAGNOSTIC_LIMIT} more findings were not kept"
        kept.append(asdict(Diagnostic("more", more, severity="note")))
    return to_json(cut_within(kept, MESSAGE_LIMIT))


def _details_json(attempt: Attempt, ledger: Sequence[Mapping[str, Any]]) -> str:
    proposal, outcome = attempt.proposal, attempt.outcome
    records = {
        "calls": list(proposal.calls),
        "steps": list(outcome.steps),
        "evidence": dict(outcome.evidence),
        "ledger": list(ledger),
    }
    if len(to_json(records)) > RECORDS_LIMIT:
        records = cut_within(records, MESSAGE_LIMIT)
    names = sorted({name for case in outcome.cases for name in case.counters})
    return to_json(
        {
            "log": cut(outcome.log, LOG_LIMIT),
            "reason": cut(proposal.reason, MESSAGE_LIMIT),
            "reply": cut(proposal.reply, REPLY_LIMIT),
            **records,
            "counter_names": names,
            "counters": [[case.counters.get(name) for name in names] for case in outcome.cases] if names else [],
        }
    )


def _case_row(position: int, case: CaseResult) -> tuple[Any, ...]:
    return (
        position,
        clean(case.case_id),
        None if case.passed is None else int(case.passed),
        _json_number(case.error),
        finite(case.bound_us),
        to_json(case.duration_us),
    )


def _json_number(value: float | None) -> float | None:
    # SQLite holds infinities, and an infinite violation is the usual one of a NaN; NaN itself it stores as NULL.
    return None if value is None or value != value else float(value)


# --- and back -------------------------------------------------------------------------------------------------------


def from_rows(rows: AttemptRows, source: bytes | None) -> Attempt:
    """Return the attempt that rows describe. source: its candidate, compressed."""
    at: dict[str, Any] = dict(zip(ATTEMPT_COLUMNS, rows.attempt, strict=True))
    thought, plan, diagnostics, details_json = rows.texts
    details: dict[str, Any] = json.loads(details_json)
    proposal = Proposal(
        source=unpack(source) if source is not None else None,
        move=at["move"],
        thought=thought,
        parent_id=at["parent_id"],
        plan=json.loads(plan),
        used=tuple(json.loads(at["used"])),
        traits=tuple(json.loads(at["traits"])),
        tokens=at["tokens"],
        reason=details["reason"],
        reply=details["reply"],
        calls=tuple(details["calls"]),
    )
    return Attempt(
        id=at["id"],
        session_id=at["session_id"],
        iteration=at["iteration"],
        task_name=at["task_name"],
        task_digest=at["task_digest"],
        candidate=Candidate(at["candidate_id"], proposal.source) if proposal.source is not None else None,
        proposal=proposal,
        outcome=_outcome(at, json.loads(diagnostics), details, rows.cases),
        fingerprint=Fingerprint(at["target"], at["hardware"], at["toolchain"], at["evaluator"]),
        proposer=at["proposer"],
        speedup=at["speedup"],
        step_ratio=at["step_ratio"],
        promoted=bool(at["promoted"]),
        repeated=bool(at["repeated"]),
        created_at=at["created_at"],
        prompt_id=at["prompt_id"],
    )


def _outcome(
    at: Mapping[str, Any],
    diagnostics: Sequence[Mapping[str, Any]],
    details: Mapping[str, Any],
    cases: Sequence[tuple[Any, ...]],
) -> Outcome:
    # All at once, since there are many short ones.
    durations = json.loads(f"[{','.join(case[-1] for case in cases)}]")
    return Outcome(
        stage=Stage(at["stage"]),
        verdict=Verdict(at["verdict"]),
        diagnostics=tuple(Diagnostic(**item) for item in diagnostics),
        cases=tuple(
            CaseResult(
                case_id=case_id,
                passed=None if passed is None else bool(passed),
                duration_us=tuple(map(float, samples)),
                bound_us=bound_us,
                error=error_ratio,
                counters=_counters(details, position),
            )
            for (position, case_id, passed, error_ratio, bound_us, _), samples in zip(cases, durations, strict=True)
        ),
        time_kind=TimeKind(at["time_kind"]),
        log=details["log"],
        wall_s=at["wall_s"],
        steps=tuple(details["steps"]),
        evidence=details["evidence"],
    )


def _counters(details: Mapping[str, Any], position: int) -> dict[str, float]:
    if not details["counters"]:
        return {}
    names, values = details["counter_names"], details["counters"][position]
    return {name: float(value) for name, value in zip(names, values, strict=True) if value is not None}


def packed(source: Candidate) -> tuple[str, int, bytes]:
    """Return a candidate's row: id, size in bytes, compressed source."""
    return source.id, len(source.source.encode("utf-8", "surrogatepass")), pack(source.source)
