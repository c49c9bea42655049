"""What an attempt teaches: its node, the text of the edge that led to it, and its journal entry. Rules only, no model.

Decision (what was done and why) and lesson (what came of it) are kept apart: the first may be shown without the second.
Writing them down is the store's business.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kope.memory.encode import clean, cut
from kope.memory.graph import label_of
from kope.memory.words import indexed, indexed_code
from kope.model import Attempt, Diagnostic, Stage, Verdict
from kope.objective import bound_share, typical_us

_THOUGHT_LIMIT = 600
_MESSAGE_LIMIT = 300
_LINES_SHOWN = 12
_INDEXED_LIMIT = 2_000
"""Characters of a message or log that are indexed; less than the head that is kept of either."""
_MACHINE_KINDS = frozenset({"timeout", "memory-limit", "cpu-limit", "time-limit"})
"""Failures that another machine or a longer limit might not show."""


@dataclass(frozen=True, slots=True)
class Parent:
    """The attempt another started from, as far as it matters for what was learned."""

    node_id: str
    attempt_id: str
    plan: Mapping[str, Any]
    source: str


@dataclass(frozen=True, slots=True)
class Learned:
    """A node, the edge that led to it, and the journal entry.

    works: verified right; ok: not refused. edge_text: "" for a root.
    words: the columns of the full-text index (text, move, code, diagnostics).
    """

    node_id: str
    title: str
    decision: str
    lesson: str
    label: str
    confidence: float
    works: bool
    ok: bool
    edge_text: str
    journal: str
    words: tuple[str, str, str, str]

    @property
    def node_meaning(self) -> str:
        """The text whose vector finds this node: what was done and why, and what it failed with.

        Not what a success came to: those sentences are all alike and would draw all vectors together.
        """
        return self.decision if self.ok else f"{self.decision}\n{self.lesson}"


def node_id_of(attempt_id: str) -> str:
    """Return the id of an attempt's node, the same in every file."""
    return short_hash("node", attempt_id)


def edge_id_of(src: str, kind: str, dst: str) -> str:
    """Return the id of an edge, the same in every file."""
    return short_hash("edge", src, kind, dst)


def short_hash(*parts: str) -> str:
    """Return the id of what is named by these parts, the same in every file."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def learn(attempt: Attempt, parent: Parent | None, *, bottleneck: str) -> Learned:
    """Return what an attempt teaches. bottleneck: what its time goes to, "" when not known."""
    proposal, outcome = attempt.proposal, attempt.outcome
    changed = changed_plan(parent.plan, proposal.plan) if parent is not None else ""
    lines = changed_lines(parent.source, proposal.source or "") if parent is not None else None
    # A proposer may begin its thought with the name of the move, which is said already.
    thought = cut(proposal.thought.strip().removeprefix(f"{proposal.move}:").strip(), _THOUGHT_LIMIT)
    what = changed or (lines.summary if lines is not None else "")
    decision = clean(f"{attempt.task_name}: {_joined(proposal.move, what, thought)}")
    lesson = clean(_lesson(attempt, bottleneck))
    edge_text = clean(_joined(what, thought) or proposal.move) if parent is not None else ""
    return Learned(
        node_id=node_id_of(attempt.id),
        title=clean(f"{attempt.task_name}: {proposal.move}"),
        decision=decision,
        lesson=lesson,
        label=label_of(attempt.speedup if _timed(attempt) else None, attempt.step_ratio),
        confidence=_confidence(attempt),
        works=outcome.verdict is Verdict.VERIFIED,
        ok=outcome.ok,
        edge_text=edge_text,
        journal=clean(_journal(attempt, parent, decision, lesson, lines)),
        words=words_of(attempt, decision, lesson, edge_text),
    )


def words_of(attempt: Attempt, decision: str, lesson: str, edge_text: str) -> tuple[str, str, str, str]:
    """Return the columns of an attempt's entry in the full-text index: text, move, code, diagnostics."""
    found = [
        f"{item.kind} {item.message[:_INDEXED_LIMIT]} {item.remedy[:_INDEXED_LIMIT]}"
        for item in attempt.outcome.diagnostics[:20]
    ]
    return (
        indexed(f"{decision} {lesson}"),
        indexed(clean(" ".join((attempt.proposal.move, edge_text, *attempt.proposal.traits)))),
        indexed_code(attempt.proposal.source or ""),
        indexed(clean(" ".join((*found, attempt.outcome.log[:_INDEXED_LIMIT])))),
    )


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _timed(attempt: Attempt) -> bool:
    # A failure has speedup 0 whatever was timed: that is a label too. NaN is none.
    return attempt.speedup is not None and math.isfinite(attempt.speedup)


def _confidence(attempt: Attempt) -> float:
    """How sure what it says is: 1 when verified or failed by its own fault; 0.5 when right on the small cases only, or
    stopped by a limit that may not hold elsewhere."""
    outcome = attempt.outcome
    if outcome.verdict is Verdict.SCREENED:
        return 0.5
    by_limit = any(item.kind in _MACHINE_KINDS for item in outcome.diagnostics)
    return 0.5 if outcome.verdict is Verdict.FAILED and by_limit else 1.0


