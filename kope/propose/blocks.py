"""Cut a model's reply into reasoning, prose and code blocks, as models really write them.

Which block is the kernel is decided in reply.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPEN = re.compile(r"^(?P<indent>\s*(?:(?:[-*+]|\d+[.)])\s+)*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
_TAGS = frozenset(
    {"asc", "ascend", "ascendc", "c", "c++", "cc", "cpp", "cuda", "diff", "h", "hpp", "json", "md", "python", "text"}
)
_THINK_OPEN = re.compile(r"^[ \t]*<(think|thinking|reasoning)>[ \t]*", re.MULTILINE | re.IGNORECASE)
_THINK_CLOSE = re.compile(r"</(think|thinking|reasoning)>", re.IGNORECASE)
_FILE = r"(?P<name>[\w./-]+\.(?:asc|h|hpp|cpp|cc|cxx|inc))"
_FILE_LINE = re.compile(rf"^\W*(?:file(?:name)?\s*:\s*)?[`*]*{_FILE}[`*]*\W*$", re.IGNORECASE)
_INFO_FILE = re.compile(rf"{_FILE}\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. text ends in a newline unless empty; closed: its closing fence was seen; lead: the last line
    of prose before it; info: what stood behind the opening fence."""

    text: str
    info: str
    closed: bool
    lead: str

    @property
    def file_name(self) -> str:
        """The base name the reply gives this block (info string, first line, line before), "" when none."""
        in_info = _INFO_FILE.search(self.info)
        first = _FILE_LINE.match(self.text.partition("\n")[0])
        before = _FILE_LINE.match(self.lead)
        found = in_info or first or before
        return found["name"].rpartition("/")[2] if found else ""


def normalized(text: str) -> str:
    """Return text without byte order mark and with \\n line ends; other separators stay as they are."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def split_reasoning(text: str) -> tuple[str, str]:
    """Return (reasoning, rest) of a reply whose content carries <think> sections.

    A section without an end is reasoning to the last character; an end without a beginning (the chat template wrote it)
    makes everything before it reasoning.
    """
    reasoning: list[str] = []
    opening = _THINK_OPEN.search(text)
    closing = _THINK_CLOSE.search(text)
    if closing and (opening is None or closing.start() < opening.start()):
        reasoning.append(text[: closing.start()])
        text = text[closing.end() :]
        opening = _THINK_OPEN.search(text)
    while opening:
        closing = _THINK_CLOSE.search(text, opening.end())
        end = closing.start() if closing else len(text)
        reasoning.append(text[opening.end() : end])
        text = text[: opening.start()] + (text[closing.end() :] if closing else "")
        opening = _THINK_OPEN.search(text)
    return "\n".join(part.strip() for part in reasoning), text


class _Reader:
    """Walks the lines of a reply; holds the block that is open."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.prose: list[str] = []
        self.ticks = ""
        self.indent = ""
        self.info = ""
        self.body: list[str] = []

    def read(self, line: str) -> None:
        if self.ticks:
            self._inside(line)
            return
        opening = _OPEN.match(line)
        if opening and "`" not in opening["info"]:
            self._open(opening)
        else:
            self.prose.append(line)

    def _open(self, opening: re.Match[str]) -> None:
        self.ticks, self.info = opening["ticks"], opening["info"].strip()
        self.indent = re.sub(r"\S", " ", opening["indent"])
        self.body = []

    def _inside(self, line: str) -> None:
        stripped = line.strip()
        run = len(stripped) - len(stripped.lstrip(self.ticks[0]))
        if run >= len(self.ticks):
            self._fence_inside(line, stripped[run:].strip())
        elif stripped.endswith(self.ticks) and self.ticks[0] not in stripped[: -len(self.ticks)]:
            self._append(line.rstrip()[: -len(self.ticks)].rstrip())
            self.close(closed=True)
        else:
            self._append(line)

    def _fence_inside(self, line: str, rest: str) -> None:
        """A fence while a block is open: it closes it, unless a language tag says that another one begins."""
        opening = _OPEN.match(line)
        if opening and rest and rest.split()[0].lower() in _TAGS:
            self.close(closed=False)
            self._open(opening)
            return
        self.close(closed=True)
        if rest:
            self.prose.append(rest)

    def _append(self, line: str) -> None:
        self.body.append(line.removeprefix(self.indent) if self.indent else line)

    def close(self, closed: bool) -> None:
        text = "\n".join(self.body).removeprefix("\ufeff")
        lead = next((line for line in reversed(self.prose) if line.strip()), "")
        self.blocks.append(Block(f"{text}\n" if text.strip() else "", self.info, closed, lead))
        self.ticks = ""


def split_blocks(text: str) -> tuple[tuple[Block, ...], str]:
    """Return the fenced blocks in order, and the prose around them.

    Lines end at \\n only. Accepted beyond CommonMark: fences indented in lists, a closing fence at the end of a code
    line or followed by prose, a fence with a language tag inside an open block (the earlier one was never closed). A
    fence whose info string holds backticks is text.
    """
    reader = _Reader()
    for line in normalized(text).split("\n"):
        reader.read(line)
    if reader.ticks:
        reader.close(closed=False)
    return tuple(reader.blocks), "\n".join(reader.prose).strip()
