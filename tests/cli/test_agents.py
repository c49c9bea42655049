"""Several agents ask and tell at the same time, each a process of its own, on one database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kope.memory import Store
from tests.propose.states import kernel

TOML = """
text = "y = e ** x"
inputs = { x = {} }
outputs = { y = "same:x" }
cases = [{ dtype = "float32", shape = [9] }]
"""
REFERENCE = "import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n"
AGENTS = ("ada", "bob", "cyd", "dan")


def start(folder: Path, env: dict[str, str], *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "kope", *words, "--json"]
    return subprocess.Popen(argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answers(programs: list[subprocess.Popen[str]], status: int) -> list[Any]:
    """Wait for programs that run at once, and return what each printed."""
    found = []
    for program in programs:
        out, err = program.communicate(timeout=300)
        assert program.returncode == status, err
        found.append(json.loads(out))
    return found


def test_agents_at_work_at_once_each_get_their_own_verdict(tmp_path: Path, twin_cache: Path) -> None:
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "task.toml").write_text(TOML)
    (tmp_path / "exp" / "reference.py").write_text(REFERENCE)
    env = {**os.environ, "KOPE_CACHE": str(twin_cache.parent)}
    asked = answers([start(tmp_path, env, "ask", "./exp", "--agent", name) for name in AGENTS], 0)
    for number, name in enumerate(AGENTS):  # None of them compiles: the header they include does not exist.
        broken = kernel(number).replace("kernel_operator.h", "kernel_operators.h")
        (tmp_path / f"{name}.asc").write_text(f"// {name}\n{broken}")
    told = answers(
        [
            start(tmp_path, env, "tell", "./exp", f"{name}.asc", "--agent", name, "--ask", made["ask"], "--move", name)
            for name, made in zip(AGENTS, asked, strict=True)
        ],
        1,
    )
    assert [each["attempt"]["move"] for each in told] == list(AGENTS)
    assert [each["ask"] for each in told] == [made["ask"] for made in asked]
    with Store.open(tmp_path / "kope.db") as store:
        attempts = store.attempts()
        assert sorted(attempt.proposal.move for attempt in attempts) == sorted(AGENTS)
        assert len({attempt.session_id for attempt in attempts}) == len(AGENTS)
        assert all(attempt.prompt_id is not None for attempt in attempts)
        assert store.check() == ()
