"""The llm proposer: what it sends, the turns it takes, and what becomes of every way a call can end."""

from __future__ import annotations

import pytest

from kope.errors import ProposerError
from tests.propose.llm_bench import CUT, GOOD, KERNEL, Bench, endings
from tests.propose.scripted_endpoint import (
    chunk,
    close,
    error,
    hang,
    html,
    reply,
    stream,
)
from tests.propose.states import BROKEN, VERIFIED, attempt, fenced, kernel, showing, state


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
