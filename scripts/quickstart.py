"""The first run: optimize rms_norm, then layer_norm with what was learned and once more without it.

Everything it makes is in one folder (quickstart/, then quickstart-2/, ...); interrupted, the same command goes on. It
uses the library as the commands do, so every step can be repeated with them.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from kope import config, wiring
from kope.cli.output import print_rich, say
from kope.cli.setup import the_task
from kope.config import Settings
from kope.loop import Limits, Standing, Stop, TaskResult, optimize
from kope.model import Attempt
from kope.objective import typical_us
from kope.report.curve import attempts_to, best_so_far
from kope.report.progress import Lines
from kope.report.summary import best_line
from kope.report.table import attempts_table, duration

ATTEMPTS = 16
DONE = "done"
DIFF_LINES = 60


@dataclass(frozen=True)
class Place:
    """Where this run keeps what it makes."""

    folder: Path

    @property
    def db(self) -> Path:
        return self.folder / "kope.db"

    @classmethod
    def next(cls) -> Place:
        """Return the first folder whose run did not come to its end."""
        number = 1
        while True:
            folder = Path("quickstart" if number == 1 else f"quickstart-{number}")
            if not (folder / DONE).exists():
                folder.mkdir(exist_ok=True)
                return cls(folder)
            number += 1


def run(name: str, memory: str, settings: Settings, place: Place) -> TaskResult:
    """Optimize one task in a session of its own; one that came to its end before is read back."""
    task = the_task(settings, name)
    ended = place.folder / f"{name}-memory-{memory}.session"
    if ended.exists():
        with wiring.open_existing(settings) as store:
            standing = Standing()
            for attempt in store.attempts(session_id=ended.read_text(encoding="utf-8")):
                standing = standing.after(attempt)
        return TaskResult(task, standing, Stop.ITERATIONS)
    with (
        Lines(Console(stderr=True)) as watcher,
        wiring.open_session([task], wiring.Plan(memory=memory), settings, progress=watcher.note) as opened,
    ):
        (result,) = optimize([task], opened.parts, Limits(iterations=ATTEMPTS), watcher)
        opened.store.end_session(opened.session.id, result.stop.value)
    ended.write_text(opened.session.id, encoding="utf-8")
    return result


def show(result: TaskResult) -> None:
    """Print a run's attempts and its best kernel."""
    print_rich(attempts_table(result.task.name, len(result.task.cases), result.standing.history))
    say(best_line(result))


def keep_source(result: TaskResult, place: Place) -> None:
    """Write the best kernel, and show what makes it differ from the first that worked."""
    best, first = result.standing.incumbent, result.standing.baseline
    if best is None or first is None or best.candidate is None or first.candidate is None:
        return
    file = place.folder / f"{result.task.name}.asc"
    file.write_text(best.candidate.source, encoding="utf-8")
    lines = list(
        difflib.unified_diff(
            first.candidate.source.splitlines(),
            best.candidate.source.splitlines(),
            f"attempt {first.iteration} ({first.proposal.move})",
            f"attempt {best.iteration} ({best.proposal.move})",
            n=2,
            lineterm="",
        )
    )
    diff = file.with_suffix(".diff")
    diff.write_text("\n".join(lines) + "\n", encoding="utf-8")
    say(f"\nThe winning source is {file}. Its diff from the first verified kernel ({diff}):\n")
    say("\n".join(lines[:DIFF_LINES]))
    if len(lines) > DIFF_LINES:
        say(f"[... {len(lines) - DIFF_LINES} more lines in {diff}]")


def say_used(attempts: Sequence[Attempt], settings: Settings) -> None:
    """Say which experiences the attempts were made from."""
    counts: dict[str, int] = {}
    for attempt in attempts:
        for used in attempt.proposal.used:
            counts[used] = counts.get(used, 0) + 1
    own = {attempt.session_id for attempt in attempts}
    with wiring.open_existing(settings) as store:
        found: dict[str, list[int]] = {}
        for experience_id, times in counts.items():
            node = store.experience(experience_id)
            if node.attempt_id is None or store.attempt(node.attempt_id).session_id not in own:
                found.setdefault(node.title, []).append(times)
    total = sum(len(times) for times in found.values())
    say(f"\nlayer_norm used {counted(total, 'experience')} of other runs:" if total else "\nlayer_norm used none.")
    for title, used_times in found.items():
        say(f"  {title}: {counted(len(used_times), 'experience')}, used {counted(sum(used_times), 'time')}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def compare(with_memory: TaskResult, without: TaskResult) -> None:
    """Say how many attempts each run took to within 5% of the better final time."""
    curves = [best_so_far(result.standing.history) for result in (with_memory, without)]
    finals = [curve[-1] for curve in curves if curve and curve[-1] is not None]
    if not finals:
        say("Neither run found a kernel that is right on all cases.")
        return
    better = min(finals)
    say(f"\nAttempts until the best kernel was within 5% of {duration(better)}, the better final time of the two:")
    for label, curve, result in zip(("with memory", "without"), curves, (with_memory, without), strict=True):
        count = attempts_to(curve, better)
        final = typical_us(result.standing.incumbent.outcome) if result.standing.incumbent is not None else None
        say(f"  {label:<12} {count if count is not None else f'not in {len(curve)}':>10}   final {duration(final)}")


def main() -> int:
    """Run it."""
    place = Place.next()
    settings = config.load({"db": place.db})
    say("KOPE optimizes Ascend C kernels on a twin of the chip. Times are modelled, not measured on hardware.\n")
    first = run("rms_norm", "on", settings, place)
    show(first)
    keep_source(first, place)
    say("\nNow layer_norm, with what was learned on rms_norm ...")
    with_memory = run("layer_norm", "on", settings, place)
    show(with_memory)
    say("\n... and once more without it.")
    without = run("layer_norm", "off", settings, place)
    show(without)
    say_used(with_memory.standing.history, settings)
    compare(with_memory, without)
    (place.folder / DONE).touch()
    say(
        f"\nNext: kope report --db {place.db}; kope recall 'row reduction' --db {place.db};"
        f" kope task new NAME for an operator of your own (docs/tasks.md)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
