"""The command line: one module per noun, and the one place that turns a KopeError into a line and an exit status.

A noun's module offers `register(app)`; it imports what it works with inside its commands: `kope --help` stays fast.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from kope import __version__
from kope.errors import KopeError

INTERRUPTED = 130
_NOUNS = (
    "optimize",
    "ask",
    "eval",
    "derive",
    "best",
    "recall",
    "context",
    "docs",
    "mcp",
    "task",
    "suite",
    "twin",
    "db",
    "learn",
    "report",
    "doctor",
)
_FREE = "free space and run the same command again"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class ErrorEdge(TyperGroup):
    """Ends a command that failed on purpose with one line and status 1; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KopeError as error:
            _fail(str(error))
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except MemoryError:
            _fail("out of memory; free some, or use a smaller case or fewer --jobs")
        except OSError as error:
            if error.errno not in _FULL:
                raise
            where = f" while writing {error.filename}" if error.filename else ""
            _fail(f"the disk is full{where}; {_FREE}")
        except Exception as error:
            # SQLite's, of a file that is still being made: it says neither which nor why in its class.
            if getattr(error, "sqlite_errorname", "") != "SQLITE_FULL":
                raise
            _fail(f"the disk is full; {_FREE}")


def _fail(message: str) -> NoReturn:
    one_line = " ".join(message.split("\n")).strip()
    typer.echo(f"Error: {one_line}", err=True)
    raise typer.Exit(1) from None


app = typer.Typer(
    name="kope",
    cls=ErrorEdge,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kope {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Optimize Ascend C kernels by measuring every attempt and remembering it."""


def _register() -> None:
    for noun in _NOUNS:
        if importlib.util.find_spec(f"kope.cli.{noun}") is not None:
            importlib.import_module(f"kope.cli.{noun}").register(app)


_register()


def main() -> None:
    """Run the command line; the console script."""
    # Streams that the caller closed are None: what is printed there is lost, and ends nothing.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # open as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A kernel's log may hold anything; a terminal that cannot show it must not end the program.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="replace")
    try:
        app(prog_name="kope")
    finally:
        _drop_what_cannot_be_printed()


def _drop_what_cannot_be_printed() -> None:
    """Let Python's own flush at the end not fail once more, with a message and a status of its own."""
    try:
        sys.stdout.flush()
    except OSError:  # said already: every print is flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
