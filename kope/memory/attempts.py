"""Reading attempts back: one by one, of a session or task, and those that matter: known outcome, baseline, incumbent.

Writing them is record's business.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from kope.errors import NotFound
from kope.memory.encode import unpack
from kope.memory.rows import ATTEMPT_COLUMNS, CASE_COLUMNS, TEXT_COLUMNS, AttemptRows, from_rows
from kope.memory.sessions import prefix_range
from kope.model import Attempt, Fingerprint, Outcome, Verdict

_WIDTH = len(ATTEMPT_COLUMNS)
_SELECT = (
    f"SELECT {', '.join(f'a.{name}' for name in ATTEMPT_COLUMNS)}, {', '.join(f't.{name}' for name in TEXT_COLUMNS)},"
    " c.source, a.content_digest FROM attempts AS a JOIN attempt_texts AS t ON t.attempt_id = a.id"
    " LEFT JOIN candidates AS c ON c.id = a.candidate_id"
)
_CASES = f"SELECT {', '.join(CASE_COLUMNS)} FROM case_results WHERE attempt_id = ? ORDER BY position"
_ALL = _SELECT + " ORDER BY a.seq"
_BY_ID = _SELECT + " WHERE a.id >= ? AND a.id < ? ORDER BY a.id LIMIT 2"
_BY_PLACE = (
    _SELECT
    + " WHERE (?1 IS NULL OR a.session_id = ?1) AND (?2 IS NULL OR a.task_digest = ?2)"
    + " AND (?3 IS NULL OR a.task_name = ?3) ORDER BY a.seq"
)
_BELIEVED = "a.origin_id IN (SELECT id FROM origins WHERE trust IN ('own', 'trusted'))"
"""What came from elsewhere is no outcome, baseline or incumbent here before a person trusts its origin."""
_SAME_CANDIDATE = (
    _SELECT
    + " WHERE a.candidate_id = ? AND a.task_digest = ? AND a.target = ? AND a.hardware = ? AND a.toolchain = ?"
    + f" AND a.evaluator = ? AND a.verdict <> ? AND {_BELIEVED} ORDER BY a.verdict = 'screened', a.seq DESC LIMIT 1"
)
_VERIFIED = (
    _SELECT
    + " WHERE a.task_digest = ?1 AND a.hardware = ?2 AND (?3 IS NULL OR a.session_id = ?3)"
    + f" AND a.verdict = 'verified' AND a.typical_us IS NOT NULL AND {_BELIEVED}"
)
_BASELINE = _VERIFIED + " ORDER BY a.seq LIMIT 1"
_INCUMBENT = _VERIFIED + " AND a.promoted ORDER BY a.typical_us, a.seq LIMIT 1"
_NEWEST_PROMOTED = f"""
    SELECT a.task_digest, a.hardware FROM attempts AS a WHERE a.promoted AND a.typical_us IS NOT NULL AND {_BELIEVED}
    AND (a.task_digest = ?1 OR a.task_name = ?1) AND (?2 IS NULL OR a.hardware = ?2) ORDER BY a.seq DESC LIMIT 1
"""
_SOURCES = """
    SELECT p.source, c.source FROM attempts AS a JOIN candidates AS c ON c.id = a.candidate_id
    JOIN attempts AS b ON b.id = a.parent_id JOIN candidates AS p ON p.id = b.candidate_id WHERE a.id = ?
"""
_TRIED = f"""
    SELECT coalesce(sum({_BELIEVED}), 0), coalesce(sum({_BELIEVED} AND a.verdict = 'verified'), 0),
           coalesce(sum(a.verdict = 'verified'), 0)
    FROM attempts AS a WHERE a.task_digest = ?1 OR a.task_name = ?1
"""
_TASKS_TRIED = f"SELECT DISTINCT a.task_name FROM attempts AS a WHERE a.promoted AND {_BELIEVED} ORDER BY a.task_name"


def rows_of(connection: sqlite3.Connection, row: Sequence[Any]) -> tuple[AttemptRows, bytes | None, str]:
    """Return what one result of the query above holds: the attempt's rows, its source, the digest kept for it."""
    thought, plan, diagnostics, details, source, digest = row[_WIDTH:]
    cases = connection.execute(_CASES, (row[0],)).fetchall()
    texts = (thought, plan, diagnostics, unpack(details))
    return AttemptRows(tuple(row[:_WIDTH]), texts, tuple(cases)), source, digest


