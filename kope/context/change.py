"""What one kernel changed in another: the lines that went and came, for a prompt that has no room for both sources.

Which kernels those are is memory's knowledge; here are two texts and a limit.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from kope.context.quote import clean, without_comments

MOST_LINES = 16
"""Changed lines shown of one transformation."""
_LONGEST_LINE = 140
_MOST_COMPARED = 500
"""Lines between the common beginning and end; more is a rewrite, whose lines explain nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """The sources before and after. foreign: from somebody else's file, shown without comments and strings."""

    before: str
    after: str
    foreign: bool = False


def changed_lines(change: Change) -> tuple[str, ...]:
    """Return "- old" and "+ new" lines, whole hunks while they fit, and a line that counts what is left out.

    () when nothing changed, or nearly everything did.
    """
    before, after = clean(change.before), clean(change.after)
    if change.foreign:
        before, after = without_comments(before), without_comments(after)
    return _changed(before, after)


@functools.lru_cache(maxsize=512)
def _changed(before: str, after: str) -> tuple[str, ...]:
    hunks = list(_hunks(_code_lines(before), _code_lines(after)))
    shown: list[str] = []
    left = 0
    for hunk in hunks:
        if left or len(shown) + len(hunk) > MOST_LINES:
            left += len(hunk)
        else:
            shown += hunk
    if left and shown:
        shown.append(f"[... {left} more changed lines left out]")
    return tuple(shown)


def _code_lines(source: str) -> list[str]:
    return [line.rstrip() for line in source.split("\n") if line.strip()]


def _hunks(old: list[str], new: list[str]) -> Iterator[list[str]]:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(old), len(new)) > _MOST_COMPARED:
        return
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield [*(f"- {_short(line)}" for line in old[a:b]), *(f"+ {_short(line)}" for line in new[c:d])]


def _short(line: str) -> str:
    flat = line.strip()
    return flat if len(flat) <= _LONGEST_LINE else f"{flat[:_LONGEST_LINE]}..."
