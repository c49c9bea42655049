"""Read search/replace edits and diffs out of a reply and apply them to the source the prompt showed.

All edits of a reply apply or none does. Whether the result is a kernel is for others to judge.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kope.propose.blocks import Block, normalized

_SEARCH = re.compile(r"^\s*<{5,9}\s*(?:SEARCH|ORIGINAL|HEAD)\b.*$")
_MIDDLE = re.compile(r"^\s*={5,9}\s*$")
_REPLACE = re.compile(r"^(?P<code>.*?)\s*>{5,9}\s*(?:REPLACE|UPDATED|END)\b.*$")
_FENCE = re.compile(r"^\s*(?:`{3,}|~{3,})[\w+#-]*\s*$")
_HUNK = re.compile(r"^@@.*$")


class EditProblem(Exception):
    """Why the edits cannot be applied, in words for whoever wrote them."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the lines `search` by the lines `replace` (None: the reply ended before). closed: its end was seen."""

    search: str
    replace: str | None
    closed: bool = True


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    text: str
    number: int


def find_edits(text: str) -> tuple[Edit, ...]:
    """Return the SEARCH/REPLACE blocks of a reply in order, fenced or not."""
    edits: list[Edit] = []
    search: list[str] = []
    replace: list[str] = []
    part = ""
    for line in normalized(text).split("\n"):
        if _SEARCH.match(line):
            if part == "replace":
                edits.append(_edit(search, replace, closed=False))
            part, search, replace = "search", [], []
        elif part == "search" and _MIDDLE.match(line):
            part = "replace"
        elif part == "replace" and (end := _REPLACE.match(line)):
            edits.append(_edit(search, [*replace, end["code"]] if end["code"].strip() else replace, closed=True))
            part = ""
        elif part == "replace" and _FENCE.match(line):
            edits.append(_edit(search, replace, closed=False))
            part = ""
        elif part:
            (search if part == "search" else replace).append(line)
    if part == "replace":
        edits.append(_edit(search, replace, closed=False))
    elif part:
        edits.append(Edit("\n".join(search), None, closed=False))
    return tuple(edits)


def _edit(search: Sequence[str], replace: Sequence[str], closed: bool) -> Edit:
    return Edit("\n".join(search), "\n".join(replace), closed)


def find_diff(blocks: Sequence[Block]) -> tuple[Edit, ...]:
    """Return the hunks of unified diffs among the blocks as edits; line numbers are not trusted."""
    edits: list[Edit] = []
    for block in blocks:
        lines = block.text.rstrip("\n").split("\n")
        if any(_HUNK.match(line) for line in lines):
            edits += _hunks(lines, block.closed)
    return tuple(edits)


def _hunks(lines: Sequence[str], closed: bool) -> list[Edit]:
    edits: list[Edit] = []
    search: list[str] = []
    replace: list[str] = []
    inside = False
    for line in (*lines, "@@"):
        if _HUNK.match(line):
            if inside and (search or replace):
                edits.append(_edit(search, replace, closed))
            search, replace, inside = [], [], True
        elif inside and not line.startswith(("--- ", "+++ ", "\\", "diff ")):
            if not line.startswith("+"):
                search.append(line[1:])
            if not line.startswith("-"):
                replace.append(line[1:])
    return edits


def apply_edits(source: str, edits: Sequence[Edit]) -> str:
    """Return `source` with every edit applied. Each SEARCH must be found at exactly one place of the original.

    Found means, in this order: the same lines; the same but for trailing whitespace; the same but for any whitespace
    (the replacement is then indented like the original); the same characters inside a line. Raises EditProblem.
    """
    source = normalized(source)
    spans = sorted((_locate(source, edit, number) for number, edit in enumerate(edits, 1)), key=lambda span: span.start)
    for before, after in itertools.pairwise(spans):
        if after.start < before.end:
            raise EditProblem(f"edits {before.number} and {after.number} change the same lines; make them one edit")
    for span in reversed(spans):
        source = source[: span.start] + span.text + source[span.end :]
    return source


def _locate(source: str, edit: Edit, number: int) -> _Span:
    if edit.replace is None:
        raise EditProblem(f"edit {number} ends before its ======= line")
    if not edit.search.strip():
        raise EditProblem(f"edit {number} has an empty SEARCH; quote the lines it replaces or stands next to")
    lines = source.split("\n")
    wanted = _trim_blank(edit.search.split("\n"))
    for key in (_same, str.rstrip, _loose):
        places = _places(lines, wanted, key)
        if len(places) > 1:
            raise EditProblem(_ambiguous(number, [place + 1 for place in places]))
        if places:
            return _line_span(lines, wanted, places[0], edit.replace, number)
    return _inside_line(source, edit.search, edit.replace, number)


def _same(line: str) -> str:
    return line


def _loose(line: str) -> str:
    return " ".join(line.split())


def _trim_blank(lines: list[str]) -> list[str]:
    filled = [k for k, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1]


def _places(lines: Sequence[str], wanted: Sequence[str], key: Callable[[str], str]) -> list[int]:
    keyed, want = [key(line) for line in lines], [key(line) for line in wanted]
    return [k for k in range(len(keyed) - len(want) + 1) if keyed[k : k + len(want)] == want]


def _line_span(lines: Sequence[str], wanted: Sequence[str], place: int, replace: str, number: int) -> _Span:
    start = sum(len(line) + 1 for line in lines[:place])
    end = start + sum(len(line) + 1 for line in lines[place : place + len(wanted)])
    body = _reindent(replace, _indent(wanted[0]), _indent(lines[place]))
    total = sum(len(line) + 1 for line in lines) - 1
    text = f"{body}\n" if body else ""
    if end > total:
        end, text = total, body
    return _Span(start, end, text, number)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _reindent(text: str, written: str, real: str) -> str:
    if written == real:
        return text
    return "\n".join(
        real + line.removeprefix(written) if line.strip() and line.startswith(written) else line
        for line in text.split("\n")
    )


def _inside_line(source: str, search: str, replace: str, number: int) -> _Span:
    wanted = search.strip("\n")
    places = [found.start() for found in re.finditer(re.escape(wanted), source)]
    if len(places) > 1:
        raise EditProblem(_ambiguous(number, [source.count("\n", 0, place) + 1 for place in places]))
    if not places:
        raise EditProblem(_missing(source, wanted, number))
    return _Span(places[0], places[0] + len(wanted), replace.strip("\n"), number)


def _ambiguous(number: int, lines: Sequence[int]) -> str:
    shown = ", ".join(str(line) for line in lines[:5])
    return f"the SEARCH of edit {number} is found at {len(lines)} places (lines {shown}); quote more lines around it"


def _missing(source: str, wanted: str, number: int) -> str:
    first = _trim_blank(wanted.split("\n"))[0].strip()
    near = difflib.get_close_matches(first, [line.strip() for line in source.split("\n")], n=1, cutoff=0.6)
    hint = f"; the nearest line is `{near[0]}`" if near and near[0] != first else ""
    return f"the SEARCH of edit {number} is not in the source: `{first}`{hint}"
