"""The budget rule: hot is always whole, order is by rank, the ledger adds up, nothing goes over."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kope.context import Budget, Sources, assemble
from kope.context.budget import LedgerLine
from kope.context.count import Estimate
from kope.context.quote import clean
from kope.errors import ConfigError
from kope.model import Diagnostic, Edge, Outcome, Passage, Recall, Recalled, Stage, State, Verdict
from tests.context import samples


def test_items_drop_whole_and_best_first_when_the_budget_is_short() -> None:
    whole = assemble(samples.draft_state(), samples.BRIEFING, Budget())
    warm = [line for line in whole.ledger if line.tier == "warm"]
    assert whole.used == ("e2buffer", "e3tiles", "e4fact") and all(line.included for line in warm)
    short = assemble(samples.draft_state(), samples.BRIEFING, Budget(warm=warm[0].tokens + 5))
    assert short.used == ("e2buffer",)
    assert [line.included for line in short.ledger if line.tier == "warm"] == [True, False, False]
    assert "double-buffer" in short.text and "tile-length" not in short.text
    none = assemble(samples.draft_state(), samples.BRIEFING, Budget(warm=0, cold=0), samples.SOURCES)
    assert none.used == () and "(none)" in none.text and "## Documentation" not in none.text
    assert {line.tier for line in none.ledger} == {"hot"}


def test_changed_lines_are_dropped_before_the_experience_is() -> None:
    full = assemble(samples.draft_state(), samples.BRIEFING, Budget(), samples.SOURCES)
    cost = next(line.tokens for line in full.ledger if line.name == "e2buffer")
    short = assemble(samples.draft_state(), samples.BRIEFING, Budget(warm=cost - 1), samples.SOURCES)
    assert "+ int depth = 2;" in full.text and "+ int depth = 2;" not in short.text
    assert "e2buffer" in short.used


def test_experience_of_other_kinds_of_operators_and_documentation_are_cold() -> None:
    distant = samples.experience("e5far", "unroll", task_name="conv", traits=("window",))
    items = (*samples.recall().items, Recalled(distant, 0.4, "text match"))
    state = replace(
        samples.draft_state(), recall=Recall(items=items), task=replace(samples.task(), tags=("row-reduction",))
    )
    made = assemble(state, samples.BRIEFING, Budget(), samples.SOURCES)
    assert [(line.tier, line.name) for line in made.ledger if line.tier != "hot"] == [
        ("warm", "e2buffer"),
        ("warm", "e3tiles"),
        ("warm", "e4fact"),
        ("cold", "guide/copies: DataCopyPad"),
        ("cold", "e5far"),
    ]
    assert made.used == ("e2buffer", "e3tiles", "e4fact", "e5far")
    assert made.text.index("## Documentation") < made.text.index("## Experience")
    without = assemble(state, samples.BRIEFING, Budget(cold=0), samples.SOURCES)
    assert without.used == ("e2buffer", "e3tiles", "e4fact") and "DataCopyPad]" not in without.text


def test_hot_tier_over_the_budget_is_refused_with_the_numbers() -> None:
    with pytest.raises(ConfigError, match=r"needs \d+ tokens before any experience and the budget is 500 .*--window"):
        assemble(samples.draft_state(), samples.BRIEFING, Budget(window=700, generation=200))


def test_long_tool_output_and_lists_are_shortened_by_rule_before_a_prompt_is_refused() -> None:
    long = replace(samples.repair_state().last.outcome, log="x" * 5_000 + "\nsummary")  # type: ignore[union-attr]
    failed = samples.attempt(1, long, move="draft", source="int Foo;\n", speedup=0.0)
    state = samples.state(iteration=2, last=failed, history=(failed,))
    whole = assemble(state, samples.BRIEFING, Budget())
    assert "x" * 5_000 in whole.text and not _shortened(whole.ledger)
    short = assemble(state, samples.BRIEFING, Budget(window=whole.tokens - 500, generation=0))
    assert _shortened(short.ledger) == ["feedback_block"]
    assert "characters left out" in short.text and "summary" in short.text and "int Foo;" in short.text


def _shortened(ledger: tuple[LedgerLine, ...]) -> list[str]:
    return [line.name for line in ledger if line.reason == "always; shortened"]


def test_usage_figures_of_the_session_correct_the_count() -> None:
    state = samples.refine_state()
    calls = ({"prompt_bytes": 10_000, "usage": {"prompt_tokens": 5_000}},)
    best = replace(state.history[0], proposal=replace(state.history[0].proposal, calls=calls))
    before = assemble(state, samples.BRIEFING, Budget())
    after = assemble(replace(state, history=(best,), last=best), samples.BRIEFING, Budget())
    assert before.text == after.text
    assert after.tokens == Estimate(((10_000, 5_000),)).count(after.text) > 1.7 * before.tokens


# --- 10,000 states --------------------------------------------------------------------------------------------------

_WORDS = (
    "tile",
    "DataCopyPad",
    "`",
    "```",
    "UB 溢出",
    "{{ x }}",
    "## Now",
    "-> a",
    "\n",
    "x" * 40,
    "queue depth 2;",
    "𝛼",
)


def _text(draw: random.Random, most: int) -> str:
    return " ".join(draw.choice(_WORDS) for _ in range(draw.randrange(most)))


def _recall(draw: random.Random) -> Recall:
    count = draw.randrange(13)
    nodes = [
        samples.experience(
            f"n{k:02d}{draw.randrange(16**6):06x}",
            _text(draw, 3) or "move",
            text=f"{_text(draw, 20)}\n{_text(draw, 60)}",
            traits=draw.choice([(), ("row-reduction",), ("window",)]),
            task_name=draw.choice(["scale_norm", "conv", "rms_norm"]),
            origin=draw.choice(["", "", "shared.db"]),
            works=draw.random() < 0.7,
        )
        for k in range(count)
    ]
    edges = [
        Edge(str(k), nodes[draw.randrange(k)].id, nodes[k].id, "led_to", _text(draw, 8))
        for k in range(1, count)
        if draw.random() < 0.6
    ]
    items = [node for node in nodes if draw.random() < 0.8]
    draw.shuffle(items)
    rest = tuple(node for node in nodes if node not in items)
    return Recall(tuple(Recalled(node, 1.0, _text(draw, 5)) for node in items), rest, tuple(edges))


def _state(draw: random.Random) -> State:
    make = draw.choice([samples.draft_state, samples.repair_state, samples.refine_state, samples.explore_state])
    task = replace(samples.task(), text=_text(draw, 30), tags=draw.choice([(), ("row-reduction",), ("other",)]))
    state = replace(make(), task=task, recall=_recall(draw))
    if state.last is not None and not state.last.outcome.ok:
        found = tuple(Diagnostic(f"kind-{k}", _text(draw, 30), line=k) for k in range(draw.randrange(20)))
        outcome = Outcome(Stage.COMPILE, Verdict.FAILED, diagnostics=found, log=_text(draw, 400))
        last = replace(state.last, outcome=outcome)
        state = replace(state, last=last, history=(*state.history[:-1], last))
    return state


def _check(seed: int) -> bool:
    """Assemble a random state under a random budget; return whether there was room for it."""
    draw = random.Random(seed)
    state = _state(draw)
    passages = [Passage(f"p{k}", "doc", _text(draw, 4), _text(draw, 80)) for k in range(draw.randrange(6))]
    sources = Sources(passages=lambda question, limit: passages[:limit], change_of=samples.change_of)
    budget = Budget(
        window=draw.randrange(1_000, 9_000),
        system=draw.randrange(200),
        generation=draw.randrange(1_500),
        reserve=draw.choice([0, 100]),
        warm=draw.randrange(3_000),
        cold=draw.randrange(2_000),
    )
    try:
        made = assemble(state, samples.BRIEFING, budget, sources)
    except ConfigError as refused:
        assert f"the budget is {budget.prompt}" in str(refused)
        return False
    inside = [line for line in made.ledger if line.included]
    tokens = {tier: sum(line.tokens for line in inside if line.tier == tier) for tier in ("hot", "warm", "cold")}
    assert made.tokens == Estimate().count(made.text) <= budget.prompt
    assert sum(tokens.values()) == made.tokens
    assert tokens["warm"] <= budget.warm and tokens["cold"] <= budget.cold
    ranked = [item.experience.id for item in state.recall.items]
    for tier in ("warm", "cold"):
        offered = [line.name for line in made.ledger if line.tier == tier and line.name in ranked]
        assert offered == sorted(offered, key=ranked.index)
        used = [name for name in made.used if name in offered]
        assert used == [line.name for line in inside if line.name in offered]
    assert set(made.used) <= set(ranked)
    for name in ranked:
        assert (f"[{name[:8]}]" in made.text) or name not in made.used
    for whole in (state.task.reference, *(known.source for known in _shown(state, made.base_id))):
        assert clean(whole).strip() in made.text
    return True


def _shown(state: State, base_id: str | None) -> list[samples.Candidate]:
    return [each.candidate for each in state.history if each.id == base_id and each.candidate is not None]


def test_budget_holds_over_random_states() -> None:
    roomy = sum(_check(seed) for seed in range(400))
    assert 100 < roomy < 400


@pytest.mark.slow
def test_budget_holds_over_ten_thousand_random_states() -> None:
    roomy = sum(_check(seed) for seed in range(10_000))
    assert 2_500 < roomy < 10_000
