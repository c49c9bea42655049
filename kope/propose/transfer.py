"""Compound moves: what proved itself along the path to another operator's best kernel, taken over in one attempt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kope.derive.graph import Graph
from kope.derive.lower import lower
from kope.derive.moves import BY_NAME, made_to_fit, matters
from kope.derive.nest_moves import NEST_FIELDS
from kope.derive.rewrite import REWRITES, apply_rewrites
from kope.derive.schedule import Schedule
from kope.errors import DeriveError
from kope.model import MoveEvidence, Plan, Task
from kope.propose.evidence import gain, similarity

PREFIX = "transfer:"
LISTS = ("rewrites", "choices")
"""Fields that name what applies to expressions, not to whole operators; they are added to, not replaced."""


@dataclass(frozen=True, slots=True)
class Path:
    """The best kernel of another operator and the steps that led there. speedup: over that operator's first kernel."""

    task_name: str
    alike: float
    speedup: float
    plan: Plan
    steps: tuple[MoveEvidence, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A path applied to a schedule: the new schedule, the steps that matter here, and the log gain they promise."""

    path: Path
    schedule: Schedule
    steps: tuple[MoveEvidence, ...]
    expected: float

    @property
    def used(self) -> tuple[str, ...]:
        """Experiences of the steps."""
        return tuple(step.experience_id for step in self.steps)

    @property
    def gained(self) -> float:
        """What the steps gained where they were made, as a logarithm."""
        return sum(gain(step) * step.value for step in self.steps)


def paths(evidence: Sequence[MoveEvidence], task: Task, traits: Sequence[str]) -> list[Path]:
    """The best path of every other operator there is evidence of, the most alike operators first."""
    found = []
    for name in dict.fromkeys(item.task_name for item in evidence):
        if name != task.name and (path := _best_path([e for e in evidence if e.task_name == name], traits)) is not None:
            found.append(path)
    return sorted(found, key=lambda path: (-path.alike, path.task_name))


def _best_path(evidence: Sequence[MoveEvidence], traits: Sequence[str]) -> Path | None:
    timed = [
        e
        for e in evidence
        if e.works and e.fast and e.value > 0.0 and e.plan and e.speedup is not None and e.speedup > 1.0
    ]
    if not timed:
        return None
    best = max(timed, key=lambda e: (e.speedup or 0.0, e.experience_id))
    by_child = {e.experience_id: e for e in evidence}
    steps: list[MoveEvidence] = []
    at: MoveEvidence | None = best
    while at is not None and at not in steps:
        steps.append(at)
        at = by_child.get(at.parent_experience_id or "")
    helped = tuple(step for step in reversed(steps) if gain(step) * step.value > 0.0)
    if not helped:
        return None
    return Path(best.task_name, similarity(best.traits, traits), best.speedup or 1.0, best.plan, helped)


def changes(step: MoveEvidence, path: Path) -> dict[str, Any]:
    """What a step contributed to the best plan of its path: fields with the value they have there, names it added."""
    made: dict[str, Any] = {}
    for name, value in step.plan.items():
        before = step.parent_plan.get(name)
        if name in LISTS:
            added = [item for item in value if item not in (before or ()) and item in path.plan.get(name, ())]
            if added:
                made[name] = added
        elif value != before and name in path.plan:
            made[name] = path.plan[name]
    return made


def transfer(graph: Graph | None, base: Schedule, path: Path, helpful: Sequence[str]) -> Transfer | None:
    """Take over what the steps of a path changed for the better, as far as it can show in this kernel.

    graph: None for a kernel of loop nests. helpful: rewrites and choices that gained on any operator; they come along.
    The schedule is not made to fit. None when nothing is left to change, or the plan is not a schedule.
    """
    plan: dict[str, Any] = base.to_plan()
    steps = []
    try:
        for step in path.steps:
            taken = {name: v for name, v in changes(step, path).items() if _shows(graph, base, name, v)}
            if taken:
                steps.append(step)
                plan |= {name: _joined(plan[name], v) if name in LISTS else v for name, v in taken.items()}
        if not steps:
            return None
        for move in helpful:
            plan[BY_NAME[move].fields[0]] = _joined(plan[BY_NAME[move].fields[0]], [move])
        schedule = Schedule.from_plan(plan)
    except (DeriveError, ValueError, KeyError, TypeError):
        return None
    made = Transfer(path, schedule, tuple(steps), 0.0)
    return replace(made, expected=path.alike * made.gained)


def fitted(task: Task, graph: Graph, base: Schedule, made: Transfer) -> Transfer | None:
    """Return a transfer whose schedule fits into the unified buffer, with the steps that are left; None when none does.

    What led to the best kernel elsewhere may be too much here. Either the tile is shortened, or one field stays as it
    is in `base`, whichever keeps more of what the steps gained there.
    """
    names = {name for step in made.steps for name in changes(step, made.path) if name not in (*LISTS, "tile")}
    fewer = (made.schedule.with_(**{name: getattr(base, name)}) for name in sorted(names))
    fitting = (made_to_fit(task, graph, schedule) for schedule in (made.schedule, *fewer))
    left = (
        replace(made, schedule=schedule, steps=tuple(step for step in made.steps if _holds(step, made.path, schedule)))
        for schedule in fitting
        if schedule is not None
    )
    return max(left, key=lambda each: each.gained, default=None)


def _holds(step: MoveEvidence, path: Path, schedule: Schedule) -> bool:
    """Whether a schedule has what a step contributed; a tile as long as the step made it is long enough."""
    return all(
        schedule.tile >= step.plan["tile"] if name == "tile" else getattr(schedule, name) == value
        for name, value in changes(step, path).items()
        if name not in LISTS
    )


def _shows(graph: Graph | None, base: Schedule, name: str, value: Any) -> bool:
    """Whether a change can show here: rows mean nothing to a flat kernel, a rewrite needs something to rewrite."""
    if graph is None:
        return name in NEST_FIELDS and value != getattr(base, name)
    if name not in LISTS:
        return matters(graph, name) and value != getattr(base, name)
    return any(item not in getattr(base, name) and _applies(graph, base, name, item) for item in value)


def _applies(graph: Graph, base: Schedule, name: str, item: str) -> bool:
    rewritten = apply_rewrites(graph, base.rewrites)
    if name == "rewrites":
        return REWRITES[item](rewritten).key() != rewritten.key()
    return lower(rewritten, (*base.choices, item)) != lower(rewritten, base.choices)


def _joined(held: Sequence[str], added: Sequence[str]) -> list[str]:
    return sorted({*held, *added})


def explain(made: Transfer) -> str:
    """Why, in words."""
    steps = ", ".join(f"{step.move} {step.step_ratio:.2f}x" for step in made.steps[:6])
    path = made.path
    return (
        f"Take over what led to {path.speedup:.2f}x on {path.task_name}, whose structure is {path.alike:.0%} the same, "
        f"as far as it changes this kernel: {steps}; {math.exp(made.expected):.2f}x expected."
    )


def helpful_names(gains: Mapping[str, float]) -> list[str]:
    """Rewrites and choices among the moves that gained."""
    return [move for move, total in gains.items() if total > 0.0 and BY_NAME[move].fields[0] in LISTS]
