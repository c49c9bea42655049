"""Prompts: contracts both ways, golden renderings, the subgraph as parent -> move -> outcome."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from kope.context import Budget, assemble
from kope.context.contract import TEMPLATES
from kope.context.hot import tolerance_text
from kope.context.lineage import Forest
from kope.model import OutputDecl, Recall, State, Tolerance
from kope.render import names_read
from kope.resources import folder
from tests.context import samples

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_template_reads_its_contract_and_nothing_else(name: str) -> None:
    assert names_read(name) == {field.name for field in fields(TEMPLATES[name])}


def test_every_state_template_has_a_contract() -> None:
    ours = {f"prompts/{path.stem}" for path in folder("templates").glob("prompts/*.j2") if path.name[0] != "_"}
    assert set(TEMPLATES) <= ours and len(TEMPLATES) >= 3


@pytest.mark.parametrize(
    ("name", "make"),
    [("draft", samples.draft_state), ("repair", samples.repair_state), ("refine", samples.refine_state)],
)
def test_prompt_is_the_golden_one(name: str, make: Callable[[], State]) -> None:
    """Set KOPE_GOLDEN=write to accept a changed prompt, and read the diff."""
    made = assemble(make(), samples.BRIEFING, Budget())
    assert made.template == f"prompts/{name}"
    golden = GOLDEN / f"{name}.md"
    if os.environ.get("KOPE_GOLDEN") == "write":
        golden.write_text(made.text, encoding="utf-8")
    assert made.text == golden.read_text(encoding="utf-8")


def test_subgraph_is_drawn_as_parent_move_outcome() -> None:
    forest = Forest.of(samples.recall())
    assert forest.draw(["e2buffer", "e3tiles", "e4fact"]).splitlines() == [
        "rms_norm: draft -> verified, 1.00x its parent, 1.00x the first kernel of its task (partial) [e1draft]",
        "  -> double-buffer: queue depth 2, copies overlap -> verified, 1.50x its parent, 1.50x the first kernel of its"
        " task (effective) [e2buffer]",
        "     recalled because: same traits, mte2-bound",
        "     lesson: what double-buffer taught",
        "    -> tile-length: tiles of 16384, UB overflow -> failed at run [e3tiles]",
        "       recalled because: failure of the same move",
        "       lesson: what tile-length taught",
        "rms_norm: UB -> noted [e4fact]",
        "   recalled because: text match",
        "   lesson: UB is 192 KB",
    ]


def test_parent_is_shown_with_a_recalled_child_and_not_without_it() -> None:
    forest = Forest.of(samples.recall())
    assert forest.shown_with(["e2buffer"]) == {"e2buffer", "e1draft"}
    assert forest.shown_with(["e4fact"]) == {"e4fact"}


def test_experience_drops_whole_and_best_first_when_the_budget_is_short() -> None:
    whole = assemble(samples.draft_state(), samples.BRIEFING, Budget())
    warm = [line for line in whole.ledger if line.tier == "warm"]
    assert whole.used == ("e2buffer", "e3tiles", "e4fact") and all(line.included for line in warm)
    short = assemble(samples.draft_state(), samples.BRIEFING, Budget(warm=warm[0].tokens + 5))
    assert short.used == ("e2buffer",)
    assert [line.included for line in short.ledger if line.tier == "warm"] == [True, False, False]
    assert "double-buffer" in short.text and "tile-length" not in short.text
    none = assemble(samples.draft_state(), samples.BRIEFING, Budget(warm=0))
    assert none.used == () and "(none)" in none.text


def test_ledger_adds_up_to_the_prompt_and_the_budget_holds() -> None:
    for make in (samples.draft_state, samples.repair_state, samples.refine_state):
        made = assemble(make(), samples.BRIEFING, Budget())
        included = sum(line.tokens for line in made.ledger if line.included)
        assert made.tokens <= Budget().prompt
        assert abs(included - made.tokens) <= len(made.ledger)


def test_hot_tier_over_the_budget_is_refused_with_the_numbers() -> None:
    from kope.errors import ConfigError

    with pytest.raises(ConfigError, match=r"needs \d+ tokens before any experience and the budget is 500 .*--window"):
        assemble(samples.draft_state(), samples.BRIEFING, Budget(window=700, generation=200))


def test_second_failure_in_a_row_goes_back_to_the_incumbent() -> None:
    best = samples.refine_state().incumbent
    assert best is not None
    failed = samples.attempt(2, samples.compile_failure(), speedup=0.0)
    again = samples.attempt(3, samples.compile_failure(), speedup=0.0)
    once = samples.state(incumbent=best, baseline=best, last=failed, history=(best, failed))
    twice = samples.state(incumbent=best, baseline=best, last=again, history=(best, failed, again))
    assert assemble(once, samples.BRIEFING, Budget()).template == "prompts/repair"
    assert assemble(twice, samples.BRIEFING, Budget()).template == "prompts/refine"


def test_degraded_memory_is_said_in_the_prompt() -> None:
    made = assemble(samples.state(recall=Recall(degraded="no embedder")), samples.BRIEFING, Budget())
    assert "memory worked with less than everything: no embedder" in made.text


def test_only_tolerances_of_output_dtypes_are_shown() -> None:
    task = replace(samples.task(), tolerance={**samples.task().tolerance, "int64": Tolerance(0, 0)})
    assert tolerance_text(task) == "float16: rtol 0.001, atol 0.001; float32: rtol 1e-05, atol 1e-06"
    fixed = replace(task, outputs=(OutputDecl("y", "int64"),))
    assert tolerance_text(fixed) == "int64: rtol 0, atol 0"
