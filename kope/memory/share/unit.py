"""An attempt with all its rows, as it travels: read from a file, checked against its digests, written into a file.

Which of two versions of an attempt stays is taking in's business.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kope.memory.encode import pack, unpack
from kope.memory.rows import ATTEMPT_COLUMNS, CASE_COLUMNS, TEXT_COLUMNS, AttemptRows, from_rows
from kope.memory.share.bulk import Waiting
from kope.memory.share.travel import BY_NAME
from kope.memory.share.values import TEXT_LIMIT, UNPACKED_LIMIT, Kind, Replace, Unfit, parsed, replaced_in, unpacked
from kope.model import Attempt

_CASES_LIMIT = 10_000
_EXTRA = ("origin_id", "content_digest", "original_digest")
_PROMPT = ("id", "template", "tokens", "text")
_SELECT = (
    f"SELECT {', '.join(f'a.{name}' for name in (*ATTEMPT_COLUMNS, *_EXTRA))},"
    f" {', '.join(f't.{name}' for name in TEXT_COLUMNS)}, c.source, {', '.join(f'p.{name}' for name in _PROMPT)}"
    " FROM attempts AS a LEFT JOIN attempt_texts AS t ON t.attempt_id = a.id"
    " LEFT JOIN candidates AS c ON c.id = a.candidate_id LEFT JOIN prompts AS p ON p.id = a.prompt_id"
)
_ALL = _SELECT + " ORDER BY a.seq"
_ONE = _SELECT + " WHERE a.id = ?"
_CASES = f"SELECT {', '.join(CASE_COLUMNS)} FROM case_results WHERE attempt_id = ? ORDER BY position"

_ATTEMPT_KINDS = tuple(BY_NAME["attempts"].columns[name] for name in (*ATTEMPT_COLUMNS, *_EXTRA))
_TEXT_KINDS = tuple(BY_NAME["attempt_texts"].columns[name] for name in TEXT_COLUMNS[:3])
_CASE_KINDS = tuple(BY_NAME["case_results"].columns[name] for name in CASE_COLUMNS[:-1])
_PROMPT_KINDS = tuple(BY_NAME["prompts"].columns[name] for name in _PROMPT[:3])
_INSERT = {
    "attempts": f"INSERT INTO attempts ({', '.join((*ATTEMPT_COLUMNS, *_EXTRA))})"
    f" VALUES ({', '.join('?' * (len(ATTEMPT_COLUMNS) + len(_EXTRA)))})",
    "attempt_texts": f"INSERT INTO attempt_texts (attempt_id, {', '.join(TEXT_COLUMNS)}) VALUES (?, ?, ?, ?, ?)",
    "case_results": f"INSERT INTO case_results (attempt_id, {', '.join(CASE_COLUMNS)})"
    f" VALUES ({', '.join('?' * (len(CASE_COLUMNS) + 1))})",
    "candidates": "INSERT INTO candidates (id, size_bytes, source) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
    "prompts": "INSERT INTO prompts (id, template, tokens, text) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
}
_CHANGED = ", ".join(f"{name} = ?" for name in (*ATTEMPT_COLUMNS[1:], *_EXTRA))
_UPDATE = f"UPDATE attempts SET {_CHANGED} WHERE id = ?"
_UNUSED = (
    "DELETE FROM candidates WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM attempts WHERE candidate_id = ?1)",
    "DELETE FROM prompts WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM attempts WHERE prompt_id = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM asks WHERE prompt_id = ?1)",
)
_ID = ATTEMPT_COLUMNS.index("id")
_CANDIDATE = ATTEMPT_COLUMNS.index("candidate_id")
_PROMPT_ID = ATTEMPT_COLUMNS.index("prompt_id")


@dataclass(frozen=True, slots=True)
class Unit:
    """All rows of one attempt.

    rows: with `details` unpacked. source: compressed. prompt: id, template, tokens, compressed text; None without one.
    original_digest: of the whole attempt, when something was removed from this copy. read: `details` as they were read,
    unpacked and compressed.
    """

    rows: AttemptRows
    origin_id: str
    content_digest: str
    original_digest: str | None
    source: bytes | None
    prompt: tuple[str, str, int, bytes] | None
    read: tuple[str, bytes] | None = None

    @property
    def id(self) -> str:
        """The attempt's."""
        return str(self.rows.attempt[_ID])

    @property
    def claim(self) -> str:
        """The digest of the attempt that this is, or that it is a reduced copy of."""
        return self.original_digest or self.content_digest

    @property
    def rank(self) -> tuple[bool, str]:
        """Of two copies with one claim the one with the smaller rank is kept: whole before reduced, then any order."""
        return self.original_digest is not None, self.content_digest

    def value(self, column: str) -> Any:
        """Return the value of a column of `attempts`."""
        return self.rows.attempt[ATTEMPT_COLUMNS.index(column)]

    @property
    def packed_details(self) -> bytes:
        """Compressed: as they were read, unless they were changed since."""
        details = self.rows.texts[3]
        return self.read[1] if self.read is not None and self.read[0] == details else pack(details)

    def attempt(self) -> Attempt:
        """Return the attempt as the loop knows it."""
        return from_rows(self.rows, self.source)

    # --- as one JSON document

    def document(self) -> dict[str, Any]:
        """Return it as a JSON-able value, texts unpacked."""
        return {
            "attempt": list(self.rows.attempt),
            "texts": list(self.rows.texts),
            "cases": [list(case) for case in self.rows.cases],
            "origin_id": self.origin_id,
            "original_digest": self.original_digest,
            "source": None if self.source is None else unpack(self.source),
            "prompt": None if self.prompt is None else [*self.prompt[:3], unpack(self.prompt[3])],
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Unit:
        """Return the unit of a document. Raises Unfit."""
        try:
            rows = AttemptRows(
                tuple(document["attempt"]),
                tuple(document["texts"]),
                tuple(tuple(case) for case in document["cases"]),
            )
            source, prompt = document["source"], document["prompt"]
            return cls(
                rows,
                document["origin_id"],
                rows.content_digest,
                document["original_digest"],
                None if source is None else pack(source),
                None if prompt is None else (prompt[0], prompt[1], prompt[2], pack(prompt[3])),
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as wrong:
            raise Unfit(f"a version of an attempt cannot be read ({wrong})") from wrong


# --- reading --------------------------------------------------------------------------------------------------------


def read_all(connection: sqlite3.Connection) -> Iterator[Unit | Unread]:
    """Yield every attempt of a file in the order it was recorded there, or why it cannot be read."""
    for row in connection.execute(_ALL):
        yield _read(connection, row)


def read_one(connection: sqlite3.Connection, attempt_id: str) -> Unit | None:
    """Return an attempt of a database of our own, None when it is not there. Raises Unfit."""
    row = connection.execute(_ONE, (attempt_id,)).fetchone()
    if row is None:
        return None
    found = _read(connection, row)
    if isinstance(found, Unread):
        raise Unfit(found.why)
    return found


@dataclass(frozen=True, slots=True)
class Unread:
    """An attempt that cannot be read."""

    id: str
    why: str


def _read(connection: sqlite3.Connection, row: tuple[Any, ...]) -> Unit | Unread:
    width = len(ATTEMPT_COLUMNS)
    name = row[_ID] if isinstance(row[_ID], str) else "?"
    origin_id, digest, original = row[width : width + 3]
    thought, plan, diagnostics, details, source, *prompt = row[width + 3 :]
    try:
        cases = connection.execute(_CASES, (row[_ID],)).fetchmany(_CASES_LIMIT + 1)
        text = unpacked(details)
        rows = AttemptRows(tuple(row[:width]), (thought, plan, diagnostics, text), tuple(cases))
    except Unfit as wrong:
        return Unread(name[:80], str(wrong))
    kept = (prompt[0], prompt[1], prompt[2], prompt[3]) if prompt[0] is not None else None
    return Unit(rows, origin_id, digest, original, source, kept, (text, details))


# --- checking -------------------------------------------------------------------------------------------------------


def checked(unit: Unit) -> None:
    """Raise Unfit unless every value is one that KOPE writes and every digest is that of its content."""
    rows = unit.rows
    if len(rows.attempt) != len(ATTEMPT_COLUMNS) or len(rows.texts) != 4 or len(rows.cases) > _CASES_LIMIT:
        raise Unfit("an attempt has rows of another shape")
    _all(_ATTEMPT_KINDS, (*rows.attempt, unit.origin_id, unit.content_digest, unit.original_digest))
    _all(_TEXT_KINDS, rows.texts[:3])
    _check_cases(rows.cases)
    if rows.content_digest != unit.content_digest:
        raise Unfit("it is not what its digest says")
    if unit.original_digest == unit.content_digest:
        raise Unfit("it says that it is a reduced copy of itself")
    if unit.value("promoted") and unit.value("verdict") != "verified":
        raise Unfit("it is the best without being verified")
    if unit.value("parent_id") == unit.id:
        raise Unfit("it starts from itself")
    _check_contents(unit)
    _check_shape(rows)


def _check_cases(cases: tuple[tuple[Any, ...], ...]) -> None:
    """Column by column, and every value once: there are many cases, and most of their values are alike."""
    if any(len(case) != len(CASE_COLUMNS) or case[0] != place for place, case in enumerate(cases)):
        raise Unfit("its cases are not numbered from 0")
    *columns, durations = zip(*cases, strict=True) if cases else [()] * len(CASE_COLUMNS)
    try:
        # By type as well: 1, 1.0 and True are one value to a set.
        different = [{(type(value), value) for value in column} for column in columns]
    except TypeError as unhashable:
        raise Unfit("a case holds a list") from unhashable
    for kind, found in zip(_CASE_KINDS, different, strict=True):
        for _, value in found:
            kind.check(value)
    _check_durations(list(durations))


def _all(kinds: tuple[Kind, ...], values: tuple[Any, ...]) -> None:
    for kind, value in zip(kinds, values, strict=True):
        kind.check(value)


def _check_contents(unit: Unit) -> None:
    """Source and prompt hash to the ids that name them."""
    if (unit.source is None) != (unit.rows.attempt[_CANDIDATE] is None):
        raise Unfit("its source is missing")
    if unit.source is not None and sha256_of(unpacked(unit.source)) != unit.rows.attempt[_CANDIDATE]:
        raise Unfit("its source is not what its id says")
    if (unit.prompt is None) != (unit.rows.attempt[_PROMPT_ID] is None):
        raise Unfit("its prompt is missing")
    if unit.prompt is not None:
        _all(_PROMPT_KINDS, unit.prompt[:3])
        if sha256_of(unpacked(unit.prompt[3])) != unit.rows.attempt[_PROMPT_ID]:
            raise Unfit("its prompt is not what its id says")


def sha256_of(text: str) -> str:
    """Return the id of a source or a prompt."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_DIAGNOSTIC: Mapping[str, type[Any]] = {
    "kind": str, "message": str, "severity": str, "remedy": str, "file": str, "line": int, "case_id": str, "count": int,
}  # fmt: skip
_DETAILS: Mapping[str, type[Any]] = {
    "log": str, "reason": str, "reply": str, "calls": list, "steps": list, "evidence": dict, "ledger": list,
    "counter_names": list, "counters": list,
}  # fmt: skip
_NUMBER_WORDS = ("nan", "inf", "-inf")


def _check_shape(rows: AttemptRows) -> None:
    """JSON has the fields that are read from it, of the types they are read as."""
    traits, used = (json.loads(rows.attempt[ATTEMPT_COLUMNS.index(name)]) for name in ("traits", "used"))
    _texts(traits)
    _texts(used)
    for item in json.loads(rows.texts[2]):
        if not isinstance(item, dict) or any(type(item[name]) is not _DIAGNOSTIC.get(name) for name in item):
            raise Unfit("a finding of its tools has another form")
        if "kind" not in item or "message" not in item:
            raise Unfit("a finding of its tools says nothing")
        if item.get("severity", "error") not in ("error", "warning", "note"):
            raise Unfit("a finding of its tools has another severity")
    if len(rows.texts[3]) > UNPACKED_LIMIT:
        raise Unfit("its details are too large")
    details = parsed(rows.texts[3])
    if not isinstance(details, dict):
        raise Unfit("its details have another form")
    for name, kind in _DETAILS.items():
        if type(details.get(name)) is not kind:
            raise Unfit(f"its details have no {name}")
    if len(details["reply"]) > TEXT_LIMIT or len(details["log"]) > TEXT_LIMIT:
        raise Unfit("its log or reply is too long")
    if not all(isinstance(item, dict) for name in ("calls", "steps", "ledger") for item in details[name]):
        raise Unfit("a record of its calls, steps or ledger is no object")
    _texts(list(details["evidence"].values()))
    _check_counters(details["counter_names"], details["counters"], len(rows.cases))


def _check_durations(texts: list[Any]) -> None:
    """Every case has a list of times; all lists are parsed at once, since there are many short ones."""
    if not all(type(text) is str and text[:1] == "[" for text in texts):
        raise Unfit("the times of a case are no list")
    lists = parsed(f"[{','.join(texts)}]")
    if len(lists) != len(texts) or any(type(each) is not list for each in lists):
        raise Unfit("the times of a case are no list")
    if not all(_is_number(sample) for each in lists for sample in each):
        raise Unfit("a time is no number")


def _check_counters(names: list[Any], counters: list[Any], cases: int) -> None:
    _texts(names)
    if counters and len(counters) != cases:
        raise Unfit("it has counters of another number of cases")
    for row in counters:
        if not isinstance(row, list) or len(row) != len(names):
            raise Unfit("its counters have another form")
        if not all(value is None or _is_number(value) for value in row):
            raise Unfit("a counter is no number")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) or (type(value) is str and value in _NUMBER_WORDS)


def _texts(values: list[Any]) -> None:
    if not all(type(value) is str for value in values):
        raise Unfit("a list of texts holds something else")


def replaced_details(details: str, change: Replace) -> Any:
    """Return the details of an attempt with every text in them replaced, but for the names they are read by."""
    found = parsed(details)
    return {name: value if name == "counters" else replaced_in(value, change) for name, value in found.items()}


# --- writing --------------------------------------------------------------------------------------------------------


def insert(connection: sqlite3.Connection, unit: Unit, origin_id: str) -> None:
    """Write an attempt that is not there yet, without what is derived from it."""
    waiting = Waiting(connection)
    add(waiting, unit, origin_id)
    waiting.write()


def add(waiting: Waiting, unit: Unit, origin_id: str) -> None:
    """Have an attempt that is not there yet wait to be written, without what is derived from it."""
    _add_contents(waiting, unit)
    waiting.add(_INSERT["attempts"], (*unit.rows.attempt, origin_id, unit.content_digest, unit.original_digest))
    _add_rest(waiting, unit)


def replace(connection: sqlite3.Connection, unit: Unit, origin_id: str) -> None:
    """Write an attempt in the place of another version; source and prompt of that one go, unless others have them."""
    before = connection.execute("SELECT candidate_id, prompt_id FROM attempts WHERE id = ?", (unit.id,)).fetchone()
    waiting = Waiting(connection)
    _add_contents(waiting, unit)
    waiting.write()
    for table in ("attempt_texts", "case_results"):
        connection.execute(f"DELETE FROM {table} WHERE attempt_id = ?", (unit.id,))
    values = (*unit.rows.attempt[1:], origin_id, unit.content_digest, unit.original_digest, unit.id)
    connection.execute(_UPDATE, values)
    _add_rest(waiting, unit)
    waiting.write()
    for statement, name in zip(_UNUSED, before, strict=True):
        if name is not None:
            connection.execute(statement, (name,))


def _add_contents(waiting: Waiting, unit: Unit) -> None:
    if unit.source is not None:
        size_bytes = len(unpack(unit.source).encode("utf-8", "surrogatepass"))
        waiting.add(_INSERT["candidates"], (unit.rows.attempt[_CANDIDATE], size_bytes, unit.source))
    if unit.prompt is not None:
        waiting.add(_INSERT["prompts"], unit.prompt)


def _add_rest(waiting: Waiting, unit: Unit) -> None:
    thought, plan, diagnostics, _ = unit.rows.texts
    waiting.add(_INSERT["attempt_texts"], (unit.id, thought, plan, diagnostics, unit.packed_details))
    waiting.add(_INSERT["case_results"], *((unit.id, *case) for case in unit.rows.cases))
