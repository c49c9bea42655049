"""One call to an endpoint: every fault of network, server and protocol has an ending of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading

import pytest

from kope.errors import ConfigError
from kope.propose.endpoint import Call, Dialect, Endpoint, request_body
from kope.propose.exchange import Cancelled, send
from kope.propose.faults import Ending, retry_after_s
from tests.propose.scripted_endpoint import (
    DONE,
    ScriptedEndpoint,
    Step,
    chunk,
    chunks_of,
    close,
    error,
    event,
    hang,
    html,
    http,
    message,
    plain,
    raw,
    reply,
    reset,
    stream,
    usage,
)

KEY = "sk-proj-4f9aZq81LmN0"
TEXT = "Here is the kernel: \u4e2d\u6587 \u2028 and \x85 \U0001f600, done."


def endpoint(url: str, **more: object) -> Endpoint:
    values = {"key": KEY, "first_text_s": 5.0, "idle_s": 5.0, "usage_s": 0.2, "call_s": 20.0, **more}
    return Endpoint(base_url=url, model="m", **values)  # type: ignore[arg-type]


def ask(step: Step, **more: object) -> Call:
    with ScriptedEndpoint([step]) as server:
        where = endpoint(server.url, **more)
        return send(where, request_body(where, Dialect(), [{"role": "user", "content": "p"}], 100))


def test_reply_is_read_whole_and_recorded() -> None:
    call = ask(reply(TEXT, count=5))
    assert (call.ending, call.content, call.reasoning, call.finish_reason) == (Ending.OK, TEXT, "", "stop")
    assert (call.status, call.request_id, call.answered_model) == (200, "req-1", "served")
    assert call.usage == usage(10, 5)
    assert call.byte_s is not None and call.text_s is not None
    assert call.byte_s <= call.text_s <= call.total_s
    assert (len(call.request_sha256), call.params["model"], call.error) == (64, "m", "")


def test_request_holds_what_is_needed_and_nothing_else() -> None:
    with ScriptedEndpoint([reply("x")]) as server:
        where = endpoint(server.url + "/?api-version=1", temperature=0.7)
        send(where, request_body(where, Dialect(), [{"role": "user", "content": "p"}], 100))
    seen = server.seen[0]
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions?api-version=1")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "p"}],
        "max_tokens": 100,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.7,
    }


def test_no_key_means_no_header() -> None:
    with ScriptedEndpoint([reply("x")]) as server:
        where = endpoint(server.url, key="")
        send(where, request_body(where, Dialect(), [{"role": "user", "content": "p"}], 100))
    assert "authorization" not in server.seen[0].headers


def test_text_is_shown_as_it_comes() -> None:
    shown: list[str] = []
    with ScriptedEndpoint([reply("abcdef", size=2)]) as server:
        where = endpoint(server.url)
        send(where, request_body(where, Dialect(), [{"role": "user", "content": "p"}], 100), shown.append)
    assert shown == ["ab", "cd", "ef"]


BODY = chunks_of(TEXT, count=5)
GOOD = {
    "no [DONE]": stream(BODY),
    "closed without the last chunk after the finish_reason": stream(BODY, end="cut"),
    "reset after the finish_reason": stream(BODY, end="reset"),
    "usage chunk never comes": stream(BODY[:-1], end="hang"),
    "CRLF lines": stream([piece.replace(b"\n", b"\r\n") for piece in BODY]),
    "no space after the colon": stream([piece.replace(b"data: ", b"data:") for piece in BODY]),
    "cut at every byte": stream([bytes([byte]) for byte in b"".join(BODY)]),
    "keep-alive comments and blank lines": stream([b": keep-alive\n\n", b"\n\n\n", *BODY, b": bye\n\n"]),
    "byte order mark": stream([b"\xef\xbb\xbf" + BODY[0], *BODY[1:]]),
    "last event without its blank line": stream([*BODY[:-2], BODY[-2].rstrip(b"\n")]),
    "event names and ids": stream([b"event: message\nid: 1\nretry: 10\n" + piece for piece in BODY]),
    "wrong content type": stream(BODY, kind="text/plain"),
    "raw separators of Unicode in the JSON": stream(
        [b"data: " + json.dumps(json.loads(piece[6:]), ensure_ascii=False).encode() + b"\n\n" for piece in BODY]
    ),
    "plain JSON in place of a stream": plain(message(TEXT)),
    "plain JSON after blank lines": stream([b"\n\n", json.dumps(message(TEXT)).encode()]),
    "content as a list of parts": plain(
        message([{"type": "text", "text": TEXT[:9]}, {"type": "text", "text": TEXT[9:]}])
    ),
    "finish_reason empty until the last": stream([chunk({"content": TEXT[:9]}, ""), *chunks_of(TEXT[9:])]),
    "unknown finish_reason": reply(TEXT, finish="eos_token"),
    "surrogate pair split over two events": stream(
        [
            *chunks_of(TEXT.partition("\U0001f600")[0], finish=None)[:-2],
            b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n',
            b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00"}}]}\n\n',
            *chunks_of(TEXT.partition("\U0001f600")[2]),
        ]
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_odd_but_whole_reply_counts(name: str) -> None:
    call = ask(GOOD[name])
    assert (call.ending, call.detail, call.content) == (Ending.OK, "", TEXT)


def test_lone_surrogate_becomes_a_character_that_can_be_stored() -> None:
    call = ask(stream([b'data: {"choices":[{"delta":{"content":"a\\ud800b"},"finish_reason":"stop"}]}\n\n']))
    assert (call.ending, call.content) == (Ending.OK, "a\ufffdb")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart(field: str) -> None:
    call = ask(reply("code", **{field: "thinking"}))
    assert (call.ending, call.content, call.reasoning) == (Ending.OK, "code", "thinking")


def test_answer_in_reasoning_only_is_a_reply() -> None:
    call = ask(stream([chunk({"content": None, "reasoning_content": "```cpp"}), chunk({}, "stop")]))
    assert (call.ending, call.content, call.reasoning) == (Ending.OK, "", "```cpp")


def test_reasoning_that_eats_the_budget_ends_by_length_not_empty() -> None:
    call = ask(reply("", finish="length", reasoning_content="hm"))
    assert (call.ending, call.content, call.reasoning) == (Ending.LENGTH, "", "hm")


GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!"
SHORT = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"choices": ['
E = Ending
FAULTS: dict[str, tuple[Step, Ending, str]] = {
    "400": (error(400, {"message": "bad role"}), E.CONFIG, "HTTP 400: bad role"),
    "401": (error(401, {"message": "Incorrect API key provided"}), E.AUTH, "HTTP 401: Incorrect API key provided"),
    "402": (error(402, {"message": "Insufficient Balance"}), E.QUOTA, "HTTP 402: Insufficient Balance"),
    "403": (error(403, "no access to this model"), E.AUTH, "HTTP 403: no access to this model"),
    "404": (error(404, {"message": "no such model: m"}), E.CONFIG, "HTTP 404: no such model: m"),
    "405": (plain({"detail": "Method Not Allowed"}, 405), E.CONFIG, "HTTP 405: Method Not Allowed"),
    "408": (error(408, {"message": "slow"}), E.SERVER, "HTTP 408: slow"),
    "409": (error(409, {"message": "busy"}), E.SERVER, "HTTP 409: busy"),
    "413": (html(413, "<html>Too large</html>"), E.CONTEXT, "HTTP 413: Too large"),
    "422": (
        plain({"detail": [{"loc": ["body"], "msg": "field required"}]}, 422),
        E.CONFIG,
        'HTTP 422: [{"loc": ["body"], "msg": "field required"}]',
    ),
    "425": (error(425, {"message": "early"}), E.SERVER, "HTTP 425: early"),
    "429": (error(429, {"message": "slow down"}), E.RATE, "HTTP 429: slow down"),
    "429 out of credit": (error(429, {"message": "x", "code": "insufficient_quota"}), E.QUOTA, "HTTP 429: x"),
    "500": (error(500, {"message": "boom"}), E.SERVER, "HTTP 500: boom"),
    "502 in HTML": (html(502, "<html><title>Bad Gateway</title></html>"), E.SERVER, "HTTP 502: Bad Gateway"),
    "503 empty": (raw(http(503, b"")), E.SERVER, "HTTP 503: no reason given"),
    "529": (error(529, {"message": "overloaded"}), E.SERVER, "HTTP 529: overloaded"),
    "prompt too long": (
        error(400, {"message": "too long", "code": "context_length_exceeded"}),
        E.CONTEXT,
        "HTTP 400: too long",
    ),
    "prompt too long, in words": (
        error(400, {"message": "This model's maximum context length is 4096 tokens"}),
        E.CONTEXT,
        "HTTP 400: This model's maximum context length is 4096 tokens",
    ),
    "redirect": (
        raw(http(307, b"", {"Location": "https://other.example/v1/chat?k=1"})),
        E.CONFIG,
        "HTTP 307: the endpoint points to https://other.example/v1/chat",
    ),
    "204": (raw(b"HTTP/1.1 204 No Content\r\n\r\n"), E.BAD_BODY, "HTTP 204 in place of a reply"),
    "connection closed at once": (close(), E.TRANSPORT, "RemoteProtocolError"),
    "connection reset": (reset(), E.TRANSPORT, "ReadError"),
    "garbage in place of HTTP": (raw(b"\x00\x01\x02 what\r\n\r\n"), E.TRANSPORT, "RemoteProtocolError"),
    "bad gzip": (raw(GZIP), E.TRANSPORT, "DecodingError"),
    "body shorter than announced": (raw(SHORT), E.TRANSPORT, "RemoteProtocolError"),
    "empty 200": (raw(http(200, b"")), E.TRANSPORT, "the answer is empty"),
    "empty stream": (stream([]), E.TRANSPORT, "the answer is empty"),
    "blank lines only": (stream([b"\n\n", b": keep-alive\n\n"]), E.BAD_BODY, "the answer is no event stream"),
    "[DONE] only": (stream([DONE]), E.BAD_BODY, "the answer is no event stream"),
    "HTML 200": (html(200), E.BAD_BODY, "not JSON: <html>"),
    "HTML as a stream": (stream([b"<html><body>login</body></html>"]), E.BAD_BODY, "not JSON: <html>"),
    "a JSON string": (plain("hello"), E.BAD_BODY, "not a JSON object"),
    "no choices": (plain({"id": "x"}), E.BAD_BODY, "the answer has no choices"),
    "choices null": (plain({"choices": None}), E.BAD_BODY, "the answer has no choices"),
    "choices empty": (plain({"choices": []}), E.BAD_BODY, "the answer has no choices"),
    "invalid JSON": (raw(http(200, b'{"choices": [')), E.BAD_BODY, "not JSON"),
    "invalid JSON event": (
        stream([chunk({"content": "a"}), b"data: {oops}\n\n", DONE]),
        E.BAD_BODY,
        "not JSON: {oops}",
    ),
    "invalid UTF-8": (stream([b'data: {"choices": "\xff\xfe"}\n\n']), E.BAD_BODY, "the stream is not valid UTF-8"),
    "error in a 200": (
        plain({"error": {"message": "model crashed"}}),
        E.BAD_BODY,
        "the answer is an error: model crashed",
    ),
    "error event": (
        stream([chunk({"content": "a"}), event({"error": {"message": "oops"}})]),
        E.BAD_BODY,
        "the answer is an error: oops",
    ),
    "error event by name": (
        stream([b'event: error\ndata: {"message": "Overloaded"}\n\n']),
        E.SERVER,
        "the answer is an error: Overloaded",
    ),
    "rate limit in an event": (
        stream([event({"error": {"message": "x", "code": 429}})]),
        E.RATE,
        "the answer is an error: x",
    ),
    "no finish_reason": (stream(chunks_of("ab", finish=None)), E.TRUNCATED, "the stream ended without a finish_reason"),
    "finish_reason empty": (
        stream(chunks_of("ab", finish="")),
        E.TRUNCATED,
        "the stream ended without a finish_reason",
    ),
    "[DONE] without a finish_reason": (
        stream([*chunks_of("ab", finish=None), DONE]),
        E.TRUNCATED,
        "the stream ended without",
    ),
    "event cut in the middle": (
        stream([chunk({"content": "ab"}), chunk({"content": "cd"})[:-20]]),
        E.TRUNCATED,
        "the stream ended",
    ),
    "broken off": (
        stream([chunk({"content": "ab"})], end="cut"),
        E.TRUNCATED,
        "the stream broke off (RemoteProtocolError",
    ),
    "reset in the stream": (
        stream([chunk({"content": "ab"}), 0.05], end="reset"),
        E.TRUNCATED,
        "the stream broke off (ReadError",
    ),
    "plain answer without finish_reason": (plain(message("ab", finish=None)), E.TRUNCATED, "the stream ended without"),
    "nothing to say": (
        reply(""),
        E.EMPTY,
        "the reply is empty; the prompt has 10 tokens, perhaps all the model's context",
    ),
    "blank": (reply(" \n", count=None), E.EMPTY, "the reply is empty"),
    "tool call": (
        stream([chunk({"tool_calls": []}), chunk({}, "tool_calls")]),
        E.EMPTY,
        "the reply is empty (finish_reason tool_calls)",
    ),
    "refusal": (
        stream([chunk({"refusal": "I cannot "}), chunk({"refusal": "do that"}), chunk({}, "stop")]),
        E.REFUSAL,
        "the model refused: I cannot do that",
    ),
    "content filter": (reply("par", finish="content_filter"), E.CONTENT_FILTER, "finish_reason content_filter"),
    "the server ran out of something": (
        reply("par", finish="insufficient_system_resource"),
        E.SERVER,
        "finish_reason insuff",
    ),
    "length": (reply("par", finish="length"), E.LENGTH, ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_has_its_ending(name: str) -> None:
    step, ending, detail = FAULTS[name]
    call = ask(step)
    assert (call.ending, call.detail[: len(detail)]) == (ending, detail)
    assert bool(detail) == bool(call.detail)
    assert KEY not in repr(call)


def test_text_so_far_is_kept_when_the_stream_breaks_off() -> None:
    call = ask(stream([chunk({"content": "ab"}), chunk({"content": "cd"})], end="cut"))
    assert (call.ending, call.content, call.usage) == (Ending.TRUNCATED, "abcd", None)


def test_refused_connection_asks_whether_the_server_runs() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        where = endpoint(f"http://127.0.0.1:{held.getsockname()[1]}/v1")
        call = send(where, request_body(where, Dialect(), [{"role": "user", "content": "p"}], 100))
    assert call.ending is Ending.TRANSPORT
    assert call.detail.startswith("no connection (ConnectError")
    assert call.detail.endswith("is the server running?")


def test_tls_on_a_plain_port_is_a_setting_not_a_network_fault() -> None:
    with ScriptedEndpoint([reply("x")]) as server:
        where = endpoint(server.url.replace("http:", "https:"))
        call = send(where, request_body(where, Dialect(), [{"role": "user", "content": "p"}], 100))
    assert (call.ending, call.detail[:5]) == (Ending.CONFIG, "TLS: ")


# --- limits ---------------------------------------------------------------------------------------------------------


def test_silence_before_the_first_text_is_a_transport_fault() -> None:
    call = ask(hang(), first_text_s=0.2)
    assert (call.ending, call.detail) == (Ending.TRANSPORT, "no text within 0.2 s")


def test_keep_alive_lines_are_not_text() -> None:
    call = ask(
        stream([piece for _ in range(40) for piece in (b": keep-alive\n\n", 0.05)], end="hang"), first_text_s=0.3
    )
    assert (call.ending, call.detail) == (Ending.TRANSPORT, "no text within 0.3 s")


def test_silence_in_the_stream_is_a_transport_fault_and_keeps_the_text() -> None:
    call = ask(stream([chunk({"content": "ab"})], end="hang"), idle_s=0.2)
    assert (call.ending, call.detail, call.content) == (Ending.TRANSPORT, "no text for 0.2 s", "ab")


def test_text_that_never_ends_meets_the_deadline() -> None:
    call = ask(stream([piece for _ in range(100) for piece in (chunk({"content": "a"}), 0.05)]), call_s=0.4)
    assert (call.ending, call.detail) == (Ending.DEADLINE, "no whole reply within 0.4 s")
    assert call.content.startswith("aa")


def test_reply_over_the_limit_is_cut_off_and_the_connection_closed() -> None:
    call = ask(stream([chunk({"content": "a" * 1000})] * 100, end="hang"), reply_bytes=20_000)
    assert (call.ending, call.detail) == (Ending.TOO_BIG, "the reply went over 20000 bytes")


def test_interrupt_closes_the_stream_and_keeps_what_had_arrived() -> None:
    closed = threading.Event()

    async def step(writer: asyncio.StreamWriter) -> None:
        await stream([chunk({"content": "ab"}), 0.1], end="open")(writer)
        os.kill(os.getpid(), signal.SIGINT)
        while not writer.is_closing():  # Writing to a connection that the client has closed closes it here too.
            writer.write(b"b\r\n: waiting\n\n\r\n")
            await asyncio.sleep(0.05)
        closed.set()

    with ScriptedEndpoint([step]) as server:
        where = endpoint(server.url)
        with pytest.raises(KeyboardInterrupt) as raised:
            send(where, request_body(where, Dialect(), [{"role": "user", "content": "p"}], 100))
        assert closed.wait(10)
    assert isinstance(raised.value, Cancelled)
    assert (raised.value.call.ending, raised.value.call.content) == (Ending.CANCELLED, "ab")


def test_an_interrupt_that_the_client_swallows_still_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def swallow(self: object) -> tuple[Ending, str]:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            pass
        return Ending.TRANSPORT, "closed"

    monkeypatch.setattr("kope.propose.exchange._Exchange._exchange", swallow)
    where = endpoint("http://127.0.0.1:1/v1")
    with pytest.raises(Cancelled):
        send(where, request_body(where, Dialect(), [{"role": "user", "content": "p"}], 100))


@pytest.mark.parametrize(
    ("base_url", "said"),
    [
        ("", "llm_base_url is no http(s) address; set it like https://host/v1"),
        ("localhost:8000/v1", "llm_base_url is no http(s) address; set it like https://host/v1"),
        ("https://me:pw@host/v1", "llm_base_url holds a password; name llm_key_file or llm_api_key_env instead"),
    ],
)
def test_address_that_cannot_be_used_is_a_setting(base_url: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        endpoint(base_url)
    assert str(raised.value) == said


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schl\u00fcssel"])
def test_key_that_cannot_stand_in_a_header_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        endpoint("https://host/v1", key=key)
    assert key not in str(raised.value)


def test_proxy_settings_do_not_reach_an_endpoint_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert ask(reply("x")).content == "x"


def test_proxy_that_cannot_be_used_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1")
    where = endpoint("https://host.invalid/v1")
    assert send(where, request_body(where, Dialect(), [], 1)).ending is Ending.CONFIG


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
    ],
)
def test_wait_asked_for_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize("echo", [KEY, KEY[:10] + "****", "****" + KEY[-7:], f"Bearer {KEY}", "sk-other-0123456789"])
def test_key_echoed_by_a_server_is_in_no_part_of_the_record(echo: str) -> None:
    call = ask(error(401, {"message": f"Incorrect API key provided: {echo}. See the docs."}, {"X-Request-Id": echo}))
    shown = repr(call)
    assert call.detail.startswith("HTTP 401: Incorrect API key provided: ")
    assert "[key removed]" in call.detail
    assert "[key removed]" in call.error
    for start in range(len(KEY) - 6):
        assert KEY[start : start + 6] not in shown
    assert "0123456789" not in shown


def test_key_in_a_reply_is_taken_out() -> None:
    call = ask(reply(f"your key is {KEY}!", reasoning_content=KEY, size=7))
    assert (call.content, call.reasoning) == ("your key is [key removed]!", "[key removed]")
