"""Does learned value pay? Attempts needed with it, by similarity alone, with a placebo, and with wrong lessons planted.

    scripts/bench value [--tasks exp,gelu] [--seeds 3] [--attempts 24] [--arms ARM,...] [--folder DIR]

The sequence experiment of `memory`. Arms: value (what use taught weighs the evidence on moves), similar (the same
without it), placebo, and both again with planted lessons: after every task a tenth of the memory is made of attempts
that gained nothing, recorded once more as if they had doubled the speed. Outcomes are shared with `memory` by --folder.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from memory import PERCENT, Run, needed, order_of, parser_of, ratio, run_task, set_up, tell
from outcomes import OutcomeCache

from kope import config, wiring
from kope.memory import Store
from kope.memory.learn import node_id_of
from kope.memory.value import Purpose, Worth
from kope.model import Attempt, Outcome, Recall, State
from kope.report.curve import best_so_far
from kope.session import SessionMemory

ARMS = ("value", "similar", "placebo", "value+planted", "similar+planted")
PLANTED_SHARE = 0.1
CLAIMED = 2.0


class WithoutValues(SessionMemory):
    """Memory that recalls by similarity and outcome alone."""

    def recall(self, state: State) -> Recall:
        """Return the experiences for a state, each worth as much as any other."""
        found = super().recall(state)
        return replace(found, moves=tuple(replace(item, value=1.0) for item in found.moves))


@dataclass(frozen=True)
class Planted:
    """What became of a planted lesson. used: attempts that used it; value: what it is worth at the end, 0 when retired;
    outranked: whether attempts that used it did worse than those without by then."""

    arm: str
    seed: int
    used: int
    helped: int
    value: float

    @property
    def outranked(self) -> bool:
        """Whether it counts for less than what nothing is known of."""
        return self.value < 1.0


def plant(store: Store, history: Sequence[Attempt], seed: int) -> list[str]:
    """Record attempts that gained nothing once more, as if they had doubled the speed; returns their experiences."""
    rng = random.Random(f"{seed}:{history[0].task_name}")
    known = {attempt.id: attempt for attempt in history}
    useless = [a for a in history if a.candidate is not None and a.step_ratio <= 1.0 and a.proposal.parent_id in known]
    count = min(len(useless), round(len(history) * PLANTED_SHARE / (1.0 - PLANTED_SHARE)))
    made = []
    for number, attempt in enumerate(rng.sample(useless, count)):
        parent = known[attempt.proposal.parent_id or ""]
        lie = replace(
            attempt,
            id=f"{attempt.id}-planted",
            iteration=1000 + number,
            outcome=_faster(parent.outcome),
            speedup=CLAIMED * (parent.speedup or 1.0),
            step_ratio=CLAIMED,
            promoted=True,
            proposer="planted",
            prompt_id=None,
        )
        store.record(lie)
        made.append(node_id_of(lie.id))
    return made


def _faster(outcome: Outcome) -> Outcome:
    """Return an outcome whose every time is what the lie claims."""
    cases = tuple(replace(c, duration_us=tuple(each / CLAIMED for each in c.duration_us)) for c in outcome.cases)
    return replace(outcome, cases=cases, log="", steps=())


def run_arm(
    tasks: Sequence[Any], arm: str, seed: int, attempts: int, settings: config.Settings, judge: OutcomeCache
) -> tuple[list[Run], list[Planted]]:
    """Run the tasks of one arm and seed in sequence, in a new database of their own."""
    file = settings.db.with_name(f"{arm}-{seed}.db")
    file.unlink(missing_ok=True)
    runs, lies = [], []
    memory_of = WithoutValues if arm.startswith("similar") else SessionMemory
    mode = "placebo" if arm == "placebo" else "on"
    with wiring.open_writable(replace(settings, db=file)) as store:
        for task in order_of(tasks, seed):
            history, stop = run_task(store, task, arm, seed, attempts, settings, judge, mode=mode, memory_of=memory_of)
            runs.append(Run(task.name, arm, seed, best_so_far(history), stop.value, 0.0))
            if arm.endswith("+planted"):
                lies += plant(store, history, seed)
            tell(f"{arm:>16} seed {seed} {task.name}: {len(history)} attempts, best {runs[-1].best_us[-1]} us")
        hardware = judge.fingerprint.hardware
        found = {name: store.surroundings(name).worths.get((Purpose.REFINE, hardware)) for name in lies}
    unused = Worth(0, 0, 0, 0)
    return runs, [
        Planted(arm, seed, (worth or unused).uses, (worth or unused).helped, (worth or unused).value)
        for worth in found.values()
    ]


def report(runs: Sequence[Run], lies: Sequence[Planted], allowed: int, arms: Sequence[str]) -> dict[str, Any]:
    """Return the figures: totals (mean over seeds), ratios with intervals, what became of planted lessons."""
    counts = needed(runs, allowed)
    seeds = len({run.seed for run in runs})
    pairs = [("value", "similar"), ("placebo", "similar"), ("value+planted", "value"), ("similar+planted", "similar")]
    return {
        "total": {arm: sum(n for (_, _, a), n in counts.items() if a == arm) / seeds for arm in arms},
        "ratios": {f"{a}/{b}": ratio(counts, a, b) for a, b in pairs if a in arms and b in arms},
        "planted": {arm: _fate([lie for lie in lies if lie.arm == arm]) for arm in arms if arm.endswith("+planted")},
    }


def _fate(lies: Sequence[Planted]) -> dict[str, float]:
    used = [lie for lie in lies if lie.used]
    return {
        "planted": len(lies),
        "used": len(used),
        "most_uses": max((lie.used for lie in used), default=0),
        "outranked_or_retired": sum(lie.outranked for lie in used),
        "retired": sum(lie.value == 0.0 for lie in used),
        "not_yet": sum(not lie.outranked for lie in used if lie.used >= 30),
    }


def show(figures: dict[str, Any]) -> None:
    """Print the figures."""
    print("attempts to within 5% of the best, summed over tasks, mean over seeds")
    for arm, total in figures["total"].items():
        print(f"  {arm:<20}{total:>8.1f}")
    for name, found in figures["ratios"].items():
        low, high = found["low"], found["high"]
        print(f"{name}: {found['ratio']:.2f} ({PERCENT}% interval over tasks {low:.2f} to {high:.2f})")
    for arm, fate in figures["planted"].items():
        print(
            f"{arm}: {fate['planted']} planted, {fate['used']} of them used, at most {fate['most_uses']} times; "
            f"{fate['outranked_or_retired']} outranked, {fate['retired']} of them retired"
        )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of("value", __doc__)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


def main() -> None:
    """Run every arm and seed, print the figures, write DIR/value.json."""
    asked = arguments()
    settings, tasks, cache = set_up(asked)
    arms = asked.arms.split(",")
    runs: list[Run] = []
    lies: list[Planted] = []
    for seed in range(asked.seeds):
        for arm in arms:
            made, planted = run_arm(tasks, arm, seed, asked.attempts, settings, cache)
            runs += made
            lies += planted
    figures = report(runs, lies, asked.attempts, arms)
    show(figures)
    print(f"judged {cache.judged} candidates in {cache.wall_s:.0f} s, took {cache.reused} outcomes from the cache")
    figures |= {"runs": [asdict(run) for run in runs], "lies": [asdict(lie) for lie in lies]}
    (asked.folder / "value.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
