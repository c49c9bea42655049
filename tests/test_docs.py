"""Documents are current: docs/cli.md is what the program says, links lead somewhere, every command has an example."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from kope.cli import app

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "docs.py"))
COMMANDS: list[tuple[str, ...]] = list(SCRIPT["command_names"]())


def command(words: tuple[str, ...]) -> Any:
    found: Any = typer.main.get_command(app)
    for word in words:
        found = found.commands[word]
    return found


def leaves() -> list[tuple[str, ...]]:
    return [words for words in COMMANDS if not hasattr(command(words), "commands")]


def test_there_are_commands() -> None:
    wanted = {("optimize",), ("ask",), ("tell",), ("eval",), ("best",), ("context",), ("report",), ("task", "new")}
    assert wanted <= set(leaves())


def test_page_on_the_command_line_is_current() -> None:
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == SCRIPT["document"](), "run scripts/docs"


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_every_command_has_help_and_an_example_it_understands(words: tuple[str, ...]) -> None:
    found = command(words)
    assert found.help
    example = re.fullmatch(r"Example: kope (.*)", found.epilog or "")
    assert example is not None, "an epilog that begins with Example: kope"
    arguments = shlex.split(example[1].split(" > ")[0].split(" | ")[0])
    assert tuple(arguments[: len(words)]) == words
    found.make_context(" ".join(words), arguments[len(words) :])  # raises a usage error for what it does not understand


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_every_json_output_has_a_schema(words: tuple[str, ...]) -> None:
    options = {option for parameter in command(words).params for option in parameter.opts}
    if "--json" in options:
        assert (ROOT / "schema" / f"{'_'.join(words)}.json").is_file()


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_links_lead_to_files(path: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text("utf-8")):
        assert (path.parent / link).exists(), link
