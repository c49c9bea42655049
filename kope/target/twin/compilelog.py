"""Turns what g++, clang++ and the linker print into diagnostics a kernel engineer can act on. Pure functions on text.

The text itself is kept verbatim by the caller; nothing here rewords a compiler's message.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import PurePath

from kope.model import Diagnostic
from kope.target.twin.source import SOURCE_NAME

MAX_DIAGNOSTICS = 20
MAX_LOG_CHARS = 1 << 17
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MESSAGE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?P<severity>fatal error|error|warning): (?P<text>.*)$"
)
_POSITION = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)?\s+(?P<rest>required|recursively|.*note:)")
_INCLUDED = re.compile(r"^(?:In file included|\s+)\s*from (?P<file>[^:\n]+):(?P<line>\d+)[:,]")
_LINKER = re.compile(r"(?:undefined reference to |multiple definition of |undefined symbol: |duplicate symbol: ).*$")
_LINKER_PLACE = re.compile(r"([^\s:/]+):(\d+): ")
_INTERNAL = re.compile(
    r"internal compiler error|PLEASE submit a bug report|Killed signal terminated program|out of memory"
)


def shortened(text: str) -> str:
    """Keep head and tail of a log that is too long to store; what stays is verbatim."""
    if len(text) <= MAX_LOG_CHARS:
        return text
    half = MAX_LOG_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def diagnostics(text: str, own: Collection[str] = (SOURCE_NAME,)) -> tuple[Diagnostic, ...]:
    """Return the errors in a compiler's output, first seen first, equal ones merged, at most MAX_DIAGNOSTICS.

    own: names of the user's files. An error inside a toolkit header is reported at the line of theirs that led to it,
    when the compiler names one.
    """
    merged: dict[tuple[str, str, int], Diagnostic] = {}
    for found in _read(_COLOUR.sub("", text).splitlines(), own):
        key = (found.message, found.file, found.line)
        merged[key] = replace(merged[key], count=merged[key].count + 1) if key in merged else found
    return tuple(merged.values())[:MAX_DIAGNOSTICS]


def _read(lines: list[str], own: Collection[str]) -> Iterator[Diagnostic]:
    led_from: tuple[str, int] | None = None
    for index, line in enumerate(lines):
        message = _MESSAGE.match(line)
        if message:
            if message["severity"] != "warning":
                yield _error(message, led_from or _following(lines, index + 1, own), own)
            led_from = None
            continue
        place = _POSITION.match(line) or _INCLUDED.match(line)
        if place and PurePath(place["file"]).name in own:
            led_from = (PurePath(place["file"]).name, int(place["line"]))
        linker = _LINKER.search(line)
        if linker:
            yield _link_error(linker.group(), line[max(0, linker.start() - 300) : linker.start()], own)
        elif _INTERNAL.search(line):
            yield Diagnostic("compiler-crash", line.strip(), remedy="simplify the kernel; the compiler itself gave up")


def _error(message: re.Match[str], led_from: tuple[str, int] | None, own: Collection[str]) -> Diagnostic:
    file, line = PurePath(message["file"]).name, int(message["line"])
    if file not in own and led_from:
        file, line = led_from
    return Diagnostic("compile-error", message["text"], remedy=_remedy(message["text"]), file=file, line=line)


def _following(lines: list[str], start: int, own: Collection[str]) -> tuple[str, int] | None:
    """Find the candidate's line in the notes after an error (clang names the way there afterwards)."""
    for line in lines[start : start + 60]:
        if _MESSAGE.match(line):
            return None
        place = _POSITION.match(line)
        if place and PurePath(place["file"]).name in own:
            return PurePath(place["file"]).name, int(place["line"])
    return None


def _link_error(message: str, before: str, own: Collection[str]) -> Diagnostic:
    place = _LINKER_PLACE.search(before)
    line = int(place[2]) if place and PurePath(place[1]).name in own else 0
    remedy = "define the function in the candidate, or use one that the AscendC API has"
    return Diagnostic("link-error", message, remedy=remedy, file=next(iter(own)), line=line)


_REMEDIES = (
    (
        r"is not a member of ['‘]AscendC|no member named .* in namespace ['‘]AscendC",
        "the twin has no such AscendC name: check the spelling, or use one listed in docs/twin.md",
    ),
    (r"was not declared in this scope|undeclared identifier", "declare the name, or write AscendC:: in front of it"),
    (
        r"no matching function|no matching member function|candidate expects",
        "compare the argument count and types with the API's signature; the notes in the log list the candidates",
    ),
    (
        r"static assertion failed|static_assert",
        "the API does not take this data type or parameter; the message says which",
    ),
    (
        r"No such file or directory|file not found",
        "include kernel_operator.h and kope_candidate.h, nothing else of the toolkit",
    ),
    (
        r"cannot convert|no known conversion|invalid conversion|invalid operands",
        "make the operand types equal; AscendC does not convert between tensor types by itself",
    ),
    (r"expected ", "fix the syntax at this line"),
)


def _remedy(text: str) -> str:
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, text)), "")
