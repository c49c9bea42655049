"""One session of the loop in the experience database: where a task stands, what is recalled, what is written.

The loop's `Memory` over a `Store`. What the session may be told of is decided here, by its memory mode.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from kope.context import Assembled, Change
from kope.errors import NotFound
from kope.loop import Standing
from kope.memory import Ask, MemoryMode, Prompt, RecallQuery, Scope, Session, Store
from kope.model import Attempt, Candidate, Experience, Fingerprint, Outcome, Recall, State, Task
from kope.target.profile import bound_by


def settings_key(tasks: Sequence[Task], fingerprint: Fingerprint, **settings: Any) -> str:
    """Return the key of a session: equal for two runs exactly when resuming one as the other makes sense.

    Limits and the number of jobs are not part of it: they decide how far a run goes, not what its attempts are.
    """
    parts = {"tasks": [task.digest for task in tasks], "fingerprint": asdict(fingerprint), **settings}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _place(state: State) -> int:
    """Return a number for this place in the run: a resumed run draws the same."""
    place = f"{state.seed}\0{state.task.name}\0{state.iteration}"
    return int.from_bytes(hashlib.sha256(place.encode()).digest()[:8], "big")


class SessionMemory:
    """A session that reads and writes a store.

    With memory on, a task's baseline and incumbent are the database's: a new session goes on from the best kernel.
    In every other mode they are the session's own, so that arms of a comparison start alike. own_baseline: the baseline
    is the session's in every mode, because its first attempt is a kernel given for that.
    """

    def __init__(
        self, store: Store, session: Session, fingerprint: Fingerprint, scope: Scope, *, own_baseline: bool = False
    ) -> None:
        self.store = store
        self.session = session
        self.session_id = session.id
        self._fingerprint = fingerprint
        self._scope = scope
        self._own_baseline = own_baseline
        self._looked_up: dict[str, Experience] = {}
        self._propensities: Mapping[str, float] = {}

    def close(self) -> None:
        """Close the database, and the one it is told of in mode `only`."""
        self.store.close()
        if self._scope.source is not None:
            self._scope.source.close()

    def standing(self, task: Task) -> Standing:
        """Return where the task stands on this hardware, and make the task known to the database."""
        self.store.add_task(task)
        where = None if self._scope.mode is MemoryMode.ON else self.session_id
        hardware = self._fingerprint.hardware
        return Standing(
            baseline=self.store.baseline(
                task.digest, hardware, session_id=self.session_id if self._own_baseline else where
            ),
            incumbent=self.store.incumbent(task.digest, hardware, session_id=where),
            history=self.store.attempts(session_id=self.session_id, task_digest=task.digest),
        )

    def recall(self, state: State) -> Recall:
        """Return the experiences that fit the state, within what this session may be told of."""
        query = RecallQuery.for_state(state, bottleneck=bound_by(state.incumbent))
        query = replace(query, explore=_place(state))
        found = self.store.recall(query, self._scope)
        self._propensities = {item.experience.id: item.propensity for item in found.items}
        return found

    def find_outcome(self, task: Task, candidate: Candidate) -> Outcome | None:
        """Return what any session found out about the same candidate under an equal fingerprint."""
        return self.store.find_outcome(candidate.id, task.digest, self._fingerprint)

    def prompt_of(self, attempt: Attempt) -> Assembled | None:
        """Return the prompt an attempt answers: its text and what was in it, without its ledger."""
        if attempt.prompt_id is None:
            return None
        return Assembled(self.store.prompt(attempt.prompt_id), "", None, attempt.proposal.used, 0, "", ())

    def record(self, attempt: Attempt, prompt: Assembled | None) -> None:
        """Write an attempt with its prompt and what it teaches, in one transaction."""
        kept = sent(prompt) if prompt is not None else None
        self.store.record(attempt, bottleneck=bound_by(attempt), prompt=kept, propensities=self._propensities)

    def record_answer(self, attempt: Attempt, asked: Ask | None) -> None:
        """Write an attempt that answers an ask, with the ledger of the prompt it answers."""
        kept = Prompt(self.store.prompt(asked.prompt_id), ledger=asked.ledger) if asked is not None else None
        self.store.record(attempt, bottleneck=bound_by(attempt), prompt=kept)

    def change_of(self, experience: Experience) -> Change | None:
        """Return the code before and after an experience, None when one of them is not at hand."""
        if experience.after:
            return Change(experience.before, experience.after, foreign=bool(experience.origin))
        if experience.attempt_id is None:
            return None
        for store in (self.store, self._scope.source):
            sources = store.sources_of(experience.attempt_id) if store is not None else None
            if sources is not None:
                return Change(*sources, foreign=bool(experience.origin))
        return None

    def look_up(self, query: RecallQuery) -> Recall:
        """Return the experiences for a question, within what this session may be told of."""
        found = self.store.recall(query, self._scope)
        self._looked_up |= {item.experience.id: item.experience for item in found.items}
        self._looked_up |= {node.id: node for node in found.neighbours}
        return found

    def shown(self, beginning: str) -> tuple[Experience, str | None]:
        """Return an experience that was looked up, by the beginning of its id, and its source if it is here.

        Raises NotFound for any other: what a session may be told of is what recall told it.
        """
        known = [node for name, node in self._looked_up.items() if beginning and name.startswith(beginning)]
        if len(known) != 1:
            raise NotFound(f"there is no experience {beginning!r} among those recalled; recall it first")
        attempt_id = known[0].attempt_id
        for store in (self.store, self._scope.source) if attempt_id is not None else ():
            with contextlib.suppress(NotFound):
                attempt = store.attempt(attempt_id) if store is not None and attempt_id is not None else None
                if attempt is not None and attempt.candidate is not None:
                    return known[0], attempt.candidate.source
        return known[0], None


class SessionCalls:
    """The model calls of a session in a store, for proposers that are not to pay for an answered one again."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    def find(self, key: str) -> Mapping[str, Any] | None:
        """Return the record of the call made under this key, None when there is none."""
        return self._store.find_call(self._session_id, key)

    def save(self, key: str, record: Mapping[str, Any]) -> None:
        """Keep a record; when this returns, it is on disk."""
        self._store.keep_call(self._session_id, key, record)


def sent(prompt: Assembled) -> Prompt:
    """Return a prompt as it is kept: text, template, tokens and ledger."""
    return Prompt(prompt.text, prompt.template, prompt.tokens, tuple(asdict(line) for line in prompt.ledger))
