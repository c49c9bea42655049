"""Does memory pay? Attempts needed on each task with memory on, off and placebo.

    scripts/bench memory [--tasks exp,gelu] [--seeds 3] [--attempts 24] [--arms on,off,placebo] [--folder DIR]

The tasks run in sequence in one database per arm and seed; a seed sets their order and breaks ties among moves, and
all arms share seeds. A run counts the attempts it took until its best kernel was within 5% of the best that any arm and
seed found for that task; one that never came that near counts one more than it had. The unit is task x seed; intervals
are from a bootstrap over tasks, arms paired. The twin is deterministic, so outcomes are kept in DIR by content: stopped
anywhere, the same command goes on, and every arm sees the same outcome for the same candidate.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outcomes import OutcomeCache

from kope import config, wiring
from kope.cli.setup import task_folders
from kope.loop import Limits, Parts, Stop, optimize
from kope.memory import Store
from kope.model import Attempt, Task
from kope.propose.search import SearchProposer
from kope.report.curve import WITHIN, attempts_to, best_so_far
from kope.report.progress import Silent
from kope.session import SessionMemory, settings_key
from kope.task import read_tasks

PERCENT = 95


@dataclass(frozen=True)
class Run:
    """One task in one arm and seed. best_us: after each attempt, the geometric mean time of the best kernel so far."""

    task: str
    arm: str
    seed: int
    best_us: tuple[float | None, ...]
    stop: str
    loop_s: float


def needed(runs: Sequence[Run], allowed: int) -> dict[tuple[str, int, str], int]:
    """Return attempts needed by (task, seed, arm), against the best of all runs of the task."""
    best: dict[str, float] = {}
    for run in runs:
        final = run.best_us[-1] if run.best_us else None
        if final is not None:
            best[run.task] = min(final, best.get(run.task, final))
    return {
        (run.task, run.seed, run.arm): attempts_to(run.best_us, best.get(run.task, 0.0)) or allowed + 1 for run in runs
    }


def ratio(counts: dict[tuple[str, int, str], int], arm: str, against: str, resamples: int = 9999) -> dict[str, float]:
    """Return total attempts of one arm over those of another, with a bootstrap interval over tasks."""
    import numpy as np
    from scipy.stats import bootstrap

    tasks = sorted({task for task, _, _ in counts})
    mean = {
        name: np.array([np.mean([n for (t, _, a), n in counts.items() if t == task and a == name]) for task in tasks])
        for name in (arm, against)
    }

    def statistic(left: Any, right: Any, axis: int = -1) -> Any:
        return left.sum(axis=axis) / right.sum(axis=axis)

    point = float(statistic(mean[arm], mean[against]))
    if len(tasks) < 3:
        return {"ratio": point, "low": float("nan"), "high": float("nan")}
    found = bootstrap(
        (mean[arm], mean[against]),
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        confidence_level=PERCENT / 100,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return {"ratio": point, "low": float(found.low), "high": float(found.high)}


def order_of(tasks: Sequence[Task], seed: int) -> list[Task]:
    """Return the tasks in the order of a seed."""
    shuffled = sorted(tasks, key=lambda task: task.name)
    random.Random(seed).shuffle(shuffled)
    return shuffled


def run_arm(
    tasks: Sequence[Task], arm: str, seed: int, attempts: int, settings: config.Settings, judge: OutcomeCache
) -> list[Run]:
    """Run the tasks of one arm and seed in sequence, in a new database of their own beside the settings' one."""
    file = settings.db.with_name(f"{arm}-{seed}.db")
    file.unlink(missing_ok=True)
    runs = []
    with wiring.open_writable(replace(settings, db=file)) as store:
        for task in order_of(tasks, seed):
            started, judged = time.monotonic(), judge.wall_s
            history, stop = run_task(store, task, arm, seed, attempts, settings, judge)
            spent = time.monotonic() - started - (judge.wall_s - judged)
            runs.append(Run(task.name, arm, seed, best_so_far(history), stop.value, spent))
            best = runs[-1].best_us[-1] if history else None
            tell(f"{arm:>8} seed {seed} {task.name}: {len(history)} attempts, best {best} us, {stop.value}")
    return runs


def run_task(
    store: Store,
    task: Task,
    arm: str,
    seed: int,
    attempts: int,
    settings: config.Settings,
    judge: OutcomeCache,
    *,
    mode: str | None = None,
    memory_of: Callable[..., SessionMemory] = SessionMemory,
) -> tuple[tuple[Attempt, ...], Stop]:
    """Run one session on one task and return its attempts. mode: of memory, where the arm has another name."""
    plan = wiring.Plan(memory=mode or arm, seed=seed)
    key = settings_key([task], judge.fingerprint, **plan.key())
    session = store.begin_session(key, resume=False, session_id=f"{arm}-{seed}-{task.name}")
    memory = memory_of(store, session, judge.fingerprint, wiring.scope(plan, session.id, settings))
    parts = Parts(memory, SearchProposer(), judge, judge.fingerprint, settings.cache / "work", seed)
    with Silent() as watcher:
        (result,) = optimize([task], parts, Limits(iterations=attempts), watcher)
    store.end_session(session.id, result.stop.value)
    return result.standing.history, result.stop


