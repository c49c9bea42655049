"""`kope db`: the experience database as a file: what it holds, whether it is whole."""

from __future__ import annotations

import typer

from kope.cli import options
from kope.cli.output import print_json, print_rich, say

app = typer.Typer(help="Look at the experience database.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="db")


@app.command("info", epilog="Example: kope db info --db team.db")
def info(db: options.DbOption = None, json: options.JsonOption = False) -> None:
    """Show what a database holds: attempts by task and hardware, embedders, versions."""
    from kope import config
    from kope.report.memory import info_document, info_lines, info_table
    from kope.wiring import open_existing

    with open_existing(config.load({"db": db})) as store:
        found = store.info()
    if json:
        print_json(info_document(found))
        return
    for line in info_lines(found):
        say(line)
    if found.tasks:
        print_rich(info_table(found))


@app.command("check", epilog="Example: kope db check --db team.db")
def check(db: options.DbOption = None, json: options.JsonOption = False) -> None:
    """Check a database: pages, links, every content id, scores, vectors, the full-text index. Exit 1 when not clean."""
    from kope import config
    from kope.report.memory import problems_document
    from kope.wiring import open_existing

    with open_existing(config.load({"db": db})) as store:
        path, problems = str(store.path), store.check()
    if json:
        print_json(problems_document(path, problems))
    for problem in () if json else problems:
        say(f"{problem.kind}: {problem.message}")
    if problems:
        if not json:
            say(f"{path}: {len(problems)} problems; restore a copy, or start a new database with --db")
        raise typer.Exit(1)
    if not json:
        say(f"{path}: clean")
