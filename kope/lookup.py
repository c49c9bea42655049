"""Answers to what a proposer asks for by itself: experiences for words, one experience in full, documentation.

How the requests are written is gather.py's business.
"""

from __future__ import annotations

from kope.context.lineage import Forest
from kope.context.quote import without_comments
from kope.errors import NotFound
from kope.library import Library
from kope.memory import RecallQuery
from kope.model import Experience, State
from kope.propose.gather import Found, Request
from kope.session import SessionMemory

ITEMS = 6
PASSAGES = 3
NOTHING = "nothing was found"


class SessionLookup:
    """Looks up in what one session may be told of, and in the library."""

    def __init__(self, memory: SessionMemory, library: Library) -> None:
        self._memory = memory
        self._library = library

    def __call__(self, request: Request, state: State) -> Found:
        """Return what was found for a request made in a state."""
        if request.kind == "docs":
            return Found(self.docs(request.words))
        if request.kind == "show":
            return self.show(request.words)
        return self.recall(request.words, state)

    def docs(self, words: str) -> str:
        """Return passages of documentation."""
        found = self._library.search(words, PASSAGES)
        parts = [f"[{passage.source}: {passage.heading}]\n{passage.text}" for passage in found]
        return "\n\n".join(parts) or NOTHING

    def recall(self, words: str, state: State) -> Found:
        """Return experiences for words, as the tree a prompt shows."""
        query = RecallQuery(
            text=words,
            task_name=state.task.name,
            task_digest=state.task.digest,
            tags=state.task.tags,
            hardware=state.fingerprint.hardware,
            limit=ITEMS,
            moves=False,
        )
        recalled = self._memory.look_up(query)
        used = tuple(item.experience.id for item in recalled.items)
        return Found(Forest.of(recalled).draw(used) or NOTHING, used)

    def show(self, words: str) -> Found:
        """Return one experience with its source; code from another's file comes without comments."""
        try:
            experience, source = self._memory.shown(words.strip("[]`. "))
        except NotFound as missing:
            return Found(str(missing))
        return Found(_in_full(experience, source), (experience.id,))


def _in_full(experience: Experience, source: str | None) -> str:
    if source is not None and experience.origin:
        source = without_comments(source)
    return f"{experience.title}\n{experience.text}\n\n{source or 'its source is not here'}"
