"""What the search makes of first kernels: time and share of the hardware bound before and after, without memory.

    scripts/bench search [--tasks exp,matmul] [--attempts 12]

Tasks are the shipped ones and a few whose references need loop nests, written out below. Every task starts from
nothing: no memory, no model. A kernel is judged once and kept, so that a run goes on where the last one ended.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from memory import parser_of, run_task, set_up, tell
from outcomes import OutcomeCache

from kope import config, wiring
from kope.model import Attempt, Task
from kope.task import load_task

NESTS: dict[str, tuple[str, Sequence[Mapping[str, Sequence[int]]]]] = {
    "columns_softmax": (
        "e = np.exp(x - x.max(axis=0))\nreturn e / e.sum(axis=0)",
        ({"x": (129, 70)}, {"x": (256, 1000)}, {"x": (1000, 64)}),
    ),
    "middle_mean": ("return x.mean(axis=1)", ({"x": (3, 50, 70)}, {"x": (8, 512, 64)}, {"x": (16, 300, 256)})),
    "batch_norm": (
        "a = (0, 2)\nm = x.mean(axis=a, keepdims=True)\nreturn (x - m) / np.sqrt(x.var(axis=a, keepdims=True) + 1e-3)",
        ({"x": (3, 5, 70)}, {"x": (16, 8, 512)}, {"x": (32, 64, 256)}),
    ),
    "matmul": (
        "return x @ w",
        ({"x": (17, 30), "w": (30, 9)}, {"x": (128, 256), "w": (256, 192)}, {"x": (64, 300), "w": (300, 1000)}),
    ),
    "attention": (
        "s = x @ k.swapaxes(-1, -2) / 8.0\np = np.exp(s - s.max(-1, keepdims=True))\n"
        "return p / p.sum(-1, keepdims=True) @ k",
        ({"x": (2, 9, 8), "k": (2, 9, 8)}, {"x": (4, 128, 64), "k": (4, 128, 64)}),
    ),
    "transposed_sum": ("return x.T + w", ({"x": (70, 33), "w": (33, 70)}, {"x": (600, 500), "w": (500, 600)})),
    "recurrence": (
        "h = np.zeros(x.shape[1])\nfor t in range(x.shape[0]):\n    h = np.tanh(h * 0.5 + x[t])\nreturn h",
        ({"x": (7, 90)}, {"x": (64, 1000)}),
    ),
}  # fmt: skip
"""Name -> body of the reference, and the shapes of its cases."""


@dataclass(frozen=True, slots=True)
class Row:
    """One task: geometric means over cases, in microseconds, and shares of the bound."""

    task: str
    attempts: int
    first_us: float
    best_us: float
    first_share: float
    best_share: float
    move: str


def written(folder: Path) -> list[Task]:
    """Write the tasks of loop nests as folders and load them."""
    made = []
    for name, (body, cases) in NESTS.items():
        place = folder / "tasks" / name
        place.mkdir(parents=True, exist_ok=True)
        names = list(cases[0])
        lines = "".join(f"    {line}\n" for line in body.split("\n"))
        head = f"import numpy as np\n\n\ndef reference({', '.join(names)}):\n"
        (place / "reference.py").write_text(head + lines, "utf-8")
        shapes = [", ".join(f"{n} = {list(shape)}" for n, shape in case.items()) for case in cases]
        rows = "".join(f'  {{ dtype = "float32", shape = {{ {row} }} }},\n' for row in shapes)
        ranges = ", ".join(f"{n} = {{ range = [-1, 1] }}" for n in names)
        (place / "task.toml").write_text(
            f'text = "{name}"\nfixed_shapes = true\ntolerance = {{ float32 = {{ rtol = 1e-4, atol = 1e-4 }} }}\n'
            f'inputs = {{ {ranges} }}\noutputs = {{ y = "same:x" }}\ncases = [\n{rows}]\n',
            "utf-8",
        )
        made.append(load_task(place))
    return made


def typical(attempt: Attempt) -> tuple[float, float]:
    """Geometric means over cases: time, and share of the bound."""
    cases = [case for case in attempt.outcome.cases if case.duration_us]
    times = [math.log(case.duration_us[0]) for case in cases]
    shares = [math.log(case.bound_us / case.duration_us[0]) for case in cases if case.bound_us]
    return math.exp(sum(times) / len(times)), math.exp(sum(shares) / len(shares)) if shares else 0.0


def row_of(task: Task, history: Sequence[Attempt]) -> Row | None:
    """First and best kernel of a session; None when none was right."""
    kept = [attempt for attempt in history if attempt.promoted]
    if not kept:
        return None
    (first_us, first_share), (best_us, best_share) = typical(kept[0]), typical(kept[-1])
    moves = ", ".join(attempt.proposal.move for attempt in kept[1:])
    return Row(task.name, len(history), first_us, best_us, first_share, best_share, moves)


def mean_of(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def show(title: str, rows: Sequence[Row]) -> None:
    """Print a table and its means."""
    print(f"{title}\n{'task':<18}{'first us':>10}{'best us':>10}{'faster':>8}{'of bound':>15}  kept moves")
    for row in rows:
        share, gain = f"{row.first_share:.0%} -> {row.best_share:.0%}", row.first_us / row.best_us
        print(f"{row.task:<18}{row.first_us:>10.2f}{row.best_us:>10.2f}{gain:>7.2f}x{share:>15}  {row.move}")
    first, best = (mean_of([getattr(row, name) for row in rows]) for name in ("first_share", "best_share"))
    gain = mean_of([row.first_us / row.best_us for row in rows])
    print(f"geometric mean of {len(rows)}: {gain:.2f}x, {first:.0%} -> {best:.0%} of the bound\n")


def main() -> None:
    """Search every task and print first and best."""
    parser = parser_of("search", __doc__)
    parser.set_defaults(folder=Path(".bench/search"), attempts=12)
    asked = parser.parse_args()
    wanted = asked.tasks.split(",") if asked.tasks else []
    settings, shipped, judge = set_up(asked)
    nests = [task for task in written(asked.folder) if not wanted or task.name in wanted]
    groups = {"kernels of one fused tile": shipped, "kernels of loop nests": nests}
    found: dict[str, list[Row]] = {}
    for title, tasks in groups.items():
        rows = [_searched(task, asked.attempts, settings, judge, asked.folder) for task in tasks]
        found[title] = [row for row in rows if row is not None]
        if found[title]:
            show(title, found[title])
    document = {title: [asdict(row) for row in rows] for title, rows in found.items()}
    (asked.folder / "search.json").write_text(json.dumps(document, indent=1), "utf-8")


def _searched(task: Task, attempts: int, settings: config.Settings, judge: OutcomeCache, folder: Path) -> Row | None:
    file = folder / "search.db"
    file.unlink(missing_ok=True)
    with wiring.open_writable(replace(settings, db=file)) as store:
        history, stop = run_task(store, task, "search", 0, attempts, settings, judge, mode="off")
    row = row_of(task, history)
    tell(f"{task.name}: {len(history)} attempts, {stop.value}" + (f", {row.best_us:.2f} us" if row else ", none right"))
    return row


if __name__ == "__main__":
    main()
