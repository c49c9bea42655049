"""Does recall find what helps? nDCG@8 of its ranking against single ways of looking, recency and chance.

    scripts/bench recall --from FILE [--tasks exp,gelu] [--pool 24] [--attempts 12] [--folder DIR]

What helps is found out by replay. FILE is a database of finished searches. For every task the search is run once
without memory, and once with each of a pool of experiences drawn at random from the other tasks, alone; what an
experience saved is by how much the best kernel so far was faster with it than without, as a logarithm, summed over
attempts. Then every way of ranking is asked at the state after the first kernel, and its order of the pool is held
against what they saved. Outcomes are kept in DIR; stopped, it goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from memory import run_task, tell
from outcomes import OutcomeCache

from kope import config, wiring
from kope.cli.setup import task_folders
from kope.memory import Filters, RecallQuery, Store
from kope.memory.embedding import find_embedder
from kope.memory.ranking import WEIGHTS
from kope.model import Attempt, MoveEvidence, Recall, State, Task
from kope.propose.search import bound_by
from kope.report.curve import best_so_far
from kope.session import SessionMemory
from kope.task import read_tasks

DEPTH = 8
WAYS = {
    "recall, everything fused": tuple(WEIGHTS),
    "without structure": tuple(way for way in WEIGHTS if way != "structure"),
    "structure alone": ("structure",),
    "words alone": ("words", "code"),
    "embedding alone": ("meaning",),
    "embedding of moves alone": ("move",),
    "words and embedding": ("words", "code", "meaning", "move"),
}


class OneExperience(SessionMemory):
    """Memory that tells of one experience only, or of none."""

    def __init__(self, told: MoveEvidence | None, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._told = told

    def recall(self, state: State) -> Recall:
        """Return the experience as evidence on its move."""
        return Recall(moves=(self._told,) if self._told is not None else ())


def ndcg(saved: Sequence[float], depth: int = DEPTH) -> float:
    """Return the discounted gain of a ranking over that of the best one; saved: of all, in the order ranked."""
    best = _gain(sorted(saved, reverse=True), depth)
    return _gain(saved, depth) / best if best else 0.0


def _gain(saved: Sequence[float], depth: int) -> float:
    return sum(value / math.log2(place + 2) for place, value in enumerate(saved[:depth]))


def interval(values: Sequence[float], resamples: int = 9999) -> tuple[float, float]:
    """Return the 95% bootstrap interval of a mean over tasks."""
    rng = np.random.default_rng(0)
    means = rng.choice(np.array(values), (resamples, len(values))).mean(axis=1)
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


# --- what helps -----------------------------------------------------------------------------------------------------


def replay(
    task: Task, told: MoveEvidence | None, attempts: int, settings: config.Settings, judge: OutcomeCache
) -> tuple[Attempt, ...]:
    """Run the search on a task with one experience, in a database that ends with it."""
    with Store.open(Path(":memory:")) as store:
        history, _ = run_task(store, task, "off", 0, attempts, settings, judge, memory_of=partial(OneExperience, told))
    return history


def judged(
    task: Task, pool: Sequence[MoveEvidence], attempts: int, settings: config.Settings, judge: OutcomeCache
) -> tuple[Attempt, dict[str, float]]:
    """Return the first attempt on a task, and what each experience of the pool saved."""
    alone = replay(task, None, attempts, settings, judge)
    without = best_so_far(alone)
    saved = {}
    for told in pool:
        history = replay(task, told, attempts, settings, judge)
        saved[told.experience_id] = max(0.0, faster(best_so_far(history), without, attempts))
    helpful = sum(value > 0.0 for value in saved.values())
    tell(f"{task.name}: {helpful} of {len(pool)} experiences save something, at most {max(saved.values()):.2f}")
    return alone[0], saved


def faster(times: Sequence[float | None], than: Sequence[float | None], attempts: int) -> float:
    """Return the sum over attempts of log(best time of the second / best time of the first); a run that ended keeps its
    last, and before both have a kernel nothing is counted."""
    total = 0.0
    for place in range(attempts):
        left, right = times[min(place, len(times) - 1)], than[min(place, len(than) - 1)]
        if left is not None and right is not None:
            total += math.log(right / left)
    return total


# --- how it is ranked -----------------------------------------------------------------------------------------------


def ranked_by(store: Store, query: RecallQuery, ways: Sequence[str]) -> list[str]:
    """Return experience ids in the order recall gives when only these ways of looking count."""
    kept = dict(WEIGHTS)
    try:
        WEIGHTS.update({way: 0.0 for way in WEIGHTS if way not in ways})
        found = store.recall(query).items
    finally:
        WEIGHTS.update(kept)
    return [item.experience.id for item in sorted(found, key=lambda item: -item.score) if item.score > 0.0]


def complete(order: Sequence[str], saved: Mapping[str, float], rng: random.Random) -> list[float]:
    """Return what the pool saved in this order; what was not found comes last, in random order."""
    found = [name for name in order if name in saved]
    missed = [name for name in saved if name not in found]
    rng.shuffle(missed)
    return [saved[name] for name in (*found, *missed)]


def scores_of(
    store: Store, task: Task, first: Attempt, saved: Mapping[str, float], names: Sequence[str]
) -> dict[str, float]:
    """Return nDCG@8 of every way of ranking at the state after the first kernel."""
    state = State(task, first.fingerprint, 0, 2, first, first, first, (first,), Recall())
    query = RecallQuery.for_state(state, bottleneck=bound_by(first), limit=500)
    others = tuple(name for name in names if name != task.name)
    query = replace(query, moves=False, filters=Filters(tasks=others, kinds=("attempt",)))
    rng = random.Random(0)
    found = {name: ndcg(complete(ranked_by(store, query, ways), saved, rng)) for name, ways in WAYS.items()}
    newest = [attempt.id for attempt in reversed(store.attempts())]
    by_attempt = {item.attempt_id: item.id for item in map(store.experience, saved)}
    found["recency"] = ndcg(complete([by_attempt[name] for name in newest if name in by_attempt], saved, rng))
    found["random"] = float(np.mean([ndcg(complete([], saved, rng)) for _ in range(200)]))
    return found


def show(by_task: Mapping[str, Mapping[str, float]]) -> None:
    """Print the mean over tasks of each way, with its interval and that of its difference to full recall."""
    ways = list(next(iter(by_task.values())))
    whole = [by_task[task][ways[0]] for task in by_task]
    print(f"{f'nDCG@{DEPTH}, mean over {len(by_task)} tasks':<32}{'mean':>6}   95% interval     full recall minus this")
    for way in ways:
        values = [by_task[task][way] for task in by_task]
        low, high = interval(values)
        less, more = interval([mine - other for mine, other in zip(whole, values, strict=True)])
        print(f"{way:<32}{np.mean(values):>6.2f}   {low:.2f} to {high:.2f}     {less:+.2f} to {more:+.2f}")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="scripts/bench recall", description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", type=Path, required=True, help="database of finished searches")
    parser.add_argument("--tasks", default="", help="comma-separated names; default: all in FILE")
    parser.add_argument("--pool", type=int, default=24, help="experiences judged for each task")
    parser.add_argument("--attempts", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(".bench/memory"), help="outcomes and result")
    return parser.parse_args()


def drawn(moves: Sequence[MoveEvidence], task: Task, count: int) -> list[MoveEvidence]:
    """Return a pool for a task: experiences of other tasks that changed something, at random, the same every time."""
    other = sorted((m for m in moves if m.task_name != task.name and m.parent_plan), key=lambda m: m.experience_id)
    return random.Random(f"pool {task.name}").sample(other, min(count, len(other)))


def main() -> None:
    """Judge every pool, rank it every way, print the table, write DIR/recall.json."""
    asked = arguments()
    settings = config.load({"jobs": asked.jobs, "db": asked.source})
    judge = wiring.evaluator(settings, progress=tell)
    cache = OutcomeCache(judge, judge.fingerprint(), asked.folder / "outcomes")
    by_task: dict[str, dict[str, float]] = {}
    shown: dict[str, Any] = {}
    with Store.open(asked.source, embedder=find_embedder(), create=False) as store:
        known = [task.name for task in store.info().tasks]
        names = asked.tasks.split(",") if asked.tasks else known
        tasks = [task for task in read_tasks(task_folders(settings))[0] if task.name in names]
        moves = store.recall(RecallQuery(hardware=judge.fingerprint().hardware, limit=0)).moves
        for task in tasks:
            pool = drawn(moves, task, asked.pool)
            first, saved = judged(task, pool, asked.attempts, settings, cache)
            shown[task.name] = saved
            if any(saved.values()):  # where nothing helps, no order is better than another
                by_task[task.name] = scores_of(store, task, first, saved, known)
    show(by_task)
    (asked.folder / "recall.json").write_text(json.dumps({"ndcg": by_task, "saved": shown}, indent=1) + "\n")


if __name__ == "__main__":
    main()
