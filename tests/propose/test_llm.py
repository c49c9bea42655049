"""The llm proposer against an endpoint that speaks the real protocol: turns, retries, token limit, records, keys."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kope.errors import ConfigError, ProposerError
from kope.model import Proposal, TokensSpent
from kope.propose.caller import Caller, call_of_record
from kope.propose.endpoint import Endpoint
from kope.propose.faults import Ending
from kope.propose.llm import LlmProposer
from kope.propose.secret import HIDDEN, Redactor, read_key_file, redact_argv
from kope.propose.spend import Spending, tokens_of_usage
from tests.propose.scripted_endpoint import (
    ScriptedEndpoint,
    Seen,
    Step,
    chunk,
    close,
    error,
    hang,
    html,
    message,
    plain,
    reply,
    stream,
    usage,
)
from tests.propose.states import BROKEN, VERIFIED, attempt, fenced, kernel, showing, state

KEY = "sk-proj-4f9aZq81LmN0"
KERNEL = kernel()
GOOD = fenced(KERNEL)


class Bench:
    """A proposer wired to a scripted endpoint; waits are noted, not waited."""

    def __init__(
        self, *script: Step, answer: Callable[[Seen], Step] | None = None, limit: int | None = None, **more: Any
    ) -> None:
        self.server = ScriptedEndpoint(script, answer)
        self.waits: list[float] = []
        self.spending = Spending(limit)
        self.more = more
        self.log: DictLog | None = None

    def __enter__(self) -> Bench:
        self.server.__enter__()
        self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    def restart(self) -> None:
        """A new process, as far as the proposer is concerned."""
        values = {"key": KEY, "max_tokens": 1000, "first_text_s": 5.0, "idle_s": 5.0, "usage_s": 0.2, **self.more}
        endpoint = Endpoint(base_url=self.server.url, model="m", **values)
        self.caller = Caller(endpoint, self.spending, log=self.log, sleep=self.waits.append)
        self.proposer = LlmProposer(self.caller)

    @property
    def seen(self) -> list[Seen]:
        return self.server.seen


class DictLog:
    """A call log in a dictionary, which must hold nothing that JSON cannot."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def find(self, key: str) -> Mapping[str, Any] | None:
        return json.loads(self.kept[key]) if key in self.kept else None

    def save(self, key: str, record: Mapping[str, Any]) -> None:
        self.kept[key] = json.dumps(record)


def endings(proposal: Proposal) -> list[str]:
    return [call["ending"] for call in proposal.calls]


def test_whole_reply_becomes_a_proposal() -> None:
    with Bench(reply(GOOD, count=90)) as bench:
        got = bench.proposer.propose(state())
    assert (got.source, got.move, got.thought, got.parent_id) == (KERNEL, "draft", "Twice as fast.", None)
    assert (got.tokens, got.reason, got.reply) == (100, "", GOOD)
    assert got.plan == {"model": "served", "form": "file", "marks": []}
    assert bench.proposer.name == "llm:m"
    assert [seen.messages for seen in bench.seen] == [[{"role": "user", "content": "Write it."}]]
    assert bench.spending.spent == 100


def test_edits_apply_to_the_incumbent_that_the_prompt_shows() -> None:
    best = attempt(KERNEL, VERIFIED)
    text = "<<<<<<< SEARCH\nconstexpr int TILE = 1024;\n=======\nconstexpr int TILE = 4096;\n>>>>>>> REPLACE"
    with Bench(reply(text)) as bench:
        got = bench.proposer.propose(state(showing(KERNEL), incumbent=best))
    assert (got.source, got.move, got.parent_id) == (kernel(4096), "edit", "a1")


def test_repair_starts_from_the_failed_attempt_that_the_prompt_shows() -> None:
    best, failed = attempt(KERNEL, VERIFIED), attempt(kernel(8), BROKEN, 2)
    with Bench(reply(fenced(kernel(16)))) as bench:
        got = bench.proposer.propose(state(showing(kernel(8)), incumbent=best, last=failed))
    assert (got.move, got.parent_id) == ("repair", "a2")


def test_prompt_is_needed() -> None:
    with Bench() as bench, pytest.raises(ProposerError, match="needs a prompt"):
        bench.proposer.propose(state(None))


