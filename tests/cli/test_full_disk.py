"""A full disk is one line with the next step, and what was recorded before stays readable."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from kope import process

KOPE = f"{shlex.quote(sys.executable)} -m kope"
UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]


def on_small_disk(folder: Path, script: str, *, size: str, cache: Path) -> process.Completed:
    """Run a script with `disk` in the working folder being a file system of that size; it sees $KOPE."""
    (folder / "disk").mkdir()
    mount = f"mount -t tmpfs -o size={size} none disk"
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "KOPE": KOPE, "KOPE_CACHE": str(cache)}
    done = process.run([*UNSHARE, "bash", "-c", f"{mount} || exit 77\n{script}"], cwd=folder, env=env, timeout_s=300.0)
    if done.returncode == 77 and not os.environ.get("CI"):
        pytest.skip("this machine lets nobody mount a small disk")
    return done


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory, twin_cache: Path) -> tuple[Path, Path]:
    """Two databases with an attempt each."""
    folder = tmp_path_factory.mktemp("memory")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "KOPE_CACHE": str(twin_cache)}
    made = (folder / "kope.db", folder / "other.db")
    for path in made:
        argv = [sys.executable, "-m", "kope", "optimize", "sigmoid", "--iterations", "1", "--db", str(path)]
        assert process.run(argv, cwd=folder, env=env, timeout_s=300.0).returncode == 0
    return made


def said(done: process.Completed) -> str:
    """Return the one line of an error, having checked that there is nothing else of it."""
    assert "Traceback" not in done.stderr, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert (done.returncode, len(errors)) == (1, 1), done.stdout + done.stderr
    return errors[0]


def test_a_database_on_a_full_disk(tmp_path: Path, twin_cache: Path) -> None:
    script = "head -c 1M /dev/zero >disk/filler; $KOPE optimize exp --iterations 2 --db disk/kope.db"
    done = on_small_disk(tmp_path, script, size="64k", cache=twin_cache)
    assert "no space left" in said(done) and "free some" in said(done)


def test_the_disk_fills_up_between_two_runs(tmp_path: Path, twin_cache: Path) -> None:
    script = """
        $KOPE optimize exp --iterations 1 --db disk/kope.db >/dev/null || exit 3
        $KOPE report exp --db disk/kope.db --json >before || exit 4
        head -c 100M /dev/zero >disk/filler
        $KOPE optimize rms_norm --iterations 2 --db disk/kope.db
        status=$?
        rm disk/filler
        $KOPE db check --db disk/kope.db >&2 || exit 5
        $KOPE report exp --db disk/kope.db --json >after || exit 6
        exit $status
    """
    done = on_small_disk(tmp_path, script, size="4m", cache=twin_cache)
    assert "no space left" in said(done) and "nothing was lost" in said(done)
    assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text()


@pytest.mark.parametrize(
    "command",
    [
        "db export disk/out.db",
        "db export disk/out.jsonl",
        "db snapshot disk/out.db",
        "db merge kope.db other.db -o disk/out.db",
        "best sigmoid -o disk/kernel.asc",
        "report sigmoid >disk/report",
    ],
)
def test_a_file_that_does_not_fit(command: str, tmp_path: Path, memory: tuple[Path, Path]) -> None:
    for path in memory:
        shutil.copy(path, tmp_path / path.name)
    script = f"head -c 1M /dev/zero >disk/filler; cp disk/filler disk/more; ls -A disk >before; $KOPE {command}"
    done = on_small_disk(tmp_path, f"{script}\nstatus=$?\nls -A disk >after\nexit $status", size="64k", cache=tmp_path)
    assert re.search("disk is full|no space left|No space left", said(done))
    after = set((tmp_path / "after").read_text().split()) - {"report", "kernel.asc"}
    assert after == set((tmp_path / "before").read_text().split())


def test_a_cache_on_a_full_disk(tmp_path: Path) -> None:
    script = "head -c 1M /dev/zero >disk/filler; $KOPE optimize exp --iterations 1"
    done = on_small_disk(tmp_path, script, size="64k", cache=tmp_path / "disk" / "cache")
    assert "free" in said(done)
