"""A user's own templates go before the shipped ones, and are held to the same contract."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from kope.context import Budget, assemble, check_own
from kope.errors import TemplateError
from kope.propose.llm import LlmProposer
from kope.propose.turns import TEMPLATES as TURNS
from kope.render import names_read
from tests.context import samples
from tests.propose.llm_bench import GOOD, Bench
from tests.propose.scripted_endpoint import reply
from tests.propose.states import state


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    return tmp_path


def prompt(own: Path) -> str:
    return assemble(samples.refine_state(), samples.BRIEFING, Budget(), replace(samples.SOURCES, templates=own)).text


def test_whole_template_is_replaced_and_may_include_shipped_parts(own: Path) -> None:
    (own / "prompts" / "refine.j2").write_text("Ours for {{ task_name }}.\n{% include 'prompts/_answer_edits.j2' %}")
    check_own(own)
    text = prompt(own)
    assert text.startswith("Ours for scale_norm.\n## Answer") and "<<<<<<< SEARCH" in text


def test_part_is_replaced_in_every_prompt(own: Path) -> None:
    (own / "prompts" / "_rules.j2").write_text("# House rules\n")
    check_own(own)
    assert prompt(own).startswith("# House rules\n") and "Make it faster" in prompt(own)


def test_own_template_is_counted_in_the_ledger(own: Path) -> None:
    (own / "prompts" / "_rules.j2").write_text("word " * 3_000)
    made = assemble(samples.refine_state(), samples.BRIEFING, Budget(), replace(samples.SOURCES, templates=own))
    assert sum(line.tokens for line in made.ledger if line.included) == made.tokens > 4_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ secret_of_ours }}", "reads secret_of_ours; it may read "),
        ("{{ failed_block }}", "reads failed_block"),
        ("{% if %}", r"template 'prompts/refine\.j2'"),
        ("{% include 'prompts/none.j2' %}", "no template 'prompts/none.j2'"),
    ],
)
def test_template_that_cannot_be_is_refused_before_the_first_call(own: Path, text: str, said: str) -> None:
    (own / "prompts" / "refine.j2").write_text(text)
    with pytest.raises(TemplateError, match=said):
        check_own(own)


def test_turns_after_a_prompt_have_templates_of_their_own_too(own: Path) -> None:
    (own / "prompts" / "unusable.j2").write_text("No: {{ problem }}")
    check_own(own, TURNS)
    with Bench(reply("Hm."), reply(GOOD)) as bench:
        LlmProposer(bench.caller, templates=own).propose(state())
        assert bench.seen[1].messages[-1]["content"] == "No: the reply holds no code block; it says: Hm."
    (own / "prompts" / "unusable.j2").write_text("{{ reply }}")
    with pytest.raises(TemplateError, match="reads reply; it may read problem, reply_block"):
        check_own(own, TURNS)


@pytest.mark.parametrize("name", sorted(TURNS))
def test_templates_of_turns_read_their_contracts(name: str) -> None:
    assert names_read(name) == {field.name for field in fields(TURNS[name])}


def test_folder_that_is_not_there_is_refused(own: Path) -> None:
    with pytest.raises(TemplateError, match="does not exist"):
        check_own(own / "none")
