"""`kope recall`: what memory would answer, and why."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, print_rich, say

if TYPE_CHECKING:
    from kope.config import Settings
    from kope.memory import RecallQuery, Store
    from kope.model import Task


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recall", epilog="Example: kope recall 'ub-overflow in a reduction' --task rms_norm")(recall)


def recall(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for: words, a message, code.")] = "",
    task: Annotated[str | None, typer.Option("--task", help="For this operator: a folder, or a name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many experiences.")] = 8,
    hardware: Annotated[
        str | None, typer.Option(help="Where times count as speed; default: the chip and parameter set tried last.")
    ] = None,
    move: Annotated[list[str] | None, typer.Option(help="Only experiences of this move; may be repeated.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Only these: effective, partial, ineffective, negative.")
    ] = None,
    starter: Annotated[bool, typer.Option("--starter", help="Also from the memory that comes with KOPE.")] = False,
    ask: Annotated[
        str | None, typer.Option("--ask", help="For the answer to this ask: six times at most, and kept with it.")
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Show parent -> move -> outcome, as prompts do.")] = False,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Show which experiences would be recalled, best first, and why."""
    if not text and task is None:
        raise typer.BadParameter("give TEXT, or --task TASK, or both")
    from kope import asking, config
    from kope.cli.setup import the_task
    from kope.memory import Filters, RecallQuery, Scope, Store
    from kope.memory.embedding import embedder_named
    from kope.memory.graph import LABELS
    from kope.report import experience

    unknown = sorted(set(label or ()) - set(LABELS))
    if unknown:
        raise typer.BadParameter(f"no label {unknown[0]!r}; the labels are {', '.join(LABELS)}")
    settings = config.load({"db": db})
    filters = Filters(moves=tuple(move or ()), labels=tuple(label or ()))
    with contextlib.ExitStack() as opened:
        more = opened.enter_context(_starter(settings)) if starter else None
        # Who has nothing yet may still ask what comes with KOPE.
        bare = more is not None and not settings.db.exists()
        place = Path(":memory:") if bare else settings.db
        store = opened.enter_context(Store.open(place, embedder=embedder_named(settings.embedder), create=bare))
        asked = store.asked(ask) if ask is not None else None
        if asked is not None:
            asking.require_look_up_left(asked)
        tried_last = store.hardware_tried_last() or (more.hardware_tried_last() if more is not None else "")
        here = hardware if hardware is not None else tried_last
        query = RecallQuery(text=text) if task is None else _task_query(store, the_task(settings, task), text, here)
        query = replace(query, hardware=here, filters=filters, limit=limit, moves=False)
        found = store.recall(query, Scope(source=more))
        drawn = asking.note_look_up(asked, text or str(task), found, store) if asked is not None else ""
    if json:
        print_json(experience.recall_document(found, query))
        return
    for note in (*store.notes, f"recalled with less than everything: {found.degraded}" if found.degraded else ""):
        if note:
            say(note, to_stderr=True)
    if not found.items:
        say(f"nothing in {settings.db} fits; kope db info shows what there is")
    elif drawn:
        say(drawn)
    elif tree:
        from kope.context.lineage import Forest

        say(Forest.of(found).draw([item.experience.id for item in found.items]))
    else:
        print_rich(experience.recall_table(found))


def _starter(settings: Settings) -> Store:
    from kope import wiring

    return wiring.open_starter(settings)


def _task_query(store: Store, task: Task, text: str, hardware: str) -> RecallQuery:
    """Return what a session on the task would ask now, going on from the best kernel; `text` comes first."""
    from kope.memory import RecallQuery
    from kope.model import Recall, State
    from kope.target.profile import bound_by

    history = store.attempts(task_digest=task.digest)
    if not history:
        return RecallQuery.for_task(task, text=text)
    best = store.incumbent(task.digest, hardware)
    baseline, newest = store.baseline(task.digest, hardware), history[-1]
    state = State(task, newest.fingerprint, 0, len(history) + 1, best, baseline, newest, history, Recall())
    query = RecallQuery.for_state(state, bottleneck=bound_by(best))
    return replace(query, text=f"{text} {query.text}".strip())
