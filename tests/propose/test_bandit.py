"""Several models with a bandit over them: who is asked next follows from the session's own attempts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from kope.errors import ConfigError
from kope.model import Attempt, Outcome, Proposal, Stage, State, Verdict
from kope.propose.bandit import Arm, BanditProposer, arms_of, choose, reward
from kope.propose.configured import llm_proposers, models_of
from kope.propose.spend import Spending
from tests.propose.states import attempt, kernel, state
from tests.propose.test_configured import settings

WORKS = Outcome(Stage.PROFILE, Verdict.VERIFIED)
FAILS = Outcome(Stage.COMPILE, Verdict.FAILED)


def tried(model: str, outcome: Outcome, *, speedup: float = 1.0, promoted: bool = False, cost: float = 1.0) -> Attempt:
    made = attempt(kernel(), outcome)
    proposal = replace(made.proposal, plan={"arm": model}, tokens=100, calls=({"charged_cost": cost},))
    return replace(made, proposal=proposal, speedup=speedup, promoted=promoted)


def test_reward_is_for_what_an_attempt_brought() -> None:
    assert reward(tried("a", FAILS), 1.0) == 0.0
    assert reward(tried("a", WORKS), 2.0) == 0.1
    assert reward(tried("a", WORKS, promoted=True), None) == 1.0
    doubled = reward(tried("a", WORKS, speedup=2.0, promoted=True), 1.0)
    assert doubled == pytest.approx(math.tanh(2 * math.log(2))) and 0.85 < doubled < 0.9
    assert reward(tried("a", WORKS, speedup=1.01, promoted=True), 1.0) == 0.1


def test_every_model_is_asked_once_then_the_better_one_more_often() -> None:
    history: list[Attempt] = []
    asked = []
    for _ in range(40):
        model = choose(arms_of(["weak", "strong"], history), cost_weight=0.0)
        asked.append(model)
        history.append(tried(model, WORKS if model == "strong" else FAILS))
    assert asked[:2] == ["weak", "strong"]
    assert asked.count("strong") > 0.6 * len(asked) and "weak" in asked[2:]


def test_cheaper_of_two_equals_is_asked_more_often_and_cost_can_be_left_out() -> None:
    arms = [Arm("dear", 5, 0.3, 10.0), Arm("cheap", 5, 0.3, 1.0)]
    assert choose(arms, cost_weight=0.5) == "cheap"
    assert choose(arms, cost_weight=0.0) == "dear"


def test_list_of_models_may_change_between_runs() -> None:
    history = [tried("gone", WORKS, promoted=True), tried("old", FAILS)]
    assert choose(arms_of(["old", "new"], history), 0.5) == "new"
    assert [(arm.model, arm.count) for arm in arms_of(["old", "new"], history)] == [("old", 1), ("new", 0)]


class Fake:
    def __init__(self, name: str) -> None:
        self.name = name

    def propose(self, state: State) -> Proposal:
        return Proposal(kernel(), self.name, plan={"model": self.name})


def test_proposal_says_which_model_it_is_from() -> None:
    bandit = BanditProposer({"a": Fake("a"), "b": Fake("b")})
    assert bandit.name == "llm:a+b"
    assert bandit.propose(state()).plan == {"model": "a", "arm": "a"}
    history = (tried("a", FAILS),)
    assert bandit.propose(replace(state(), history=history)).plan["arm"] == "b"


def test_models_are_named_with_commas() -> None:
    assert models_of(settings(), "a, b,a,") == ["a", "b"] and models_of(settings(), None) == ["m"]
    made: Any = llm_proposers(settings(), model="a,b")
    assert isinstance(made, BanditProposer) and made.name == "llm:a+b"
    assert llm_proposers(settings()).name == "llm:m"


def test_cost_limit_without_a_price_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--cost needs the price of m; set llm_prices"):
        llm_proposers(settings(), spending=Spending(cost_limit=1.0))
    llm_proposers(settings(llm_prices=("*=1/2",)), spending=Spending(cost_limit=1.0))
