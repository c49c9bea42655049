"""What can be asked of memory: the query, which part of memory may answer, and the session it is asked in.

Plain data; answering is recall's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kope.memory.value import Purpose
from kope.model import Attempt, Stage, State, Task

if TYPE_CHECKING:
    from kope.memory.store import Store


class MemoryMode(StrEnum):
    """Which experiences a session may be told of. Its own attempts on the task at hand always belong to them.

    on: everything in the database. off: nothing else. placebo: everything, but the outcomes of all else are permuted.
    only: the experiences of another database instead of this one's.
    """

    ON = "on"
    OFF = "off"
    PLACEBO = "placebo"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks. session_id: "" when no session does; then `off` leaves nothing. seed: of the placebo's permutation.

    source: another database, opened read-only: all there is in mode `only`, beside everything in mode `on`.
    """

    mode: MemoryMode = MemoryMode.ON
    session_id: str = ""
    seed: int = 0
    source: Store | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """Exact conditions, all of which an experience must meet; an empty one is met by all.

    hardware also drops experiences that have none (facts). traits: at least one in common.
    """

    tasks: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    kinds: tuple[str, ...] = ()
    hardware: str = ""
    traits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A state to find experiences for.

    text: what is asked, in words: searched by meaning and as full text. code: source or tool messages: full text over
    code and diagnostics. purpose: what the attempt is for, whose learned values count. explore: seed of drawing values
    from their posterior; None takes their means.
    task_name, task_digest, traits, tags, bottleneck: of the operator at hand; rank what is alike, exclude nothing.
    hardware: where times count as speed; "" counts none. limit: number of items, 0 for evidence on moves alone.
    """

    text: str = ""
    code: str = ""
    task_name: str = ""
    task_digest: str = ""
    traits: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    bottleneck: str = ""
    hardware: str = ""
    filters: Filters = Filters()
    limit: int = 8
    moves: bool = True
    purpose: Purpose = Purpose.REFINE
    explore: int | None = None

    @classmethod
    def for_state(cls, state: State, *, bottleneck: str = "", limit: int = 8) -> RecallQuery:
        """Return the query of a state: its operator and bottleneck in words; and the messages the last attempt failed
        with, or the incumbent's code.

        bottleneck: of the incumbent, in target.profile's words.
        """
        task, last = state.task, state.last
        failed = last is not None and not last.outcome.ok
        found = last.outcome.diagnostics[:4] if last is not None and failed else ()
        messages = " ".join(f"{item.kind}: {item.message}" for item in found)
        words = (f"bound by {bottleneck}",) if bottleneck else ()
        traits = next((a.proposal.traits for a in reversed(state.history) if a.proposal.traits), ())
        return cls(
            text=" ".join((task.text.strip(), *task.tags, *words, messages)).strip(),
            code=messages or _source(state.incumbent),
            task_name=task.name,
            task_digest=task.digest,
            traits=traits,
            tags=task.tags,
            bottleneck=bottleneck,
            hardware=state.fingerprint.hardware,
            limit=limit,
            purpose=_purpose(state),
        )

    @classmethod
    def for_task(cls, task: Task, *, text: str = "") -> RecallQuery:
        """Return the query of a task nobody has worked on yet: its operator in words, after what else is asked."""
        return cls(
            text=" ".join((text, task.text.strip(), *task.tags)).strip(),
            task_name=task.name,
            task_digest=task.digest,
            tags=task.tags,
        )


def _source(attempt: Attempt | None) -> str:
    return attempt.candidate.source if attempt is not None and attempt.candidate is not None else ""


def _purpose(state: State) -> Purpose:
    last = state.last
    if last is not None and not last.outcome.ok and last.candidate is not None:
        return Purpose.REPAIR
    return Purpose.REFINE if state.incumbent is not None else Purpose.DRAFT
