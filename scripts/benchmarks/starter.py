"""Does the starter memory help who begins with nothing? Attempts needed on each task with it and without.

    scripts/bench starter [--tasks exp,gelu] [--seeds 1] [--attempts 24] [--folder DIR]

Every task starts with an empty database. What the starter memory holds of the task itself is forgotten first, as it
would be with an operator that does not come with KOPE.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from memory import PERCENT, Run, needed, parser_of, ratio, run_task, set_up, tell

from kope import wiring
from kope.memory import Selection, Store
from kope.report.curve import best_so_far

ARMS = ("off", "starter")


def without(task_name: str, whole: Path, place: Path) -> Path:
    """Write the starter memory without what it holds of a task."""
    shutil.copy(whole, place)
    with Store.open(place) as store:
        store.forget(Selection(tasks=(task_name,)))
    return place


def main() -> None:
    """Run every task with both, print attempts needed and their ratio."""
    parser = parser_of("starter", __doc__)
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    settings, tasks, cache = set_up(asked)
    with wiring.open_starter(settings) as store:
        whole = store.path
    runs = []
    for seed in range(asked.seeds):
        for task in tasks:
            left = without(task.name, whole, asked.folder / f"starter-{task.name}.db")
            for arm in ARMS:
                file = asked.folder / "first-use.db"
                file.unlink(missing_ok=True)
                mode = f"only:{left}" if arm == "starter" else "off"
                with wiring.open_writable(replace(settings, db=file)) as store:
                    history, stop = run_task(store, task, arm, seed, asked.attempts, settings, cache, mode=mode)
                runs.append(Run(task.name, arm, seed, best_so_far(history), stop.value, 0.0))
                tell(f"{arm:>8} seed {seed} {task.name}: {len(history)} attempts, best {runs[-1].best_us[-1]} us")
    counts = needed(runs, asked.attempts)
    print("attempts to within 5% of the best of both, an empty memory at the start (mean over seeds)")
    for task in tasks:
        row = {arm: sum(counts[task.name, seed, arm] for seed in range(asked.seeds)) / asked.seeds for arm in ARMS}
        print(f"  {task.name:<20}" + "".join(f"{arm:>10}{row[arm]:>6.1f}" for arm in ARMS))
    found = ratio(counts, "starter", "off")
    low, high = found["low"], found["high"]
    print(f"starter/off: {found['ratio']:.2f} ({PERCENT}% interval over tasks {low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
