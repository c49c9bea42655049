"""The map of the package, held against the files on disk: who may import whom, and what may be said where."""

from __future__ import annotations

import ast
import configparser
import os
import sys
from pathlib import Path

import pytest

from kope import process
from kope.memory import Store

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kope"

LEVELS: list[set[str]] = [
    {"errors", "confine"},
    {"model", "resources", "process", "config", "objective", "confidential"},
    {"sandbox", "render"},
    {"task", "memory", "context", "derive", "target", "knowledge"},
    {"evaluate", "propose"},
    {"loop"},
    {"session", "library"},
    {"lookup"},
    {"asking", "proof", "report", "rewind", "doctor", "selftest"},
    {"wiring"},
    {"suite"},
    {"mcp"},
    {"cli"},
    {"__main__"},
]
"""A module imports from levels above its own line only, and from itself. Packages on one level meet through model."""

SIDEWAYS = {("model", "errors"), ("objective", "model")}
"""Imports within a level that are meant."""

OWNERS = {
    "subprocess": {"process.py"},
    "sqlite3": {"memory/", "doctor.py"},
    "sqlite_utils": {"memory/"},
    "jinja2": {"render.py"},
    "typer": {"cli/"},
    "click": set(),
    "sentence_transformers": {"memory/"},
}
"""Library -> where it may be imported."""

FORBIDDEN_WORDS = [f"/{folder}/" for folder in ("work", "root", "Users")]
"""Paths that exist on one machine only."""

LONGEST_FILE = 600


def modules() -> list[Path]:
    found = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)
    assert len(found) > 50
    return found


def imports(path: Path) -> list[tuple[str, int]]:
    """Return every imported module by full name with its line, wherever in the file it stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            found += [(f"{module}.{alias.name}" if module == "kope" else module, node.lineno) for alias in node.names]
    return found


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def level(name: str) -> int:
    return next((number for number, names in enumerate(LEVELS) if name in names), -1)


def test_every_module_is_on_the_map() -> None:
    unknown = sorted({part(path) for path in modules() if part(path) != "__init__"} - set().union(*LEVELS))
    assert unknown == []


def test_imports_go_one_way() -> None:
    wrong = []
    for path in modules():
        mine = part(path)
        for name, line in imports(path):
            other = name.split(".")[1] if name.startswith("kope.") else mine
            if other in (mine, "__version__") or (mine, other) in SIDEWAYS:
                continue
            if mine == "__init__" or level(other) >= level(mine):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {mine} imports {other}")
    assert wrong == [], "\n".join(wrong)


def test_confine_imports_nothing_but_itself_and_the_standard_library() -> None:
    foreign = [
        f"{path.name}:{line}: {name}"
        for path in modules()
        if part(path) == "confine"
        for name, line in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith("kope.confine")
    ]
    assert foreign == []


@pytest.mark.parametrize("library", sorted(OWNERS))
def test_library_stays_where_it_belongs(library: str) -> None:
    astray = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules()
        for name, line in imports(path)
        if name.split(".")[0] == library
        and not any(str(path.relative_to(PACKAGE)).startswith(owner) for owner in OWNERS[library])
    ]
    assert astray == []


def test_environment_is_read_by_config_alone() -> None:
    readers = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules()
        if part(path) not in ("config", "confine")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")
    ]
    assert readers == []


def test_sql_is_in_memory_alone() -> None:
    import re

    statement = re.compile(r"\b(SELECT .+ FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE TABLE|PRAGMA)\b")
    astray = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules()
        if part(path) != "memory"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and statement.search(node.value)
    ]
    assert astray == []


HEAVY = [
    "numpy",
    "scipy",
    "ml_dtypes",
    "tokenizers",
    "torch",
    "sentence_transformers",
    "jinja2",
    "sqlite_utils",
    "rich",
]


@pytest.mark.parametrize("code", ["import kope", "import kope.cli", "import kope.cli; kope.cli.app(['--help'])"])
def test_starting_up_loads_nothing_heavy(code: str) -> None:
    wanted = f"""
import sys
try:
    {code}
except SystemExit:
    pass
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = process.run([sys.executable, "-c", wanted], cwd=ROOT, timeout_s=60.0)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


LOOKING = ["db info", "report", "report exp --json", "best exp", "task list", "doctor"]


@pytest.mark.parametrize("command", LOOKING)
def test_looking_loads_no_array_library(command: str, tmp_path: Path) -> None:
    Store.open(tmp_path / "kope.db", create=True).close()
    code = f"""
import contextlib, io, sys
from kope.cli import app
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    app({command.split()!r})
print([name for name in ("numpy", "scipy", "torch") if name in sys.modules])
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = process.run([sys.executable, "-c", code], cwd=tmp_path, env=env, timeout_s=60.0)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr


def tracked_files() -> list[Path]:
    listed = process.run(["git", "ls-files", "-z"], cwd=ROOT, timeout_s=20.0)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    found = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert len(found) > 100
    return [path for path in found if path.is_file()]


def test_nothing_in_the_tree_speaks_of_one_machine() -> None:
    said = []
    for path in tracked_files():
        if path == Path(__file__):
            continue
        text = path.read_bytes().decode("utf-8", "ignore")
        said += [f"{path.relative_to(ROOT)}: {word}" for word in FORBIDDEN_WORDS if word in text]
    assert said == []


def test_files_stay_readable() -> None:
    code = (".py", ".h", ".cpp", ".inc", ".sql", ".j2")
    lengths = {
        str(path.relative_to(ROOT)): path.read_text("utf-8").count("\n")
        for path in tracked_files()
        if path.suffix in code
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_modules_say_what_they_are_for() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in modules()}
    silent = [str(path.relative_to(ROOT)) for path, tree in trees.items() if not ast.get_docstring(tree)]
    assert silent == []


def test_every_package_is_installed() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = set(setup["options"]["packages"].split())
    beside = {name.strip().split(" = ")[0] for name in setup["options"]["package_dir"].split("\n") if " = " in name}
    on_disk = {".".join(path.parent.relative_to(ROOT).parts) for path in PACKAGE.rglob("__init__.py")}
    assert listed == on_disk | beside
