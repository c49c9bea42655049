"""`kope suite`: run many tasks, compare systems, hand results in."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kope.cli import INTERRUPTED, options
from kope.cli.optimize import seconds
from kope.cli.output import print_json, print_table, say
from kope.cli.setup import the_task

if TYPE_CHECKING:
    from kope.config import Settings
    from kope.model import Task
    from kope.suite.record import RunFolder
    from kope.suite.run import Progress

group = typer.Typer(help="Whole suites: run many tasks, compare systems, hand results in.", no_args_is_help=True)

Runs = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="Folders of suite runs, or CSV files; NAME=PATH gives a name.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group, name="suite")


@group.command("run", epilog="Example: kope suite run cann-bench --out runs/first --iterations 6 --largest 4")
def run(
    tasks: Annotated[
        list[str],
        typer.Argument(metavar="DIR|LIST|TASK...", help="A suite's folder, a file with one task a line, or tasks."),
    ],
    out: Annotated[Path, typer.Option(help="The folder of the run; one that is there is taken up again.")],
    target: options.TargetOption = None,
    chip: options.ChipOption = None,
    compiler: options.CompilerOption = None,
    proposer: Annotated[str, typer.Option(help="What writes candidates: search, llm or command.")] = "search",
    model: Annotated[str | None, typer.Option(help="Model of the proposer llm or command.")] = None,
    command: Annotated[str | None, typer.Option(help="Program of the proposer command, as one command line.")] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", min=1, help="Attempts per task at most.")] = 12,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop a task after this many attempts in a row without a better kernel.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Tokens per task at most.")] = None,
    time: Annotated[str | None, typer.Option(help="Time per task at most, for example 10m.")] = None,
    jobs: options.JobsOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Breaks ties among moves; same seed, same attempts.")] = 0,
    context: Annotated[str | None, typer.Option(help="What a prompt holds besides the task. Not with search.")] = None,
    memory: options.MemoryOption = "on",
    largest: Annotated[
        float | None, typer.Option(min=0.001, help="Leave out cases with more than this many MiB of inputs.")
    ] = None,
    system: Annotated[str, typer.Option(help="What the run is called in comparisons.")] = "KOPE",
    retry: Annotated[bool, typer.Option("--retry", help="Try again the tasks that could not be worked on.")] = False,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Optimize every task of a suite, easy ones first, several at once. What came of each is kept.

    Interrupted or killed in any way, the same command goes on; a task with a result is not run again. Exits with 1 when
    a task could not be worked on at all.
    """
    from kope import config
    from kope.loop import Limits
    from kope.suite.run import clear_problems, in_order, open_run, restricted, run_suite
    from kope.wiring import Plan

    settings = config.load({"target": target, "chip": chip, "compiler": compiler, "jobs": jobs, "db": db})
    found = _tasks(settings, tasks)
    kept, lost = restricted(in_order(found), None if largest is None else round(largest * 2**20))
    if lost:
        say(
            f"{sum(lost.values())} cases of {len(lost)} tasks are larger than {largest:g} MiB and left out",
            to_stderr=True,
        )
    plan = Plan(proposer, model, command, memory, context or "active", seed)
    limits = Limits(iterations, patience, tokens, seconds(time))
    folder = open_run(out, kept, plan, limits, settings, system=system, left_out=sum(lost.values()))
    if retry:
        clear_problems(folder)
    if not run_suite(folder, kept, plan, limits, settings, _say_progress):
        say(
            f"Interrupted. Every finished task is kept. To go on: {shlex.join(['kope', *sys.argv[1:]])}", to_stderr=True
        )
        raise typer.Exit(INTERRUPTED)
    if json:
        print_json(_run_document(folder))
    else:
        _print_run(folder)
    raise typer.Exit(1 if any(record.problem for record in folder.records.values()) else 0)


def _tasks(settings: Settings, words: list[str]) -> list[Task]:
    """Return the tasks meant: of suites, list files, or single ones; a suite that cannot be read whole is refused."""
    from kope.suite.run import listed_tasks
    from kope.task.imported import read_suite, suite_in

    found: dict[str, Task] = {}
    for word in words:
        place = Path(word)
        if place.is_dir() and suite_in(place) is not None:
            _, members, errors = read_suite(place)
            if errors:
                raise errors[0]
        elif place.is_file() and place.suffix != ".py":
            members = [the_task(settings, name) for name in listed_tasks(place)]
        else:
            members = [the_task(settings, word)]
        found |= {task.name: task for task in members}
    return list(found.values())


