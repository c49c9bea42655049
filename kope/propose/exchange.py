"""Send one chat request, stream its reply, and say how the call ended.

Every fault of network, server and protocol becomes an `Ending`; nothing is tried again here (caller.py does that).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kope import resources
from kope.errors import ConfigError
from kope.propose.endpoint import Call, Endpoint
from kope.propose.faults import Ending, ending_of_error, ending_of_finish, ending_of_status, read_error, retry_after_s
from kope.propose.secret import Redactor, check_key
from kope.propose.stream import Answer, BadBody, Event, EventReader, whole_characters

if TYPE_CHECKING:
    import httpx2

OnText = Callable[[str], None]
_ERROR_BYTES = 2_000


class Cancelled(KeyboardInterrupt):
    """Interrupted from the keyboard during a call; `call` holds what had arrived."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call


def send(endpoint: Endpoint, body: Mapping[str, Any], on_text: OnText | None = None) -> Call:
    """Send one request and return how it ended. on_text gets content as it arrives.

    Raises ConfigError when the HTTP client is not installed, Cancelled on Ctrl-C after the stream is closed.
    """
    try:
        import httpx2  # noqa: F401
    except ImportError:
        raise ConfigError(f"the llm proposer needs its HTTP client: {resources.install('llm')}") from None
    for name in ("httpx2", "httpcore2"):  # Their lines hold addresses and headers as they are.
        logging.getLogger(name).setLevel(logging.WARNING)
    exchange = _Exchange(endpoint, body, on_text)
    try:
        return asyncio.run(exchange.run())
    except KeyboardInterrupt:
        raise Cancelled(exchange.call(Ending.CANCELLED, "interrupted from the keyboard")) from None