# --- what was changed -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that only the source before a change has, and those that only the one after it has."""

    removed: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def summary(self) -> str:
        """For example "3 lines added, 1 removed"; "" when nothing changed."""
        if not self.removed and not self.added:
            return ""
        lines = "line" if len(self.added) == 1 else "lines"
        return f"{len(self.added)} {lines} added, {len(self.removed)} removed"


def changed_plan(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Name the fields of the plan that changed: "depth 1 -> 2, tile 2048 -> 4096"."""
    if not before or not after:
        return ""
    names = [name for name in after if before.get(name) != after[name]]
    names += [name for name in before if name not in after]
    return cut(", ".join(f"{name} {_value(before, name)} -> {_value(after, name)}" for name in names), _MESSAGE_LIMIT)


def _value(plan: Mapping[str, Any], name: str) -> str:
    value = plan.get(name, "none")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(str(item) for item in value) + "]"
    return str(value)


def changed_lines(before: str, after: str) -> Lines:
    """Compare as multisets of lines: moved lines count as unchanged, and it stays fast on any source."""
    old, new = before.splitlines(), after.splitlines()
    return Lines(tuple(_missing(old, Counter(new))), tuple(_missing(new, Counter(old))))


def _missing(lines: list[str], others: Counter[str]) -> list[str]:
    missing = []
    for line in lines:
        if others[line] > 0:
            others[line] -= 1
        elif line.strip():
            missing.append(line)
    return missing


# --- what came of it ------------------------------------------------------------------------------------------------


def _lesson(attempt: Attempt, bottleneck: str) -> str:
    outcome = attempt.outcome
    errors = [item for item in outcome.diagnostics if item.severity == "error"]
    if outcome.verdict is Verdict.FAILED:
        told = [_told(item) for item in errors[:3]]
        return f"Failed at {outcome.stage.value}. " + (" ".join(told) if told else "No diagnostic was given.")
    if outcome.verdict is Verdict.VERIFIED:
        state = f"Verified on {outcome.passed_count} cases"
    else:
        state = f"Right on {outcome.passed_count} small cases, not verified in full"
    return _joined(state, *_speed(attempt, bottleneck)) + "."


def _told(item: Diagnostic) -> str:
    remedy = f" Remedy: {cut(item.remedy.strip(), _MESSAGE_LIMIT)}." if item.remedy.strip() else ""
    return f"{item.kind}: {cut(item.message.strip(), _MESSAGE_LIMIT)}.{remedy}"


def _speed(attempt: Attempt, bottleneck: str) -> list[str]:
    outcome = attempt.outcome
    if not _timed(attempt) or not outcome.times_us:
        return []
    told = []
    if attempt.proposal.parent_id is not None:
        told.append(f"{attempt.step_ratio:.2f}x its parent")
    told.append(f"{attempt.speedup:.2f}x the first verified kernel")
    if bottleneck:
        told.append(f"bound by {bottleneck}")
    share = bound_share(outcome) if _plausible(attempt) else None
    if share is not None:
        told.append(f"{share:.0%} of the hardware bound")
    told.append(f"{outcome.time_kind.value} on {attempt.fingerprint.hardware}")
    return told


def _plausible(attempt: Attempt) -> bool:
    return all(0.0 < time < float("inf") for time in attempt.outcome.times_us.values())


# --- the journal ----------------------------------------------------------------------------------------------------


def _journal(attempt: Attempt, parent: Parent | None, decision: str, lesson: str, lines: Lines | None) -> str:
    """Return the Markdown entry: strategy, code change, validation, measurements, interpretation."""
    start = f"from {parent.attempt_id}" if parent is not None else "from nothing"
    entry = [
        f"## {attempt.task_name}, attempt {attempt.iteration}: {attempt.proposal.move}",
        f"`{attempt.id}` {start}, proposed by {attempt.proposer}, {attempt.created_at}",
        f"**Strategy.** {decision}",
        "**Code change.** " + (_quoted_change(lines) if lines is not None else "A first source."),
        f"**Validation.** {attempt.outcome.verdict.value} at stage {attempt.outcome.stage.value}.",
        f"**Measurements.** {_measurements(attempt)}",
        f"**Interpretation.** {lesson}",
    ]
    return "\n\n".join(entry) + "\n"


def _quoted_change(lines: Lines) -> str:
    if not lines.summary:
        return "None in the text."
    half = _LINES_SHOWN // 2
    shown = [f"-{cut(line, 160)}" for line in lines.removed[:half]] + [
        f"+{cut(line, 160)}" for line in lines.added[:half]
    ]
    return f"{lines.summary}.\n\n" + "\n".join(f"    {line}" for line in shown)


def _measurements(attempt: Attempt) -> str:
    if attempt.outcome.stage is Stage.PROPOSE or not attempt.outcome.times_us or not _plausible(attempt):
        return "None."
    time_us = typical_us(attempt.outcome)
    return (
        f"{time_us:.3f} us, geometric mean over {len(attempt.outcome.times_us)} cases, "
        f"{attempt.outcome.time_kind.value} on {attempt.fingerprint.hardware}."
    )
