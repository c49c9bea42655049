"""Writes docs/cli.md (every command with its --help) and docs/twin-api.md (every function of the twin's headers).

scripts/docs            write them
scripts/docs --check    exit with 1 when one is not current
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
import twin_api

from kope.cli import app

DOCUMENT = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """# Command line

Made by `scripts/docs` from the program; a test keeps it current.

Every command has `--help` with an example, and `--json` where it prints results (schema/ describes each document).
Exit status: 0 done; 1 it could not be done, or the candidate failed, with one line that says why and what to do; 2 the
command was not understood; 130 interrupted. Settings come from flags, `KOPE_` variables, `kope.toml` and defaults, in
this order; `kope doctor` shows what each resolves to.
"""


def command_names() -> Iterator[tuple[str, ...]]:
    """Yield every command as its words after `kope`, groups before what is in them."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if words:
            yield words
        for name, below in getattr(command, "commands", {}).items():
            yield from walk(below, (*words, name))

    return walk(typer.main.get_command(app), ())


def help_of(words: tuple[str, ...]) -> str:
    """Return what `kope WORDS --help` prints on a terminal of 100 columns."""
    done = CliRunner(env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"}).invoke(app, [*words, "--help"], prog_name="kope")
    assert done.exit_code == 0, done.output
    return "\n".join(line.rstrip() for line in done.output.strip().splitlines())


def document() -> str:
    """Return docs/cli.md as it should be."""
    parts = [HEAD, f"```text\n{help_of(())}\n```\n"]
    for words in command_names():
        parts.append(f"## kope {' '.join(words)}\n\n```text\n{help_of(words)}\n```\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write or check the documents."""
    wanted = {DOCUMENT: document(), twin_api.DOCUMENT: twin_api.document()}
    if arguments == ["--check"]:
        old = [path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
        for path in old:
            print(f"{path.name} is not what the program says; run scripts/docs")
        return 1 if old else 0
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
