"""Every command shown in a document is run.

In README.md and docs/*.md a ```console block holds commands on lines that begin with "$ "; the other lines are what
they print, for the reader. The commands of one document run in order in one empty folder and have to end with status 0,
or with N where the line ends in "# exit N". A fence with `file=NAME` after its language writes its text to NAME first.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ELSEWHERE = {
    "git clone": "the fresh-clone proofs of tests/test_scripts.py",
    "cd kope": "the fresh-clone proofs of tests/test_scripts.py",
    "./scripts/": "tests/test_scripts.py",
    "scripts/": "tests/test_scripts.py",
    "pip install": "scripts/install, which holds the same commands",
}
"""Commands that another test runs: how they begin, and where."""
NEEDS_A_MACHINE = {"ascend.md": "tests/target/ascend/test_page.py, with stand-ins for CANN"}
"""Documents whose commands another test runs, because they need more than this machine has."""

_FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=ticks)\s*$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\s+# exit (\d+)$")


@dataclass(frozen=True)
class Command:
    text: str
    status: int = 0


@dataclass(frozen=True)
class File:
    name: str
    text: str


def steps(markdown: str) -> Iterator[Command | File]:
    """Yield what a document asks to be written and run, in order."""
    for block in _FENCE.finditer(markdown):
        language, *words = block["info"].split() or [""]
        for word in words:
            if word.startswith("file="):
                yield File(word.removeprefix("file="), block["body"])
        if language == "console":
            yield from commands(block["body"])


def commands(body: str) -> Iterator[Command]:
    """Yield the commands of a console block; a backslash at the end goes on with the next line."""
    for line in re.sub(r"\\\n", " ", body).splitlines():
        if line.startswith("$ "):
            text = line.removeprefix("$ ")
            found = _EXIT.search(text)
            yield Command(_EXIT.sub("", text), int(found[1]) if found else 0)


def is_run_elsewhere(command: Command) -> bool:
    return any(command.text.startswith(start) for start in ELSEWHERE)


HERE = [path for path in DOCUMENTS if path.name not in NEEDS_A_MACHINE]


@pytest.mark.parametrize("document", HERE, ids=lambda path: path.name)
def test_commands_of_a_document_run(document: Path, tmp_path: Path, twin_cache: Path) -> None:
    run_document(document, tmp_path, {"KOPE_CACHE": str(twin_cache.parent)})


def run_document(document: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """Do what a document says, in an empty folder."""
    bin_folder = Path(sys.executable).parent
    env = {
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "COLUMNS": "120",
        "PYTHONPATH": str(ROOT),
        **environment,
    }
    folder = tmp_path / "here"
    folder.mkdir()
    for step in steps(document.read_text(encoding="utf-8")):
        if isinstance(step, File):
            (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.name).write_text(step.text, encoding="utf-8")
        elif not is_run_elsewhere(step):
            done = subprocess.run(
                ["bash", "-c", step.text], cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False
            )
            assert done.returncode == step.status, f"$ {step.text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_stand_in_console_blocks(document: Path) -> None:
    """A shell block in another language would hide its commands from the test above."""
    languages = {block["info"].split()[0] for block in _FENCE.finditer(document.read_text("utf-8")) if block["info"]}
    assert not languages & {"sh", "bash", "shell", "zsh"}


def test_there_are_documents_with_commands() -> None:
    assert len(DOCUMENTS) > 1
    assert sum(isinstance(step, Command) for path in DOCUMENTS for step in steps(path.read_text("utf-8"))) > 10


def test_runner_reads_blocks_files_and_exit_statuses() -> None:
    files = "```text\n$ no\n```\n\n```cpp file=a.asc\nint x;\n```\n"
    markdown = files + "\n````console\n$ kope a \\\n    b\nout\n$ false  # exit 1\n````\n"
    assert list(steps(markdown)) == [File("a.asc", "int x;\n"), Command("kope a      b"), Command("false", 1)]
