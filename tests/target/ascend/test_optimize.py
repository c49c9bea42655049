"""`kope optimize --target ascend` on stand-in programs, from the derived kernel to a better one, as on hardware."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kope.cli import app
from tests.target.ascend.conftest import Install
from tests.target.ascend.toolkit import NEW_A3, OLD_A2, Generation

TOML = """
text = "y = e ** x"
inputs = { x = {} }
outputs = { y = "same:x" }
cases = [{ dtype = "float32", shape = [64, 1025] }, { dtype = "float16", shape = [40, 33] }]
"""


def kope(*argv: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, argv)
    assert result.exit_code == status, (result.output, result.exception)
    return result.stdout


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a task, and an environment of its own."""
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "task.toml").write_text(TOML)
    (tmp_path / "exp" / "reference.py").write_text("import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KOPE_TARGET", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("generation", "hardware"),
    [(NEW_A3, "ascend:Ascend910_9362:msprof-warm"), (OLD_A2, "ascend:Ascend910B4:msprof-warm")],
    ids=["9.1 on A3", "8.3 on 910B4"],
)
def test_optimize_ends_with_a_measured_kernel(
    generation: Generation,
    hardware: str,
    install_toolkit: Install,
    user: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in = install_toolkit(generation)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(stand_in.home))
    ended = json.loads(kope("optimize", "./exp", "--target", "ascend", "--iterations", "2", "--json"))
    assert ended["fingerprint"]["hardware"] == hardware
    assert f"CANN {generation.version}; clang version 15.0.5" in ended["fingerprint"]["toolchain"]
    assert ended["fingerprint"]["toolchain"].endswith("; 10 calls after 3")
    (task,) = json.loads(kope("report", "./exp", "--json"))["tasks"]
    draft, second = task["attempts"]
    assert [one["verdict"] for one in (draft, second)] == ["verified", "verified"]
    assert [(one["time_kind"], one["hardware"]) for one in (draft, second)] == [("measured", hardware)] * 2
    assert [one["move"] for one in (draft, second)] == ["draft", "double-buffer"]
    assert second["promoted"] and second["speedup"] > 1.01
    (note,) = [found["message"] for found in second["diagnostics"] if found["kind"] == "comparison"]
    assert note.startswith("faster than the best kernel: +") and note.endswith(" in 4 pairs of runs in turns")
    assert 'extern "C" int kope_entry' in kope("best", "./exp", "--hardware", hardware)
