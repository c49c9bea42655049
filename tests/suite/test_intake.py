"""Importing a suite says what is in it, what cannot be used, and which cases an output without a kernel passes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope.cli import app
from tests.documents import parsed

SUITE = Path(__file__).parents[1] / "task" / "cann_suite"
pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOPE_CACHE", str(tmp_path / "cache"))


def kope(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["task", "import", *words])
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done


def test_a_folder_is_read_without_running_any_of_it() -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in SUITE.rglob("*"))
    document = parsed(kope(str(SUITE), "--json").stdout, "task_import")
    assert (document["suite"], document["errors"]) == ("cann-bench", [])
    assert [(one["task"], one["cases"], one["checked"], one["chips"]) for one in document["tasks"]] == [
        ("cann_list_mean", 2, 0, ["910b2"]),
        ("cann_scaled_add", 5, 0, ["910b2"]),
        ("cann_peak", 2, 0, ["910b2"]),
        ("cann_pick_rows", 2, 0, []),
    ]
    assert (document["tasks"][1]["smallest_bytes"], document["tasks"][1]["largest_bytes"]) == (60, 800)
    lines = kope(str(SUITE)).stdout.splitlines()
    assert lines[0].startswith("cann-bench: 4 tasks, 11 cases")
    assert lines[-1] == f"Next: kope suite run {SUITE} --out RUN"
    assert sorted((path, path.stat().st_mtime_ns) for path in SUITE.rglob("*")) == before


def test_check_runs_what_fits_and_names_cases_that_cannot_tell(tmp_path: Path) -> None:
    shutil.copytree(SUITE / "tasks", tmp_path / "tasks")
    for name in ("list_mean", "scaled_add"):
        shutil.rmtree(tmp_path / "tasks" / "level1" / name)
    golden = tmp_path / "tasks" / "level2" / "pick_rows" / "golden.py"
    golden.write_text(
        golden.read_text().replace("return torch.index_select", "assert x.shape[0] > 3\n    return torch.index_select")
    )
    done = kope(str(tmp_path), "--check", "--json", code=1)
    peak, rows = json.loads(done.stdout)["tasks"]
    assert (peak["checked"], peak["problems"]) == (2, [])
    assert peak["null_candidates"] == {"2": ["mean"]} == peak["strict_null_candidates"]
    assert (rows["checked"], rows["null_candidates"]) == (1, {})
    (problem,) = rows["problems"]
    assert "pick_rows/golden.py: case 2: AssertionError" in problem
    assert f"error: {problem}" in done.stderr
    table = kope(str(tmp_path), "--check", "--largest", "0.001", code=1).stdout
    assert "2 (mean)" in table and "1/2" in table


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    shutil.copytree(SUITE, tmp_path / "suite")
    (tmp_path / "suite" / "tasks" / "level2" / "peak" / "proto.yaml").write_text("operator: [")
    done = kope(str(tmp_path / "suite"), code=1)
    assert "peak/proto.yaml: no YAML" in done.stderr
    assert done.stdout.startswith("cann-bench: 3 tasks, 9 cases")
    assert "no suite KOPE can read" in kope(str(tmp_path / "suite" / "tasks" / "metadata"), code=1).stderr
