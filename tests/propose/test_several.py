"""Several proposals from one prompt: asked at once, judged in turn, taken up again after an interruption."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pytest

from kope.errors import ProposerError
from kope.loop import Limits, Stop
from kope.model import TimeSpent, TokensSpent
from kope.propose.llm import LlmProposer
from kope.propose.parallel import in_parallel
from kope.propose.spend import Price, Spending, parts_of_usage, price_of
from tests.loop.fakes import ListMemory
from tests.propose.llm_bench import GOOD, Bench, DictLog
from tests.propose.scripted_endpoint import Seen, Step, error, hang, reply
from tests.propose.states import fenced, kernel, state
from tests.propose.test_run import go


def by_temperature(seen: Seen) -> Step:
    """The hotter, the faster a kernel; what is asked cannot be told apart otherwise."""
    heat = seen.json.get("temperature", 0)
    return reply(fenced(kernel(int(10 + 100 * heat), f"time_us={10 - 5 * heat:g}")), count=90)


def test_proposals_of_one_prompt_are_asked_at_once_and_judged_in_turn() -> None:
    memory = ListMemory()
    with Bench(answer=by_temperature) as bench:
        bench.proposer = LlmProposer(bench.caller, temperatures=(0.0, 0.5, 1.0))
        result = go(bench, memory, Limits(iterations=5), proposals=3)
        prompts = [seen.messages[0]["content"] for seen in bench.seen]
        heats = Counter(seen.json["temperature"] for seen in bench.seen)
    assert result.stop is Stop.ITERATIONS and len(memory.store) == len(prompts) == 5
    assert len(set(prompts[:3])) == 1 and len(set(prompts)) == 2
    assert heats == {0.0: 2, 0.5: 2, 1.0: 1}
    assert [attempt.proposal.plan["batch"] for attempt in memory.store] == [[0, 3], [1, 3], [2, 3], [0, 2], [1, 2]]
    assert [attempt.iteration for attempt in memory.store] == [1, 2, 3, 4, 5]
    assert [attempt.promoted for attempt in memory.store[:3]] == [True, True, True]
    assert len({attempt.id for attempt in memory.store}) == 5


def test_interrupted_between_its_proposals_a_step_is_taken_up_without_a_new_call() -> None:
    """Killed after the first of three was recorded: the other two answers are in the call log."""
    whole, cut = ListMemory(), ListMemory()
    with Bench(answer=by_temperature) as bench:
        bench.log = DictLog()
        bench.restart()
        bench.proposer = LlmProposer(bench.caller, temperatures=(0.0, 0.5, 1.0))
        go(bench, whole, Limits(iterations=3), proposals=3)
        calls = len(bench.seen)
        cut.store, cut.prompts = whole.store[:1], whole.prompts[:1]
        bench.restart()
        bench.proposer = LlmProposer(bench.caller, temperatures=(0.0, 0.5, 1.0))
        go(bench, cut, Limits(iterations=3), proposals=3)
        assert len(bench.seen) == calls == 3
    assert [attempt.candidate for attempt in cut.store] == [attempt.candidate for attempt in whole.store]
    assert [attempt.id for attempt in cut.store] == [attempt.id for attempt in whole.store]


def test_exploring_takes_the_last_temperature() -> None:
    with Bench(answer=by_temperature) as bench:
        proposer = LlmProposer(bench.caller, temperatures=(0.1, 0.9))
        proposer.propose(replace(state(), role="explore"))
        proposer.propose(replace(state(), role="refine"))
        assert [seen.json["temperature"] for seen in bench.seen] == [0.9, 0.1]


def test_calls_that_fail_leave_the_others_standing() -> None:
    answers = iter([reply(GOOD), error(401, {"message": "x"}), reply(GOOD)])
    lock = threading.Lock()

    def answer(seen: Seen) -> Step:
        with lock:
            return next(answers)

    with Bench(answer=answer) as bench:
        assert len(bench.proposer.propose_several(state(), 3)) == 2


def test_when_all_calls_fail_the_failure_is_raised() -> None:
    with Bench(answer=lambda seen: error(401, {"message": "bad key"})) as bench, pytest.raises(ProposerError):
        bench.proposer.propose_several(state(), 2)


def test_limit_counts_calls_in_flight() -> None:
    """Each may take 1000 and what the prompt is; only two of five fit."""
    with Bench(answer=lambda seen: reply(GOOD, count=90), limit=2_100) as bench:
        assert len(bench.proposer.propose_several(state(), 5)) == 2
        assert len(bench.seen) == 2
        with pytest.raises(TokensSpent):
            Spending(10).reserve(11)


def test_in_parallel_keeps_order_and_hands_errors_on() -> None:
    def fail() -> int:
        raise ValueError("x")

    first, second, third = in_parallel([lambda: 1, fail, lambda: 3])
    assert (first, third) == (1, 3) and isinstance(second, ValueError)


# --- cost and time ----------------------------------------------------------------------------------------------------


def test_price_of_a_model_and_of_any_other() -> None:
    words = ("glm-5=0.6/2.2", "*=1/3")
    assert price_of("glm-5", words) == Price(0.6, 2.2) and price_of("other", words) == Price(1.0, 3.0)
    assert price_of("other", words[:1]) is None
    assert Price(0.6, 2.2).of(1_000_000, 500_000) == pytest.approx(1.7)
    assert parts_of_usage({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}) == (10, 30)


@pytest.mark.parametrize("word", ["glm", "glm=1", "glm=a/b", "glm=1/2/3", "glm=-1/2"])
def test_word_that_is_no_price_is_refused(word: str) -> None:
    with pytest.raises(Exception, match="is no price"):
        price_of("glm", (word,))


def test_cost_limit_ends_the_run_before_the_call_that_could_break_it() -> None:
    """A call costs 100 tokens x 1 + 1000 x 10 per thousand at most, and 10 + 90 of them in fact."""
    memory = ListMemory()
    count = iter(range(1, 100))
    with Bench(answer=lambda seen: reply(fenced(kernel(next(count))), count=90)) as bench:
        bench.spending = Spending(cost_limit=0.03)
        bench.restart()
        bench.caller.price = Price(prompt=1.0, reply=10.0)
        result = go(bench, memory)
        calls = len(bench.seen)
    assert result.stop is Stop.COST
    assert bench.spending.cost_spent == pytest.approx(calls * (10 * 1.0 + 90 * 10.0) / 1e6)
    costs = [call["charged_cost"] for attempt in memory.store for call in attempt.proposal.calls]
    assert sum(costs) == pytest.approx(bench.spending.cost_spent) and len(costs) == calls > 10
    last = memory.prompts[-1]
    assert last is not None
    assert bench.spending.cost_spent + Price(1.0, 10.0).of(last.tokens, 1_000) > 0.03


def test_nothing_is_begun_after_the_deadline_and_a_call_in_flight_is_cut_at_it() -> None:
    now = [0.0]
    spending = Spending(deadline_s=10.0, clock=lambda: now[0])
    spending.reserve(1)
    now[0] = 10.0
    with pytest.raises(TimeSpent):
        spending.reserve(1)
    with Bench(hang()) as bench:
        now[0] = 9.7
        bench.spending = spending
        bench.restart()
        got = bench.proposer.propose(state())
    assert got.reason.startswith("deadline: no whole reply within 0.3")
