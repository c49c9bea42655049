"""Forget attempts, with everything that came of them: rows, words, vectors, lessons, what only they referred to.

One transaction. What is derived from the rest is made again in it, and the ids stay on record, so that a file that
still has the attempts does not bring them back.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from kope.errors import NotFound
from kope.memory import attempts, digests, index
from kope.memory.copies import copies_of
from kope.memory.database import new_generation
from kope.memory.graph import rescore
from kope.memory.learn import words_of
from kope.memory.sessions import now, prefix_range

_ATTEMPTS = """
    SELECT a.id, a.session_id, a.task_name, a.task_digest, a.created_at, a.origin_id, a.parent_id, a.candidate_id,
           a.prompt_id FROM attempts AS a ORDER BY a.seq
"""
_SESSIONS = "SELECT id FROM sessions WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"
_ORIGINS = "SELECT id FROM origins WHERE (id >= ? AND id < ?) OR label = ? LIMIT 2"
_EXPERIENCES = "SELECT id, kind, attempt_id FROM nodes WHERE id >= ? AND id < ? LIMIT 2"
_ATTEMPT_IDS = "SELECT id FROM attempts WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"
_WORDS = """
    SELECT n.seq, n.attempt_id, t.decision, t.lesson, coalesce(x.text, '')
    FROM nodes AS n JOIN node_texts AS t ON t.node_id = n.id
    LEFT JOIN edges AS e ON e.dst = n.id AND e.kind = 'led_to' LEFT JOIN edge_texts AS x ON x.edge_id = e.id
    WHERE n.attempt_id IN (SELECT value FROM json_each(?))
"""
_NO_WORDS = """
    INSERT INTO node_words (node_words, rowid, text, move, code, diagnostics) VALUES ('delete', ?, ?, ?, ?, ?)
"""
_NEW_WORDS = "INSERT INTO node_words (rowid, text, move, code, diagnostics) VALUES (?, ?, ?, ?, ?)"
_LEFT_BEHIND = """
    SELECT a.id FROM attempts AS a WHERE a.parent_id IN (SELECT value FROM json_each(:names))
    AND a.id NOT IN (SELECT value FROM json_each(:names))
"""
_DELETE = "DELETE FROM attempts WHERE id IN (SELECT value FROM json_each(?))"
_VERSIONS = "DELETE FROM conflicts WHERE attempt_id IN (SELECT value FROM json_each(?))"
_TOMBSTONE = "INSERT OR IGNORE INTO forgotten (attempt_id, forgotten_at) VALUES (?, ?)"
_ORPHANS = (
    "DELETE FROM asks WHERE session_id IN (SELECT value FROM json_each(:sessions))",
    "DELETE FROM calls WHERE session_id IN (SELECT value FROM json_each(:sessions))",
    "DELETE FROM sessions WHERE id IN (SELECT value FROM json_each(:sessions))",
    "DELETE FROM candidates WHERE id NOT IN (SELECT candidate_id FROM attempts WHERE candidate_id IS NOT NULL)",
    """DELETE FROM prompts WHERE id NOT IN (SELECT prompt_id FROM attempts WHERE prompt_id IS NOT NULL)
       AND id NOT IN (SELECT prompt_id FROM asks)""",
    """DELETE FROM tasks WHERE digest IN (SELECT value FROM json_each(:tasks))
       AND digest NOT IN (SELECT task_digest FROM attempts) AND digest NOT IN (SELECT task_digest FROM asks)""",
)
_LEFT = "SELECT DISTINCT session_id FROM attempts"


@dataclass(frozen=True, slots=True)
class Selection:
    """What to forget: attempts that meet every condition given. sessions, origins, experiences: ids or unique
    beginnings (origins also by label); tasks: names or digests; since, before: ISO 8601.

    descendants: also everything that started from it, however far down; and of what came from elsewhere the copies that
    our own runs made.
    """

    sessions: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    experiences: tuple[str, ...] = ()
    since: datetime | None = None
    before: datetime | None = None
    descendants: bool = True


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten, or would be. attempts: ids; descendants: how many of them only because of what they started
    from or are copies of; by_task: attempts by task name."""

    attempts: tuple[str, ...]
    descendants: int
    by_task: dict[str, int]


