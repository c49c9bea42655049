"""`kope optimize`: run the loop on one or several tasks, show progress, and say what came of it."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kope.cli import INTERRUPTED, options
from kope.cli.output import print_json, print_rich, say
from kope.cli.setup import db_words, read_candidate, the_task

if TYPE_CHECKING:
    from kope.config import Settings
    from kope.loop import Limits, TaskResult
    from kope.model import Task
    from kope.report.summary import Finished
    from kope.wiring import Plan

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def register(app: typer.Typer) -> None:
    """Add the command."""
    example = "Example: kope optimize rms_norm --iterations 12 --memory on"
    app.command("optimize", epilog=example)(optimize)


def seconds(text: str | None) -> float | None:
    """Return a duration such as "90", "10m" or "1.5h" in seconds. Raises BadParameter."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or float(found[1]) == 0:
        raise typer.BadParameter(f"{text!r} is no duration; write for example 90s, 10m or 1.5h")
    return float(found[1]) * _UNITS[found[2]]


def optimize(
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help="Folders, or names on the task path.")],
    target: options.TargetOption = None,
    chip: options.ChipOption = None,
    compiler: options.CompilerOption = None,
    proposer: Annotated[str, typer.Option(help="What writes candidates: search, llm or command.")] = "search",
    model: Annotated[str | None, typer.Option(help="Model of the proposer llm or command.")] = None,
    command: Annotated[str | None, typer.Option(help="Program of the proposer command, as one command line.")] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", min=1, help="Attempts per task at most.")] = 24,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop a task after this many attempts in a row without a better kernel.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Stop the session at this many tokens.")] = None,
    cost: Annotated[
        float | None, typer.Option(min=0, help="Stop before calls cost more than this; see the setting llm_prices.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Stop the session after this time, for example 10m.")] = None,
    jobs: options.JobsOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Breaks ties among moves; same seed, same attempts.")] = 0,
    context: Annotated[
        str | None, typer.Option(help="What a prompt holds besides the task: active, passive, none. Not with search.")
    ] = None,
    memory: options.MemoryOption = "on",
    window: Annotated[int | None, typer.Option(min=1, help="Tokens of the model's window. Not with search.")] = None,
    proposals: Annotated[int, typer.Option(min=1, max=64, help="Answers the llm gives at once to each prompt.")] = 1,
    baseline: Annotated[
        Path | None, typer.Option(help="A kernel to try first and measure against, instead of the first that is right.")
    ] = None,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Optimize operators and remember every attempt. Each is proposed, compiled, run, verified and timed.

    Exits with 1 when a task is left without a kernel that is right on all its cases.

    Interrupted in any way, the same command goes on where it stopped. A finished session is not repeated: the same
    command then starts a new one from the best kernel known (with --memory off: from nothing).
    """
    from kope import config
    from kope.loop import Limits
    from kope.wiring import Plan

    if proposer == "search" and (context is not None or window is not None or command is not None or model is not None):
        raise typer.BadParameter("--context, --window, --model and --command are for proposers that send a prompt")
    if context is not None:
        options.check_context(context)
    if proposals > 1 and proposer != "llm":
        raise typer.BadParameter("--proposals is for --proposer llm")
    if cost is not None and proposer == "search":
        raise typer.BadParameter("--cost is for proposers that send a prompt")
    if baseline is not None and len(dict.fromkeys(tasks)) > 1:
        raise typer.BadParameter("--baseline is a kernel of one task; give one TASK")
    settings = config.load({"target": target, "chip": chip, "compiler": compiler, "jobs": jobs, "db": db})
    given = read_candidate(baseline) if baseline is not None else None
    plan = Plan(proposer, model, command, memory, context or "active", seed, window, proposals, baseline=given)
    limits = Limits(iterations, patience, tokens, seconds(time))
    found = [the_task(settings, name) for name in dict.fromkeys(tasks)]
    finished = _run(found, plan, limits, settings, cost=cost, quiet=json)
    if json:
        print_json(finished.document())
    else:
        words = {task.name: shlex.quote(word) for task, word in zip(found, dict.fromkeys(tasks), strict=True)}
        _print(finished, words, settings)
    raise typer.Exit(0 if all(result.standing.incumbent is not None for result in finished.results) else 1)


def _run(
    tasks: list[Task], plan: Plan, limits: Limits, settings: Settings, *, cost: float | None, quiet: bool
) -> Finished:
    """Run a session to its end; whatever ends it before, say how to go on."""
    from rich.console import Console

    from kope.loop import optimize as run
    from kope.report.progress import Lines, Silent
    from kope.report.summary import Finished
    from kope.wiring import Allowed, open_session

    allowed = Allowed(limits.tokens, cost, limits.time_s)
    results: list[TaskResult] = []
    with Silent() if quiet else Lines(Console(stderr=True)) as watcher:
        opened = open_session(tasks, plan, settings, allowed=allowed, progress=watcher.note, on_text=watcher.reply)
        with opened:
            try:
                results.extend(run(tasks, opened.parts, limits, watcher))
            except KeyboardInterrupt:
                say(f"Interrupted. {_to_go_on()}", to_stderr=True)
                raise typer.Exit(INTERRUPTED) from None
            except BaseException:
                say(_to_go_on(), to_stderr=True)
                raise
            opened.store.end_session(opened.session.id, ", ".join(result.stop.value for result in results))
    return Finished(opened.session, opened.parts.fingerprint, plan.key(), tuple(results))


def _print(finished: Finished, words: dict[str, str], settings: Settings) -> None:
    from kope.report.summary import best_line, next_line
    from kope.report.table import attempts_table

    for result in finished.results:
        if result.standing.history:
            print_rich(attempts_table(result.task.name, len(result.task.cases), result.standing.history))
        say(best_line(result))
    say(next_line(finished.results, words, db_words(settings)))


def _to_go_on() -> str:
    return f"Every finished attempt is kept. To go on: {shlex.join(['kope', *sys.argv[1:]])}"
