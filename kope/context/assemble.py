"""Build the prompt for one state: hot items whole, then warm and cold ones best first while the budget lasts.

Which experiences and passages are offered is memory's choice; their order here is the order they came in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kope.confidential import without_secrets
from kope.context import hot
from kope.context.budget import Budget, LedgerLine, refusal
from kope.context.change import Change, changed_lines
from kope.context.choice import Choice, Policy, choose, stuck_for
from kope.context.cold import docs_block, is_cold, look_up, passage_block, questions
from kope.context.contract import TEMPLATES
from kope.context.count import Counter, Estimate, usage_of
from kope.context.lineage import Forest
from kope.context.quote import as_name, fence, one_line
from kope.model import Attempt, Experience, Passage, Recalled, State
from kope.render import render

NO_EXPERIENCE = "(none)"


@dataclass(frozen=True, slots=True)
class Briefing:
    """What a prompt says about the target besides its name: the chip's limits, as lines of plain text.

    more: how to get what is not in the prompt, for a proposer that gathers its own context; "" otherwise.
    """

    target: str
    chip: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A prompt ready to send.

    template: which one was used. base_id: the attempt whose source it shows. used: the recalled experiences that are in
    it, best first. tokens: of the whole text, counted as `counted` says. ledger: hot items, the template's own words,
    then every warm and cold item offered, in or out; the tokens of what is in add up to `tokens`.
    """

    text: str
    template: str
    base_id: str | None
    used: tuple[str, ...]
    tokens: int
    counted: str
    ledger: tuple[LedgerLine, ...]


def _no_passages(question: str, limit: int) -> Sequence[Passage]:
    return ()


def _no_change(experience: Experience) -> Change | None:
    return None


def _unknown(attempt: Attempt | None) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Sources:
    """What assembling may use besides the state.

    counter: how tokens are counted. passages: documentation for a question, best first, at most so many. change_of: the
    sources that an experience changed, None when they are not at hand. bound_by: what an attempt's time goes to.
    templates: a folder whose templates go before the shipped ones.
    """

    counter: Counter = Estimate()
    policy: Policy = Policy()
    passages: Callable[[str, int], Sequence[Passage]] = _no_passages
    change_of: Callable[[Experience], Change | None] = _no_change
    bound_by: Callable[[Attempt | None], str] = _unknown
    templates: Path | None = None


def assemble(state: State, briefing: Briefing, budget: Budget, sources: Sources = Sources()) -> Assembled:
    """Return the prompt for `state`. Raises ConfigError when the hot tier, shortened as far as it may be, is over."""
    return _Prompt(state, briefing, budget, sources).build()


@dataclass(slots=True)
class _Offer:
    """A warm or cold item on its way into the prompt. lines: the change it shows, () for none."""

    tier: str
    name: str
    reason: str
    cost: int = 0
    lines: tuple[str, ...] = ()
    passage: Passage | None = None


