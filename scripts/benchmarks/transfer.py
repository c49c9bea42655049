"""Does memory of one chip help on another? Attempts needed on the second with none, with the first's, and with both.

    scripts/bench transfer --from DB,... [--second 910b4] [--ub-kib 96] [--tasks exp,gelu] [--attempts 24]

DB is a memory of finished searches on the first chip (`scripts/bench memory` leaves such files); of several, each is
one seed. On the second chip the tasks run in the seed's order: none sees the task's own attempts only; foreign sees the
first chip's memory and them; second what is tried here on all tasks; both that and a copy of the first chip's memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memory import PERCENT, Run, needed, order_of, parser_of, ratio, run_task, set_up, tell
from outcomes import OutcomeCache

from kope import config, wiring
from kope.model import Task
from kope.report.curve import best_so_far
from kope.target.twin import parameters

ARMS = ("none", "foreign", "second", "both")


def run_arm(
    tasks: Sequence[Task],
    arm: str,
    seed: int,
    source: Path,
    attempts: int,
    settings: config.Settings,
    judge: OutcomeCache,
) -> list[Run]:
    """Run the tasks of one arm and seed on the second chip, in a new database of their own."""
    file = settings.db.with_name(f"transfer-{arm}-{seed}.db")
    file.unlink(missing_ok=True)
    if arm == "both":
        shutil.copy(source, file)
    mode = {"none": "off", "foreign": f"only:{source}"}.get(arm, "on")
    runs = []
    with wiring.open_writable(replace(settings, db=file)) as store:
        for task in order_of(tasks, seed):
            history, stop = run_task(store, task, f"transfer-{arm}", seed, attempts, settings, judge, mode=mode)
            runs.append(Run(task.name, arm, seed, best_so_far(history), stop.value, 0.0))
            tell(f"{arm:>8} seed {seed} {task.name}: {len(history)} attempts, best {runs[-1].best_us[-1]} us")
    return runs


def show(runs: Sequence[Run], allowed: int) -> dict[str, Any]:
    """Print attempts needed per arm and the ratios to none with intervals over tasks; return the figures."""
    counts = needed(runs, allowed)
    seeds = len({run.seed for run in runs})
    total = {arm: sum(n for (_, _, a), n in counts.items() if a == arm) / seeds for arm in ARMS}
    ratios = {f"{arm}/none": ratio(counts, arm, "none") for arm in ARMS[1:]}
    print("attempts to within 5% of the second chip's best, summed over tasks, mean over seeds")
    for arm in ARMS:
        print(f"  {arm:<12}{total[arm]:>8.1f}")
    for name, found in ratios.items():
        low, high = found["low"], found["high"]
        print(f"{name}: {found['ratio']:.2f} ({PERCENT}% interval over tasks {low:.2f} to {high:.2f})")
    return {"total": total, "ratios": ratios, "runs": [asdict(run) for run in runs]}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of("transfer", __doc__)
    parser.add_argument("--from", dest="sources", required=True, help="databases of the first chip, one a seed")
    parser.add_argument("--second", default="910b4", help="parameter set of the second chip")
    parser.add_argument("--ub-kib", type=int, default=0, help="make one up that has this much unified buffer")
    return parser.parse_args()


def made_up(name: str, ub_kib: int) -> str:
    """Make up a parameter set from another by its unified buffer alone, for this process; returns its name."""
    known = parameters.load(name)
    values = {**known.values, "ub_bytes": ub_kib * 1024.0}
    made = replace(known, name=f"synthetic-{name}-ub{ub_kib}", chip="made up", values=values)
    load = parameters.load
    parameters.load = lambda asked: made if asked == made.name else load(asked)  # type: ignore[assignment]
    return made.name


def main() -> None:
    """Run every arm and seed, print the figures, write DIR/transfer.json."""
    asked = arguments()
    second = made_up(asked.second, asked.ub_kib) if asked.ub_kib else asked.second
    settings, tasks, cache = set_up(asked, chip=second)
    runs = [
        run
        for seed, source in enumerate(asked.sources.split(","))
        for arm in ARMS
        for run in run_arm(tasks, arm, seed, Path(source), asked.attempts, settings, cache)
    ]
    print(f"second chip: {cache.fingerprint.hardware}")
    figures = show(runs, asked.attempts)
    print(f"judged {cache.judged} candidates in {cache.wall_s:.0f} s, took {cache.reused} outcomes from the cache")
    (asked.folder / "transfer.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