# --- turns ----------------------------------------------------------------------------------------------------------


def test_unusable_reply_is_quoted_back_once_and_repaired() -> None:
    with Bench(reply("I would use larger tiles."), reply(GOOD)) as bench:
        got = bench.proposer.propose(state())
    assert (got.source, got.tokens, len(got.calls)) == (KERNEL, 30, 2)
    first, said, complaint = bench.seen[1].messages
    assert first == {"role": "user", "content": "Write it."}
    assert said == {"role": "assistant", "content": "I would use larger tiles."}
    assert complaint["role"] == "user"
    assert "the reply holds no code block; it says: I would use larger tiles." in complaint["content"]


def test_second_unusable_reply_is_an_outcome_with_its_reason() -> None:
    with Bench(reply("No."), reply("Still no.")) as bench:
        got = bench.proposer.propose(state())
    assert (got.source, got.reason) == (None, "the reply holds no code block; it says: Still no.")
    assert (got.reply, got.tokens, len(bench.seen)) == ("Still no.", 30, 2)


def test_reply_without_content_is_complained_about_in_the_prompt() -> None:
    """Endpoints refuse an assistant turn without content."""
    thinking = stream([chunk({"content": None, "reasoning_content": "hm"}), chunk({}, "stop")])
    with Bench(thinking, reply(GOOD)) as bench:
        got = bench.proposer.propose(state())
    assert got.source == KERNEL
    [only] = bench.seen[1].messages
    assert only["content"].startswith("Write it.\n")
    assert "the reply holds reasoning only; give the answer after it" in only["content"]


def test_code_in_reasoning_is_taken_and_marked() -> None:
    thinking = stream([chunk({"content": None, "reasoning_content": GOOD}), chunk({}, "stop")])
    with Bench(thinking) as bench:
        got = bench.proposer.propose(state())
    assert (got.source, got.plan["marks"], got.thought, got.reply) == (KERNEL, ["from reasoning"], "", "")


def test_length_with_a_whole_block_is_used() -> None:
    with Bench(reply(GOOD + "This kernel", finish="length")) as bench:
        assert bench.proposer.propose(state()).source == KERNEL
    assert len(bench.seen) == 1


def test_length_inside_the_code_asks_once_for_more_room() -> None:
    with Bench(reply(GOOD[:-80], finish="length"), reply(GOOD)) as bench:
        got = bench.proposer.propose(state())
    assert (got.source, endings(got)) == (KERNEL, ["length", "ok"])
    assert [seen.json["max_tokens"] for seen in bench.seen] == [1000, 2000]
    assert bench.seen[0].messages == bench.seen[1].messages


def test_length_again_is_an_outcome() -> None:
    with Bench(reply(GOOD[:-80], finish="length"), reply(GOOD[:-60], finish="length")) as bench:
        got = bench.proposer.propose(state())
    assert (got.source, got.reason) == (None, "length: the code was cut off by the length limit")
    assert len(bench.seen) == 2


def test_refused_more_room_leaves_the_first_outcome() -> None:
    too_large = error(400, {"message": "max_tokens must be at most 1500"})
    with Bench(reply(GOOD[:-80], finish="length"), too_large) as bench:
        got = bench.proposer.propose(state())
    assert (got.source, got.reason) == (None, "length: the code was cut off by the length limit")
    assert endings(got) == ["length", "config"]


# --- outcomes: what is tried again, what is final, what ends the run ------------------------------------------------


CUT = stream([chunk({"content": "par"})], end="cut")
RETRIED = {
    "rate": ([error(429, {"message": "slow"}, {"Retry-After": "7"})], [7.0]),
    "rate, in milliseconds": ([error(429, {"message": "slow"}, {"Retry-After-Ms": "1500"})], [1.5]),
    "server": ([error(503, {"message": "x"})] * 2, None),
    "one 500": ([error(500, {"message": "x"})], None),
    "transport": ([close()] * 2, None),
    "empty stream": ([stream([])] * 2, None),
    "truncated": ([CUT] * 2, None),
    "finish_reason empty": ([reply("par", finish="")], None),
    "bad body": ([html(200)], None),
    "empty reply": ([reply("")], None),
    "a mix": ([close(), error(503, {}), reply("par", finish=None)][:2], None),
}


