"""Foreign text made safe to show inside a prompt: as data in a fence it cannot break, or as one plain line.

What the text says is not judged here; a reader is told by the template that fenced text is data.
"""

from __future__ import annotations

import re
import unicodedata

_BACKTICKS = re.compile(r"`+")
_INVISIBLE = ("Cc", "Cf", "Cs", "Co")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def clean(text: str) -> str:
    """Drop terminal escapes, control and invisible format characters; keep line breaks and tabs."""
    text = _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
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


def head_and_tail(text: str, limit: int) -> str:
    """Return text of at most about `limit` characters: its beginning, a line that counts what is left out, its end."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
