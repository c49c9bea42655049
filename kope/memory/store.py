"""The experience database: one SQLite file, one class. A door: each method is one line of another module's work.

How rows look is rows', how experiences are made learn's, what is recalled and why recall's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kope.errors import NotFound, StoreError
from kope.memory import answer, attempts, calls, digests, index, sessions
from kope.memory.check import Problem, problems
from kope.memory.database import Database
from kope.memory.distil import distil
from kope.memory.documents import Documents
from kope.memory.embedding import INSTALL
from kope.memory.encode import unpack, vector_bytes
from kope.memory.forget import Forgotten, Selection, forget, select
from kope.memory.image import Image
from kope.memory.info import Info, read_info
from kope.memory.learn import learn
from kope.memory.ledger import PromptSum, prompt_sums
from kope.memory.moves import MoveReader
from kope.memory.neighbours import neighbourhood
from kope.memory.query import MemoryMode, RecallQuery, Scope
from kope.memory.recall import choose
from kope.memory.record import (
    NO_VECTOR,
    Prompt,
    Vector,
    experience_of,
    read_parent,
    require_known,
    task_row,
    write_attempt,
)
from kope.memory.reembed import reembed
from kope.memory.rows import to_rows
from kope.memory.scope import view_of
from kope.memory.sessions import Ask, Session
from kope.memory.show import Surroundings, find_id, surroundings
from kope.memory.stats import Stats, read_stats
from kope.model import Attempt, Candidate, Embedder, Experience, Fingerprint, Outcome, Recall, Task, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ORIGIN = "SELECT value FROM meta WHERE key = 'origin'"
_TASK = "SELECT 1 FROM tasks WHERE digest = ? AND origin_id = ?"
_NEW_TASK = """
    INSERT INTO tasks (digest, origin_id, name, text, tags, definition, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (digest) DO UPDATE SET origin_id = excluded.origin_id, name = excluded.name, text = excluded.text,
    tags = excluded.tags, definition = excluded.definition
"""
_CASE_COUNTS = "SELECT digest, json_array_length(definition, '$.cases') FROM tasks"
_HARDWARE = "SELECT hardware FROM attempts WHERE origin_id = ? ORDER BY seq DESC LIMIT 1"
_ANY_HARDWARE = "SELECT hardware FROM attempts ORDER BY seq DESC LIMIT 1"
_PROMPT_TEXT = "SELECT text FROM prompts WHERE id = ?"
_RETIRE = "UPDATE nodes SET retired = ?, revision = (SELECT max(revision) + 1 FROM nodes) WHERE id = ?"
_EVERYTHING = Scope()
_VECTORS_KEPT = 256


class Store:
    """An open experience database. Safe to use from several threads; several processes may each open the same file.

    read_only: it cannot be written, by wish or by permission. notes: what a user should know about the file, in
    sentences. embedder: None when recall works without meaning.
    """

    def __init__(self, database: Database, embedder: Embedder | None) -> None:
        self.path = database.path
        self.read_only = database.read_only
        self.notes = database.notes
        self.embedder = embedder
        self.documents = Documents(database)
        self._database = database
        self._origin: str = (database.row(_ORIGIN) or ("",))[0]
        index.ready(database)
        self._image = Image(database)
        self._moves = MoveReader()
        self._vectors: dict[str, NDArray[np.float32]] = {}

    @classmethod
    def open(
        cls, path: Path, *, embedder: Embedder | None = None, create: bool = True, read_only: bool = False
    ) -> Self:
        """Open a database, make or migrate it when needed. Without embedder recall is by filters and full text.

        path ":memory:" is a database that ends with this process. read_only: nothing is written, not even beside the
        file. A file or folder that cannot be written is opened read-only as well; `read_only` then says so.
        Raises NotFound (no such file and not `create`), SchemaError (newer, or not KOPE's), Corrupt, StoreError.
        """
        return cls(Database.open(path, create=create, read_only=read_only), embedder)

    def close(self) -> None:
        """Close. When nobody else has the database open, one file is left, complete in itself."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- sessions, tasks, asks

    def begin_session(
        self,
        settings_key: str,
        info: Mapping[str, Any] | None = None,
        *,
        resume: bool = True,
        session_id: str | None = None,
    ) -> Session:
        """Begin a session, or take up the newest with this key that never ended and whose process is gone.

        settings_key: hash or text of everything that must be equal for resuming to make sense. info: JSON-able.
        session_id: of a session begun anew, instead of a random one; every other id follows from it, so that an
        experiment can be repeated to the letter. Raises StoreError when it is taken.
        """
        with self._database.write() as connection:
            return sessions.begin(
                connection, self._origin, settings_key, info or {}, resume=resume, session_id=session_id
            )

    def end_session(self, session_id: str, reason: str) -> None:
        """Say that a session came to its end, and distil; it is not resumed any more. Raises NotFound."""
        with self._database.write() as connection:
            sessions.end(connection, session_id, reason)
            calls.drop(connection, session_id)
        self.distil()

    def distil(self) -> tuple[int, int, int]:
        """Bring digests and contrasts up to date with all attempts; returns how many digests are new, changed, gone."""
        with self._database.reading() as connection:
            made = distil(connection)
            known = digests.known_ids(connection)
        vectors = {each.id: self._stored_vector(digests.meaning(each)) for each in made if each.id not in known}
        with self._database.write() as connection:
            return digests.rebuild(connection, made, vectors)

    def sessions(self) -> tuple[Session, ...]:
        """Return every session in the order they began."""
        with self._database.reading() as connection:
            return sessions.read_all(connection)

    def add_task(self, task: Task) -> None:
        """Remember what a task is, whatever an import said of it. Needed before its first attempt is recorded."""
        if self._database.row(_TASK, (task.digest, self._origin)) is None:
            with self._database.write() as connection:
                connection.execute(_NEW_TASK, task_row(task, self._origin, sessions.now()))

    def case_counts(self) -> dict[str, int]:
        """Return how many cases each task has, by digest."""
        with self._database.reading() as connection:
            return dict(connection.execute(_CASE_COUNTS).fetchall())

    def ask(
        self,
        session_id: str,
        task_digest: str,
        prompt: Prompt,
        *,
        used: Sequence[str] = (),
        parent_id: str | None = None,
    ) -> Ask:
        """Keep a prompt that is handed out, under an id by which its answer is told from others."""
        with self._database.write() as connection:
            return sessions.new_ask(connection, session_id, task_digest, prompt, used, parent_id)

    def asked(self, ask_id: str) -> Ask:
        """Return an ask by id or unique beginning of it. Raises NotFound."""
        with self._database.reading() as connection:
            return sessions.read_ask(connection, ask_id)

    def add_to_ask(self, ask: Ask, used: Sequence[str], line: Mapping[str, Any]) -> Ask:
        """Add experiences that were looked up for the answer to an ask, and their record, to it."""
        with self._database.write() as connection:
            return sessions.add_to_ask(connection, sessions.read_ask(connection, ask.id), used, line)

    def find_call(self, session_id: str, key: str) -> Mapping[str, Any] | None:
        """Return the record of a model call that the session made under this key, None when it made none."""
        with self._database.reading() as connection:
            return calls.find(connection, session_id, key)

    def keep_call(self, session_id: str, key: str, record: Mapping[str, Any]) -> None:
        """Keep the record of an answered model call until the session ends; when this returns, it is on disk."""
        with self._database.write() as connection:
            calls.keep(connection, session_id, key, record)

    # --- attempts

    def record(
        self,
        attempt: Attempt,
        *,
        bottleneck: str = "",
        prompt: Prompt | None = None,
        propensities: Mapping[str, float] | None = None,
    ) -> Experience:
        """Write an attempt and what it teaches in one transaction; when this returns, it is on disk.

        bottleneck: what the candidate's time goes to, in target.profile's words; "" when not known. prompt: as it was
        sent; None when there was none, or `attempt.prompt_id` names one that is kept already. propensities: with which
        chance each experience it used was recalled.
        Raises StoreError when the id is taken, or the task or session unknown; ReadOnly; MachineError (disk full).
        Whatever it raises, the file is as before.
        """
        if attempt.candidate is not None and Candidate.of(attempt.candidate.source) != attempt.candidate:
            raise StoreError(f"candidate {attempt.candidate.id[:12]} is not the sha256 of its source; use Candidate.of")
        if prompt is not None:
            attempt = replace(attempt, prompt_id=prompt.id)
        rows = to_rows(attempt, ledger=prompt.ledger if prompt is not None else ())
        with self._database.reading() as connection:
            require_known(connection, attempt, prompt)
            parent = read_parent(connection, attempt.proposal.parent_id)
        learned = learn(attempt, parent, bottleneck=bottleneck)
        vectors = self._stored_vector(learned.node_meaning), self._stored_vector(learned.edge_text)
        with self._database.write() as connection:
            write_attempt(
                connection,
                self._origin,
                attempt,
                rows,
                learned,
                parent,
                prompt,
                vectors,
                bottleneck=bottleneck,
                propensities=propensities or {},
            )
        return experience_of(rows, learned, bottleneck)

    def find_outcome(
        self,
        candidate_id: str,
        task_digest: str,
        fingerprint: Fingerprint,
        *,
        at_least: Verdict = Verdict.SCREENED,
    ) -> Outcome | None:
        """Return the outcome of the same candidate on the same task under an equal fingerprint, None without one.

        A conclusive outcome (verified or failed) goes before a screened one, newer before older.
        at_least VERIFIED: conclusive ones only.
        """
        with self._database.reading() as connection:
            return attempts.known_outcome(connection, candidate_id, task_digest, fingerprint, at_least)

    def attempt(self, attempt_id: str) -> Attempt:
        """Return an attempt by id or unique beginning of it. Raises NotFound."""
        with self._database.reading() as connection:
            return attempts.by_id(connection, attempt_id)

    def sources_of(self, attempt_id: str) -> tuple[str, str] | None:
        """Return the source an attempt started from and its own, None when either is not here."""
        with self._database.reading() as connection:
            return attempts.sources(connection, attempt_id)

    def attempts(
        self, *, session_id: str | None = None, task_digest: str | None = None, task_name: str | None = None
    ) -> tuple[Attempt, ...]:
        """Return attempts in the order they were recorded."""
        with self._database.reading() as connection:
            return attempts.by_place(connection, session_id, task_digest, task_name)

    def baseline(self, task_digest: str, hardware: str, *, session_id: str | None = None) -> Attempt | None:
        """Return the first verified and timed attempt on a task on this hardware (in this session)."""
        with self._database.reading() as connection:
            return attempts.baseline(connection, task_digest, hardware, session_id)

    def incumbent(self, task_digest: str, hardware: str, *, session_id: str | None = None) -> Attempt | None:
        """Return the fastest of the attempts that were promoted on a task on this hardware (in this session)."""
        with self._database.reading() as connection:
            return attempts.incumbent(connection, task_digest, hardware, session_id)

    def best(self, task: str, *, hardware: str | None = None) -> Attempt:
        """Return the incumbent of a task, by name or digest; of the version tried last when the name has several.

        hardware None: the one tried last. Raises NotFound, saying what there is instead.
        """
        with self._database.reading() as connection:
            return attempts.best(connection, task, hardware)

    def hardware_tried_last(self) -> str:
        """Return where the newest attempt of our own ran, else the newest that was taken over; "" without any."""
        row = self._database.row(_HARDWARE, (self._origin,)) or self._database.row(_ANY_HARDWARE)
        return str(row[0]) if row is not None else ""

    def prompt_sums(self, session_id: str | None = None) -> tuple[PromptSum, ...]:
        """Return where the tokens of prompts went, by session and role; of one session, or of all."""
        with self._database.reading() as connection:
            return prompt_sums(connection, session_id)

    def prompt(self, prompt_id: str) -> str:
        """Return the text of a prompt. Raises NotFound."""
        row = self._database.row(_PROMPT_TEXT, (prompt_id,))
        if row is None:
            raise NotFound(f"there is no prompt {prompt_id}; kope report --json shows which attempt had which")
        return unpack(row[0])

    # --- experience

    def experience(self, experience_id: str) -> Experience:
        """Return an experience by id. Raises NotFound."""
        with self._database.reading() as connection:
            self._image.catch_up()
            view = view_of(self._image, _EVERYTHING, "")
            return answer.one(connection, view, experience_id, self._image.origins)

    def recall(self, query: RecallQuery, scope: Scope = _EVERYTHING) -> Recall:
        """Return the experiences that fit, best first, each with the reason, and the evidence on moves.

        With another database as source, what that one has as well; in mode `only` nothing but that and the session's
        own attempts on the task.
        """
        if scope.source is not None:
            mode = MemoryMode.OFF if scope.mode is MemoryMode.ONLY else scope.mode
            own = self._recall(query, replace(scope, mode=mode, source=None))
            return answer.join(own, scope.source.recall(query), query.limit)
        if scope.mode is MemoryMode.ONLY:
            raise StoreError("memory mode only needs another database; give it as only:FILE")
        return self._recall(query, scope)

    def _recall(self, query: RecallQuery, scope: Scope) -> Recall:
        vector, name = None, ""
        if self.embedder is not None and query.limit > 0 and query.text:
            vector, name = self._embedded(query.text), self.embedder.name
        with self._database.reading() as connection:
            self._image.catch_up()
            view = view_of(self._image, scope, query.task_name)
            chosen, degraded = choose(connection, self._image, view, query, vector, name)
            around = neighbourhood(self._image, view, [item.node for item in chosen], query.hardware)
            moves = self._moves.read(self._image, view, query) if query.moves else ()
            without = ["no embedder"] if self.embedder is None else []
            return answer.compose(connection, view, chosen, around, moves, [*without, *degraded], self._image.origins)

    def surroundings(self, name: str) -> Surroundings:
        """Return an experience with what is linked to it, by the beginning of its or its attempt's id."""
        with self._database.reading() as connection:
            self._image.catch_up()
            return surroundings(connection, self._image, view_of(self._image, _EVERYTHING, ""), name)

    def retire(self, name: str, retired: bool | None) -> str:
        """Take an experience out of recall, or keep it there whatever its record; None: its record decides.

        Returns its id. Raises NotFound.
        """
        with self._database.write() as connection:
            node_id = find_id(connection, name)
            connection.execute(_RETIRE, (retired, node_id))
            return node_id

    # --- the file itself

    def info(self) -> Info:
        """Return what is in the file: versions, counts, tasks, sessions, embedders, hardware."""
        return read_info(self._database)

    def stats(self) -> Stats:
        """Return how healthy the memory is, in figures."""
        with self._database.reading() as connection:
            self._image.catch_up()
            return read_stats(connection, self._image)

    def forget(self, selection: Selection, *, dry_run: bool = False) -> Forgotten:
        """Remove attempts with all that came of them, for good: also from free pages and the index's old entries.

        dry_run: only say what it would be. Raises NotFound for names that mean nothing; whatever it raises, the file is
        as before.
        """
        with self._database.reading() as connection:
            found = select(connection, selection)
        if dry_run or not found.attempts:
            return found
        with self._database.write() as connection:
            forget(connection, select(connection, selection).attempts)
        self._database.compact()
        return found

    def reembed(self, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Give every experience a vector of this store's embedder; returns how many were made. Stopped anywhere, called
        again it goes on. progress: told (done, of how many). Raises StoreError without an embedder."""
        if self.embedder is None:
            raise StoreError(f"there is no embedder; {INSTALL}, or name a model with the setting embedder")
        return reembed(self._database, self.embedder, progress)

    def check(self) -> tuple[Problem, ...]:
        """Return what is wrong with the file, () when it is whole: pages, links, every content id, derived tables."""
        return problems(self._database)

    # --- vectors

    def _embedded(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a text; texts of a loop repeat, so the last few are kept."""
        assert self.embedder is not None
        vector = self._vectors.pop(text, None)
        if vector is None:
            vector = self.embedder.embed([text])[0]
        self._vectors[text] = vector
        while len(self._vectors) > _VECTORS_KEPT:
            self._vectors.pop(next(iter(self._vectors)), None)
        return vector

    def _stored_vector(self, text: str) -> Vector:
        if self.embedder is None or not text:
            return NO_VECTOR
        data = vector_bytes(self._embedded(text))
        return Vector(data, self.embedder.name) if data is not None else NO_VECTOR
