"""Foreign text made safe to show inside a prompt: as data in a fence it cannot break, or as one plain line.

What the text says is not judged here; a reader is told by the template that fenced text is data.
"""

from __future__ import annotations

import re
import unicodedata

_BACKTICKS = re.compile(r"`+")
_INVISIBLE = ("Cc", "Cf", "Cs", "Co")
_ASCII_CONTROL = dict.fromkeys(code for code in (*range(32), 127) if chr(code) not in "\n\t")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CODE = re.compile(
    r"""(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))"""
    r"""|(?P<raw>\bR"(?P<mark>[^()\\\s"]{0,16})\(.*?(?:\)(?P=mark)"|\Z))"""
    r"""|(?P<text>"(?:\\.|[^"\\\n])*"?)|(?P<char>'(?:\\.|[^'\\\n])')""",
    re.DOTALL,
)
_NOT_NAME = re.compile(r"[^\w.+/:]+")
_INCLUDE = re.compile(r"^\s*#\s*include\b")


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
    return _NOT_NAME.sub("-", clean(text)).strip("-")[:limit] or "unnamed"


def head_and_tail(text: str, limit: int) -> str:
    """Return text of at most about `limit` characters: its beginning, a line that counts what is left out, its end."""
    if len(text) <= limit:
        return text
    half = limit // 2
    tail = text[-half:] if half else ""
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{tail}"


def without_comments(source: str) -> str:
    """Return C++ code without comments and without what its string literals say; empty lines go as well.

    For code of foreign origin: neither comment nor string can then address whoever reads it. Includes keep their names.
    """
    lines = [line.rstrip() for line in _CODE.sub(_mute, source).split("\n")]
    return "\n".join(line for line in lines if line)


def _mute(found: re.Match[str]) -> str:
    if found["comment"] is not None:
        return " "
    if found["char"] is not None:
        return found[0]
    line = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
    if found["text"] is not None and _INCLUDE.match(line):
        return found[0]
    return '""'
