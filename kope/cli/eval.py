"""`kope eval`: one verdict on one candidate, nothing learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kope.cli.options import ChipOption, CompilerOption, JobsOption, JsonOption, TargetOption
from kope.cli.output import print_json, print_rich, progress, say
from kope.cli.setup import read_candidate, the_task


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval", epilog="Example: kope eval rms_norm kernel.asc")(evaluate)


def evaluate(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A folder, or a name on the task path.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The candidate's source; - reads standard input.")],
    target: TargetOption = None,
    chip: ChipOption = None,
    compiler: CompilerOption = None,
    jobs: JobsOption = None,
    seed: Annotated[int, typer.Option(help="0 draws the task's own input values, another number fresh ones.")] = 0,
    every: Annotated[
        bool, typer.Option("--every", help="Judge all cases, also after one that failed; slower for a wrong kernel.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="File for a timeline of the twin; open it at ui.perfetto.dev.")
    ] = None,
    case: Annotated[str | None, typer.Option("--case", help="The case the timeline shows. [the largest]")] = None,
    json: JsonOption = False,
) -> None:
    """Judge a candidate on every case of a task; nothing is learned. Exits with 1 unless it is verified."""
    from kope import config, wiring
    from kope.cli.best import write
    from kope.model import Verdict
    from kope.report import verdict

    settings = config.load({"target": target, "chip": chip, "compiler": compiler, "jobs": jobs})
    found = the_task(settings, task)
    candidate = read_candidate(file)
    with progress() as tell:
        judge = wiring.evaluator(settings, seed=seed, progress=tell)
        tell(f"judging {file} on the {len(found.cases)} cases of {found.name}")
        folder = settings.cache / "work"
        if every:
            outcome = judge.judge_all(found, candidate, folder)
        else:
            outcome = judge.evaluate(found, candidate, folder, promote=lambda times_us: True)
        if trace is not None:
            tell("modelling the timeline")
            write(trace, wiring.timeline(settings, found, candidate, case))
            say(f"timeline: {trace}; open it at ui.perfetto.dev", to_stderr=True)
    fingerprint = judge.fingerprint()
    if json:
        print_json(verdict.verdict_document(found, candidate, fingerprint, outcome))
    else:
        if outcome.cases:
            print_rich(verdict.verdict_table(found, fingerprint, outcome))
        for line in verdict.finding_lines(outcome.diagnostics):
            say(line)
        if spent := verdict.spending_line(outcome):
            say(spent)
        say(verdict.verdict_line(found, outcome))
    raise typer.Exit(0 if outcome.verdict is Verdict.VERIFIED else 1)