@pytest.mark.parametrize("name", RETRIED)
def test_passing_fault_is_tried_again_and_every_try_recorded(name: str) -> None:
    faults, waits = RETRIED[name]
    with Bench(*faults, reply(GOOD)) as bench:
        got = bench.proposer.propose(state())
    assert got.source == KERNEL
    assert len(got.calls) == len(bench.seen) == len(faults) + 1
    assert [call["try"] for call in got.calls] == list(range(1, len(faults) + 2))
    assert len(bench.waits) == len(faults)
    assert [call["wait_s"] for call in got.calls[:-1]] == [round(wait, 3) for wait in bench.waits]
    if waits is not None:
        assert bench.waits == waits


FINAL = {
    "empty": (
        [reply("")] * 2,
        "empty: the reply is empty; the prompt has 10 tokens, perhaps all the model's context",
    ),
    "refusal": (
        [stream([chunk({"refusal": "I cannot."}), chunk({}, "stop")])],
        "refusal: the model refused: I cannot.",
    ),
    "content_filter": ([reply("x", finish="content_filter")], "content_filter: finish_reason content_filter"),
    "context": (
        [error(400, {"message": "too long", "code": "context_length_exceeded"})],
        "context: HTTP 400: too long",
    ),
    "deadline": ([hang()], "deadline: no whole reply within 0.3 s"),
    "too_big": ([stream([chunk({"content": "a" * 900})] * 40)], "too_big: the reply went over 20000 bytes"),
}


@pytest.mark.parametrize("name", FINAL)
def test_final_fault_is_an_outcome_not_an_exception(name: str) -> None:
    script, reason = FINAL[name]
    more = {"deadline": {"call_s": 0.3}, "too_big": {"reply_bytes": 20_000}}.get(name, {})
    with Bench(*script, **more) as bench:
        got = bench.proposer.propose(state())
    assert (got.source, got.reason, len(bench.seen)) == (None, reason, len(script))
    assert endings(got)[-1] == name


STOPS = {
    "auth": ([error(401, {"message": "bad key"})], "HTTP 401: bad key; check the key (llm_api_key_env, llm_key_file)"),
    "quota": (
        [error(429, {"message": "no credit", "code": "insufficient_quota"})],
        "HTTP 429: no credit; add credit, then run the same command again",
    ),
    "config": ([error(404, {"message": "no model m"})], "HTTP 404: no model m; check llm_base_url and llm_model"),
    "rate": (
        [error(429, {"message": "slow"})] * 5,
        "HTTP 429: slow; wait, then run the same command again",
    ),
    "rate, longer than we wait": (
        [error(429, {"message": "slow"}, {"Retry-After": "3600"})],
        "HTTP 429: slow; wait, then run the same command again",
    ),
    "server": ([error(503, "down")] * 3, "HTTP 503: down; run the same command again when it answers"),
    "500 twice": ([error(500, "boom")] * 2, "HTTP 500: boom; run the same command again when it answers"),
    "bad body": (
        [html(200)] * 2,
        "not JSON: <html><body><h1>It works</h1></body></html>; check llm_base_url (most end in /v1)",
    ),
}


@pytest.mark.parametrize("name", STOPS)
def test_endpoint_that_refuses_for_good_ends_the_run_in_one_line(name: str) -> None:
    script, said = STOPS[name]
    with Bench(*script) as bench, pytest.raises(ProposerError) as raised:
        bench.proposer.propose(state())
    assert str(raised.value) == f"{bench.server.url}: {said}"
    assert len(bench.seen) == len(script) == len(raised.value.calls)


def test_outage_after_the_first_reply_is_survived_twice() -> None:
    down = [error(503, "down")] * 3
    with Bench(reply(GOOD), *down, *down, *down) as bench:
        assert bench.proposer.propose(state()).source == KERNEL
        for _ in range(2):
            got = bench.proposer.propose(state())
            assert (got.source, got.reason) == (None, "server: HTTP 503: down")
        with pytest.raises(ProposerError, match="HTTP 503: down"):
            bench.proposer.propose(state())


