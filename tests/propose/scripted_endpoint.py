"""An endpoint on loopback that speaks the real protocol and follows a script: one step for each request.

Steps write bytes to the socket themselves, so that every way of breaking off, stalling or lying can be scripted.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Step = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def messages(self) -> list[dict[str, str]]:
        return self.json["messages"]


class ScriptedEndpoint:
    """Use as a context manager; `seen` holds the requests, `cut` how many clients closed while a step was writing.

    answer: called for every request once the script is used up; None: such a request gets status 599.
    """

    def __init__(self, script: Iterable[Step] = (), answer: Callable[[Seen], Step] | None = None) -> None:
        self.script = list(script)
        self.answer = answer
        self.seen: list[Seen] = []
        self.cut = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def wait(self) -> None:
        """Wait a moment for the next request."""
        self._thread.join(0.02)

    def __enter__(self) -> ScriptedEndpoint:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            start = await reader.readexactly(1)
            if start == b"\x16":  # A TLS client: answer in plain HTTP, as servers do.
                writer.write(http(400, b"{}"))
                return
            head = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip("\r\n").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, path, _ = first.split(" ")
            seen = Seen(method, path, headers, body)
            self.seen.append(seen)
            await self._step(seen)(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.cut += 1
        except asyncio.CancelledError:
            pass  # The test is over.
        finally:
            writer.close()

    def _step(self, seen: Seen) -> Step:
        if self.script:
            return self.script.pop(0)
        return self.answer(seen) if self.answer is not None else error(599, {"message": "the script is over"})


# --- whole answers --------------------------------------------------------------------------------------------------


def http(status: int, body: bytes, headers: Mapping[str, str] | None = None, kind: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def raw(data: bytes) -> Step:
    """Write bytes and close."""

    async def step(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return step


def plain(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Step:
    return raw(http(status, json.dumps(value).encode(), headers))


def error(status: int, said: object, headers: Mapping[str, str] | None = None) -> Step:
    return plain({"error": said}, status, headers)


def html(status: int, text: str = "<html><body><h1>It works</h1></body></html>") -> Step:
    return raw(http(status, text.encode(), kind="text/html"))


def message(content: object, finish: str | None = "stop", **more: object) -> dict[str, object]:
    """A completion that is one JSON object."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **more}, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion", "model": "served", "choices": [choice], "usage": usage(10, 5)}


def usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


# --- streams --------------------------------------------------------------------------------------------------------


def chunk(delta: Mapping[str, object] | None = None, finish: str | None = None, **more: object) -> bytes:
    """One event with a completion chunk."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return event({"id": "x", "object": "chat.completion.chunk", "model": "served", "choices": choices, **more})


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def chunks_of(
    text: str, finish: str | None = "stop", count: int | None = 5, size: int = 40, **more: object
) -> list[bytes]:
    """The events of a whole reply: role, text in pieces, finish_reason, usage (count completion tokens, None: none)."""
    events = [chunk({"role": "assistant", "content": ""}), *(chunk({name: value}) for name, value in more.items())]
    events += [chunk({"content": text[k : k + size]}) for k in range(0, len(text), size)]
    events += [chunk({}, finish)]
    if count is not None:
        events += [chunk(usage=usage(10, count))]
    return events


def stream(pieces: Iterable[bytes | float], *, end: str = "whole", kind: str = "text/event-stream") -> Step:
    """Send pieces as a chunked body; numbers are waits in s. end: "whole", "cut" (no last chunk), "reset" or "hang"."""

    async def step(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\nX-Request-Id: req-1\r\n\r\n"
        writer.write(head.encode())
        for piece in pieces:
            if isinstance(piece, bytes):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            else:
                await asyncio.sleep(piece)
        await _END[end](writer)

    return step


async def _whole(writer: asyncio.StreamWriter) -> None:
    writer.write(b"0\r\n\r\n")


async def _cut(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _reset(writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def _open(writer: asyncio.StreamWriter) -> None:
    """The step goes on by itself."""


_END = {"whole": _whole, "cut": _cut, "reset": _reset, "hang": _hang, "open": _open}


def reply(text: str, finish: str | None = "stop", count: int | None = 5, **more: object) -> Step:
    """Stream a whole reply as a well-behaved endpoint does."""
    return stream([*chunks_of(text, finish, count, **more), DONE])


def hang() -> Step:
    """Take the request and say nothing."""
    return _hang


def reset() -> Step:
    """Take the request and reset the connection."""
    return _reset


def close() -> Step:
    """Take the request and close the connection."""
    return _cut
