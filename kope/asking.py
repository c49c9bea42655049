"""One step of the method cut in two: `ask` hands the prompt out, `tell` takes the candidate in, whoever wrote it.

What happens in between (a person, an agent, an hour, another process) leaves no trace but the ask in the database, and
on it what was looked up for the answer.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace

from kope.context import Assembled, LedgerLine, estimate_tokens
from kope.context.lineage import Forest
from kope.context.quote import one_line
from kope.errors import ConfigError, ProposerError
from kope.loop import Parts, Standing, state_of, try_proposal
from kope.memory import Ask, Store
from kope.model import Attempt, Proposal, Recall, State, Task
from kope.propose.reply import parse_reply
from kope.session import SessionMemory, sent

LOOK_UPS = 6
"""How often something may be looked up for one answer: as often as a model may that asks in its own turns."""
_LOOKED_UP = "looked up"
_REPLY = re.compile(r"^(?:```|~~~|<{5,} ?SEARCH)", re.MULTILINE)
"""What no source begins a line with, and the reply of a model does."""


class Outside:
    """Stands where a proposer would: whoever answers an ask."""

    name = "ask"

    def propose(self, state: State) -> Proposal:
        """Raise ProposerError: the proposal comes from outside."""
        raise ProposerError(f"nobody writes candidates by itself here; use kope ask {state.task.name} and kope tell")


def prompt_for(task: Task, parts: Parts) -> tuple[State, Assembled]:
    """Return the state of a task with what is recalled for it, and its prompt. Nothing is recorded."""
    assert parts.assemble is not None, "asking needs prompts"
    state = state_of(task, parts.memory.standing(task), parts)
    state = replace(state, recall=parts.memory.recall(state))
    return state, parts.assemble(state)


def ask(task: Task, parts: Parts, memory: SessionMemory) -> tuple[Ask, Assembled]:
    """Make a prompt and keep it under an id that `tell` ties an attempt to."""
    _, prompt = prompt_for(task, parts)
    kept = memory.store.ask(memory.session_id, task.digest, sent(prompt), used=prompt.used, parent_id=prompt.base_id)
    return kept, prompt


def require_look_up_left(asked: Ask) -> None:
    """Raise ConfigError when as much was looked up for the answer to an ask as may be."""
    if sum(line.get("reason") == _LOOKED_UP for line in asked.ledger) >= LOOK_UPS:
        raise ConfigError(
            f"{LOOK_UPS} look-ups were answered for ask {asked.id}; write the kernel and hand it in with kope tell"
        )


def note_look_up(asked: Ask, words: str, found: Recall, store: Store) -> str:
    """Return what was recalled for the answer to an ask, as the tree a prompt shows, and keep it with the ask.

    So the attempt that answers it says what it was told, as one does whose prompt held it.
    """
    used = tuple(item.experience.id for item in found.items)
    text = Forest.of(found).draw(used)
    line = LedgerLine("warm", f"recall: {one_line(words, 80)}", estimate_tokens(text), _LOOKED_UP, True)
    store.add_to_ask(asked, used, asdict(line))
    return text


@dataclass(frozen=True, slots=True)
class Told:
    """A candidate as it came in: its source, what its author says about it."""

    source: str
    move: str = "edit"
    thought: str = ""


def read_answer(text: str, asked: Ask | None, memory: SessionMemory, *, move: str = "", thought: str = "") -> Told:
    """Return the candidate of an answer: a bare source, or the reply of a model with code or edits in it.

    move, thought: what its author says about it; without them, what the reply says. Raises ConfigError when a reply
    holds no candidate.
    """
    if not _REPLY.search(text):
        return Told(text, move or "edit", thought)
    shown = memory.store.attempt(asked.parent_id) if asked is not None and asked.parent_id is not None else None
    candidate = shown.candidate if shown is not None else None
    reply = parse_reply(text, shown=candidate.source if candidate is not None else None)
    if reply.source is None:
        raise ConfigError(
            f"no candidate in the answer: {reply.problem}; give a source, or a reply of the form the prompt asks for"
        )
    return Told(reply.source, move or reply.move or "edit", thought or reply.thought)


def tell(task: Task, told: Told, asked: Ask | None, parts: Parts, memory: SessionMemory) -> tuple[Attempt, Standing]:
    """Judge and record a candidate; return the attempt and where the task stands then.

    asked: the ask it answers; without one it counts as started from the best kernel. Raises ConfigError when the ask
    was for another task.
    """
    if asked is not None and asked.task_digest != task.digest:
        raise ConfigError(f"ask {asked.id} is not for this version of task {task.name}; run kope ask {task.name} again")
    standing = memory.standing(task)
    state = state_of(task, standing, parts)
    incumbent = standing.incumbent.id if standing.incumbent is not None else None
    proposal = Proposal(
        told.source,
        told.move,
        told.thought,
        parent_id=asked.parent_id if asked is not None else incumbent,
        used=tuple(asked.used) if asked is not None else (),
    )
    parent = memory.store.attempt(proposal.parent_id) if proposal.parent_id is not None else None
    attempt = try_proposal(state, proposal, parts, parent=parent)
    memory.record_answer(attempt, asked)
    return attempt, standing.after(attempt)
