"""`kope docs`: the user's own documentation and the Ascend C guide, as knowledge for prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, print_table, progress, say

if TYPE_CHECKING:
    from kope.memory import Store
    from kope.model import Passage

group = typer.Typer(help="Documentation for prompts: your own, and the Ascend C guide.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group, name="docs")


@group.command("add", epilog="Example: kope docs add manuals/ --db kope.db")
def add(
    places: Annotated[
        list[Path], typer.Argument(metavar="DIR|FILE...", help="Markdown, HTML, text or PDF; folders are searched.")
    ],
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Read documents into the database. A document of the same name is replaced; one that did not change is skipped.

    Each document is written at once: interrupted, the same command goes on with the rest. A document of a folder that
    cannot be read is left out and named; the command then exits with 1.
    """
    from kope import config, wiring
    from kope.knowledge import files_below

    settings = config.load({"db": db})
    found = list(dict.fromkeys(file for place in places for file in files_below(place)))
    rows = []
    with wiring.open_writable(settings) as store, progress() as tell:
        for number, file in enumerate(found, 1):
            tell(f"{number} of {len(found)}: {file}")
            rows.append(_add(store, file))
    if json:
        print_json({"documents": rows})
    else:
        print_table("documents", ("name", "passages", ""), [_shown(row) for row in rows])
        say(f"{sum(bool(row['added']) for row in rows)} added; to look something up: kope docs search 'WORDS'")
    raise typer.Exit(1 if any(row["problem"] for row in rows) else 0)


def _add(store: Store, file: Path) -> dict[str, object]:
    """Read one document into the database; return what came of it."""
    from kope.errors import ConfigError
    from kope.knowledge import read_document

    try:
        document = read_document(file, _name(file))
    except ConfigError as unreadable:
        return {"name": _name(file), "passages": 0, "added": False, "problem": str(unreadable)}
    passages = [(section.heading, section.text) for section in document.sections]
    is_new = store.documents.add(document.name, document.digest, document.size_bytes, passages)
    return {"name": document.name, "passages": len(passages), "added": is_new, "problem": ""}


def _name(file: Path) -> str:
    """Return how a file is listed: its path from the working folder, in full when it is elsewhere."""
    path, here = file.resolve(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _shown(row: dict[str, object]) -> tuple[object, object, str]:
    return row["name"], row["passages"], str(row["problem"]) or ("added" if row["added"] else "unchanged")


@group.command("search", epilog="Example: kope docs search 'DataCopyPad stride'")
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Words: a function, a message, what you want to do.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many passages.")] = 3,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Show the passages that fit best, as prompts get them."""
    import contextlib

    from kope import config, wiring
    from kope.library import Library

    settings = config.load({"db": db})
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(wiring.open_existing(settings)) if settings.db.exists() else None
        library = Library(store)
        stack.callback(library.close)
        passages = library.search(text, limit)
    if json:
        print_json({"passages": [_document(passage) for passage in passages]})
        return
    for passage in passages:
        say(f"=== {passage.source}: {passage.heading}\n\n{passage.text}\n")
    if not passages:
        say("nothing fits; use other words, or add documents with kope docs add DIR")


def _document(passage: Passage) -> dict[str, object]:
    return {"id": passage.id, "source": passage.source, "heading": passage.heading, "text": passage.text}


@group.command("list", epilog="Example: kope docs list")
def show(db: options.DbOption = None, json: options.JsonOption = False) -> None:
    """List your documents; the Ascend C guide is there besides."""
    from dataclasses import asdict

    from kope import config, wiring

    with wiring.open_existing(config.load({"db": db})) as store:
        listed = store.documents.listed()
    if json:
        print_json({"documents": [asdict(each) for each in listed]})
        return
    rows = [(each.name, each.passage_count, each.size_bytes, each.added_at) for each in listed]
    print_table("documents", ("name", "passages", "bytes", "added"), rows)


@group.command("remove", epilog="Example: kope docs remove manuals/intro.md")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As kope docs list shows it.")],
    db: options.DbOption = None,
) -> None:
    """Take a document out of the database."""
    from kope import config, wiring

    with wiring.open_writable(config.load({"db": db})) as store:
        store.documents.remove(name)
    say(f"{name} removed")
