"""`kope task`: what it prints for people and programs, and its exit status."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from kope import resources
from kope.cli import app

runner = CliRunner()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def kope(*argv: str, status: int = 0) -> str:
    result = runner.invoke(app, argv)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result.output


def document(schema: str, argv: Sequence[str]) -> Any:
    parsed = json.loads(kope(*argv, "--json"))
    jsonschema.validate(parsed, json.loads((resources.folder("schema") / f"{schema}.json").read_text()))
    return parsed


def test_a_new_task_is_checked_and_shown_as_it_stands() -> None:
    assert kope("task", "new", "leaky_relu") == (
        "leaky_relu: edit task.toml and reference.py, then run kope task check ./leaky_relu\n"
    )
    text = kope("task", "check", "./leaky_relu")
    assert "leaky_relu can be used: 6 cases, the reference ran in" in text
    assert "warning" not in text
    assert "the search can derive a first kernel from the reference" in text
    assert "the reference ran before, its outputs are cached" in kope("task", "check", "leaky_relu")
    checked = document("task_check", ["task", "check", "leaky_relu"])
    assert [case["null_candidates"] for case in checked["cases"]] == [[]] * 6
    assert checked["derive_problem"] is None
    assert "x [7, 129] bfloat16" in kope("task", "show", "leaky_relu")
    shown = document("task_show", ["task", "show", "leaky_relu"])
    assert (shown["attrs"], shown["cases"][2]["attrs"]) == ({"slope": 0.1}, {"slope": 0.25})


def test_tasks_of_the_path_are_listed_with_the_shipped_ones(own_folder: Path) -> None:
    kope("task", "new", "mine", "--in", "tasks")
    listed = document("task_list", ["task", "list"])
    names = [row["task"] for row in listed["tasks"]]
    assert len(names) == 15
    assert {"mine", "exp", "rms_norm"} <= set(names)
    assert "Softmax over the last axis" in kope("task", "list")


def test_a_malformed_task_is_named_and_the_others_are_listed(own_folder: Path) -> None:
    kope("task", "new", "mine", "--in", "tasks")
    (own_folder / "tasks" / "mine" / "task.toml").write_text("tex = 1\n")
    text = kope("task", "list", status=1)
    assert 'mine/task.toml: tex: unknown key; did you mean "text"?' in text
    assert "softmax" in text


def test_a_case_that_tells_nothing_is_a_warning(own_folder: Path) -> None:
    kope("task", "new", "mine")
    (own_folder / "mine" / "reference.py").write_text("def reference(x, *, slope):\n    return x * 0\n")
    text = kope("task", "check", "./mine")
    assert "warning: case 1 accepts zeros, mean: it cannot tell a kernel from that; change its range or shape" in text


def test_a_reference_the_search_cannot_start_from_is_a_note(own_folder: Path) -> None:
    kope("task", "new", "mine")
    source = "import numpy as np\n\n\ndef reference(x, *, slope):\n    return np.sort(x, axis=-1) * slope\n"
    (own_folder / "mine" / "reference.py").write_text(source)
    assert "note: the search cannot start from this reference: " in kope("task", "check", "./mine")


def test_what_cannot_be_used_is_one_line_and_status_1(own_folder: Path) -> None:
    assert kope("task", "show", "rms_nrm", status=1) == (
        "Error: no task 'rms_nrm': neither a folder nor on the task path; did you mean \"rms_norm\"?\n"
    )
    kope("task", "new", "mine")
    assert kope("task", "new", "mine", status=1) == "Error: mine is there already; choose another name or remove it\n"
    (own_folder / "mine" / "reference.py").write_text("def reference(x, *, slope):\n    return y\n")
    assert kope("task", "check", "./mine", status=1).endswith(
        "mine/reference.py: case 1: NameError: name 'y' is not defined (line 2); correct the reference or the case\n"
    )


def test_a_cache_that_cannot_be_written_is_one_line(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kope("task", "new", "mine")
    (own_folder / "file").touch()
    monkeypatch.setenv("KOPE_CACHE", str(own_folder / "file"))
    text = kope("task", "check", "./mine", status=1)
    assert text.startswith("Error: ") and text.endswith("free space or set another cache folder\n")


def test_a_missing_argument_is_a_usage_error() -> None:
    assert "Missing argument" in kope("task", "show", status=2)