def _say_progress(progress: Progress) -> None:
    record = progress.record
    what = record.problem or f"{record.passed_count}/{len(record.cases)} cases, {record.attempts} attempts"
    left = f", about {_duration(progress.left_s)} left" if progress.left_s else ""
    say(f"[{progress.done}/{progress.total}] {record.task}: {what}, {record.wall_s:.0f} s{left}", to_stderr=True)


def _duration(time_s: float) -> str:
    minutes = time_s / 60
    return f"{time_s:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _run_document(folder: RunFolder) -> dict[str, Any]:
    from dataclasses import asdict

    return {"run": asdict(folder.info), "tasks": [asdict(record) for record in folder.records.values()]}


def _print_run(folder: RunFolder) -> None:
    rows = [
        (
            record.task,
            record.level or "-",
            f"{record.passed_count}/{len(record.cases)}",
            record.attempts,
            record.problem or (f"{record.stop}; {record.reason}" if record.reason else record.stop),
        )
        for record in folder.records.values()
    ]
    print_table(str(folder.path), ("task", "level", "cases passed", "attempts", "ended by"), rows)
    say(f"Next: kope suite compare {shlex.quote(str(folder.path))}")


@group.command(
    "ablate",
    epilog="Example: kope suite ablate tasks.txt --out ablation --arms graph,placebo --iterations 6 --seeds 0,1",
)
def ablate(
    tasks: Annotated[
        list[str],
        typer.Argument(metavar="DIR|LIST|TASK...", help="A suite's folder, a file with one task a line, or tasks."),
    ],
    out: Annotated[Path, typer.Option(help="The folder for all arms; what is there is taken up again.")],
    arms: Annotated[
        str, typer.Option(help="What to leave out in turn: graph, placebo, hardware, context, none; with commas.")
    ] = "graph,placebo",
    seeds: Annotated[str, typer.Option(help="Seeds to repeat every arm with; with commas.")] = "0",
    target: options.TargetOption = None,
    chip: options.ChipOption = None,
    compiler: options.CompilerOption = None,
    proposer: Annotated[str, typer.Option(help="What writes candidates: search, llm or command.")] = "search",
    model: Annotated[str | None, typer.Option(help="Model of the proposer llm or command.")] = None,
    command: Annotated[str | None, typer.Option(help="Program of the proposer command, as one command line.")] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", min=1, help="Attempts per task at most.")] = 12,
    tokens: Annotated[int | None, typer.Option(min=1, help="Tokens per task at most.")] = None,
    jobs: options.JobsOption = None,
    largest: Annotated[
        float | None, typer.Option(min=0.001, help="Leave out cases with more than this many MiB of inputs.")
    ] = None,
    start: Annotated[Path | None, typer.Option(help="A database that every arm begins with a copy of.")] = None,
    other_hardware: Annotated[
        Path | None, typer.Option(help="The database of other hardware that the arm hardware may recall from.")
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Run a suite with one thing left out at a time, and compare.

    Every arm has a database of its own, so that none learns from another. An arm that needs what is not there is
    refused before anything runs. Interrupted or killed, the same command goes on.
    """
    from kope import config
    from kope.loop import Limits
    from kope.suite.ablate import Asked, arms_asked_for, run_arms
    from kope.suite.compare import compare as side_by_side
    from kope.suite.report import HEADINGS, markdown, rows
    from kope.suite.results import read_systems
    from kope.suite.run import in_order, restricted
    from kope.wiring import Plan

    settings = config.load({"target": target, "chip": chip, "compiler": compiler, "jobs": jobs})
    plan, limits = Plan(proposer, model, command), Limits(iterations, None, tokens, None)
    chosen = arms_asked_for(_words(arms), plan, other_hardware)
    kept, lost = restricted(in_order(_tasks(settings, tasks)), None if largest is None else round(largest * 2**20))
    asked = Asked(kept, plan, limits, settings, sum(lost.values()))
    folders = run_arms(chosen, _seeds(seeds), out, asked, start, _say_progress)
    if folders is None:
        say(
            f"Interrupted. Every finished task is kept. To go on: {shlex.join(['kope', *sys.argv[1:]])}", to_stderr=True
        )
        raise typer.Exit(INTERRUPTED)
    document = side_by_side([system for folder in folders for system in read_systems(folder)]).document()
    (out / "report.md").write_text(markdown(document, "Ablation"), encoding="utf-8")
    if json:
        print_json({"arms": {arm.name: arm.what for arm in chosen}, "comparison": document})
        return
    print_table(f"{document['cases']} cases, {document['operators']} operators", HEADINGS, rows(document))
    _say_ratios(document)
    say("; ".join(f"{arm.name}: {arm.what}" for arm in chosen))
    say(f"report: {out / 'report.md'}")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _seeds(text: str) -> list[int]:
    words = _words(text)
    if not words or not all(word.isdigit() for word in words):
        raise typer.BadParameter(f"--seeds {text!r}: write whole numbers with commas, for example 0,1,2")
    return [int(word) for word in dict.fromkeys(words)]


def _say_ratios(document: dict[str, Any]) -> None:
    """Say how times of the same cases compare, or why they are not compared."""
    both = document["intersection"]
    if both["reason"]:
        say(f"no times side by side: {both['reason']}")
    for one in both["ratios"]:
        interval = f"[{one['low']:.3g}, {one['high']:.3g}], set {both['hash']}"
        say(f"{one['system']}: {one['value']:.3g} times as fast as {one['against']} on {one['count']} cases {interval}")


@group.command("export", epilog="Example: kope suite export runs/first -o submission")
def export(
    run: Annotated[Path, typer.Argument(help="The folder of a suite run.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to; it must be new or empty.")],
    form: Annotated[str, typer.Option("--format", help="What to write: cann-bench.")] = "cann-bench",
    json: options.JsonOption = False,
) -> None:
    """Write the best kernels of a run as a submission to a benchmark. With it comes a CPU build that runs on the twin.

    An operator whose output shapes no simple rule gives is left out and named.
    """
    from kope import config, wiring
    from kope.suite.record import RunFolder
    from kope.suite.run import tasks_of
    from kope.suite.submission import export as write
    from kope.target.twin import parameters

    if form != "cann-bench":
        raise typer.BadParameter(f"--format {form!r} is not known; cann-bench is")
    settings = config.load()
    folder = RunFolder.open(run)
    facts = parameters.load(settings.chip).values
    written = write(folder, tasks_of(folder), output, wiring.case_library(settings), facts)
    if json:
        operators = {
            one.symbol: {"passed": one.passed, "official": one.official, "cases": one.cases}
            for one in written.operators
        }
        print_json({"folder": str(output), "operators": operators, "refused": dict(written.refused)})
        return
    for name, why in written.refused.items():
        say(f"left out: {name}: {why}", to_stderr=True)
    say(f"{output}: {len(written.operators)} operators; next: bash {shlex.quote(str(output / 'build.sh'))} --cpu")


@group.command("compare", epilog="Example: kope suite compare runs/first agent=results.csv --published -o report.md")
def compare(
    runs: Runs,
    published: Annotated[
        bool, typer.Option("--published", help="Add the counts published for CANN Bench, labelled as such.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write to a file: Markdown, or CSV where its name ends so.")
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Set systems side by side: rates, times, tokens. Every declared case counts; times stand beside published ones.

    A CSV has one line per case (system, operator, case, passed, time_us, tokens), or one per system (system, passed,
    cases, operators_with_pass, operators, tokens, source).
    """
    from kope import resources
    from kope.suite.compare import compare as side_by_side
    from kope.suite.report import HEADINGS, as_csv, markdown, rows
    from kope.suite.results import read_systems

    systems = []
    for word in runs:
        name, equals, place = word.partition("=")
        systems += read_systems(Path(place if equals else word), name if equals else "")
    if published:
        for file in sorted((resources.folder("examples") / "published").glob("*.csv")):
            systems += read_systems(file)
    document = side_by_side(systems).document()
    if output is not None:
        text = as_csv(document) if output.suffix == ".csv" else markdown(document, "Comparison")
        output.write_text(text, encoding="utf-8")
        say(f"{output}: {len(systems)} systems, {document['cases']} cases")
    elif json:
        print_json(document)
    else:
        print_table(f"{document['cases']} cases, {document['operators']} operators", HEADINGS, rows(document))
        _say_ratios(document)
