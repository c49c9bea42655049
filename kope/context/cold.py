"""The cold tier: documentation and experience from other kinds of operators, and the question they are found by.

Finding passages is the library's business; which of them fit is the budget's.
"""

from __future__ import annotations

from collections.abc import Sequence

from kope.context.choice import Choice
from kope.context.quote import fence, one_line, without_secrets
from kope.model import Experience, Passage, State

PASSAGES_OFFERED = 6
_WORDS_FOR = {
    "mte2": "copy DataCopyPad bandwidth burst queue depth double buffering tile",
    "mte3": "copy out DataCopyPad bandwidth burst queue tile",
    "vector": "vector instruction count repeat mask fewer instructions",
    "scalar": "scalar loop GetValue SetValue issue tile size",
    "launch": "launch blocks cores tiling workspace",
}


def question(choice: Choice, state: State, bound_by: str) -> str:
    """Return what documentation is looked for: what failed, else where the time goes, else what is to be written."""
    base = choice.base
    if choice.template.startswith("prompts/repair") and base is not None:
        found = [item for item in base.outcome.diagnostics if item.severity == "error"][:3]
        return " ".join(f"{item.kind} {item.message[:300]} {item.remedy[:200]}" for item in found)
    task = state.task
    about = f"{' '.join(task.tags)} {task.name.replace('_', ' ')} {one_line(task.text, 300)}"
    if base is None:
        return f"{about} tiling tail alignment"
    return f"{_WORDS_FOR.get(bound_by, '')} {about}"


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
