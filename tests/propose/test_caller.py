"""Asking one endpoint: dialects it wants, tokens it costs, the limit that holds, calls that are not made twice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kope.errors import ProposerError
from kope.model import TokensSpent
from kope.propose.caller import call_of_record
from kope.propose.endpoint import Endpoint
from kope.propose.faults import Ending
from kope.propose.spend import Spending, tokens_of_usage
from tests.propose.llm_bench import CUT, GOOD, KERNEL, Bench, DictLog, endings
from tests.propose.scripted_endpoint import (
    Seen,
    Step,
    error,
    reply,
    usage,
)
from tests.propose.states import VERIFIED, attempt, fenced, kernel, state


def refusing(field: str, said: str, wanted: Callable[[dict[str, Any]], bool]) -> Callable[[Seen], Step]:
    """An endpoint that answers 400 naming a field until the request is as wanted."""

    def answer(seen: Seen) -> Step:
        return reply(GOOD) if wanted(seen.json) else error(400, {"message": said, "param": field})

    return answer


DIALECTS = {
    "max_completion_tokens": refusing(
        "max_tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        lambda body: "max_tokens" not in body and body["max_completion_tokens"] == 1000,
    ),
    "no temperature": refusing(
        "temperature", "Unsupported value: 'temperature' does not support 0.5", lambda body: "temperature" not in body
    ),
    "no stream_options": refusing(
        "stream_options", "stream_options: extra fields not permitted", lambda body: "stream_options" not in body
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_endpoint_that_wants_a_field_said_differently_is_learned_once(name: str) -> None:
    with Bench(answer=DIALECTS[name], temperature=0.5) as bench:
        first = bench.proposer.propose(state())
        second = bench.proposer.propose(state())
    assert (first.source, second.source) == (KERNEL, KERNEL)
    assert (endings(first), endings(second)) == (["config", "ok"], ["ok"])
    assert bench.waits == []


def test_all_dialects_at_once_and_no_endless_haggling() -> None:
    with Bench(
        answer=lambda seen: error(400, {"message": "max_completion_tokens temperature stream_options"})
    ) as bench:
        bench.caller.endpoint = Endpoint(bench.server.url, "m", temperature=0.5)
        with pytest.raises(ProposerError, match="HTTP 400"):
            bench.proposer.propose(state())
    assert len(bench.seen) == 4


@pytest.mark.parametrize("wants_it", [True, False])
def test_reasoning_is_sent_back_only_where_it_is_asked_for(wants_it: bool) -> None:
    def answer(seen: Seen) -> Step:
        if len(seen.messages) == 1:
            return reply("Thinking done.", reasoning_content="thoughts")
        has = any("reasoning_content" in each for each in seen.messages)
        if has == wants_it:
            return reply(GOOD)
        said = "must be passed back to the API" if wants_it else "is not permitted"
        return error(400, {"message": f"The `reasoning_content` in the thinking mode {said}."})

    with Bench(answer=answer) as bench:
        first, second = bench.proposer.propose(state()), bench.proposer.propose(state())
    assert (first.source, second.source) == (KERNEL, KERNEL)
    assert endings(first) == (["ok", "config", "ok"] if wants_it else ["ok", "ok"])
    assert endings(second) == ["ok", "ok"]
    assert "thoughts" not in first.thought + first.reply


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_usage_figures_are_charged_and_recorded() -> None:
    with Bench(reply(GOOD, count=321)) as bench:
        got = bench.proposer.propose(state())
    [record] = got.calls
    assert record["usage"] == usage(10, 321)
    assert (record["charged_tokens"], record["charge_estimated"], got.tokens) == (331, False, 331)


def test_missing_usage_is_estimated_and_says_so() -> None:
    with Bench(reply(GOOD, count=None)) as bench:
        got = bench.proposer.propose(state())
    [record] = got.calls
    assert (record["usage"], record["charge_estimated"]) == (None, True)
    assert len(GOOD) / 6 < record["charged_tokens"] == got.tokens == bench.spending.spent < len(GOOD)


def test_refused_calls_cost_nothing_and_cut_ones_what_came() -> None:
    with Bench(error(503, "x"), CUT, reply(GOOD, count=90)) as bench:
        got = bench.proposer.propose(state())
    refused, cut, whole = got.calls
    assert (refused["charged_tokens"], cut["charge_estimated"], whole["charged_tokens"]) == (0, True, 100)
    assert cut["content"] == "par"
    assert got.tokens == bench.spending.spent == cut["charged_tokens"] + 100


@pytest.mark.parametrize(
    ("figures", "tokens"),
    [
        (None, None),
        ({}, None),
        ({"total_tokens": 0, "prompt_tokens": 3, "completion_tokens": 4}, 7),
        ({"total_tokens": True, "prompt_tokens": "3"}, None),
        ({"prompt_tokens": -5, "completion_tokens": 4}, 4),
        ({"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 100}, 107),
    ],
)
def test_usage_is_read_in_its_forms(figures: dict[str, Any] | None, tokens: int | None) -> None:
    assert tokens_of_usage(figures) == tokens


def test_token_limit_stops_before_the_call_that_could_break_it() -> None:
    """Each call costs 400 and may cost 1000 and its prompt: under a limit of 2000 three fit, a fourth could not."""
    with Bench(answer=lambda seen: reply(GOOD, count=390), limit=2_000) as bench:
        done = 0
        with pytest.raises(TokensSpent) as stopped:
            while True:
                bench.proposer.propose(state())
                done += 1
    assert (done, len(bench.seen), bench.spending.spent) == (3, 3, 1200)
    assert str(stopped.value).startswith("token limit: 1200 of 2000 spent, the next call may take 100")


def test_calls_in_flight_count_against_the_limit() -> None:
    """A limit that one call fits into: while one is on its way a second proposer gets none, afterwards it does."""
    answered = threading.Event()
    texts: list[str] = []

    def first(seen: Seen) -> Step:
        async def step(writer: asyncio.StreamWriter) -> None:
            await asyncio.get_running_loop().run_in_executor(None, answered.wait, 10)
            await reply(GOOD, count=90)(writer)

        return reply(GOOD, count=90) if answered.is_set() else step

    with Bench(answer=first, limit=1_500) as bench:
        thread = threading.Thread(target=lambda: texts.append(bench.proposer.propose(state()).reply))
        thread.start()
        while not bench.seen:
            thread.join(0.01)
        with pytest.raises(TokensSpent):
            bench.proposer.propose(state())
        answered.set()
        thread.join(10)
        assert bench.proposer.propose(state()).source == KERNEL
    assert (texts, len(bench.seen), bench.spending.spent) == ([GOOD], 2, 200)


def test_threads_never_reserve_more_than_the_limit() -> None:
    spending = Spending(1_000)
    granted: list[int] = []

    def work() -> None:
        for _ in range(200):
            try:
                spending.reserve(100)
            except TokensSpent:
                continue
            granted.append(1)
            spending.settle(100, 10)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert spending.spent == 10 * len(granted) <= 1_000
    with pytest.raises(TokensSpent):
        spending.reserve(1_001 - spending.spent)
    spending.reserve(1_000 - spending.spent)
    with pytest.raises(TokensSpent, match="in flight"):
        spending.reserve(1)


def test_limit_reached_at_the_second_turn_leaves_the_first_outcome() -> None:
    with Bench(reply("No.", count=900), limit=1_900) as bench:
        got = bench.proposer.propose(state())
    assert (got.source, got.tokens, len(bench.seen)) == (None, 910, 1)
    assert got.reason == "the reply holds no code block; it says: No."


# --- resuming -------------------------------------------------------------------------------------------------------


def test_resumed_run_repeats_no_finished_call() -> None:
    """The first turn finished, the second was cut off by the end of the process: only the second is asked again."""
    with Bench(reply("No.", count=90), CUT, CUT, CUT, reply(GOOD, count=190)) as bench:
        bench.log = DictLog()
        bench.restart()
        assert bench.proposer.propose(state()).source is None
        assert len(bench.log.kept) == 1
        bench.restart()
        got = bench.proposer.propose(state())
    assert (got.source, endings(got), got.tokens) == (KERNEL, ["ok", "ok"], 300)
    assert [len(seen.messages) for seen in bench.seen] == [1, 3, 3, 3, 3]


def test_log_of_another_place_or_address_is_not_used() -> None:
    log = DictLog()
    for prompt in ("Write it.", "Write it."):
        with Bench(reply(GOOD)) as bench:
            bench.log = log
            bench.restart()
            assert bench.proposer.propose(state(prompt)).source == KERNEL
            assert len(bench.seen) == 1
    with Bench(reply(GOOD), reply(fenced(kernel(2)))) as bench:
        bench.log = log
        bench.restart()
        bench.proposer.propose(state())
        later = bench.proposer.propose(state(incumbent=attempt(KERNEL, VERIFIED)))
    assert later.source == kernel(2)


def test_finished_call_is_taken_from_the_log_with_its_cost() -> None:
    with Bench(reply("No.", count=90), error(503, "x"), reply(GOOD, count=190)) as bench:
        bench.log = DictLog()
        bench.restart()
        before = bench.proposer.propose(state())
        bench.spending = Spending()
        bench.restart()
        after = bench.proposer.propose(state())
        assert len(bench.seen) == 3
        assert (
            (after.source, after.reply, after.tokens)
            == (before.source, before.reply, before.tokens)
            == (KERNEL, GOOD, 300)
        )
        assert bench.spending.spent == 300
        assert [call.get("from_log") for call in after.calls] == [True, True]


def test_interrupted_call_is_not_in_the_log() -> None:
    with Bench(CUT, CUT, CUT) as bench:
        bench.log = DictLog()
        bench.restart()
        with pytest.raises(ProposerError):
            bench.proposer.propose(state())
        assert bench.log.kept == {}


def test_record_and_call_are_two_forms_of_one_thing() -> None:
    with Bench(reply(GOOD, reasoning_content="hm")) as bench:
        [record] = bench.proposer.propose(state()).calls
    call = call_of_record(json.loads(json.dumps(record)))
    assert (call.ending, call.content, call.reasoning, call.usage) == (Ending.OK, GOOD, "hm", usage(10, 5))
