"""How commands print: tables for people, one JSON document for programs, progress beside both."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import typer


def say(text: str, *, to_stderr: bool = False) -> None:
    """Print a line."""
    typer.echo(text, err=to_stderr)


def print_json(document: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under headings; into a pipe a row is never folded."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    print_rich(table)


def print_rich(renderable: Any) -> None:
    """Print a rich table on standard output. Text is shown as it is: brackets are no markup."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 200
    Console(width=width, markup=False, highlight=False, emoji=False).print(renderable)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows what is being done, on a terminal's standard error only; its line is cleared."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update
