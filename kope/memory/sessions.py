"""Sessions and asks: who is at work, what can be taken up again, and which prompts wait for an answer.

What a session attempts is attempts' business.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kope import __version__
from kope.errors import NotFound, StoreError
from kope.memory.encode import clean, pack, to_json, unpack
from kope.memory.record import PROMPT, Prompt

_UNFINISHED = """
    SELECT id, info, started_at, process FROM sessions
    WHERE settings_key = ? AND ended_at IS NULL AND origin_id = (SELECT value FROM meta WHERE key = 'origin')
    ORDER BY rowid DESC
"""
_TAKE_UP = "UPDATE sessions SET process = ? WHERE id = ?"
_NEW = """
    INSERT INTO sessions (id, origin_id, settings_key, info, kope_version, started_at, process)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_KNOWN = "SELECT 1 FROM sessions WHERE id = ?"
_END = "UPDATE sessions SET ended_at = ?, end_reason = ?, process = NULL WHERE id = ?"
_ALL = "SELECT id, settings_key, info, started_at, ended_at, end_reason FROM sessions ORDER BY rowid"
_NEW_ASK = """
    INSERT INTO asks (id, session_id, task_digest, prompt_id, parent_id, used, created_at, ledger)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_ASK = """
    SELECT k.id, k.session_id, k.task_digest, t.name, k.prompt_id, k.parent_id, k.used, k.ledger
    FROM asks AS k JOIN tasks AS t ON t.digest = k.task_digest WHERE k.id >= ? AND k.id < ? ORDER BY k.id LIMIT 2
"""
_MORE_ASKED = "UPDATE asks SET used = ?, ledger = ? WHERE id = ?"
_TASK_NAME = "SELECT name FROM tasks WHERE digest = ?"


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the loop. resumed: it was begun by an earlier process that did not come to its end.

    ended_at, end_reason: "" while it can still be resumed.
    """

    id: str
    settings_key: str
    info: Mapping[str, Any]
    started_at: str
    resumed: bool = False
    ended_at: str = ""
    end_reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt that was handed out. used: experiences in it. parent_id: the attempt its answer is to start from.

    ledger: one record per item offered to the prompt.
    """

    id: str
    session_id: str
    task_digest: str
    task_name: str
    prompt_id: str
    parent_id: str | None
    used: tuple[str, ...]
    ledger: tuple[Mapping[str, Any], ...] = ()


def begin(
    connection: sqlite3.Connection,
    origin_id: str,
    settings_key: str,
    info: Mapping[str, Any],
    *,
    resume: bool,
    session_id: str | None = None,
) -> Session:
    """Begin a session or take one up, inside the caller's transaction."""
    me = _this_process()
    if resume:
        for unfinished, text, started_at, process in connection.execute(_UNFINISHED, (settings_key,)).fetchall():
            if process == me or not _is_alive(process):
                connection.execute(_TAKE_UP, (me, unfinished))
                return Session(unfinished, settings_key, json.loads(text), started_at, resumed=True)
    if session_id is not None and connection.execute(_KNOWN, (session_id,)).fetchone() is not None:
        raise StoreError(f"there is a session {session_id} already; give another id")
    session = Session(session_id or secrets.token_hex(12), settings_key, dict(info), now())
    values = (session.id, origin_id, settings_key, to_json(info), __version__, session.started_at, me)
    connection.execute(_NEW, values)
    return session


def end(connection: sqlite3.Connection, session_id: str, reason: str) -> None:
    """Mark a session as ended. Raises NotFound."""
    if connection.execute(_END, (now(), clean(reason), session_id)).rowcount == 0:
        raise NotFound(f"there is no session {session_id}; kope db info lists them")


def read_all(connection: sqlite3.Connection) -> tuple[Session, ...]:
    """Return every session in the order they began."""
    return tuple(
        Session(name, key, json.loads(info), started, False, ended or "", reason or "")
        for name, key, info, started, ended, reason in connection.execute(_ALL)
    )


def new_ask(
    connection: sqlite3.Connection,
    session_id: str,
    task_digest: str,
    prompt: Prompt,
    used: Sequence[str],
    parent_id: str | None,
) -> Ask:
    """Keep a prompt under a new id. Raises StoreError for a task that was not added."""
    row = connection.execute(_TASK_NAME, (task_digest,)).fetchone()
    if row is None:
        raise StoreError(f"task {task_digest[:12]} is not in the database; add it before asking about it")
    name = secrets.token_hex(6)
    ask = Ask(name, session_id, task_digest, row[0], prompt.id, parent_id, tuple(used), tuple(prompt.ledger))
    connection.execute(PROMPT, (prompt.id, prompt.template, prompt.tokens, pack(prompt.text)))
    kept = pack(to_json(ask.ledger))
    values = (ask.id, session_id, task_digest, prompt.id, parent_id, to_json(ask.used), now(), kept)
    connection.execute(_NEW_ASK, values)
    return ask


def read_ask(connection: sqlite3.Connection, ask_id: str) -> Ask:
    """Return an ask by id or unique beginning of it. Raises NotFound."""
    rows = connection.execute(_ASK, prefix_range(ask_id)).fetchall()
    if len(rows) != 1:
        raise NotFound(
            f"{'several asks begin' if rows else 'no ask begins'} with {ask_id!r}; kope ask TASK gives the id"
        )
    name, session_id, task_digest, task_name, prompt_id, parent_id, used, ledger = rows[0]
    records = tuple(json.loads(unpack(ledger))) if ledger is not None else ()
    return Ask(name, session_id, task_digest, task_name, prompt_id, parent_id, tuple(json.loads(used)), records)


def add_to_ask(connection: sqlite3.Connection, ask: Ask, used: Sequence[str], line: Mapping[str, Any]) -> Ask:
    """Add experiences, and a record to the ledger, to an ask; returns it as it is then."""
    more = replace(ask, used=tuple(dict.fromkeys((*ask.used, *used))), ledger=(*ask.ledger, line))
    connection.execute(_MORE_ASKED, (to_json(more.used), pack(to_json(more.ledger)), ask.id))
    return more


def now() -> str:
    """Return the time, UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def prefix_range(beginning: str) -> tuple[str, str]:
    """Return the bounds of the ids that begin so; of none for "". As parameters of `>=` and `<` they use the index."""
    text = clean(beginning)
    return (text, text + "\U0010ffff") if text else ("", "")


# --- which process --------------------------------------------------------------------------------------------------


def _this_process() -> str:
    return f"{_machine()}:{os.getpid()}:{_start_ticks(os.getpid())}"


def _is_alive(process: str | None) -> bool:
    """Whether the process named so still runs. One of another machine, container or boot is taken for gone."""
    machine, _, rest = (process or "").rpartition(":")[0].rpartition(":")
    if not process or machine != _machine():
        return False
    return _start_ticks(int(rest)) == process.rpartition(":")[2] != ""


def _machine() -> str:
    """Name this boot of this machine and the namespace that process numbers are from; no host name in the file."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return "unknown"


def _start_ticks(pid: int) -> str:
    """Return when a process started, which tells it from a later one with its number; "" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError, UnicodeDecodeError):
        return ""
