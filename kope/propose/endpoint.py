"""What an OpenAI-compatible endpoint is, what it is asked, and the record of one call to it.

The exchange itself is in exchange.py; trying again is in caller.py.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from kope.errors import ConfigError
from kope.propose.faults import Ending
from kope.propose.secret import check_key

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to ask. Times in seconds.

    first_text_s: from sending to the first text of the reply (a local model reads a long prompt first). idle_s: between
    two pieces of text; keep-alive lines do not count. usage_s: from the finish_reason to the usage figures. call_s: one
    call in all. reply_bytes: what is read at most.
    """

    base_url: str
    model: str
    key: str = field(default="", repr=False)
    max_tokens: int = 8_192
    temperature: float | None = None
    connect_s: float = 10.0
    first_text_s: float = 300.0
    idle_s: float = 120.0
    usage_s: float = 5.0
    call_s: float = 1_200.0
    reply_bytes: int = 8 << 20

    def __post_init__(self) -> None:
        """Check what would fail on every call. Raises ConfigError."""
        check_key(self.key)
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("llm_base_url is no http(s) address; set it like https://host/v1")
        if parts.username or parts.password:
            raise ConfigError("llm_base_url holds a password; name llm_key_file or llm_api_key_env instead")
        if not self.model:
            raise ConfigError("no model is named; give --model or set llm_model")

    @property
    def shown(self) -> str:
        """The address without query, for messages and records."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"

    @property
    def url(self) -> str:
        """The address requests go to."""
        parts = urlsplit(self.base_url)
        path = parts.path.rstrip("/")
        path = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
        return parts._replace(path=path, fragment="").geturl()

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine; then no proxy is asked."""
        host = urlsplit(self.base_url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What this endpoint wants said differently; see caller.py for how it is learned."""

    token_field: str = "max_tokens"
    send_temperature: bool = True
    send_stream_options: bool = True
    echo_reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One call that ended. Texts are as received, the key taken out; usage None: the endpoint gave none.

    text_s: seconds to the first text. error: the server's or the machine's own words, redacted.
    """

    ending: Ending
    detail: str = ""
    status: int | None = None
    request_id: str = ""
    retry_after_s: float | None = None
    answered_model: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    content: str = ""
    reasoning: str = ""
    error: str = ""
    started_at: str = ""
    byte_s: float | None = None
    text_s: float | None = None
    total_s: float = 0.0
    size_bytes: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    request_sha256: str = ""
    request_bytes: int = 0

    @property
    def usable(self) -> bool:
        """Whether there is a reply to read."""
        return self.ending in (Ending.OK, Ending.LENGTH)


def request_body(endpoint: Endpoint, dialect: Dialect, messages: Sequence[Message], max_tokens: int) -> dict[str, Any]:
    """Return the JSON body: only what is needed, since endpoints refuse what they do not know."""
    kept = [
        {key: value for key, value in message.items() if key != "reasoning_content" or dialect.echo_reasoning}
        for message in messages
    ]
    body: dict[str, Any] = {"model": endpoint.model, "messages": kept, dialect.token_field: max_tokens, "stream": True}
    if endpoint.temperature is not None and dialect.send_temperature:
        body["temperature"] = endpoint.temperature
    if dialect.send_stream_options:
        body["stream_options"] = {"include_usage": True}
    return body
