"""The cold tier: documentation and experience from other kinds of operators, and the question they are found by.

Finding passages is the library's business; which of them fit is the budget's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kope.confidential import without_secrets
from kope.context.choice import Choice
from kope.context.quote import fence, one_line
from kope.model import Experience, Passage, State

PASSAGES_OFFERED = 6
_NAME = re.compile(r"[A-Za-z]{3,}")
_EXAMPLE = "copy in, compute, copy out: AllocTensor EnQue DeQue FreeTensor InitBuffer"
_EXAMPLES_OFFERED = 2
_WORDS_FOR = {
    "mte2": "copy DataCopyPad bandwidth burst queue depth double buffering tile",
    "mte3": "copy out DataCopyPad bandwidth burst queue tile",
    "vector": "vector instruction count repeat mask fewer instructions",
    "scalar": "scalar loop GetValue SetValue issue tile size",
    "launch": "launch blocks cores tiling workspace",
}


def questions(choice: Choice, state: State, bound_by: str) -> tuple[str, ...]:
    """Return what documentation is looked for: what failed, else where the time goes, else what is to be written.

    A first kernel is helped most by a whole example, which is a question of its own.
    """
    wanted = _question(choice, state, bound_by)
    return (_EXAMPLE, wanted) if choice.base is None else (wanted,)


def _question(choice: Choice, state: State, bound_by: str) -> str:
    base = choice.base
    if choice.template.startswith("prompts/repair") and base is not None:
        found = [item for item in base.outcome.diagnostics if item.severity == "error"][:3]
        return " ".join(f"{item.kind} {item.message[:300]} {item.remedy[:200]}" for item in found)
    task = state.task
    names = " ".join(dict.fromkeys(_NAME.findall(task.reference)))
    about = f"{' '.join(task.tags)} {task.name.replace('_', ' ')} {names} {one_line(task.text, 300)}"
    return f"{_WORDS_FOR.get(bound_by, '')} {about}"


def look_up(passages: Callable[[str, int], Sequence[Passage]], asked: Sequence[str]) -> list[Passage]:
    """Return the passages for the questions, each once: of all but the last only the best few."""
    counts = [*[_EXAMPLES_OFFERED] * (len(asked) - 1), PASSAGES_OFFERED]
    found = {
        passage.id: passage
        for question, count in zip(asked, counts, strict=True)
        for passage in passages(question, count)
    }
    return list(found.values())


def is_cold(experience: Experience, state: State) -> bool:
    """Whether an experience is of another kind of operator: another task, and no structure word in common."""
    known = [attempt for attempt in (state.incumbent, state.last) if attempt is not None]
    mine = set(state.task.tags).union(*(attempt.proposal.traits for attempt in known))
    if experience.task_name == state.task.name or not mine or not experience.traits:
        return False
    return mine.isdisjoint(experience.traits)


def passage_block(passage: Passage) -> str:
    """Return one passage, fenced: where it is from on its first line."""
    place = one_line(f"{passage.source}: {passage.heading}" if passage.heading else passage.source, 160)
    return fence(without_secrets(f"[{place}]\n{passage.text.strip()}"))


def docs_block(passages: Sequence[Passage]) -> str:
    """Return the passages, "" for none."""
    return "\n\n".join(passage_block(passage) for passage in passages)
