"""`kope report`: what the database holds, as tables: all tasks, or the attempts of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, print_rich, say
from kope.cli.setup import db_words


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", epilog="Example: kope report rms_norm")(report)


def report(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="Name of a task; without it: all tasks.")] = None,
    session: Annotated[
        str | None, typer.Option(help="Attempts of this session; default: of the newest. 'all': of every session.")
    ] = None,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Show the best kernel of every task, or every attempt on one."""
    from kope import config
    from kope.errors import NotFound
    from kope.report import overview
    from kope.report.table import attempts_table
    from kope.report.verdict import failure_lines, spending_line
    from kope.wiring import open_existing

    settings = config.load({"db": db})
    with open_existing(settings) as store:
        attempts = store.attempts(task_name=Path(task).name if task is not None else None)
        case_counts = store.case_counts()
    found = overview.of_session(attempts, session if task is not None else session or "all")
    if attempts and not found:
        raise NotFound(f"no session with such attempts in {settings.db} begins with {session!r}; give 'all', or none")
    attempts = found
    if not attempts:
        what = f"attempt on {task!r}" if task is not None else "attempt"
        raise NotFound(f"no {what} in {settings.db}; kope optimize {task or 'TASK'} makes some")
    if json:
        print_json(overview.report_document(attempts))
    elif task is None:
        print_rich(overview.tasks_table(attempts, case_counts))
        say(f"Next: kope report TASK{db_words(settings)} shows the attempts of one")
    else:
        for name, group in overview.by_task(attempts).items():
            print_rich(attempts_table(name, case_counts[group[0].task_digest], group))
            best = overview.best_of(group)
            if best is not None and (spent := spending_line(best.outcome)):
                say(f"best: {spent}")
            for line in failure_lines(group):
                say(line)
