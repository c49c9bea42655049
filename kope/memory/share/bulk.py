"""Write the attempts that a database does not have yet, table by table, as they stand in a file that passed.

One statement a table, which is several times as fast as one attempt after the other. Which attempts those are is
take's to say, and what they teach rebuild's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from typing import Any

from kope.memory.rows import ATTEMPT_COLUMNS, CASE_COLUMNS, TEXT_COLUMNS
from kope.memory.share.unit import EXTRA_COLUMNS, INSERT, PROMPT_COLUMNS
from kope.memory.share.values import unpacked

_ATTEMPTS = f"SELECT {', '.join((*ATTEMPT_COLUMNS, *EXTRA_COLUMNS))} FROM attempts ORDER BY seq"
_CANDIDATES = "SELECT id, source FROM candidates"
_PROMPTS = f"SELECT {', '.join(PROMPT_COLUMNS)} FROM prompts"
_TEXTS = f"SELECT attempt_id, {', '.join(TEXT_COLUMNS)} FROM attempt_texts"
_CASES = f"SELECT attempt_id, {', '.join(CASE_COLUMNS)} FROM case_results ORDER BY attempt_id, position"

_ID, _CANDIDATE, _PROMPT = (ATTEMPT_COLUMNS.index(name) for name in ("id", "candidate_id", "prompt_id"))
_ORIGIN = len(ATTEMPT_COLUMNS)


def copy_new(
    here: sqlite3.Connection, there: sqlite3.Connection, new: Collection[str], origin_of: Callable[[str], str]
) -> None:
    """Write all rows of these attempts but what is derived from them, inside the caller's transaction on `here`.

    origin_of: the origin under which rows that claim one are kept. Links are checked at its end.
    """
    if not new:
        return
    contents: tuple[set[str], set[str]] = set(), set()

    def attempts() -> Iterator[tuple[Any, ...]]:
        for row in there.execute(_ATTEMPTS):
            if row[_ID] in new:
                contents[0].add(row[_CANDIDATE])
                contents[1].add(row[_PROMPT])
                yield (*row[:_ORIGIN], origin_of(row[_ORIGIN]), *row[_ORIGIN + 1 :])

    here.executemany(INSERT["attempts"], attempts())
    here.executemany(INSERT["candidates"], _sized(there, contents[0]))
    here.executemany(INSERT["prompts"], (row for row in there.execute(_PROMPTS) if row[0] in contents[1]))
    here.executemany(INSERT["attempt_texts"], (row for row in there.execute(_TEXTS) if row[0] in new))
    here.executemany(INSERT["case_results"], (row for row in there.execute(_CASES) if row[0] in new))


def _sized(there: sqlite3.Connection, wanted: Collection[str]) -> Iterator[tuple[str, int, bytes]]:
    """Yield sources with their size in bytes, which a file may state wrongly."""
    for name, source in there.execute(_CANDIDATES):
        if name in wanted:
            yield name, len(unpacked(source).encode("utf-8", "surrogatepass")), source
