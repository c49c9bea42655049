"""How one call to an endpoint can end, and what status codes and error bodies mean.

How often an ending is tried again is stated here; the trying is done in caller.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any


class Ending(StrEnum):
    """How a call ended; the words are those of the records."""

    OK = "ok"
    LENGTH = "length"
    EMPTY = "empty"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT = "context"
    QUOTA = "quota"
    AUTH = "auth"
    CONFIG = "config"
    RATE = "rate"
    SERVER = "server"
    TRANSPORT = "transport"
    TRUNCATED = "truncated"
    BAD_BODY = "bad_body"
    DEADLINE = "deadline"
    TOO_BIG = "too_big"
    CANCELLED = "cancelled"


FATAL = frozenset({Ending.QUOTA, Ending.AUTH, Ending.CONFIG})
"""Asking again cannot help: a person has to change something."""
UNREACHED = frozenset({Ending.RATE, Ending.SERVER, Ending.TRANSPORT, Ending.TRUNCATED, Ending.BAD_BODY})
"""The endpoint gave no whole reply, and that is not the prompt's fault."""
_TRIES = {
    Ending.RATE: 5,
    Ending.SERVER: 3,
    Ending.TRANSPORT: 3,
    Ending.TRUNCATED: 3,
    Ending.BAD_BODY: 2,
    Ending.EMPTY: 2,
}
_QUOTA = re.compile(
    r"insufficient[_ ](?:quota|balance|funds|credit)|billing|exceeded your current quota|arrears|payment", re.IGNORECASE
)
_CONTEXT = re.compile(
    r"context_length_exceeded|exceed_context_size|context[ _](?:length|window|size)|prompt is too long|too many tokens|"
    r"max_prompt_tokens|maximum (?:input|prompt) (?:length|tokens)",
    re.IGNORECASE,
)
_SERVER_STATUS = frozenset({408, 409, 425})


def tries(ending: Ending, status: int | None) -> int:
    """Return how many times in all a request may be sent while it ends so; a 500 can be our own request's fault."""
    return 2 if status == 500 else _TRIES.get(ending, 1)


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What a server said about an error: its message, and its code and type in one string, "" when it gave none."""

    message: str
    code: str


def read_error(body: str | Mapping[str, Any]) -> ErrorBody:
    """Read an error body of any shape; HTML and other text become a shortened message."""
    value: Any = body
    if isinstance(body, str):
        try:
            value = json.loads(body)
        except ValueError:
            return ErrorBody(_plain(body), "")
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, Mapping):
        return ErrorBody(_plain(str(value)), "")
    error = value.get("error", value)
    if not isinstance(error, Mapping):
        return ErrorBody(_plain(str(error)), str(value.get("code") or ""))
    said = next((error[key] for key in ("message", "detail", "msg", "error_msg") if error.get(key)), "")
    code = " ".join(str(error[key]) for key in ("code", "type") if error.get(key) not in (None, ""))
    return ErrorBody(_plain(said if isinstance(said, str) else json.dumps(said)), code)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"<style.*?</style>|<[^>]{1,200}>", " ", text, flags=re.DOTALL).split())[:500]


def ending_of_status(status: int, error: ErrorBody) -> Ending:
    """Return what an HTTP status other than 2xx means."""
    said = f"{error.code} {error.message}"
    if status == 402 or (status in (403, 429) and _QUOTA.search(said)):
        return Ending.QUOTA
    if status == 413 or (status in (400, 422, 500) and _CONTEXT.search(said)):
        return Ending.CONTEXT
    if status == 429:
        return Ending.RATE
    if status in (401, 403):
        return Ending.AUTH
    if status >= 500 or status in _SERVER_STATUS:
        return Ending.SERVER
    return Ending.CONFIG


def ending_of_error(error: ErrorBody) -> Ending:
    """Return what an error inside a 200 answer means; one that says nothing known is a bad body."""
    said = f"{error.code} {error.message}"
    if _CONTEXT.search(said):
        return Ending.CONTEXT
    if _QUOTA.search(said):
        return Ending.QUOTA
    if re.search(r"rate[_ ]limit|\b429\b", said, re.IGNORECASE):
        return Ending.RATE
    if re.search(r"overloaded|unavailable|\b50[234]\b|\b529\b", said, re.IGNORECASE):
        return Ending.SERVER
    return Ending.BAD_BODY


def ending_of_finish(finish: str) -> Ending:
    """Return what a finish_reason means for a reply that has content; unknown words count as a normal end."""
    word = finish.lower()
    if word in ("length", "max_tokens", "max_output_tokens"):
        return Ending.LENGTH
    if word in ("content_filter", "safety", "sensitive", "prohibited_content", "blocklist"):
        return Ending.CONTENT_FILTER
    if word == "refusal":
        return Ending.REFUSAL
    if word in ("insufficient_system_resource", "network_error"):
        return Ending.SERVER
    if word in ("abort", "aborted", "error", "cancelled"):
        return Ending.TRUNCATED
    return Ending.OK


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the wait a server asks for in seconds (it may say milliseconds, seconds or a date), None for none."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        value = headers.get("retry-after", "").strip()
        if not value:
            return None
        if re.fullmatch(r"\d+(?:\.\d+)?", value):
            return float(value)
        when = parsedate_to_datetime(value)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, OverflowError):
        return None
