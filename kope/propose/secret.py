"""API keys: read from a file, checked, and taken out of every text that is kept or shown.

Where a key comes from is configuration's choice; it is sent in one header and goes nowhere else.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kope import confidential
from kope.errors import ConfigError

HIDDEN = "[key removed]"
_LONGEST_ECHO = 6
"""A run of this many characters of the key counts as a leak: servers echo its beginning or end in a 401."""
_SHORTEST_KEY = 4
"""Placeholders that local servers want, such as "x", are no secrets."""
_SECRET_OPTION = re.compile(r"-{0,2}[\w-]*(?:key|token|secret|password|credentials?)", re.IGNORECASE)
_ECHOES = re.compile(r"\bsk-[\w*.-]{6,}|(?i:\bbearer\s+)[\w.~+/=*-]{6,}")
"""Shorter than keys are, and with stars: what servers make of a key in their errors."""


def read_key_file(path: Path) -> str:
    """Return the key in a file: its first line. Raises ConfigError when it cannot be read or holds none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ConfigError(f"the key file {path} cannot be read ({reason}); set llm_key_file to one that can") from None
    key = text.strip().partition("\n")[0].strip()
    if not key:
        raise ConfigError(f"the key file {path} is empty; put the key on its first line")
    return key


def check_key(key: str) -> str:
    """Return the key, trimmed. Raises ConfigError, without showing it, when it cannot stand in a header."""
    key = key.strip()
    if not all(" " < char < "\x7f" for char in key):
        raise ConfigError("the API key holds spaces, line breaks or characters outside ASCII; copy it again")
    return key


def redact_argv(argv: Sequence[str]) -> list[str]:
    """Return a command line for records: values of options that are named like a secret are taken out."""
    redact = Redactor("")
    kept: list[str] = []
    for word in argv:
        if kept and _SECRET_OPTION.fullmatch(kept[-1]):
            kept.append(HIDDEN)
            continue
        option, equals, _ = word.partition("=")
        kept.append(f"{option}={HIDDEN}" if equals and _SECRET_OPTION.fullmatch(option) else redact.text(word))
    return kept


class Redactor:
    """Takes a key out of texts and records."""

    def __init__(self, key: str) -> None:
        self._key = key

    def text(self, text: str) -> str:
        """Return an error text without the key, any part of it of 6 characters or more, and key-like words."""
        covered = bytearray(len(text))
        for part in self._parts():
            start = text.find(part)
            while start >= 0:
                covered[start : start + len(part)] = b"\1" * len(part)
                start = text.find(part, start + 1)
        for found in (*confidential.ANY.finditer(text), *_ECHOES.finditer(text)):
            covered[found.start() : found.end()] = b"\1" * (found.end() - found.start())
        runs = itertools.groupby(range(len(text)), key=covered.__getitem__)
        return "".join(HIDDEN if hidden else "".join(text[k] for k in run) for hidden, run in runs)

    def record(self, value: Any) -> Any:
        """Return a JSON-able value without the key itself in any string; replies and code are not touched otherwise."""
        if isinstance(value, str):
            return value.replace(self._key, HIDDEN) if len(self._key) >= _SHORTEST_KEY else value
        if isinstance(value, Mapping):
            return {key: self.record(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.record(item) for item in value]
        return value

    def _parts(self) -> Iterator[str]:
        key = self._key
        if _SHORTEST_KEY <= len(key) < 2 * _LONGEST_ECHO:
            yield key
        elif len(key) >= 2 * _LONGEST_ECHO:
            yield from (key[start : start + _LONGEST_ECHO] for start in range(len(key) - _LONGEST_ECHO + 1))
