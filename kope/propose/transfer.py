"""Compound moves: what proved itself along the path to another operator's best kernel, taken over in one attempt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kope.derive.graph import Graph
from kope.derive.moves import BY_NAME, made_to_fit
from kope.derive.schedule import Schedule
from kope.errors import DeriveError
from kope.model import MoveEvidence, Plan, Task
from kope.propose.evidence import gain, similarity

PREFIX = "transfer:"


@dataclass(frozen=True, slots=True)
class Path:
    """The best kernel of another operator and the steps that led there. speedup: over that operator's first kernel."""

    task_name: str
    alike: float
    speedup: float
    plan: Plan
    steps: tuple[MoveEvidence, ...]

    @property
    def used(self) -> tuple[str, ...]:
        """Experiences of the steps."""
        return tuple(step.experience_id for step in self.steps)


def paths(evidence: Sequence[MoveEvidence], task: Task, traits: Sequence[str]) -> list[Path]:
    """The best path of every other operator there is evidence of, the most promising first."""
    found = []
    for name in dict.fromkeys(item.task_name for item in evidence):
        if name != task.name and (path := _best_path([e for e in evidence if e.task_name == name], traits)) is not None:
            found.append(path)
    return sorted(found, key=lambda path: (-path.alike * math.log(path.speedup), path.task_name))


def _best_path(evidence: Sequence[MoveEvidence], traits: Sequence[str]) -> Path | None:
    timed = [e for e in evidence if e.works and e.fast and e.speedup is not None and e.speedup > 1.0 and e.plan]
    if not timed:
        return None
    best = max(timed, key=lambda e: (e.speedup or 0.0, e.experience_id))
    by_child = {e.experience_id: e for e in evidence}
    steps: list[MoveEvidence] = []
    at: MoveEvidence | None = best
    while at is not None and at not in steps:
        steps.append(at)
        at = by_child.get(at.parent_experience_id or "")
    helped = tuple(step for step in reversed(steps) if gain(step) > 0.0)
    if not helped:
        return None
    return Path(best.task_name, similarity(best.traits, traits), best.speedup or 1.0, best.plan, helped)


def proven_fields(path: Path) -> dict[str, Any]:
    """The fields of the best plan that a step of the path changed for the better. Lists keep what was added there."""
    proven: dict[str, Any] = {}
    for step in path.steps:
        for name, value in step.plan.items():
            if value != step.parent_plan.get(name) and name in path.plan:
                proven[name] = path.plan[name]
    return proven


def transferred(task: Task, graph: Graph, base: Schedule, path: Path, helpful: Mapping[str, float]) -> Schedule | None:
    """The base schedule with the proven fields of a path, made to fit.

    Rewrites and choices are added to what the base has, together with those that gained on any other operator
    (`helpful`: move name -> expected gain) - they are specific to expressions, not to whole operators.
    None when nothing is left to change.
    """
    proven = proven_fields(path)
    for name in ("rewrites", "choices"):
        proven[name] = sorted({*getattr(base, name), *proven.get(name, ()), *_helpful(name, helpful)})
    try:
        schedule = Schedule.from_plan({**base.to_plan(), **proven})
        fitted = made_to_fit(task, graph, schedule)
    except (DeriveError, ValueError, KeyError):
        return None
    return fitted if fitted != base else None


def _helpful(name: str, helpful: Mapping[str, float]) -> list[str]:
    return [move for move, expected in helpful.items() if expected > 0.0 and BY_NAME[move].fields == (name,)]