def select(connection: sqlite3.Connection, selection: Selection) -> Forgotten:
    """Return what a selection means. Raises NotFound for a name that means nothing here, or several things."""
    sessions = {_one(connection, _SESSIONS, name, "session") for name in selection.sessions}
    origins = {_one(connection, _ORIGINS, name, "origin") for name in selection.origins}
    named = {_attempt_of(connection, name) for name in selection.experiences}
    rows = connection.execute(_ATTEMPTS).fetchall()
    chosen = {
        name
        for name, session, task, digest, created_at, origin, *_ in rows
        if (not sessions or session in sessions)
        and (not origins or origin in origins)
        and (not named or name in named)
        and (not selection.tasks or task in selection.tasks or digest in selection.tasks)
        and _in_time(created_at, selection)
    }
    for task in selection.tasks:
        if all(task not in (row[2], row[3]) for row in rows):
            raise NotFound(f"nothing was tried on {task}; kope db info lists tasks")
    everything = chosen
    if selection.descendants:
        everything = _below(rows, chosen)
        everything = _below(rows, everything | copies_of(connection, everything))
    counts: dict[str, int] = {}
    for row in rows:
        if row[0] in everything:
            counts[row[2]] = counts.get(row[2], 0) + 1
    kept = tuple(row[0] for row in rows if row[0] in everything)
    return Forgotten(kept, len(everything) - len(chosen), counts)


def forget(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Remove attempts and all that is theirs alone, inside the caller's transaction."""
    listed = json.dumps(sorted(names))
    rows = [row for row in connection.execute(_ATTEMPTS).fetchall() if row[0] in set(names)]
    left_behind = [name for (name,) in connection.execute(_LEFT_BEHIND, {"names": listed})]
    drop_words(connection, [*names, *left_behind])
    connection.execute(_DELETE, (listed,))
    connection.execute(_VERSIONS, (listed,))
    _add_words(connection, left_behind)
    connection.executemany(_TOMBSTONE, [(name, now()) for name in sorted(names)])
    left = {name for (name,) in connection.execute(_LEFT)}
    sessions = json.dumps(sorted({row[1] for row in rows} - left))
    tasks = json.dumps(sorted({row[3] for row in rows}))
    for statement in _ORPHANS:
        connection.execute(statement, {"sessions": sessions, "tasks": tasks})
    index.clear(connection)
    rescore(connection)
    digests.rebuild(connection)
    new_generation(connection)


def drop_words(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Take the experiences of attempts out of the full-text index.

    It has no content of its own, so it has to be told the very words; what the row number pointed to would otherwise be
    found under the next experience that gets the number.
    """
    for seq, attempt_id, *texts in connection.execute(_WORDS, (json.dumps(sorted(names)),)).fetchall():
        connection.execute(_NO_WORDS, (seq, *words_of(attempts.by_id(connection, attempt_id), *texts)))


def _add_words(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Put the experiences of attempts into the full-text index, with the words they have now."""
    for seq, attempt_id, *texts in connection.execute(_WORDS, (json.dumps(sorted(names)),)).fetchall():
        connection.execute(_NEW_WORDS, (seq, *words_of(attempts.by_id(connection, attempt_id), *texts)))


def _one(connection: sqlite3.Connection, sql: str, name: str, what: str) -> str:
    values = (*prefix_range(name), name) if sql.count("?") == 3 else prefix_range(name)
    found = connection.execute(sql, values).fetchall()
    if len(found) != 1 and (not found or found[0][0] != name):  # a whole id may begin others: attempt 2, attempt 20
        raise NotFound(f"{'several' if found else 'no'} {what}s begin with {name!r}; kope db info --json lists them")
    return str(found[0][0])


def _attempt_of(connection: sqlite3.Connection, name: str) -> str:
    """Return the attempt meant by the id of an experience or of an attempt."""
    found = connection.execute(_EXPERIENCES, prefix_range(name)).fetchall()
    if len(found) == 1 and found[0][1] == "digest":
        raise NotFound(f"{name} is a lesson, made again from its evidence; to do without it: kope db retire {name}")
    if len(found) == 1 and found[0][2]:
        return str(found[0][2])
    return _one(connection, _ATTEMPT_IDS, name, "experience")


def _in_time(created_at: str, selection: Selection) -> bool:
    if selection.since is None and selection.before is None:
        return True
    try:
        at = datetime.fromisoformat(created_at)
    except ValueError:
        return False
    at = at if at.tzinfo is not None else at.astimezone()
    return (selection.since is None or at >= selection.since) and (selection.before is None or at < selection.before)


def _below(rows: Iterable[tuple[str, ...]], chosen: Collection[str]) -> set[str]:
    children: dict[str, list[str]] = {}
    for row in rows:
        children.setdefault(row[6], []).append(row[0])
    waiting = list(chosen)
    found = set(chosen)
    while waiting:
        fresh = [name for name in children.get(waiting.pop(), ()) if name not in found]
        found.update(fresh)
        waiting.extend(fresh)
    return found
