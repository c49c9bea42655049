"""`kope ask` and `kope tell`: prompt out, candidate in. Any person, agent or program is a proposer."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, print_rich, progress, say
from kope.cli.setup import db_words, read_candidate, the_task

AgentOption = Annotated[
    str, typer.Option("--agent", help="Who works: of several on one task, each goes on from its own last attempt.")
]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A folder, or a name on the task path.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("ask", epilog="Example: kope ask rms_norm > prompt.md")(ask)
    app.command("tell", epilog="Example: kope tell rms_norm kernel.asc --ask 1f2e3d4c")(tell)


def ask(
    task: TaskName,
    target: options.TargetOption = None,
    chip: options.ChipOption = None,
    memory: options.MemoryOption = "on",
    context: options.ContextOption = "active",
    agent: AgentOption = "",
    window: options.WindowOption = None,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Print the prompt for the next candidate of a task. The id to hand the answer in under comes with it."""
    from kope import asking, config, wiring
    from kope.report.prompt import ask_document

    options.check_context(context)
    settings = config.load({"target": target, "chip": chip, "db": db, "window": window})
    plan = wiring.Plan("ask", memory=memory, context=context, agent=agent)
    found = the_task(settings, task)
    with wiring.open_session([found], plan, settings) as opened:
        kept, made = asking.ask(found, opened.parts, opened.memory)
        incumbent = opened.memory.standing(found).incumbent
    if json:
        print_json(ask_document(kept, made, wiring.budget(plan, settings), incumbent))
        return
    typer.echo(made.text)
    who = f" --agent {shlex.quote(agent)}" if agent else ""
    say(f"Answer with: kope tell {shlex.quote(task)} FILE --ask {kept.id}{who}{db_words(settings)}", to_stderr=True)


def tell(
    task: TaskName,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A source, or a reply that holds one; - reads standard input.")
    ],
    ask: Annotated[str | None, typer.Option("--ask", help="The id that kope ask printed with the prompt.")] = None,
    move: Annotated[str, typer.Option(help="A short name for what was changed, else edit.")] = "",
    thought: Annotated[str, typer.Option(help="Why, in a sentence; it is remembered with the attempt.")] = "",
    agent: AgentOption = "",
    target: options.TargetOption = None,
    chip: options.ChipOption = None,
    compiler: options.CompilerOption = None,
    jobs: options.JobsOption = None,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Judge a candidate, record it, and say what became of it. Exits with 1 when it failed."""
    from kope import asking, config, wiring
    from kope.report import verdict
    from kope.report.prompt import next_step, tell_document

    settings = config.load({"target": target, "chip": chip, "compiler": compiler, "jobs": jobs, "db": db})
    plan = wiring.Plan("ask", agent=agent)
    found = the_task(settings, task)
    candidate = read_candidate(file)
    with progress() as tell_what, wiring.open_session([found], plan, settings) as opened:
        asked = opened.store.asked(ask) if ask is not None else None
        tell_what(f"judging {file} on the {len(found.cases)} cases of {found.name}")
        told = asking.read_answer(candidate.source, asked, opened.memory, move=move, thought=thought)
        attempt, standing = asking.tell(found, told, asked, opened.parts, opened.memory)
    step = next_step(attempt, shlex.quote(task), db_words(settings))
    if json:
        print_json(tell_document(ask, attempt, standing, step))
    else:
        if attempt.outcome.cases:
            print_rich(verdict.verdict_table(found, attempt.fingerprint, attempt.outcome))
        for line in verdict.finding_lines(attempt.outcome.diagnostics):
            say(line)
        say(verdict.verdict_line(found, attempt.outcome))
        say(f"Next: {step}")
    raise typer.Exit(0 if attempt.outcome.ok else 1)
