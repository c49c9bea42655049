"""`kope learn`: lessons from what is remembered, and from good kernels by taking their optimizations back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, print_table, progress, say

if TYPE_CHECKING:
    from kope.config import Settings
    from kope.model import Attempt, Candidate, Task
    from kope.rewind import Chain

group = typer.Typer(help="Lessons: distil them, or win them from good kernels.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group, name="learn")


@group.command("distil", epilog="Example: kope learn distil --db kope.db")
def distil(db: options.DbOption = None, json: options.JsonOption = False) -> None:
    """Bring lessons up to date with all attempts. Every session does so when it ends."""
    from kope import config, wiring

    with wiring.open_existing(config.load({"db": db})) as store:
        new, changed, gone = store.distil()
    if json:
        print_json({"new": new, "changed": changed, "gone": gone})
    else:
        say(f"{new} new lessons, {changed} changed, {gone} gone")


@group.command("rewind", epilog="Example: kope learn rewind exp.asc --task exp")
def rewind(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Good kernels that KOPE made for the task.")],
    task: Annotated[str, typer.Option("--task", help="The operator they are of: a folder, or a name.")],
    target: options.TargetOption = None,
    chip: options.ChipOption = None,
    compiler: options.CompilerOption = None,
    jobs: options.JobsOption = None,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Win lessons from good kernels, one optimization at a time.

    A step is kept only when both kernels are right on all cases and the lower 95% bound of the slowdown is above 1.05.
    """
    from kope import config
    from kope.cli.setup import read_candidate, the_task

    settings = config.load({"target": target, "chip": chip, "compiler": compiler, "jobs": jobs, "db": db})
    found = the_task(settings, task)
    documents = [_rewound(found, file, read_candidate(file), settings, quiet=json) for file in files]
    if json:
        print_json({"task": found.name, "kernels": documents})


def _rewound(task: Task, file: Path, kernel: Candidate, settings: Settings, *, quiet: bool) -> dict[str, object]:
    """Rewind one kernel and record it; what is recorded stays when a later one is interrupted."""
    from kope import wiring
    from kope.rewind import remember
    from kope.rewind import rewind as take_back

    with progress() as tell:
        judge = wiring.evaluator(settings, progress=tell)
        folder = wiring.work_folder(settings)
        chain = take_back(
            task, kernel.source, lambda each: judge.evaluate(task, each, folder, promote=lambda times: True), tell
        )
    with wiring.open_rewinding(task, kernel, settings, judge) as opened:
        made = remember(task, chain, opened.parts)
        opened.store.end_session(opened.session.id, "rewound")
    if not quiet:
        _show(file, chain, made)
    return {
        "file": str(file),
        "kept": [{"move": t.move, "least_slowdown": t.slowdown} for t in chain.kernels if t.move],
        "dropped": list(chain.dropped),
        "attempts": [attempt.id for attempt in made],
    }


def _show(file: Path, chain: Chain, made: list[Attempt]) -> None:
    rows = [(taken.move, f"{taken.slowdown:.2f}x") for taken in chain.kernels if taken.move]
    if rows:
        print_table(f"{file.name}: what each optimization is worth", ("move", "slower without it, at least"), rows)
    no_use = f"; no difference, or no kernel, without: {', '.join(chain.dropped)}" if chain.dropped else ""
    whole = made[-1].speedup or 1.0
    say(f"{file}: {len(made)} attempts recorded, {whole:.2f}x from the slowest to the kernel itself{no_use}")
