"""`kope db`: what the experience database holds, and whether it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kope.cli import graph, options, share
from kope.cli.output import print_json, print_rich, print_table, say

group = typer.Typer(help="The experience database: what it holds, whether it is whole.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    graph.register(group)
    share.register(group)
    app.add_typer(group, name="db")


@group.command("info", epilog="Example: kope db info --db kope.db")
def info(db: options.DbOption = None, json: options.JsonOption = False) -> None:
    """Show what is in the database: versions, counts, tasks."""
    from kope import config
    from kope.memory import Store
    from kope.report import experience

    with Store.open(config.load({"db": db}).db, create=False) as store:
        found = store.info()
    if json:
        print_json(experience.info_document(found))
        return
    for line in experience.info_lines(found):
        say(line)
    if found.tasks:
        print_rich(experience.info_table(found))


@group.command("check", epilog="Example: kope db check --db kope.db")
def check(
    mend: Annotated[
        bool,
        typer.Option("--repair", help="Make again what is derived; save the rows of a damaged file into a new one."),
    ] = False,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Check that the database is whole, from pages to derived tables. Exits with 1 when anything is wrong."""
    from kope import config
    from kope.memory import Store
    from kope.report import experience

    if mend:
        _repair(config.load({"db": db}).db, json)
        return
    with Store.open(config.load({"db": db}).db, create=False) as store:
        problems = store.check()
        attempts = store.info().counts["attempts"] if not problems else 0
    if json:
        print_json(experience.check_document(str(store.path), problems))
    elif problems:
        print_table("problems", ("kind", "what is wrong"), [(each.kind, each.message) for each in problems])
        say(f"{store.path}: {len(problems)} problems; kope db check --repair mends what can be")
    else:
        say(f"{store.path}: {attempts} attempts, nothing wrong")
    raise typer.Exit(1 if problems else 0)


def _repair(path: Path, json: bool) -> None:
    from kope.memory.repair import repair
    from kope.report import sharing

    done = repair(path)
    if json:
        print_json(sharing.repair_document(path, done))
    else:
        say(sharing.repair_line(path, done))
    raise typer.Exit(1 if done.left else 0)
