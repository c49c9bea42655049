"""A wheel installed outside the checkout holds everything: headers, templates, schema, tasks."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kope import process

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy of what git knows, so that nothing of the work tree gets in by chance."""
    source = tmp_path_factory.mktemp("source")
    listed = process.run(["git", "ls-files", "-z", "--cached"], cwd=ROOT, timeout_s=20.0)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"]
    done = process.run([*pip, "--wheel-dir", str(target), str(source)], timeout_s=300.0)
    assert done.returncode == 0, done.stderr
    return next(target.glob("kope-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `kope` of a fresh environment that holds the wheel, and borrows the dependencies of this one."""
    venv = tmp_path_factory.mktemp("venv")
    made = process.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], timeout_s=120.0)
    assert made.returncode == 0, made.stderr
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    done = process.run([*pip, "--no-deps", "--no-index", str(wheel)], timeout_s=120.0)
    assert done.returncode == 0, done.stderr
    site = next(venv.glob("lib/python*/site-packages"))
    # Folders named in a .pth file are not searched for further .pth files: the editable KOPE there stays out.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return venv / "bin" / "kope"


def run(kope: Path, *arguments: str, folder: Path, timeout_s: float = 120.0) -> process.Completed:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    done = process.run([str(kope), *arguments], cwd=folder, env=env, timeout_s=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def answer(kope: Path, *arguments: str, folder: Path) -> Any:
    return json.loads(run(kope, *arguments, "--json", folder=folder).stdout)


def test_wheel_holds_all_data_files(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    listed = process.run(["git", "ls-files", "-z"], cwd=ROOT, timeout_s=20.0).stdout.split("\0")
    missing = []
    for name in filter(None, listed):
        top = name.split("/")[0]
        if top in ("schema", "templates") or name.startswith("examples/tasks/"):
            name = f"kope/{name}"
        elif top != "kope":
            continue
        if name not in inside:
            missing.append(name)
    assert missing == []
    assert len(inside) > 100


def test_it_knows_its_machine_and_its_tasks(installed: Path, tmp_path: Path) -> None:
    found = answer(installed, "doctor", folder=tmp_path)
    assert found["usable"] is True
    shipped = sorted(path.parent.name for path in (ROOT / "examples" / "tasks").glob("*/task.toml"))
    tasks = answer(installed, "task", "list", folder=tmp_path)
    assert [task["task"] for task in tasks["tasks"]] == shipped
    assert all(str(installed.parents[1]) in task["folder"] for task in tasks["tasks"])
    assert list(tmp_path.glob("*.db")) == []


@pytest.mark.slow
def test_it_optimizes(installed: Path, tmp_path: Path) -> None:
    run(installed, "optimize", "exp", "--iterations", "2", folder=tmp_path, timeout_s=600.0)
    best = run(installed, "best", "exp", folder=tmp_path)
    assert "kope_entry" in best.stdout
