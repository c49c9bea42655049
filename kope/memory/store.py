"""The experience database: one SQLite file, one class.

Sessions, attempts, outcomes that are known already, recall. How rows look is rows', how experiences are made is learn's,
what is recalled and why is recall's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kope.memory.query import RecallQuery, Scope
from kope.model import Attempt, Embedder, Experience, Fingerprint, Outcome, Recall, Task, Verdict


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the loop. resumed: it was begun by an earlier process that did not come to its end."""

    id: str
    settings_key: str
    info: Mapping[str, Any]
    started_at: str
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as it was sent. ledger: one JSON-able record per item offered to it, in or out."""

    text: str
    template: str = ""
    tokens: int = 0
    ledger: Sequence[Mapping[str, Any]] = ()


class Store:
    """An open experience database. Safe to use from several threads; several processes may each open the same file."""

    path: Path
    read_only: bool
    embedder: Embedder | None

    @classmethod
    def open(
        cls, path: Path, *, embedder: Embedder | None = None, create: bool = True, read_only: bool = False
    ) -> Self:
        """Open a database, make or migrate it when needed. Without embedder recall is by filters and full text.

        read_only: nothing is written, not even beside the file. A file or folder that cannot be written is opened
        read-only as well; `read_only` then says so.
        Raises NotFound (no such file and not `create`), SchemaError (newer, or not KOPE's), Corrupt, StoreError.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close. When nobody else has the database open, one file is left, complete in itself."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- sessions and tasks

    def begin_session(self, settings_key: str, info: Mapping[str, Any] | None = None, *, resume: bool = True) -> Session:
        """Begin a session, or take up the newest with this key that never ended and whose process is gone.

        settings_key: hash or text of everything that must be equal for resuming to make sense. info: JSON-able.
        """
        raise NotImplementedError

    def end_session(self, session_id: str, reason: str) -> None:
        """Say that a session came to its end; it is not resumed any more. Raises NotFound."""
        raise NotImplementedError

    def add_task(self, task: Task) -> None:
        """Remember what a task is; nothing happens when it is known. Needed before its first attempt is recorded."""
        raise NotImplementedError

    # --- attempts

    def record(self, attempt: Attempt, *, bottleneck: str = "", prompt: Prompt | None = None) -> Experience:
        """Write an attempt and what it teaches in one transaction; when this returns, it is on disk.

        bottleneck: what the candidate's time goes to, in target.profile's words; "" when not known.
        Raises StoreError when the id is taken, or the task or session unknown; ReadOnly; MachineError (disk full).
        Whatever it raises, the file is as before.
        """
        raise NotImplementedError

    def find_outcome(
        self,
        candidate_id: str,
        task_digest: str,
        fingerprint: Fingerprint,
        *,
        at_least: Verdict = Verdict.SCREENED,
    ) -> Outcome | None:
        """Return the outcome of the same candidate on the same task under an equal fingerprint, None when there is none.

        A conclusive outcome (verified or failed) goes before a screened one, newer before older.
        at_least VERIFIED: conclusive ones only.
        """
        raise NotImplementedError

    def attempt(self, attempt_id: str) -> Attempt:
        """Return an attempt by id or unique prefix of it. Raises NotFound."""
        raise NotImplementedError

    def attempts(
        self, *, session_id: str | None = None, task_digest: str | None = None, task_name: str | None = None
    ) -> tuple[Attempt, ...]:
        """Return attempts in the order they were recorded."""
        raise NotImplementedError

    def baseline(self, task_digest: str, hardware: str, *, session_id: str | None = None) -> Attempt | None:
        """Return the first verified and timed attempt on a task on this hardware (in this session)."""
        raise NotImplementedError

    def incumbent(self, task_digest: str, hardware: str, *, session_id: str | None = None) -> Attempt | None:
        """Return the fastest of the attempts that were promoted on a task on this hardware (in this session)."""
        raise NotImplementedError

    def best(self, task: str, *, hardware: str | None = None) -> Attempt:
        """Return the incumbent of a task, by name or digest; of its newest digest when the name has several.

        hardware None: the one tried last. Raises NotFound, saying what there is instead.
        """
        raise NotImplementedError

    def prompt(self, prompt_id: str) -> str:
        """Return the text of a prompt. Raises NotFound."""
        raise NotImplementedError

    # --- experience

    def recall(self, query: RecallQuery, scope: Scope = Scope()) -> Recall:
        """Return the experiences that fit, best first, each with the reason, and the evidence on moves."""
        raise NotImplementedError