def report(runs: Sequence[Run], allowed: int, arms: Sequence[str]) -> dict[str, Any]:
    """Return the figures: attempts needed per task and arm (mean over seeds), and the ratios with intervals."""
    counts = needed(runs, allowed)
    tasks = sorted({run.task for run in runs})
    seeds = sorted({run.seed for run in runs})
    per_task = {
        task: {arm: sum(counts[task, seed, arm] for seed in seeds) / len(seeds) for arm in arms} for task in tasks
    }
    others = [arm for arm in arms if arm != "off"] if "off" in arms else []
    return {
        "tasks": per_task,
        "total": {arm: sum(row[arm] for row in per_task.values()) for arm in arms},
        "not_reached": {arm: sum(n > allowed for (_, _, a), n in counts.items() if a == arm) for arm in arms},
        "ratios": {f"{arm}/off": ratio(counts, arm, "off") for arm in others},
        "units": len(tasks) * len(seeds),
        "attempts_allowed": allowed,
        "within": WITHIN,
    }


def show(figures: dict[str, Any], arms: Sequence[str]) -> None:
    """Print the figures as a table."""
    print(f"{'attempts to within 5% (mean over seeds)':<40}" + "".join(f"{arm:>10}" for arm in arms))
    for task, row in figures["tasks"].items():
        print(f"{task:<40}" + "".join(f"{row[arm]:>10.1f}" for arm in arms))
    print(f"{'total':<40}" + "".join(f"{figures['total'][arm]:>10.1f}" for arm in arms))
    missed = f"of {figures['units']} units not within 5%"
    print(f"{missed:<40}" + "".join(f"{figures['not_reached'][arm]:>10}" for arm in arms))
    for name, found in figures["ratios"].items():
        low, high = found["low"], found["high"]
        print(f"{name}: {found['ratio']:.2f} ({PERCENT}% interval over tasks {low:.2f} to {high:.2f})")
    machine = figures["machine"]
    print(
        f"judged {machine['judged']} candidates in {machine['judge_s']:.0f} s, took {machine['reused']} outcomes"
        f" ({machine['saved_s']:.0f} s) from the cache; loop and memory {machine['loop_s']:.0f} s;"
        f" {machine['wall_s']:.0f} s in all; load {machine['load']}"
    )


def tell(line: str) -> None:
    """Print progress."""
    print(line, file=sys.stderr, flush=True)


def parser_of(name: str, description: str) -> argparse.ArgumentParser:
    """Return a parser of what all experiments over sequences of tasks are asked for."""
    parser = argparse.ArgumentParser(prog=f"scripts/bench {name}", description=description.splitlines()[0])
    parser.add_argument("--tasks", default="", help="comma-separated names; default: all shipped")
    parser.add_argument("--attempts", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(".bench/memory"), help="outcomes, databases, result")
    return parser


def set_up(asked: argparse.Namespace, **settings: Any) -> tuple[config.Settings, list[Task], OutcomeCache]:
    """Return the settings, the tasks asked for, and a judge that keeps its outcomes in the folder."""
    found = config.load({"jobs": asked.jobs, "db": asked.folder / "bench.db", **settings})
    asked.folder.mkdir(parents=True, exist_ok=True)
    tasks, _ = read_tasks(task_folders(found))
    wanted = set(asked.tasks.split(",")) if asked.tasks else {task.name for task in tasks}
    judge = wiring.evaluator(found, progress=tell)
    cache = OutcomeCache(judge, judge.fingerprint(), asked.folder / "outcomes")
    return found, [task for task in tasks if task.name in wanted], cache


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of("memory", __doc__)
    parser.add_argument("--arms", default="on,off,placebo")
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


def main() -> None:
    """Run every arm and seed, print the table, write DIR/result.json."""
    asked = arguments()
    started, load = time.monotonic(), os.getloadavg()
    settings, tasks, cache = set_up(asked)
    arms = asked.arms.split(",")
    runs = [
        run
        for seed in range(asked.seeds)
        for arm in arms
        for run in run_arm(tasks, arm, seed, asked.attempts, settings, cache)
    ]
    figures = report(runs, asked.attempts, arms)
    figures["machine"] = {
        "cores": os.cpu_count(),
        "load": [round(value, 2) for value in (*load, *os.getloadavg())],
        "wall_s": time.monotonic() - started,
        "judged": cache.judged,
        "judge_s": cache.wall_s,
        "reused": cache.reused,
        "saved_s": cache.saved_s,
        "loop_s": sum(run.loop_s for run in runs),
    }
    figures["runs"] = [run.__dict__ for run in runs]
    show(figures, arms)
    (asked.folder / "result.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
