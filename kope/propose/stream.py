"""Read what an OpenAI-compatible endpoint sends: server-sent events or one JSON object, into one answer.

Knows nothing of sockets and time; a broken body is reported by exceptions that endpoint.py turns into an ending.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class BadBody(Exception):
    """The body is not what the protocol says: not JSON, not UTF-8, no choices."""


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event. whole: its blank line was seen; the last event of a stream may lack it."""

    name: str
    data: str
    whole: bool = True


class EventReader:
    """Bytes in, events out. Lines end at \\n or \\r\\n only, since a JSON string may hold U+2028 or U+0085."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []
        self._first = True

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events that `data` completes. Raises BadBody on bytes that are not UTF-8."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            event = self._line(line)
            if event is not None:
                yield event

    def end(self) -> Iterator[Event]:
        """Yield the event the stream broke off in, if any."""
        self._line(self._rest)
        self._rest = b""
        if self._data:
            yield Event(self._name, "\n".join(self._data), whole=False)

    def _line(self, raw: bytes) -> Event | None:
        try:
            line = raw.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadBody("the stream is not valid UTF-8") from error
        if self._first:
            line, self._first = line.removeprefix("\ufeff"), False
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None

    def _dispatch(self) -> Event | None:
        event = Event(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._data = "", []
        return event


class Answer:
    """What has arrived of a reply. finish None: no finish_reason yet, so it does not count."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.finish: str | None = None
        self.usage: dict[str, Any] | None = None
        self.model = ""
        self.error: Mapping[str, Any] | None = None
        self.chunks = 0
        self.done = False

    @property
    def over(self) -> bool:
        """Whether nothing worth waiting for can follow."""
        return self.done or self.error is not None or (self.finish is not None and self.usage is not None)

    def event(self, event: Event) -> tuple[str, bool]:
        """Take one event; return the content it brought, and whether it brought any text at all (reasoning too)."""
        if event.data.strip() == "[DONE]":
            self.done = True
            return "", False
        if not event.data.strip():
            return "", False
        value = _json(event.data)
        if event.name == "error" or value.get("error"):
            self.error = value
            return "", False
        return self._choices(value, "delta")

    def message(self, body: str) -> tuple[str, bool]:
        """Take a whole answer that is one JSON object. Raises BadBody when it is none or has no choices."""
        value = _json(body)
        if value.get("error"):
            self.error = value
            return "", False
        if not value.get("choices"):
            raise BadBody("the answer has no choices")
        return self._choices(value, "message")

    def _choices(self, value: Mapping[str, Any], part: str) -> tuple[str, bool]:
        self.chunks += 1
        if isinstance(value.get("model"), str):
            self.model = value["model"]
        if isinstance(value.get("usage"), dict):
            self.usage = value["usage"]
        choices = value.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, Mapping):
            return "", False
        if isinstance(first.get("finish_reason"), str) and first["finish_reason"]:
            self.finish = first["finish_reason"]
        piece = first.get(part) or first.get("delta") or first.get("message")
        return self._piece(piece) if isinstance(piece, Mapping) else ("", False)

    def _piece(self, piece: Mapping[str, Any]) -> tuple[str, bool]:
        text = _text(piece.get("content"))
        thinking = _text(piece.get("reasoning_content")) or _text(piece.get("reasoning"))
        refusal = _text(piece.get("refusal"))
        for value, where in ((text, self.content), (thinking, self.reasoning), (refusal, self.refusal)):
            if value:
                where.append(value)
        return text, bool(text or thinking or refusal)


def _json(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadBody(f"not JSON: {' '.join(text.split())[:120]}") from error
    if not isinstance(value, Mapping):
        raise BadBody(f"not a JSON object: {' '.join(text.split())[:120]}")
    return value


def _text(value: object) -> str:
    """Return a string, or the text parts of a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, Mapping))
    return ""


def whole_characters(text: str) -> str:
    """Join surrogate pairs split over two events; lone surrogates become U+FFFD, so that text can be stored."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
