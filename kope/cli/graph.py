"""`kope db show|stats|forget|retire|reembed`: the experience graph looked at, weeded, and given other vectors."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, print_rich, say

if TYPE_CHECKING:
    from kope.memory import Forgotten


def register(group: typer.Typer) -> None:
    """Add the commands to the group `db`."""
    group.command("show", epilog="Example: kope db show 3f2a91c0")(show)
    group.command("stats", epilog="Example: kope db stats --db kope.db")(stats)
    group.command("forget", epilog="Example: kope db forget --task exp --before 2026-12-01 --dry-run")(forget)
    group.command("retire", epilog="Example: kope db retire 3f2a91c0")(retire)
    group.command("reembed", epilog="Example: kope db reembed --db kope.db")(reembed)


def show(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The beginning of an experience's or attempt's id.")],
    journal: Annotated[bool, typer.Option("--journal", help="Print its journal entry as well.")] = False,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Show an experience, what led to it and what came of it. Also what it taught, and what was tried beside it."""
    from kope import config
    from kope.memory import Store
    from kope.report import graph

    with Store.open(config.load({"db": db}).db, create=False) as store:
        found = store.surroundings(node)
    if json:
        print_json(graph.show_document(found))
        return
    print_rich(graph.show_tree(found))
    if journal and found.journal:
        say("\n" + found.journal.rstrip())


def stats(db: options.DbOption = None, json: options.JsonOption = False) -> None:
    """Show how the memory grows, is used, repeats itself and ages. Also which experiences proved their worth."""
    from kope import config
    from kope.memory import Store
    from kope.report import graph

    with Store.open(config.load({"db": db}).db, create=False) as store:
        found = store.stats()
    if json:
        print_json(graph.stats_document(found))
        return
    for line in graph.stats_lines(found):
        say(line)
    if found.best or found.worst:
        print_rich(graph.stats_table(found))


def forget(
    node: Annotated[list[str] | None, typer.Option("--node", help="This experience; may be repeated.")] = None,
    session: Annotated[list[str] | None, typer.Option("--session", help="Attempts of this session.")] = None,
    task: Annotated[list[str] | None, typer.Option("--task", help="Attempts on this task, by name or digest.")] = None,
    origin: Annotated[list[str] | None, typer.Option("--origin", help="What came from this file: id or label.")] = None,
    since: Annotated[datetime | None, typer.Option(help="Attempts from this time on (UTC).")] = None,
    before: Annotated[datetime | None, typer.Option(help="Attempts before this time (UTC).")] = None,
    keep_descendants: Annotated[
        bool, typer.Option("--keep-descendants", help="Not what started from them, or copies them.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would be.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Forget attempts for good, with everything that came of them. Conditions of several kinds must all hold."""
    from datetime import UTC

    from kope import config
    from kope.memory import Selection, Store

    if not (node or session or task or origin or since or before):
        raise typer.BadParameter("say what to forget: --node, --session, --task, --origin, --since or --before")
    selection = Selection(
        sessions=tuple(session or ()),
        tasks=tuple(task or ()),
        origins=tuple(origin or ()),
        experiences=tuple(node or ()),
        since=since.replace(tzinfo=UTC) if since is not None else None,
        before=before.replace(tzinfo=UTC) if before is not None else None,
        descendants=not keep_descendants,
    )
    with Store.open(config.load({"db": db}).db, create=False) as store:
        found = store.forget(selection, dry_run=True)
        done = bool(found.attempts) and not dry_run and (yes or typer.confirm(f"{_told(found)} Forget them?", err=True))
        if done:
            store.forget(selection)
    if json:
        print_json({"forgotten": done, "attempts": list(found.attempts), "descendants": found.descendants,
                    "by_task": found.by_task})  # fmt: skip
    elif not found.attempts:
        say("nothing meets that; kope db info shows what there is")
    else:
        say(_told(found) + (" Forgotten." if done else " Nothing was forgotten."))


def _told(found: Forgotten) -> str:
    tasks = ", ".join(f"{count} on {task}" for task, count in found.by_task.items())
    below = f", {found.descendants} of them for what they started from or copy" if found.descendants else ""
    return f"{len(found.attempts)} attempts ({tasks}){below}."


def retire(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The beginning of an experience's id.")],
    keep: Annotated[bool, typer.Option("--keep", help="The opposite: recall it whatever its record.")] = False,
    auto: Annotated[bool, typer.Option("--auto", help="Take back what was said; its record decides again.")] = False,
    db: options.DbOption = None,
) -> None:
    """Take an experience out of recall, without forgetting it."""
    from kope import config
    from kope.memory import Store

    if keep and auto:
        raise typer.BadParameter("give --keep or --auto, not both")
    with Store.open(config.load({"db": db}).db, create=False) as store:
        name = store.retire(node, None if auto else not keep)
    said = "its record decides" if auto else "recalled, whatever its record" if keep else "not recalled any more"
    say(f"{name}: {said}")


def reembed(db: options.DbOption = None, json: options.JsonOption = False) -> None:
    """Give every experience a vector of the embedder that is set. Stopped, the same command goes on."""
    from kope import config, wiring
    from kope.cli.output import progress

    with wiring.open_existing(config.load({"db": db})) as store, progress() as show_progress:
        done = store.reembed(lambda count, total: show_progress(f"{count} of {total} vectors"))
        name = store.embedder.name if store.embedder is not None else ""
    if json:
        print_json({"embedder": name, "made": done})
    else:
        say(f"{done} vectors made by {name}")