class _Exchange:
    """One request on its way: what has arrived, and when."""

    def __init__(self, endpoint: Endpoint, body: Mapping[str, Any], on_text: OnText | None) -> None:
        self.endpoint = endpoint
        self.payload = json.dumps(body).encode("ascii")
        self.params = {key: value for key, value in body.items() if key != "messages"}
        self.on_text = on_text
        self.redact = Redactor(endpoint.key)
        self.answer = Answer()
        self.reader = EventReader()
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.raw = bytearray()
        self.is_json: bool | None = None
        self.size = 0
        self.started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.begin = time.monotonic()
        self.byte_s: float | None = None
        self.text_s: float | None = None

    async def run(self) -> Call:
        """Send, read, and turn whatever happens into a Call."""
        import httpx2

        foreseen = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ImportError, UnicodeError, OSError)
        loop = asyncio.get_running_loop()
        self.deadline = loop.time() + self.endpoint.call_s
        try:
            async with asyncio.timeout_at(min(self.deadline, loop.time() + self.endpoint.first_text_s)) as self.limit:
                ending, detail = await self._exchange()
        except TimeoutError:
            ending, detail = self._timed_out(loop.time())
        except _TooBig:
            ending, detail = Ending.TOO_BIG, f"the reply went over {self.endpoint.reply_bytes} bytes"
        except BadBody as error:
            ending, detail = Ending.BAD_BODY, str(error)
        except foreseen as error:
            ending, detail = self._transport(error)
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # an interrupt that was swallowed while the stream was closed
            raise asyncio.CancelledError
        if self.answer.finish:
            ending, detail = self._finished()
        return self.call(ending, detail)

    async def _exchange(self) -> tuple[Ending, str]:
        import httpx2

        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if self.endpoint.key:
            headers["Authorization"] = f"Bearer {check_key(self.endpoint.key)}"
        timeout = httpx2.Timeout(None, connect=self.endpoint.connect_s)
        from_env = not self.endpoint.is_loopback
        async with (
            httpx2.AsyncClient(timeout=timeout, trust_env=from_env, follow_redirects=False) as client,
            client.stream("POST", self.endpoint.url, content=self.payload, headers=headers) as response,
        ):
            self.status, self.headers = response.status_code, response.headers
            self.byte_s = time.monotonic() - self.begin
            if response.status_code != 200:
                return await self._refused(response)
            async for data in response.aiter_bytes():
                self._take(data)
                if self.answer.over:
                    break
        return self._ended()

    # --- reading ------------------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self.endpoint.reply_bytes:
            raise _TooBig
        if self.is_json is None:
            # By the first byte that says anything: content types are often wrong, and blank lines keep a queue alive.
            start = data.lstrip(b"\xef\xbb\xbf \r\n\t")[:1]
            if not start:
                return
            self.is_json = start in (b"{", b"[", b"<", b'"')
        if self.is_json:
            self.raw += data
            return
        for event in self.reader.feed(data):
            self._event(event)

    def _event(self, event: Event) -> None:
        text, any_text = self.answer.event(event)
        if any_text:
            self._heard(text)
        if self.answer.finish:
            self.limit.reschedule(min(self.deadline, asyncio.get_running_loop().time() + self.endpoint.usage_s))

    def _heard(self, text: str) -> None:
        if self.text_s is None:
            self.text_s = time.monotonic() - self.begin
        self.limit.reschedule(min(self.deadline, asyncio.get_running_loop().time() + self.endpoint.idle_s))
        if text and self.on_text is not None:
            self.on_text(self.redact.record(whole_characters(text)))

    # --- judging ------------------------------------------------------------------------------------------------------

    def _ended(self) -> tuple[Ending, str]:
        """The body is over; say how."""
        if self.raw:
            self._plain_answer()
        cut = False
        for event in self.reader.end():
            try:
                self._event(event)
            except BadBody:
                cut = True
        if self.answer.error is not None and not self.answer.finish:
            error = read_error(self.answer.error)
            return ending_of_error(error), f"the answer is an error: {error.message or error.code}"
        if self.answer.finish:
            return self._finished()
        if self.size == 0:
            return Ending.TRANSPORT, "the answer is empty"
        if not self.answer.chunks and not cut:
            return Ending.BAD_BODY, "the answer is no event stream"
        return Ending.TRUNCATED, "the stream ended without a finish_reason"

    def _plain_answer(self) -> None:
        try:
            body = self.raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadBody("the answer is not valid UTF-8") from error
        text, any_text = self.answer.message(body)
        if any_text:
            self._heard(text)

    def _finished(self) -> tuple[Ending, str]:
        answer = self.answer
        assert answer.finish is not None
        ending = ending_of_finish(answer.finish)
        if ending is Ending.OK and answer.refusal and not "".join(answer.content).strip():
            return Ending.REFUSAL, f"the model refused: {' '.join(''.join(answer.refusal).split())[:200]}"
        if ending is Ending.OK and not "".join((*answer.content, *answer.reasoning)).strip():
            said = "" if answer.finish == "stop" else f" (finish_reason {answer.finish})"
            counted = (answer.usage or {}).get("prompt_tokens")
            prompt = f"; the prompt has {counted} tokens, perhaps all the model's context" if counted else ""
            return Ending.EMPTY, f"the reply is empty{said}{prompt}"
        return ending, "" if ending in (Ending.OK, Ending.LENGTH) else f"finish_reason {answer.finish}"

    async def _refused(self, response: httpx2.Response) -> tuple[Ending, str]:
        async for data in response.aiter_bytes():
            self.raw += data
            if len(self.raw) > 32 * _ERROR_BYTES:
                break
        status = response.status_code
        if 200 <= status < 300:
            return Ending.BAD_BODY, f"HTTP {status} in place of a reply"
        if 300 <= status < 400:
            parts = urlsplit(response.headers.get("location", ""))
            place = f"{parts.scheme}://{parts.netloc}{parts.path}" if parts.netloc else parts.path
            return Ending.CONFIG, f"HTTP {status}: the endpoint points to {place or 'another address'}"
        error = read_error(self.raw.decode("utf-8", "replace"))
        return ending_of_status(status, error), f"HTTP {status}: {error.message or error.code or 'no reason given'}"

    def _timed_out(self, now: float) -> tuple[Ending, str]:
        if now >= self.deadline:
            return Ending.DEADLINE, f"no whole reply within {self.endpoint.call_s:g} s"
        if self.text_s is None:
            return Ending.TRANSPORT, f"no text within {self.endpoint.first_text_s:g} s"
        return Ending.TRANSPORT, f"no text for {self.endpoint.idle_s:g} s"

    def _transport(self, error: Exception) -> tuple[Ending, str]:
        import httpx2

        said = " ".join(f"{type(error).__name__}: {error}".split())
        ours = httpx2.ProxyError | httpx2.InvalidURL | httpx2.UnsupportedProtocol | ImportError | UnicodeError
        if isinstance(error, ours):
            return Ending.CONFIG, said
        if _is_tls(error):
            return Ending.CONFIG, f"TLS: {said}"
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            hint = "; is the server running?" if self.endpoint.is_loopback else ""
            return Ending.TRANSPORT, f"no connection ({said}){hint}"
        if self.answer.chunks:
            return Ending.TRUNCATED, f"the stream broke off ({said})"
        return Ending.TRANSPORT, said

    def call(self, ending: Ending, detail: str) -> Call:
        """Return the record of what has happened so far."""
        text = self.redact.record
        errors = b"" if ending in (Ending.OK, Ending.LENGTH) else bytes(self.raw[:_ERROR_BYTES])
        error = errors.decode("utf-8", "replace") or (json.dumps(self.answer.error) if self.answer.error else "")
        return Call(
            ending=ending,
            detail=whole_characters(self.redact.text(detail)),
            status=self.status,
            request_id=self.redact.text(self.headers.get("x-request-id", ""))[:200],
            retry_after_s=retry_after_s(self.headers),
            answered_model=text(self.answer.model)[:200],
            finish_reason=self.answer.finish,
            usage=text(self.answer.usage),
            content=text(whole_characters("".join(self.answer.content))),
            reasoning=text(whole_characters("".join(self.answer.reasoning))),
            error=whole_characters(self.redact.text(error[:_ERROR_BYTES])),
            started_at=self.started_at,
            byte_s=self.byte_s,
            text_s=self.text_s,
            total_s=time.monotonic() - self.begin,
            size_bytes=self.size,
            params=self.params,
            request_sha256=hashlib.sha256(self.payload).hexdigest(),
            request_bytes=len(self.payload),
        )


class _TooBig(Exception):
    pass


def _is_tls(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError) or "[SSL" in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