@dataclass(slots=True)
class _Prompt:
    """One prompt in the making."""

    state: State
    briefing: Briefing
    budget: Budget
    sources: Sources
    counter: Counter = field(init=False)
    choice: Choice = field(init=False)
    bound_by: str = field(init=False)
    forest: Forest = field(init=False)

    def __post_init__(self) -> None:
        self.counter = self.sources.counter.corrected(usage_of(self.state.history))
        self.choice = choose(self.state, self.sources.policy)
        self.bound_by = self.sources.bound_by(self.choice.base)
        self.forest = Forest.of(self.state.recall)

    def build(self) -> Assembled:
        values, lines = self._hot()
        hot_tokens = sum(line.tokens for line in lines)
        offers = self._offers()
        kept = self._fill(offers, self.budget.prompt - hot_tokens)
        text = self._rendered(values, kept)
        while kept and self.counter.count(text) > self.budget.prompt:
            kept.pop()  # A tokenizer may count a whole as more than its parts.
            text = self._rendered(values, kept)
        tokens = self.counter.count(text)
        return Assembled(
            text=text,
            template=self.choice.template,
            base_id=self.choice.base.id if self.choice.base is not None else None,
            used=tuple(offer.name for offer in kept if offer.passage is None),
            tokens=tokens,
            counted=self.counter.about,
            ledger=_ledger(lines, offers, kept, tokens),
        )

    # --- hot ----------------------------------------------------------------------------------------------------------

    def _hot(self) -> tuple[dict[str, Any], list[LedgerLine]]:
        """Return the hot values and their ledger, shortened by the first rule that makes them fit."""
        whole = self._hot_values(hot.ROOMS[0])
        for room in hot.ROOMS:
            values = self._hot_values(room)
            shortened = {name for name, value in values.items() if value != whole[name]}
            lines = self._hot_lines(values, shortened)
            if sum(line.tokens for line in lines) <= self.budget.prompt:
                return values, lines
        raise refusal(lines, self.budget)

    def _hot_values(self, room: hot.Room) -> dict[str, Any]:
        task, base, state = self.state.task, self.choice.base, self.state
        values: dict[str, Any] = {
            "task_name": as_name(task.name, 80),
            "task_block": fence(task.text.strip()),
            "reference_block": fence(task.reference, "python"),
            "cases_block": fence(hot.cases_text(task, room)),
            "case_count": len(task.cases),
            "tolerance": hot.tolerance_text(task),
            "target": one_line(self.briefing.target),
            "chip_block": fence(self.briefing.chip),
            "docs_block": "",
            "memory_block": NO_EXPERIENCE,
            "memory_note": "",
            "more_block": self.briefing.more,
        }
        if base is None or base.candidate is None:
            return values
        block = fence(base.candidate.source, "cpp")
        times = fence(hot.times_text(base.outcome, room))
        if self.choice.template == "prompts/refine":
            last = state.last
            values |= {
                "incumbent_block": block,
                "incumbent_times_block": times,
                "incumbent_speedup": base.speedup or 1.0,
            }
            values["bottleneck"] = hot.bottleneck_text(self.bound_by)
            values["feedback_block"] = fence(hot.feedback_text(last, room)) if last is not None else "(no attempt yet)"
        elif self.choice.template == "prompts/explore":
            best = state.incumbent.speedup if state.incumbent is not None else None
            values |= {"other_block": block, "other_times_block": times, "other_speedup": base.speedup or 1.0}
            values |= {"incumbent_speedup": best or 1.0, "stuck_count": stuck_for(state)}
            values["bottleneck"] = hot.bottleneck_text(self.bound_by)
            values["tried_block"] = fence(hot.tried_text(state.history))
        else:
            values |= {"failed_block": block, "feedback_block": fence(hot.feedback_text(base, room))}
            values["failed_move"] = as_name(base.proposal.move)
        return values

    def _hot_lines(self, values: dict[str, Any], shortened: set[str]) -> list[LedgerLine]:
        """Count each hot field, and the template's own words as what is left of the rendered whole."""
        lines = [
            LedgerLine(
                "hot", name, self.counter.count(value), "always; shortened" if name in shortened else "always", True
            )
            for name, value in values.items()
            if isinstance(value, str) and value and not name.startswith("memory_")
        ]
        whole = self.counter.count(self._rendered(values, []))
        wording = max(0, whole - sum(line.tokens for line in lines))
        return [*lines, LedgerLine("hot", self.choice.template, wording, "the template's own words", True)]

    # --- warm and cold ------------------------------------------------------------------------------------------------

    def _offers(self) -> list[_Offer]:
        """Return what may go in, in the order it is tried: warm experience, documentation, cold experience."""
        if self.budget.warm <= 0 and self.budget.cold <= 0:
            return []
        warm: list[_Offer] = []
        cold: list[_Offer] = []
        for item in self.state.recall.items:
            tier = "cold" if is_cold(item.experience, self.state) else "warm"
            (cold if tier == "cold" else warm).append(self._offer(tier, item))
        asked = questions(self.choice, self.state, self.bound_by)
        passages = look_up(self.sources.passages, asked) if self.budget.cold > 0 else []
        docs = [
            _Offer("cold", one_line(f"{found.source}: {found.heading}", 100), "documentation", passage=found)
            for found in passages
        ]
        return [*warm, *docs, *cold]

    def _offer(self, tier: str, item: Recalled) -> _Offer:
        change = self.sources.change_of(item.experience)
        lines = changed_lines(change) if change is not None else ()
        return _Offer(tier, item.experience.id, item.reason, lines=lines)

    def _fill(self, offers: list[_Offer], room: int) -> list[_Offer]:
        """Take items in order while they fit whole; a later, smaller one may still fit after one that did not.

        An experience that fits only without the lines it changed goes in without them.
        """
        left = {"warm": min(self.budget.warm, room), "cold": self.budget.cold}
        kept: list[_Offer] = []
        shown: set[str] = set()
        for offer in offers:
            space = min(left[offer.tier], room)
            offer.cost = self._cost(offer, shown)
            if offer.cost > space and offer.lines:
                offer.lines = ()
                offer.cost = self._cost(offer, shown)
            if offer.cost > space:
                continue
            kept.append(offer)
            shown |= {offer.name} if offer.passage is not None else self.forest.shown_with([offer.name])
            left[offer.tier] -= offer.cost
            room -= offer.cost
        return kept

    def _cost(self, offer: _Offer, shown: set[str]) -> int:
        """Return the tokens an item adds, with the parent it is shown below."""
        if offer.passage is not None:
            return self.counter.count(passage_block(offer.passage) + "\n\n")
        nodes = [offer.name, *(self.forest.shown_with([offer.name]) - shown - {offer.name})]
        level = self.forest.depth(offer.name)
        text = "\n".join(
            line
            for node in nodes
            for line in self.forest.describe(node, level, offer.lines if node == offer.name else ())
        )
        return self.counter.count(f"{text}\n")

    def _rendered(self, values: dict[str, Any], kept: Sequence[_Offer]) -> str:
        names = [offer.name for offer in kept if offer.passage is None]
        if names:
            drawn = self.forest.draw(names, {offer.name: offer.lines for offer in kept})
            values = values | {"memory_block": fence(without_secrets(drawn))}
        degraded = self.state.recall.degraded
        note = without_secrets(f"memory worked with less than everything: {one_line(degraded)}") if degraded else ""
        passages = [offer.passage for offer in kept if offer.passage is not None]
        values = values | {"docs_block": docs_block(passages), "memory_note": note}
        contract = TEMPLATES[self.choice.template]
        filled = contract(**{entry.name: values[entry.name] for entry in fields(contract)})
        return render(self.choice.template, filled, own=self.sources.templates)


def _ledger(
    lines: Sequence[LedgerLine], offers: Sequence[_Offer], kept: Sequence[_Offer], tokens: int
) -> tuple[LedgerLine, ...]:
    """Return the ledger; the template's own words are what is left of the whole, so that it adds up exactly."""
    inside = {id(offer) for offer in kept}
    items = [LedgerLine(offer.tier, offer.name, offer.cost, offer.reason, id(offer) in inside) for offer in offers]
    *fields_, wording = lines
    rest = tokens - sum(line.tokens for line in (*fields_, *items) if line.included)
    return (*fields_, LedgerLine("hot", wording.name, rest, wording.reason, True), *items)
