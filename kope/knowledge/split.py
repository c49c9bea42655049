"""Cut Markdown into passages: by headings, long sections by paragraphs, code blocks and tables whole.

A passage is small enough that several fit a prompt, and says where in its document it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

PASSAGE_LIMIT = 1_800
"""Characters; a paragraph, table or code block that is longer is a passage of its own."""
HARD_LIMIT = 6_000
"""Characters at which even those are cut, at a line."""
_HEADING = re.compile(r"^(?P<level>#{1,6})\s+(?P<text>.*?)\s*#*$")
_UNDERLINE = re.compile(r"^(?P<mark>=|-|~|\^)(?P=mark){3,}\s*$")
_FENCE = re.compile(r"^\s*(?P<ticks>`{3,}|~{3,})")
_FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """A passage: the headings above it, outermost first, joined by " > "; its text."""

    heading: str
    text: str


def split_markdown(markdown: str) -> Iterator[Section]:
    """Yield the passages of a text in order. A text without headings is cut by paragraphs."""
    text = _FRONT.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n"))
    path: list[str] = []
    body: list[str] = []
    for kind, level, value in _lines(text):
        if kind == "heading":
            yield from _passages(path, body)
            path, body = [*path[: level - 1], *[""] * (level - 1 - len(path)), value], []
        else:
            body.append(value)
    yield from _passages(path, body)


def _lines(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield ("heading", level, title) or ("line", 0, line); nothing in a code block is a heading."""
    ticks = ""
    lines = text.split("\n")
    skip = False
    for at, line in enumerate(lines):
        if skip:
            skip = False
            continue
        fence = _FENCE.match(line)
        if fence and (not ticks or _ends(line, fence, ticks)):
            ticks = "" if ticks else fence["ticks"]
        heading = None if ticks or fence else _HEADING.match(line)
        under = _UNDERLINE.match(lines[at + 1]) if at + 1 < len(lines) and not ticks and not fence else None
        if heading:
            yield "heading", len(heading["level"]), heading["text"]
        elif under and re.match(r"[^\s|`#-]", line):
            skip = True
            yield "heading", 1 if under["mark"] == "=" else 2, line.strip()
        else:
            yield "line", 0, line


def _ends(line: str, fence: re.Match[str], ticks: str) -> bool:
    return line.strip() == fence["ticks"] and fence["ticks"].startswith(ticks)


def _passages(path: list[str], body: list[str]) -> Iterator[Section]:
    heading = " > ".join(part for part in path if part)
    piece: list[str] = []
    size = 0
    for block in _blocks(body):
        if piece and size + len(block) > PASSAGE_LIMIT:
            yield Section(heading, "\n\n".join(piece))
            piece, size = [], 0
        piece.append(block)
        size += len(block) + 2
    if piece:
        yield Section(heading, "\n\n".join(piece))


def _blocks(lines: list[str]) -> Iterator[str]:
    """Yield paragraphs, tables and whole code blocks; what is over the hard limit in parts."""
    block: list[str] = []
    ticks = ""
    for line in [*lines, ""]:
        fence = _FENCE.match(line)
        if fence and not ticks:
            ticks = fence["ticks"]
        elif fence and _ends(line, fence, ticks):
            ticks = ""
        if line.strip() or ticks:
            block.append(line)
        elif block:
            yield from _cut(block)
            block = []
    if block:
        yield from _cut(block)


def _cut(lines: list[str]) -> Iterator[str]:
    part: list[str] = []
    size = 0
    for line in lines:
        for start in range(0, max(len(line), 1), HARD_LIMIT):
            piece = line[start : start + HARD_LIMIT]
            if part and size + len(piece) > HARD_LIMIT:
                yield "\n".join(part)
                part, size = [], 0
            part.append(piece)
            size += len(piece) + 1
    yield "\n".join(part)
