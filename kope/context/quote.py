"""Foreign text made safe to show inside a prompt: as data in a fence it cannot break, or as one plain line.

What the text says is not judged here; a reader is told by the template that fenced text is data.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from kope.confidential import without_secrets

_BACKTICKS = re.compile(r"`+")
_INVISIBLE = ("Cc", "Cf", "Cs", "Co")
_ASCII_CONTROL = dict.fromkeys(code for code in (*range(32), 127) if chr(code) not in "\n\t")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CODE = re.compile(
    r"""(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))"""
    r"""|(?P<raw>\bR"(?P<mark>[^()\\\s"]{0,16})\(.*?(?:\)(?P=mark)"|\Z))"""
    r"""|(?P<text>"(?:\\.|[^"\\\n])*"?)|(?<![0-9A-Za-z_])(?P<char>'(?:\\.|[^'\\\n])*'?)""",
    re.DOTALL,
)
_NOT_NAME = re.compile(r"[^\w.+/:]+")
_SPLIT_COMMENT = re.compile(r"/(?:\\\r?\n)+(?=[/*])")
_DIRECTIVE = re.compile(r"\s*(?:#|%:)\s*([a-z]*)")
_INCLUDE = re.compile(r'\s*#\s*include\s*(?:<[\w./+-]+>|"[\w./+-]+")\s*')
_TALK = ("error", "warning", "pragma", "ident", "line")
"""Directives that hold free text."""


def clean(text: str) -> str:
    """Drop terminal escapes, control and invisible format characters; keep line breaks and tabs."""
    text = _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if text.isascii():  # Nearly all text is, and this is ten times as fast.
        return text.translate(_ASCII_CONTROL)
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in _INVISIBLE)


def fence(text: str, language: str = "text") -> str:
    """Return text between two lines of backticks, longer than any run of backticks inside."""
    body = clean(text).rstrip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(body)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def one_line(text: str, limit: int = 300) -> str:
    """Return text on one line; what is over the limit is left out and said so."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= limit else f"{flat[:limit].rstrip()} [... {len(flat) - limit} characters left out]"


def as_name(text: str, limit: int = 40) -> str:
    """Return a name as it may stand in a sentence of ours: one word without spaces, whatever was put into it."""
    return _NOT_NAME.sub("-", without_secrets(clean(text))).strip("-")[:limit] or "unnamed"


def head_and_tail(text: str, limit: int) -> str:
    """Return text of at most about `limit` characters: its beginning, a line that counts what is left out, its end."""
    if len(text) <= limit:
        return text
    half = limit // 2
    tail = text[-half:] if half else ""
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{tail}"


def without_comments(source: str) -> str:
    """Return C++ code without comments, without what its string literals say and without what is never compiled.

    For code of foreign origin: no prose in it can then address whoever reads it. Includes keep their names; empty
    lines, blocks in `#if 0` and directives that hold free text go.
    """
    code = _CODE.sub(_mute, _SPLIT_COMMENT.sub("/", source))
    return "\n".join(line for line in _compiled(code.split("\n")) if line)


def _mute(found: re.Match[str]) -> str:
    if found["comment"] is not None:
        return " "
    if found["char"] is not None:
        is_one = len(found[0]) == 3 or (found[0].startswith("'\\") and len(found[0]) <= 6)
        return found[0] if is_one else "''"
    line = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.end()]
    return found[0] if found["text"] is not None and _INCLUDE.fullmatch(line) else '""'


def _compiled(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines outside of `#if 0`, without directives that hold free text."""
    skipped = 0
    for line in map(str.rstrip, lines):
        found = _DIRECTIVE.match(line)
        word = found[1] if found is not None else ""
        if skipped:
            skipped += word.startswith("if")
            skipped -= word == "endif" or (word.startswith("el") and skipped == 1)
        elif word == "if" and line.split("if", 1)[1].strip() == "0":
            skipped = 1
        elif word not in _TALK and (word != "include" or _INCLUDE.fullmatch(line)):
            yield line