def test_waits_of_one_question_are_bounded_in_sum() -> None:
    with Bench(*[error(429, {"message": "slow"}, {"Retry-After": "100"})] * 5) as bench:
        bench.caller._question_s = 50.0
        with pytest.raises(ProposerError, match="slow"):
            bench.proposer.propose(state())
    assert (bench.waits, len(bench.seen)) == ([], 1)


# --- dialects -------------------------------------------------------------------------------------------------------


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


# --- records and keys -----------------------------------------------------------------------------------------------


def test_record_holds_what_a_person_needs_to_replay_the_call() -> None:
    with Bench(reply(GOOD, count=90), temperature=0.25) as bench:
        [record] = bench.proposer.propose(state()).calls
    host = bench.server.url.split("/")[2]
    assert {
        name: record[name] for name in ("ending", "host", "model", "answered_model", "status", "try", "request_id")
    } == {
        "ending": "ok",
        "host": host,
        "model": "m",
        "answered_model": "served",
        "status": 200,
        "try": 1,
        "request_id": "req-1",
    }
    assert record["params"] == {
        "model": "m",
        "max_tokens": 1000,
        "stream": True,
        "temperature": 0.25,
        "stream_options": {"include_usage": True},
    }
    assert record["place"] == f"double/{'d' * 16}/0/1/1"
    assert record["finish_reason"] == "stop"
    assert record["request_bytes"] > 100
    assert record["total_s"] >= record["text_s"] >= record["byte_s"] >= 0
    json.dumps(record)


def test_key_is_in_no_record_message_or_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f"Incorrect API key provided: {KEY[:8]}...{KEY[-6:]} {KEY}"
    faults = [error(503, {"message": echo}), plain(message(f"```cpp\n{KERNEL}// {KEY}\n```"))]
    with Bench(*faults, error(401, {"message": echo}, {"X-Request-Id": KEY})) as bench:
        bench.log = DictLog()
        bench.restart()
        got = bench.proposer.propose(state())
        with pytest.raises(ProposerError) as raised:
            bench.proposer.propose(state(incumbent=attempt(KERNEL, VERIFIED)))
        shown = [repr(got), json.dumps([dict(call) for call in got.calls]), *bench.log.kept.values()]
        shown += [str(raised.value), json.dumps(raised.value.calls), repr(bench.caller.endpoint), caplog.text]
        assert all(seen.headers["authorization"] == f"Bearer {KEY}" for seen in bench.seen)
    assert got.source == f"{KERNEL}// {HIDDEN}\n"
    for text in shown:
        assert KEY not in text
    for text in shown[-4:-2]:
        assert KEY[:8] not in text
        assert KEY[-6:] not in text


def test_key_file_is_read_and_its_faults_are_settings(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"\n{KEY}\nsecond line\n")
    assert read_key_file(path) == KEY
    path.write_text(" \n")
    with pytest.raises(ConfigError, match="is empty"):
        read_key_file(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_key_file(tmp_path / "missing")


def test_redaction_hides_parts_of_a_key_but_not_other_words() -> None:
    hide = Redactor(KEY)
    assert hide.text(f"a {KEY} b {KEY[3:12]} c sk-other123 d Bearer abcdefgh e") == (
        f"a {HIDDEN} b {HIDDEN} c {HIDDEN} d {HIDDEN} e"
    )
    assert hide.text("the removed key") == "the removed key"
    assert Redactor("").text("no key at all") == "no key at all"
    assert Redactor("removed").text("removed") == HIDDEN
    assert hide.record({"a": [f"x{KEY}", 1, None]}) == {"a": [f"x{HIDDEN}", 1, None]}


def test_secrets_of_a_command_line_are_taken_out() -> None:
    line = [
        "agent",
        "--api-key",
        "abc",
        "--token=def",
        "-m",
        "gpt",
        "sk-123456789",
        "OPENAI_API_KEY=ghi",
        "--max-tokens",
        "9",
    ]
    assert redact_argv(line) == [
        "agent", "--api-key", HIDDEN, f"--token={HIDDEN}", "-m", "gpt", HIDDEN, f"OPENAI_API_KEY={HIDDEN}",
        "--max-tokens", "9",
    ]  # fmt: skip