def _read(connection: sqlite3.Connection, sql: str, values: Sequence[Any]) -> list[Attempt]:
    found = []
    for row in connection.execute(sql, values).fetchall():
        rows, source, _ = rows_of(connection, row)
        found.append(from_rows(rows, source))
    return found


def _first(connection: sqlite3.Connection, sql: str, values: Sequence[Any]) -> Attempt | None:
    found = _read(connection, sql, values)
    return found[0] if found else None


def every_row(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """Return a cursor over all attempts, for `rows_of`."""
    return connection.execute(_ALL)


def by_id(connection: sqlite3.Connection, attempt_id: str) -> Attempt:
    """Return an attempt by id or unique beginning of it. Raises NotFound."""
    found = _read(connection, _BY_ID, prefix_range(attempt_id))
    if found and found[0].id == attempt_id:
        return found[0]
    if len(found) != 1:
        what = "several attempts begin" if found else "no attempt begins"
        raise NotFound(f"{what} with {attempt_id!r}; kope report shows attempts with their ids")
    return found[0]


def by_place(
    connection: sqlite3.Connection, session_id: str | None, task_digest: str | None, task_name: str | None
) -> tuple[Attempt, ...]:
    """Return attempts in the order they were recorded, of a session or task where given."""
    return tuple(_read(connection, _BY_PLACE, (session_id, task_digest, task_name)))


def sources(connection: sqlite3.Connection, attempt_id: str) -> tuple[str, str] | None:
    """Return the source of an attempt's parent and its own, None when one of them is not in this database."""
    row = connection.execute(_SOURCES, (attempt_id,)).fetchone()
    return (unpack(row[0]), unpack(row[1])) if row is not None else None


def known_outcome(
    connection: sqlite3.Connection, candidate_id: str, task_digest: str, where: Fingerprint, at_least: Verdict
) -> Outcome | None:
    """Return the most conclusive, then newest outcome of a candidate; screened ones only when they are enough."""
    without = "" if at_least is not Verdict.VERIFIED else Verdict.SCREENED.value
    values = (candidate_id, task_digest, where.target, where.hardware, where.toolchain, where.evaluator, without)
    found = _first(connection, _SAME_CANDIDATE, values)
    return found.outcome if found is not None else None


def baseline(connection: sqlite3.Connection, task_digest: str, hardware: str, session_id: str | None) -> Attempt | None:
    """Return the first verified and timed attempt."""
    return _first(connection, _BASELINE, (task_digest, hardware, session_id))


def incumbent(
    connection: sqlite3.Connection, task_digest: str, hardware: str, session_id: str | None
) -> Attempt | None:
    """Return the fastest promoted attempt."""
    return _first(connection, _INCUMBENT, (task_digest, hardware, session_id))


def best(connection: sqlite3.Connection, task: str, hardware: str | None) -> Attempt:
    """Return the incumbent of a task by name or digest. Raises NotFound, saying what there is instead."""
    row = connection.execute(_NEWEST_PROMOTED, (task, hardware)).fetchone()
    found = incumbent(connection, row[0], row[1], None) if row is not None else None
    if found is not None:
        return found
    tried, verified, anywhere = connection.execute(_TRIED, (task,)).fetchone()
    if anywhere and not verified:
        raise NotFound(
            f"{anywhere} kernels of {task} came from elsewhere, none was verified here;"
            f" run kope db verify --task {task}"
        )
    if tried and not verified:
        raise NotFound(
            f"none of the {tried} attempts on {task} is right on all cases yet; go on with kope optimize {task}"
        )
    if tried and hardware is not None:
        raise NotFound(f"{task} has no kernel for {hardware}; run kope optimize {task} on it")
    names = ", ".join(name for (name,) in connection.execute(_TASKS_TRIED))
    there = f"there are kernels of {names}" if names else "there are no kernels at all"
    raise NotFound(f"{task} was not tried yet ({there}); run kope optimize {task}")
