"""The edge of the command line: what is wrong is one line and a status, a bug keeps its traceback."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from kope import __version__, process
from kope.cli import ErrorEdge, app
from kope.errors import KopeError, StoreError, ToolMissing


def run(command: Callable[[], None]) -> object:
    """Run a command that does one thing behind the edge."""
    edge = typer.Typer(cls=ErrorEdge, pretty_exceptions_enable=False, add_completion=False)
    edge.callback()(lambda: None)
    edge.command("act")(command)
    return CliRunner().invoke(edge, ["act"])


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KopeError("no task; name one"), "Error: no task; name one\n"),
        (StoreError("kope.db is damaged\nsee the docs"), "Error: kope.db is damaged see the docs\n"),
        (ToolMissing("g++ is missing; install it", ["g++"]), "Error: g++ is missing; install it\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "x.db"),
            "Error: the disk is full while writing x.db; free space and run the same command again\n",
        ),
        (MemoryError(), "Error: out of memory; free some, or use a smaller case or fewer --jobs\n"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_1(error: BaseException, line: str) -> None:
    done = run(raising(error))
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", line)  # type: ignore[attr-defined]


def test_a_bug_keeps_its_traceback() -> None:
    done = run(raising(ZeroDivisionError("bug")))
    assert isinstance(done.exception, ZeroDivisionError)  # type: ignore[attr-defined]


def test_another_system_error_is_a_bug() -> None:
    done = run(raising(OSError(errno.EIO, "I/O error")))
    assert isinstance(done.exception, OSError)  # type: ignore[attr-defined]


@pytest.mark.parametrize("argv", [["task", "list"], ["no-such-command"]])
def test_closed_streams_end_nothing(argv: list[str]) -> None:
    code = f"import os; os.close(1); os.close(2); os.execv({sys.executable!r}, {[sys.executable, '-m', 'kope', *argv]})"
    done = process.run([sys.executable, "-c", code], timeout_s=60.0)
    assert done.returncode == (0 if argv[0] == "task" else 2)


def test_interrupt_is_130() -> None:
    done = run(raising(KeyboardInterrupt()))
    assert (done.exit_code, done.stderr) == (130, "Interrupted.\n")  # type: ignore[attr-defined]


@pytest.mark.parametrize("arguments", [["no-such-command"], ["doctor", "--no-such-option"], ["task", "show"]])
def test_usage_is_2(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Usage:" in done.stderr or "Error:" in done.stderr


def test_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"kope {__version__}\n")


def test_every_command_has_help_with_an_example() -> None:
    root = typer.main.get_command(app)
    silent = [
        path for path, command in walk("kope", root) if not command.help or "Example: " not in (command.epilog or "")
    ]
    assert silent == []


def test_no_summary_is_cut_off_on_a_narrow_screen() -> None:
    cut = []
    for path, _ in walk("kope", typer.main.get_command(app)):
        *group, name = path.split()[1:]
        listing = CliRunner().invoke(app, [*group, "--help"], terminal_width=80).stdout
        cut += [line for line in listing.splitlines() if line.strip().startswith(f"{name} ") and line.endswith("...")]
    assert cut == []


def walk(path: str, command: object) -> list[tuple[str, object]]:
    children = getattr(command, "commands", None)
    if children is None:
        return [(path, command)]
    return [found for name, child in children.items() for found in walk(f"{path} {name}", child)]
