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
    assert set(TEMPLATES) <= ours and len(TEMPLATES) >= 6


STATES: dict[str, Callable[[], State]] = {
    "draft": samples.draft_state,
    "repair_compile": samples.repair_state,
    "repair_run": samples.repair_run_state,
    "repair_wrong": samples.repair_wrong_state,
    "refine": samples.refine_state,
    "explore": samples.explore_state,
}


@pytest.mark.parametrize("name", STATES)
def test_prompt_is_the_golden_one(name: str) -> None:
    """Set KOPE_GOLDEN=write to accept a changed prompt, and read the diff."""
    made = assemble(STATES[name](), samples.BRIEFING, Budget(), samples.SOURCES)
    assert made.template == f"prompts/{name}"
    golden = GOLDEN / f"{name}.md"
    if os.environ.get("KOPE_GOLDEN") == "write":
        golden.write_text(made.text, encoding="utf-8")
    assert made.text == golden.read_text(encoding="utf-8")


def test_every_template_has_a_golden_prompt() -> None:
    assert {f"prompts/{name}" for name in STATES} == set(TEMPLATES)


@pytest.mark.parametrize("name", STATES)
def test_move_and_outcome_of_an_edge_are_in_every_prompt(name: str) -> None:
    text = assemble(STATES[name](), samples.BRIEFING, Budget(), samples.SOURCES).text
    assert "-> double-buffer: queue depth 2, copies overlap -> verified, 1.50x its parent" in text
    assert "-> tile-length: tiles of 16384, UB overflow -> failed at run" in text


@pytest.mark.parametrize("name", STATES)
def test_prompts_of_one_task_begin_alike_so_that_an_endpoint_can_cache_them(name: str) -> None:
    text = assemble(STATES[name](), samples.BRIEFING, Budget(), samples.SOURCES).text
    other = assemble(samples.state(), samples.BRIEFING, Budget()).text
    stable = text.partition("## Documentation")[0]
    assert other.startswith(stable.rstrip()) and len(stable) > 0.4 * len(text)


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


def test_degraded_memory_is_said_in_the_prompt() -> None:
    made = assemble(samples.state(recall=Recall(degraded="no embedder")), samples.BRIEFING, Budget())
    assert "memory worked with less than everything: no embedder" in made.text


def test_only_tolerances_of_output_dtypes_are_shown() -> None:
    task = replace(samples.task(), tolerance={**samples.task().tolerance, "int64": Tolerance(0, 0)})
    assert tolerance_text(task) == "float16: rtol 0.001, atol 0.001; float32: rtol 1e-05, atol 1e-06"
    fixed = replace(task, outputs=(OutputDecl("y", "int64"),))
    assert tolerance_text(fixed) == "int64: rtol 0, atol 0"
