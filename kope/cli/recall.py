"""`kope recall`: what memory would bring for a question or a task, with the reason for each item."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, say
from kope.cli.setup import the_task

if TYPE_CHECKING:
    from kope.config import Settings
    from kope.memory import RecallQuery, Store


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recall", epilog='Example: kope recall "row reduction bound by mte2"')(recall)


def recall(
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="What to look for, in words.")] = "",
    task: Annotated[str | None, typer.Option("--task", help="What would be recalled for this task now.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Items at most.")] = 8,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Show what would be recalled: experiences with their lineage, and why each was chosen."""
    from kope import config
    from kope.report.memory import recall_document, recall_text
    from kope.wiring import open_existing

    if bool(text.strip()) == bool(task):
        raise typer.BadParameter("give either TEXT or --task TASK")
    settings = config.load({"db": db})
    with open_existing(settings) as store:
        found = store.recall(_query(settings, store, text, task, limit))
    if json:
        print_json(recall_document(found))
        return
    typer.echo(recall_text(found) if found.items else "nothing fits; kope db info shows what there is")
    if found.degraded:
        say(f"degraded: {found.degraded}")


def _query(settings: Settings, store: Store, text: str, task: str | None, limit: int) -> RecallQuery:
    from kope.loop import Standing
    from kope.memory import RecallQuery
    from kope.model import Recall, State
    from kope.propose.search import bound_by

    if task is None:
        return RecallQuery(text=text, limit=limit, moves=False)
    found = the_task(settings, task)
    attempts = store.attempts(task_digest=found.digest)
    standing = Standing()
    for attempt in attempts:
        standing = standing.after(attempt)
    if not attempts:
        return RecallQuery(text=found.text, tags=found.tags, task_name=found.name, limit=limit, moves=False)
    newest = attempts[-1]
    state = State(
        found,
        newest.fingerprint,
        0,
        len(attempts) + 1,
        standing.incumbent,
        standing.baseline,
        newest,
        attempts,
        Recall(),
    )
    query = RecallQuery.for_state(state, bottleneck=bound_by(standing.incumbent), limit=limit)
    return replace(query, moves=False)
