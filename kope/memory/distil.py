"""Lessons from contrasts, by rule: what a change gained or cost, which failure it met, and what repaired that.

Digests are a function of the attempts and their lineage: made again at any time, they are the same. Attempts that say
the same (one move, one change, one bottleneck, one hardware) make one digest; a gain and a loss of the same change
contradict each other. Between 0.87x and 1.05x nothing is learned. Writing them down is digests' business.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from kope.memory.encode import clean, cut, unpack
from kope.memory.learn import changed_lines, changed_plan, short_hash
from kope.model import Stage, Verdict

GAIN = 1.05
LOSS = 0.87
"""Step ratios in between teach nothing: on hardware they may be noise."""
_FAILED = Verdict.FAILED.value
_EVIDENCE = 16
_TASKS_NAMED = 3
_SNIPPET_LINES = 12
_TEXT = 400

_TRIES = """
    SELECT n.id, p.id, n.task_name, n.move, n.traits, n.stage, n.label, n.works, n.step_ratio, n.hardware, p.bottleneck,
           a.verdict, pa.verdict, a.time_kind, n.confidence, n.created_at, pt.plan, t.plan, t.thought, a.candidate_id,
           pa.candidate_id, CASE a.verdict WHEN 'failed' THEN t.diagnostics ELSE '' END,
           CASE pa.verdict WHEN 'failed' THEN pt.diagnostics ELSE '' END
    FROM edges AS e JOIN nodes AS n ON n.id = e.dst JOIN nodes AS p ON p.id = e.src
    JOIN attempts AS a ON a.id = n.attempt_id JOIN attempts AS pa ON pa.id = p.attempt_id
    JOIN attempt_texts AS t ON t.attempt_id = a.id JOIN attempt_texts AS pt ON pt.attempt_id = pa.id
    JOIN origins AS o ON o.id = n.origin_id
    WHERE e.kind = 'led_to' AND o.trust IN ('own', 'trusted') ORDER BY n.id
