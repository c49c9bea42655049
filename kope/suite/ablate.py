"""Ablations: the same suite run several times, each time without one thing, every arm from the same start.

An arm is a run like any other, in a folder and a database of its own, so it is taken up again after a kill, and one arm
learns nothing from another.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kope import wiring
from kope.config import Settings
from kope.errors import ConfigError
from kope.loop import Limits
from kope.model import Task
from kope.suite.run import Tell, open_run, run_suite

PROMPTING = ("llm", "command")


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run: what it leaves out, in words. memory, context: of its plan, None as asked for."""

    name: str
    what: str
    memory: str | None = None
    context: str | None = None

    def plan(self, plan: wiring.Plan, seed: int) -> wiring.Plan:
        """Return the plan of this arm."""
        return replace(plan, seed=seed, memory=self.memory or plan.memory, context=self.context or plan.context)


BASE = Arm("base", "everything on")
ARMS = {
    "graph": Arm("graph", "without the experience graph", memory="off"),
    "placebo": Arm("placebo", "with experiences of other tasks in place of those that fit", memory="placebo"),
    "hardware": Arm("hardware", "with the experience of other hardware alone"),
    "context": Arm("context", "with a context the model gathers itself", context="passive"),
    "none": Arm("none", "with the task and the last kernel as the only context", context="none"),
}


def arms_asked_for(names: Sequence[str], plan: wiring.Plan, other_hardware: Path | None) -> list[Arm]:
    """Return the arms, the base first. Raises ConfigError for one that is not known or lacks what it needs."""
    chosen = [BASE]
    for name in dict.fromkeys(names):
        if name not in ARMS:
            raise ConfigError(f"no arm {name!r}; known: {', '.join(ARMS)}")
        arm = ARMS[name]
        if arm.context is not None and plan.proposer not in PROMPTING:
            raise ConfigError(
                f"arm {name}: the proposer {plan.proposer} sends no prompt; take --proposer llm or command"
            )
        if name == "hardware":
            if other_hardware is None:
                raise ConfigError(
                    "arm hardware: needs a database of other hardware; give it with --other-hardware FILE"
                )
            arm = replace(arm, memory=f"only:{other_hardware}")
        chosen.append(arm)
    return chosen


@dataclass(frozen=True, slots=True)
class Asked:
    """What all arms share. left_out: cases left out for their size."""

    tasks: Sequence[Task]
    plan: wiring.Plan
    limits: Limits
    settings: Settings
    left_out: int = 0


def run_arms(
    arms: Sequence[Arm],
    seeds: Sequence[int],
    folder: Path,
    asked: Asked,
    start: Path | None,
    tell: Tell,
) -> list[Path] | None:
    """Run every arm with every seed; return the runs' folders, None when interrupted.

    start: a database that every arm begins with a copy of.
    """
    folders = []
    for seed in seeds:
        for arm in arms:
            name = arm.name if len(seeds) == 1 else f"{arm.name}-{seed}"
            place = folder / name
            own = replace(asked.settings, db=_database(folder / f"{name}.db", start))
            plan = arm.plan(asked.plan, seed)
            run = open_run(place, asked.tasks, plan, asked.limits, own, system=name, left_out=asked.left_out)
            if not run_suite(run, asked.tasks, plan, asked.limits, own, tell):
                return None
            folders.append(place)
    return folders


def _database(place: Path, start: Path | None) -> Path:
    """Return an arm's database, a copy of `start` when it is new. Raises ConfigError where one cannot be made."""
    if start is None or place.exists():
        return place
    beside = start.with_name(f"{start.name}-wal")
    if beside.exists() and beside.stat().st_size:
        raise ConfigError(f"{start} is in use; close what has it open, or give a snapshot of it")
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(start, place)
    except OSError as error:
        raise ConfigError(f"{start}: {error.strerror}; give a database that can be read with --start") from error
    return place
