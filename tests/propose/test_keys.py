"""Records of calls hold what replaying needs; a key is in none of them, in no message and in no log line."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from kope.errors import ConfigError, ProposerError
from kope.propose.secret import HIDDEN, Redactor, read_key_file, redact_argv
from tests.propose.llm_bench import GOOD, KERNEL, KEY, Bench, DictLog
from tests.propose.scripted_endpoint import (
    error,
    message,
    plain,
    reply,
)
from tests.propose.states import VERIFIED, attempt, state


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