"""
_SOURCE = "SELECT source FROM candidates WHERE id = ?"


class Try(NamedTuple):
    """An attempt and what it started from, as far as lessons go. plans and traits: JSON."""

    id: str
    parent: str
    task_name: str
    move: str
    traits: str
    stage: str
    label: str
    works: int
    step_ratio: float
    hardware: str
    bottleneck: str
    verdict: str
    parent_verdict: str
    time_kind: str
    confidence: float
    created_at: str
    parent_plan: str
    plan: str
    thought: str
    candidate_id: str | None
    parent_candidate_id: str | None
    diagnostics: str
    parent_diagnostics: str

    @property
    def failed(self) -> bool:
        """Whether it was refused."""
        return self.verdict == _FAILED

    @property
    def gained(self) -> bool:
        """Whether it shows a gain: verified, since a time of small cases proves nothing."""
        return bool(self.works) and bool(self.label) and self.step_ratio >= GAIN

    @property
    def lost(self) -> bool:
        """Whether it came out slower, by times that are good enough to rank a move."""
        return not self.failed and bool(self.label) and self.step_ratio <= LOSS


@dataclass(frozen=True, slots=True)
class Digest:
    """A lesson. decision: situation and change, the same however much evidence comes. evidence: nodes, best first."""

    id: str
    rule: str
    task_name: str
    move: str
    title: str
    decision: str
    trigger: str
    rationale: str
    lesson: str
    before: str
    after: str
    traits: tuple[str, ...]
    stage: str
    works: bool
    label: str
    step_ratio: float
    confidence: float
    hardware: str
    bottleneck: str
    created_at: str
    evidence: tuple[str, ...]


class Sources:
    """Sources of candidates, read when a lesson quotes them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def change(self, before: str | None, after: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the lines that only the first has, and those that only the second has."""
        lines = changed_lines(self._source(before), self._source(after))
        return lines.removed, lines.added

    def _source(self, candidate_id: str | None) -> str:
        row = self._connection.execute(_SOURCE, (candidate_id,)).fetchone() if candidate_id else None
        return unpack(row[0]) if row is not None else ""


class Changes:
    """What each attempt changed, in words where it has a plan; plans repeat, so they are read once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._plans: dict[str, Mapping[str, Any]] = {}

    def in_words(self, tried: Try) -> str:
        """Return for example "tile 1024 -> 2048"; "" for an attempt without a plan."""
        return changed_plan(self._plan(tried.parent_plan), self._plan(tried.plan))

    def named(self, tried: Try) -> str:
        """Return what tells the change from others: its words, else task and a hash of the changed lines."""
        words = self.in_words(tried)
        if words:
            return words
        removed, added = self._sources.change(tried.parent_candidate_id, tried.candidate_id)
        text = "\n".join(" ".join(line.split()) for line in (*removed, "->", *added))
        return f"{tried.task_name} {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"

    def _plan(self, text: str) -> Mapping[str, Any]:
        if text not in self._plans:
            self._plans[text] = json.loads(text)
        return self._plans[text]


def distil(connection: sqlite3.Connection) -> list[Digest]:
    """Return every lesson of a database, in the order of their ids."""
    sources = Sources(connection)
    changes = Changes(sources)
    speeds: defaultdict[tuple[str, ...], list[Try]] = defaultdict(list)
    failures: defaultdict[tuple[str, ...], list[Try]] = defaultdict(list)
    repairs: defaultdict[tuple[str, ...], list[Try]] = defaultdict(list)
    good: dict[str, Try] = {}
    for row in connection.execute(_TRIES):
        tried = Try(*row)
        if tried.failed:
            found = _first_error(tried.diagnostics)
            if found and tried.confidence == 1.0:
                failures[tried.move, changes.in_words(tried) or tried.task_name, found["kind"]].append(tried)
        elif tried.parent_verdict == _FAILED:
            found = _first_error(tried.parent_diagnostics)
            if found and tried.works:
                repairs[found["kind"], tried.move, changes.named(tried)].append(tried)
        if tried.gained and (tried.parent not in good or good[tried.parent].step_ratio < tried.step_ratio):
            good[tried.parent] = tried
        if tried.parent_verdict != _FAILED and (changes.in_words(tried) or tried.gained or tried.lost):
            speeds[tried.move, changes.named(tried), tried.bottleneck, tried.hardware].append(tried)
    made = [
        *(digest for key, tries in speeds.items() for digest in _speed_digests(key, tries, changes, sources)),
        *(_failure_digest(key, tries, good, sources, changes) for key, tries in failures.items()),
        *(_repair_digest(key, tries, sources, changes) for key, tries in repairs.items()),
    ]
    return sorted(made, key=lambda digest: digest.id)


# --- what a change gained or cost -----------------------------------------------------------------------------------


def _speed_digests(key: tuple[str, ...], tries: Sequence[Try], changes: Changes, sources: Sources) -> Iterator[Digest]:
    move, _, bottleneck, hardware = key
    gains = sorted((each for each in tries if each.gained), key=lambda each: (-each.step_ratio, each.id))
    losses = sorted((each for each in tries if each.lost), key=lambda each: (each.step_ratio, each.id))
    for rule, chosen in (("gain", gains), ("loss", losses)):
        if not chosen:
            continue
        show = chosen[0]
        change = changes.in_words(show)
        where = f"bound by {bottleneck}" if bottleneck else ""
        what = change or cut(show.thought.strip(), _TEXT) or f"an edit of {show.task_name}"
        yield Digest(
            id=short_hash("digest", rule, *key),
            task_name=_one_task(tries),
            rule=rule,
            move=move,
            title=clean(f"{move}: {change}" if change else f"{move} on {show.task_name}"),
            decision=clean("; ".join(part for part in (f"{move}: {what}", where) if part)),
            trigger=where,
            rationale=clean(cut(show.thought.strip(), _TEXT)) if change else "",
            lesson=clean(_speed_lesson(rule, chosen, tries)),
            **_snippet(*sources.change(show.parent_candidate_id, show.candidate_id)),
            traits=_shared_traits(chosen),
            stage=Stage.PROFILE.value,
            works=True,
            label="effective" if rule == "gain" else "negative" if show.step_ratio < 0.85 else "ineffective",
            step_ratio=median(each.step_ratio for each in chosen),
            confidence=(1 + len(chosen)) / (2 + len(tries)),
            hardware=hardware,
            bottleneck=bottleneck,
            created_at=max(each.created_at for each in tries),
            evidence=tuple(each.id for each in chosen[:_EVIDENCE]),
        )


def _speed_lesson(rule: str, chosen: Sequence[Try], tries: Sequence[Try]) -> str:
    """For example "1.42x on exp, 1.30x on gelu: gained in 5 of 7 tries, 1 failed; modelled on twin:910b2:1"."""
    best: dict[str, float] = {}
    for each in chosen:
        best.setdefault(each.task_name, each.step_ratio)
    told = ", ".join(f"{ratio:.2f}x on {task}" for task, ratio in list(best.items())[:_TASKS_NAMED])
    more = f" and {len(best) - _TASKS_NAMED} more" if len(best) > _TASKS_NAMED else ""
    failed = sum(each.failed for each in tries)
    count = f"{'gained' if rule == 'gain' else 'slower'} in {len(chosen)} of {_tries(len(tries))}"
    count += f", {failed} failed" if failed else ""
    return f"{told}{more}: {count}; {chosen[0].time_kind} on {chosen[0].hardware}."


def _tries(count: int) -> str:
    return "1 try" if count == 1 else f"{count} tries"


# --- failures and what repaired them --------------------------------------------------------------------------------


def _failure_digest(
    key: tuple[str, ...], tries: Sequence[Try], good: Mapping[str, Try], sources: Sources, changes: Changes
) -> Digest:
    move, _, kind = key
    newest = max(tries, key=lambda each: (each.created_at, each.id))
    found = _first_error(newest.diagnostics)
    # The sibling that went well from the same start shows what to do instead.
    shown = min((each for each in tries if each.parent in good), key=lambda each: each.id, default=newest)
    other = good.get(shown.parent)
    _, wrong = sources.change(shown.parent_candidate_id, shown.candidate_id)
    right = sources.change(other.parent_candidate_id, other.candidate_id)[1] if other is not None else ()
    change = changes.in_words(newest)
    instead = f" From the same start {other.move} came to {other.step_ratio:.2f}x." if other is not None else ""
    remedy = f" Remedy: {found['remedy'].strip()}." if found.get("remedy", "").strip() else ""
    return Digest(
        id=short_hash("digest", "failure", *key),
        rule="failure",
        task_name=_one_task(tries),
        move=move,
        title=clean(f"{move}: {kind}"),
        decision=clean(f"{move}: {change or newest.task_name}; fails with {kind}"),
        trigger=clean(f"{move}: {change}" if change else move),
        rationale=clean(cut(found["message"].strip(), _TEXT)),
        lesson=clean(
            f"Failed at {newest.stage} in {_tries(len(tries))} on {_named(tries)}, {_where(tries)}.{remedy}{instead}"
        ),
        **_snippet(wrong, right),
        traits=_shared_traits(tries),
        stage=newest.stage,
        works=False,
        label="negative",
        step_ratio=0.0,
        confidence=(1 + len(tries)) / (2 + len(tries)),
        hardware=newest.hardware,
        bottleneck=newest.bottleneck,
        created_at=newest.created_at,
        evidence=tuple(sorted(each.id for each in tries)[:_EVIDENCE]),
    )


def _repair_digest(key: tuple[str, ...], tries: Sequence[Try], sources: Sources, changes: Changes) -> Digest:
    kind, move, _ = key
    show = min(tries, key=lambda each: each.id)
    found = _first_error(show.parent_diagnostics)
    thought = clean(cut(show.thought.strip(), _TEXT))
    what = changes.in_words(show) or thought or f"an edit of {show.task_name}"
    return Digest(
        id=short_hash("digest", "repair", *key),
        rule="repair",
        task_name=_one_task(tries),
        move=move,
        title=clean(f"{kind} repaired: {move}"),
        decision=clean(f"after {kind}, {move}: {what}"),
        trigger=clean(f"{kind}: {cut(found['message'].strip(), _TEXT)}"),
        rationale=thought if what != thought else "",
        lesson=clean(f"Worked, verified in full, in {_tries(len(tries))} on {_named(tries)}, {_where(tries)}."),
        **_snippet(*sources.change(show.parent_candidate_id, show.candidate_id)),
        traits=_shared_traits(tries),
        stage=Stage.PROFILE.value,
        works=True,
        label="",
        step_ratio=1.0,
        confidence=(1 + len(tries)) / (2 + len(tries)),
        hardware=show.hardware,
        bottleneck="",
        created_at=max(each.created_at for each in tries),
        evidence=tuple(sorted(each.id for each in tries)[:_EVIDENCE]),
    )


def _first_error(diagnostics: str) -> Mapping[str, Any]:
    """Return the first error among diagnostics (JSON), {} without one."""
    found = json.loads(diagnostics) if diagnostics else []
    return next((item for item in found if item.get("severity") == "error"), {})


# --- what several attempts have in common ---------------------------------------------------------------------------


def _one_task(tries: Sequence[Try]) -> str:
    names = {each.task_name for each in tries}
    return names.pop() if len(names) == 1 else ""


def _named(tries: Sequence[Try]) -> str:
    names = sorted({each.task_name for each in tries})
    more = f" and {len(names) - _TASKS_NAMED} more" if len(names) > _TASKS_NAMED else ""
    return ", ".join(names[:_TASKS_NAMED]) + more


def _where(tries: Sequence[Try]) -> str:
    return ", ".join(sorted({each.hardware for each in tries}))


def _shared_traits(tries: Sequence[Try]) -> tuple[str, ...]:
    """Return the structure words that all have, in the order of the first."""
    first: list[str] = json.loads(tries[0].traits)
    shared = set(first).intersection(*(json.loads(text) for text in {each.traits for each in tries}))
    return tuple(word for word in first if word in shared)


def _snippet(before: Sequence[str], after: Sequence[str]) -> dict[str, str]:
    return {
        name: clean("\n".join(cut(line, 160) for line in lines[:_SNIPPET_LINES]))
        for name, lines in (("before", before), ("after", after))
    }
