"""What an agent can do in one folder: look things up, judge a kernel, hand one in. Plain functions, JSON-able results.

Protocols and progress are server's business. Nothing outside the folder and the task path is read or written.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kope import asking, config, wiring
from kope.context.lineage import Forest
from kope.context.quote import without_comments
from kope.errors import ConfigError, NotFound
from kope.library import Library
from kope.memory import RecallQuery
from kope.model import Candidate, Experience, Task
from kope.report.document import attempt_document
from kope.report.prompt import ask_document, next_step, prompt_document, tell_document
from kope.report.verdict import verdict_document
from kope.task import find_task, shipped_folder

Tell = Callable[[str], None]


class Workbench:
    """One folder with its database and its tasks. Every call opens what it needs and closes it again."""

    def __init__(self, folder: Path, settings: config.Settings | None = None) -> None:
        """folder: where relative paths of the settings start, and the border of what tasks may be named by path.

        Raises ConfigError when it does not exist, or the database is outside of it.
        """
        self.folder = folder.resolve()
        if not self.folder.is_dir():
            raise ConfigError(f"{folder} is no folder; start kope mcp in the folder that holds kope.db")
        given = settings or config.load(cwd=self.folder)
        self.settings = replace(given, db=self._inside(given.db), task_path=self._folders(given.task_path))

    # --- looking things up

    def tasks(self) -> dict[str, Any]:
        """Return the names of the tasks there are, and how often each was tried and was right."""
        names = sorted({path.parent.name for place in self._places() for path in place.glob("*/task.toml")})
        tried: dict[str, tuple[int, int]] = {}
        if self.settings.db.exists():
            with wiring.open_existing(self.settings) as store:
                tried = {row.name: (row.attempts, row.verified) for row in store.info().tasks}
        counts = [(name, *tried.get(name, (0, 0))) for name in names]
        return {"tasks": [{"name": name, "attempts": count, "verified": right} for name, count, right in counts]}

    def recall(self, text: str, task: str | None, limit: int, ask: str | None = None) -> dict[str, Any]:
        """Return experiences that fit a text, a task or both, as a tree and one by one.

        ask: for the answer to which; it is kept with it, and counted.
        """
        with wiring.open_existing(self.settings) as store:
            asked = store.asked(ask) if ask else None
            if asked is not None:
                asking.require_look_up_left(asked)
            hardware = store.hardware_tried_last()
            query = RecallQuery.for_task(self.task(task), text=text) if task else RecallQuery(text=text)
            found = store.recall(replace(query, hardware=hardware, limit=limit, moves=False))
            if asked is not None:
                asking.note_look_up(asked, text or str(task), found, store)
        items = [{"reason": item.reason, **_experience(item.experience)} for item in found.items]
        tree = Forest.of(found).draw([item.experience.id for item in found.items])
        return {"tree": tree, "items": items, "degraded": found.degraded}

    def neighbourhood(self, experience: str) -> dict[str, Any]:
        """Return one experience with its source, what it started from, what came of it, and what it changed."""
        with wiring.open_existing(self.settings) as store:
            node = store.experience(experience)
            attempt = store.attempt(node.attempt_id) if node.attempt_id is not None else None
            others = store.attempts(session_id=attempt.session_id) if attempt is not None else ()
        document: dict[str, Any] = {"experience": _experience(node), "source": None, "parent": None, "children": []}
        if attempt is None:
            return document
        by_id = {other.id: other for other in others}
        parent = by_id.get(attempt.proposal.parent_id or "")
        children = [attempt_document(other) for other in others if other.proposal.parent_id == attempt.id]
        source = attempt.candidate.source if attempt.candidate is not None else None
        if source is not None and node.origin:
            source = without_comments(source)
        return document | {
            "source": source,
            "attempt": attempt_document(attempt),
            "parent": attempt_document(parent) if parent is not None else None,
            "children": children,
        }

    def docs(self, text: str, limit: int) -> dict[str, Any]:
        """Return passages of the user's documents and of the Ascend C guide."""
        store = wiring.open_existing(self.settings) if self.settings.db.exists() else None
        library = Library(store)
        try:
            passages = library.search(text, limit)
        finally:
            library.close()
            if store is not None:
                store.close()
        shown = [{"source": found.source, "heading": found.heading, "text": found.text} for found in passages]
        return {"passages": shown}

    def best(self, task: str) -> dict[str, Any]:
        """Return the best kernel of a task."""
        with wiring.open_existing(self.settings) as store:
            attempt = store.best(self.task(task).name)
        source = attempt.candidate.source if attempt.candidate is not None else ""
        return {"attempt": attempt_document(attempt), "source": source}

    # --- working on a task

    def context(self, task: str) -> dict[str, Any]:
        """Return the prompt a model would get now, with its ledger; nothing is recorded."""
        plan = wiring.Plan("ask")
        with wiring.open_view(plan, self.settings) as opened:
            _, made = asking.prompt_for(self.task(task), opened.parts)
        return prompt_document(made, wiring.budget(plan, self.settings))

    def ask(self, task: str) -> dict[str, Any]:
        """Return the prompt for the next kernel, and the id to hand the answer in under."""
        found, plan = self.task(task), wiring.Plan("ask")
        with wiring.open_session([found], plan, self.settings) as opened:
            kept, made = asking.ask(found, opened.parts, opened.memory)
            incumbent = opened.memory.standing(found).incumbent
        return ask_document(kept, made, wiring.budget(plan, self.settings), incumbent)

    def evaluate(self, task: str, source: str, tell: Tell) -> dict[str, Any]:
        """Judge a kernel on every case; nothing is recorded."""
        found, candidate = self.task(task), Candidate.of(source)
        judge = wiring.evaluator(self.settings, progress=tell)
        tell(f"judging on the {len(found.cases)} cases of {found.name}")
        folder = wiring.work_folder(self.settings)
        outcome = judge.evaluate(found, candidate, folder, promote=lambda times_us: True)
        return verdict_document(found, candidate, judge.fingerprint(), outcome)

    def tell(self, task: str, answer: str, ask: str | None, move: str, thought: str, tell: Tell) -> dict[str, Any]:
        """Judge a kernel and record it. answer: a source, or a reply with code or edits in it."""
        found = self.task(task)
        with wiring.open_session([found], wiring.Plan("ask"), self.settings, progress=tell) as opened:
            asked = opened.store.asked(ask) if ask else None
            told = asking.read_answer(answer, asked, opened.memory, move=move, thought=thought)
            tell(f"judging on the {len(found.cases)} cases of {found.name}")
            attempt, standing = asking.tell(found, told, asked, opened.parts, opened.memory)
        return tell_document(ask, attempt, standing, next_step(attempt, shlex.quote(task), ""))

    # --- what may be named

    def task(self, name: str) -> Task:
        """Return a task by name, or by a path inside the folder. Raises NotFound for any other path."""
        if name != Path(name).name or name in (".", ".."):
            place = (self.folder / name).resolve()
            if not place.is_relative_to(self.folder):
                raise NotFound(f"task {name!r} is outside {self.folder}; name a task of this folder")
            return find_task(str(place), [])
        return find_task(name, self._places())

    def _places(self) -> list[Path]:
        return [place for place in (*self.settings.task_path, shipped_folder()) if place.is_dir()]

    def _inside(self, path: Path) -> Path:
        place = (self.folder / path).resolve()
        if not place.is_relative_to(self.folder):
            raise ConfigError(
                f"the database {place} is outside {self.folder}; start kope mcp in the folder that holds it"
            )
        return place

    def _folders(self, places: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple((self.folder / place).resolve() for place in places)


def _experience(node: Experience) -> dict[str, Any]:
    return {
        "id": node.id,
        "task": node.task_name,
        "move": node.move,
        "text": node.text,
        "works": node.works,
        "label": node.label,
        "speedup": node.speedup,
        "step_ratio": node.step_ratio,
        "hardware": node.hardware,
        "origin": node.origin,
    }
