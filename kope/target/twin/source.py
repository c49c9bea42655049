"""Candidate source as text: its name, its encoding, and its masked form in which only code is left.

What it must not contain is in `refusals`, how launches are rewritten in `launches`.
"""

from __future__ import annotations

import re

from kope.model import Diagnostic

MAX_SOURCE_BYTES = 1 << 20
SOURCE_NAME = "candidate.asc"
"""The name under which compiler and runtime speak of the candidate."""


def words(text: str) -> frozenset[str]:
    """Return the blank-separated words of a text."""
    return frozenset(text.split())


_LEX = re.compile(
    r"""
      (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
    | (?P<raw> \b(?:u8|u|U|L)?R"(?P<tag>[^()\\\s]{0,16})\(.*?(?:\)(?P=tag)"|\Z) )
    | (?P<string> "(?:\\.|[^"\\\n])*"? )
    | (?P<number> \b\d(?:[\w.]|'(?=\w))* )
    | (?P<char> '(?:\\.|[^'\\\n])*'? )
    """,
    re.VERBOSE | re.DOTALL,
)


def encode(source: str) -> tuple[bytes, Diagnostic | None]:
    """Return the UTF-8 bytes of a candidate, or why it is no usable text."""
    try:
        data = source.encode("utf-8")
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        return b"", refuse(
            "not-utf8", "the source is not valid UTF-8", "save the file as UTF-8 and submit it again", line
        )
    if len(data) > MAX_SOURCE_BYTES:
        text = f"the source has {len(data)} bytes, the limit is {MAX_SOURCE_BYTES}"
        return b"", refuse("source-too-large", text, "submit the kernel without generated tables", 0)
    if b"\0" in data:
        line = source.count("\n", 0, source.index("\0")) + 1
        return b"", refuse("not-utf8", "the source holds a NUL byte", "save the file as UTF-8 text", line)
    return data, None


def mask(source: str) -> str:
    """Blank comments and the insides of string and character literals; every offset and line stays where it was."""
    return _LEX.sub(_blank, source)


def _blank(match: re.Match[str]) -> str:
    text = match.group()
    if match.lastgroup == "number":
        return text
    if match.group("comment") is not None:
        return re.sub(r"[^\r\n]", " ", text)
    if len(text) < 2:
        return text
    return text[0] + re.sub(r"[^\r\n]", " ", text[1:-1]) + text[-1]


def refuse(kind: str, message: str, remedy: str, line: int) -> Diagnostic:
    """Return a finding in the candidate's own text."""
    return Diagnostic(kind=kind, message=message, remedy=remedy, file=SOURCE_NAME, line=line)
