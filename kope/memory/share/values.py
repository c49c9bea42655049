"""What one value of a travelling row may be: how it is checked, shown as plain JSON, and rid of texts.

Which column holds which kind is travel's business.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kope.memory.encode import pack, to_json, unpack

UNPACKED_LIMIT = 32 * 1024 * 1024
"""Bytes that a compressed value may have when unpacked; what KOPE writes has at most some 8 MB."""
TEXT_LIMIT = 4 * 1024 * 1024
JSON_DEPTH = 64

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_HEX = re.compile(r"[0-9a-f]*\Z")

Replace = Callable[[str], str]


class Unfit(Exception):
    """A value that no KOPE would have written. Control flow of the checks, not an error."""


class Kind(Protocol):
    """A kind of column."""

    def check(self, value: Any) -> None:
        """Raise Unfit when a value is none of this kind."""

    def plain(self, value: Any) -> Any:
        """Return a value as JSON-able data, unpacked."""

    def texts(self, value: Any) -> list[str]:
        """Return every text in a value."""

    def replaced(self, value: Any, replace: Replace) -> Any:
        """Return a value with every text in it replaced."""


class _Scalar:
    """What holds no text."""

    def plain(self, value: Any) -> Any:
        return value

    def texts(self, value: Any) -> list[str]:
        return []

    def replaced(self, value: Any, replace: Replace) -> Any:
        return value


@dataclass(frozen=True)
class Integer(_Scalar):
    """A whole number within bounds."""

    low: int = -(2**53)
    high: int = 2**53
    nullable: bool = False

    def check(self, value: Any) -> None:
        """See Kind."""
        if value is None and self.nullable:
            return
        if type(value) is not int or not self.low <= value <= self.high:
            raise Unfit(f"{_shown(value)} is no number from {self.low} to {self.high}")


@dataclass(frozen=True)
class Real(_Scalar):
    """A number; finite unless said otherwise, never NaN."""

    low: float = -math.inf
    infinite: bool = False
    nullable: bool = False

    def check(self, value: Any) -> None:
        """See Kind."""
        if value is None and self.nullable:
            return
        if type(value) not in (int, float) or value != value or value < self.low:
            raise Unfit(f"{_shown(value)} is no number from {self.low}")
        if not self.infinite and math.isinf(value):
            raise Unfit("a number is infinite")


@dataclass(frozen=True)
class Text:
    """Text of a limited length. choices: nothing else is allowed; such a text is never replaced.

    one_line: without control characters, since it is shown in the middle of other text.
    """

    limit: int = TEXT_LIMIT
    nullable: bool = False
    least: int = 0
    choices: tuple[str, ...] = ()
    one_line: bool = False

    def check(self, value: Any) -> None:
        """See Kind."""
        if value is None and self.nullable:
            return
        if type(value) is not str or not self.least <= len(value) <= self.limit:
            raise Unfit(f"{_shown(value)} is no text of {self.least} to {self.limit} characters")
        if "\0" in value:
            raise Unfit("a text has a NUL in it")
        if self.one_line and _CONTROL.search(value):
            raise Unfit(f"{_shown(value)} has control characters")
        if self.choices and value not in self.choices:
            raise Unfit(f"{_shown(value)} is none of {', '.join(self.choices)}")

    def plain(self, value: Any) -> Any:
        """See Kind."""
        return value

    def texts(self, value: Any) -> list[str]:
        """See Kind."""
        return [] if value is None or self.choices else [value]

    def replaced(self, value: Any, replace: Replace) -> Any:
        """See Kind."""
        return value if value is None or self.choices else replace(value)


@dataclass(frozen=True)
class Digest(_Scalar):
    """Lower-case hexadecimal digits, as many as said."""

    digits: int = 64
    nullable: bool = False

    def check(self, value: Any) -> None:
        """See Kind."""
        if value is None and self.nullable:
            return
        if type(value) is not str or len(value) != self.digits or _HEX.match(value) is None:
            raise Unfit(f"{_shown(value)} is not {self.digits} hexadecimal digits")


@dataclass(frozen=True)
class Json:
    """JSON text whose outermost value is an object or an array."""

    outer: type[Any]
    limit: int = TEXT_LIMIT

    def check(self, value: Any) -> None:
        """See Kind."""
        if type(value) is not str or len(value) > self.limit:
            raise Unfit(f"{_shown(value)} is no JSON of at most {self.limit} characters")
        if not isinstance(self.plain(value), self.outer):
            raise Unfit(f"{_shown(value)} is no JSON {'object' if self.outer is dict else 'array'}")

    def plain(self, value: Any) -> Any:
        """See Kind. Raises Unfit."""
        return parsed(value)

    def texts(self, value: Any) -> list[str]:
        """See Kind."""
        return texts_in(parsed(value)) if '"' in value else []

    def replaced(self, value: Any, replace: Replace) -> Any:
        """See Kind."""
        return to_json(replaced_in(parsed(value), replace))


@dataclass(frozen=True)
class PackedText:
    """Compressed text."""

    nullable: bool = False

    def check(self, value: Any) -> None:
        """See Kind."""
        if value is not None or not self.nullable:
            unpacked(value)

    def plain(self, value: Any) -> Any:
        """See Kind. Raises Unfit."""
        return None if value is None else unpacked(value)

    def texts(self, value: Any) -> list[str]:
        """See Kind."""
        return [] if value is None else [unpack(value)]

    def replaced(self, value: Any, replace: Replace) -> Any:
        """See Kind."""
        return value if value is None else pack(replace(unpack(value)))


class PackedJson:
    """Compressed JSON, an object."""

    def check(self, value: Any) -> None:
        """See Kind."""
        if not isinstance(self.plain(value), dict):
            raise Unfit("compressed JSON is no object")

    def plain(self, value: Any) -> Any:
        """See Kind. Raises Unfit."""
        return parsed(unpacked(value))

    def texts(self, value: Any) -> list[str]:
        """See Kind."""
        return texts_in(parsed(unpack(value)))

    def replaced(self, value: Any, replace: Replace) -> Any:
        """See Kind."""
        return pack(to_json(replaced_in(parsed(unpack(value)), replace)))


def _shown(value: Any) -> str:
    shown = repr(value) if not isinstance(value, bytes) else f"{len(value)} bytes"
    return shown if len(shown) <= 60 else shown[:57] + "..."


def unpacked(data: Any) -> str:
    """Return a compressed text. Raises Unfit for what is none, or too large: a few bytes may unpack to gigabytes."""
    if type(data) is not bytes:
        raise Unfit(f"{_shown(data)} is no compressed text")
    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(data, UNPACKED_LIMIT)
        if not inflate.eof:
            raise Unfit(f"a compressed text is cut off or has more than {UNPACKED_LIMIT // 2**20} MB")
        if inflate.unused_data:
            raise Unfit("a compressed text has something behind its end")
        return text.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError) as broken:
        raise Unfit(f"a compressed text is damaged ({broken})") from broken


def parsed(text: str) -> Any:
    """Return the value of a JSON text. Raises Unfit for what is none, or is nested too deep."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as broken:
        raise Unfit(f"{_shown(text)} is no JSON ({broken})") from broken
    if text.count("[") + text.count("{") > JSON_DEPTH and _depth_over(value, JSON_DEPTH):
        raise Unfit(f"JSON is nested more than {JSON_DEPTH} deep")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _depth_over(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [item for each in level for item in _items(each) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def texts_in(value: Any) -> list[str]:
    """Return every text in a JSON value, the names of its fields too, and each name with its text."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            found.append(each)
        elif isinstance(each, dict):
            found.extend(each)
            found.extend(_named(name, item) for name, item in each.items() if isinstance(item, str))
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return found


def replaced_in(value: Any, replace: Replace) -> Any:
    """Return a JSON value with every text in it replaced, the names of its fields too.

    A text that only its field's name gives away, as in {"password": "..."}, is replaced as a whole.
    """
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, dict):
        return {replace(name): _replaced_item(name, item, replace) for name, item in value.items()}
    if isinstance(value, list):
        return [replaced_in(item, replace) for item in value]
    return value


def _replaced_item(name: str, item: Any, replace: Replace) -> Any:
    given_away = isinstance(item, str) and replace(_named(name, item)) != _named(name, item)
    return "[secret]" if given_away and replace(item) == item and replace(name) == name else replaced_in(item, replace)


def _named(name: str, item: str) -> str:
    return f'{name}: "{item}"'
