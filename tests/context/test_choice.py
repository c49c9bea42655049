"""Which prompt a state calls for: repair a failure so often, then go back; explore when nothing gets better."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kope.context.choice import Policy, choose
from kope.model import Attempt, Outcome, Stage, Verdict
from tests.context import samples

DEFAULT = Policy()
BEST = samples.attempt(1, samples.verified(), source="// best\n", speedup=1.0, promoted=True)


def failed(number: int, parent: Attempt | None, outcome: Outcome | None = None) -> Attempt:
    made = samples.attempt(number, outcome or samples.compile_failure(), source=f"// {number}\n", speedup=0.0)
    return replace(made, proposal=replace(made.proposal, parent_id=parent.id if parent is not None else None))


def template(*history: Attempt, incumbent: Attempt | None = BEST, policy: Policy = DEFAULT) -> str:
    state = samples.state(incumbent=incumbent, baseline=incumbent, last=history[-1], history=history)
    return choose(state, policy).template.removeprefix("prompts/")


def test_failure_is_repaired_as_often_as_the_policy_says_and_then_left() -> None:
    one = failed(2, BEST)
    two = failed(3, one)
    three = failed(4, two)
    assert template(BEST, one) == template(BEST, one, two) == "repair_compile"
    assert template(BEST, one, two, three) == "refine"
    assert template(BEST, one, policy=Policy(repairs=0)) == "refine"


def test_draft_that_cannot_be_repaired_is_written_anew_and_its_successor_repaired() -> None:
    one = failed(1, None)
    two = failed(2, one)
    three = failed(3, two)
    assert template(one, two, three, incumbent=None) == "draft"
    fresh = failed(4, None)
    assert template(one, two, three, fresh, incumbent=None) == "repair_compile"


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (samples.compile_failure(), "repair_compile"),
        (samples.run_failure(), "repair_run"),
        (samples.wrong_value(), "repair_wrong"),
        (Outcome(Stage.VERIFY, Verdict.FAILED), "repair_wrong"),
        (Outcome(Stage.PROFILE, Verdict.FAILED), "repair_run"),
    ],
)
def test_repair_is_told_by_what_failed(outcome: Outcome, name: str) -> None:
    assert template(BEST, failed(2, BEST, outcome)) == name


def test_reply_without_a_kernel_is_nothing_to_repair() -> None:
    nothing = replace(failed(2, BEST, Outcome(Stage.PROPOSE, Verdict.FAILED)), candidate=None)
    assert template(BEST, nothing) == "refine"


def test_stuck_search_starts_from_the_kernel_least_started_from_then_the_fastest() -> None:
    state = samples.explore_state()
    chosen = choose(state, Policy())
    assert chosen.template == "prompts/explore"
    assert chosen.base is not None and chosen.base.proposal.move == "row-tiles"
    tried = replace(state.history[-1], proposal=replace(state.history[-1].proposal, parent_id=chosen.base.id))
    again = choose(replace(state, history=(*state.history[:-1], tried), last=tried), Policy())
    assert again.base is not None and again.base.proposal.move == "unroll"


def test_no_exploring_between_its_turns_or_when_it_is_off() -> None:
    state = samples.explore_state()
    assert choose(state, Policy(explore_after=0)).template == "prompts/refine"
    assert choose(state, Policy(explore_after=3)).template == "prompts/refine"
