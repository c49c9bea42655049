"""Build the prompt for one state: hot items whole, then recalled experience best first while the budget lasts.

Which experiences are offered is memory's choice; their order here is the order they came in.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from kope.context import hot
from kope.context.budget import Budget, LedgerLine, estimate_tokens, require_room
from kope.context.contract import TEMPLATES
from kope.context.lineage import Forest
from kope.context.quote import fence
from kope.model import Attempt, State
from kope.render import render

NO_EXPERIENCE = "(none)"


@dataclass(frozen=True, slots=True)
class Briefing:
    """What a prompt says about the target besides its name: the chip's limits, as lines of plain text."""

    target: str
    chip: str


@dataclass(frozen=True, slots=True)
class Assembled:
    """A prompt ready to send.

    template: which one was used. used: the recalled experiences that are in it, best first. tokens: of the whole text,
    estimated. ledger: hot items, the template's own words, then every experience offered, in or out.
    """

    text: str
    template: str
    used: tuple[str, ...]
    tokens: int
    ledger: tuple[LedgerLine, ...]


def assemble(state: State, briefing: Briefing, budget: Budget) -> Assembled:
    """Return the prompt for `state`. Raises ConfigError when the hot tier alone is over the budget."""
    template = choose_template(state)
    values = _hot_values(template, state, briefing)
    hot_ledger = _hot_ledger(template, values)
    require_room(sum(line.tokens for line in hot_ledger), budget, max(hot_ledger, key=lambda line: line.tokens))
    room = min(budget.warm, budget.prompt - sum(line.tokens for line in hot_ledger))
    forest = Forest.of(state.recall)
    used, warm_ledger = _fill(forest, state, room)
    values |= _memory_values(forest, state, used)
    text = _render(template, values)
    return Assembled(text, template, used, estimate_tokens(text), (*hot_ledger, *warm_ledger))


def choose_template(state: State) -> str:
    """Return the template for a state: repair a fresh failure once, else refine what works, else draft."""
    last = state.last
    if last is not None and not last.outcome.ok and last.candidate is not None:
        before = state.history[-2] if len(state.history) > 1 else None
        if state.incumbent is None or before is None or before.outcome.ok or before.candidate is None:
            return "prompts/repair"
    return "prompts/refine" if state.incumbent is not None else "prompts/draft"


def _hot_values(template: str, state: State, briefing: Briefing) -> dict[str, Any]:
    task = state.task
    values: dict[str, Any] = {
        "task_name": task.name,
        "task_text": task.text.strip(),
        "reference_block": fence(task.reference, "python"),
        "cases_block": fence(hot.cases_text(task)),
        "case_count": len(task.cases),
        "tolerance": hot.tolerance_text(task),
        "target": briefing.target,
        "chip_block": fence(briefing.chip),
        "memory_block": NO_EXPERIENCE,
        "memory_note": "",
    }
    if template == "prompts/repair":
        values |= _repair_values(state.last)
    if template == "prompts/refine":
        values |= _refine_values(state.incumbent, state.last)
    return values


def _repair_values(last: Attempt | None) -> dict[str, Any]:
    assert last is not None and last.candidate is not None
    return {
        "failed_stage": last.outcome.stage.value,
        "failed_move": last.proposal.move,
        "failed_block": fence(last.candidate.source, "cpp"),
        "feedback_block": fence(hot.feedback_text(last)),
    }


def _refine_values(incumbent: Attempt | None, last: Attempt | None) -> dict[str, Any]:
    assert incumbent is not None and incumbent.candidate is not None
    return {
        "incumbent_block": fence(incumbent.candidate.source, "cpp"),
        "incumbent_times_block": fence(hot.times_text(incumbent.outcome)),
        "incumbent_speedup": incumbent.speedup or 1.0,
        "feedback_block": fence(hot.feedback_text(last)) if last is not None else "(no attempt yet)",
    }


def _hot_ledger(template: str, values: dict[str, Any]) -> tuple[LedgerLine, ...]:
    """Count each hot field, and the template's own words as what is left of the rendered whole."""
    lines = [
        LedgerLine("hot", name, estimate_tokens(value), "always", True)
        for name, value in values.items()
        if isinstance(value, str) and value and not name.startswith("memory_")
    ]
    whole = estimate_tokens(_render(template, values))
    wording = max(0, whole - sum(line.tokens for line in lines))
    return (*lines, LedgerLine("hot", template, wording, "the template's own words", True))


def _fill(forest: Forest, state: State, room: int) -> tuple[tuple[str, ...], tuple[LedgerLine, ...]]:
    """Take experiences in order while they fit whole; a later, smaller one may still fit after one that did not."""
    used: list[str] = []
    ledger: list[LedgerLine] = []
    spent = 0
    for item in state.recall.items:
        name = item.experience.id
        total = estimate_tokens(_memory_block(forest, [*used, name]))
        fits = total <= room
        ledger.append(LedgerLine("warm", name, max(0, total - spent), item.reason, fits))
        if fits:
            used.append(name)
            spent = total
    return tuple(used), tuple(ledger)


def _memory_block(forest: Forest, used: list[str] | tuple[str, ...]) -> str:
    return fence(forest.draw(used)) if used else NO_EXPERIENCE


def _memory_values(forest: Forest, state: State, used: tuple[str, ...]) -> dict[str, Any]:
    note = f"memory worked with less than everything: {state.recall.degraded}" if state.recall.degraded else ""
    return {"memory_block": _memory_block(forest, used), "memory_note": note}


def _render(template: str, values: dict[str, Any]) -> str:
    contract = TEMPLATES[template]
    return render(template, contract(**{field.name: values[field.name] for field in fields(contract)}))
