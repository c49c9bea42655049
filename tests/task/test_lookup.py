"""Tasks are found by folder or by name, and a new one runs as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.errors import TaskError
from kope.task import find_task, list_folders, load_task, new_task, read_tasks


@pytest.fixture
def path(tmp_path: Path) -> list[Path]:
    mine, shipped = tmp_path / "mine", tmp_path / "shipped"
    new_task("swish", mine)
    new_task("swish", shipped)
    new_task("relu", shipped)
    (shipped / "notes").mkdir()
    return [mine, tmp_path / "absent", shipped]


def test_an_earlier_folder_hides_a_later_one(path: list[Path]) -> None:
    assert list_folders(path) == {"relu": path[2] / "relu", "swish": path[0] / "swish"}
    assert find_task("swish", path).folder == path[0] / "swish"


def test_a_folder_needs_no_path(path: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_task(path[2] / "relu", []).name == "relu"
    monkeypatch.chdir(path[2])
    assert find_task("relu", []).folder == path[2] / "relu"
    assert find_task("swish", path).folder == path[0] / "swish"  # the name on the path comes first
    assert find_task("./swish", path).folder == path[2] / "swish"
    monkeypatch.chdir(path[2] / "relu")
    assert find_task(".", path).name == "relu"


def test_an_unknown_name_is_answered_with_the_nearest(path: list[Path], tmp_path: Path) -> None:
    with pytest.raises(
        TaskError, match=r"no task 'swich': neither a folder nor on the task path; did you mean \"swish\"\?"
    ):
        find_task("swich", path)
    with pytest.raises(TaskError, match=r"known: relu, swish"):
        find_task("zzz", path)
    with pytest.raises(TaskError, match=r"absent/task.toml: not found"):
        find_task(str(tmp_path / "absent"), path)


def test_one_malformed_task_does_not_hide_the_others(path: list[Path]) -> None:
    (path[2] / "relu" / "task.toml").write_text("text = 3")
    tasks, errors = read_tasks(path)
    assert [task.name for task in tasks] == ["swish"]
    assert len(errors) == 1 and "relu/task.toml" in str(errors[0])


def test_a_new_task_loads(tmp_path: Path) -> None:
    task = load_task(new_task("my_op", tmp_path / "tasks"))
    assert (task.name, len(task.cases), dict(task.attrs)) == ("my_op", 6, {"slope": 0.1})


@pytest.mark.parametrize("name", ["My_op", "2x", "a-b", "", "../up"])
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TaskError, match="cannot name a task; use lower-case letters"):
        new_task(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = new_task("my_op", tmp_path)
    (folder / "task.toml").write_text("mine")
    with pytest.raises(TaskError, match="my_op is there already; choose another name"):
        new_task("my_op", tmp_path)
    assert (folder / "task.toml").read_text() == "mine"
    (tmp_path / "file").touch()
    with pytest.raises(TaskError, match="choose a folder that can be written"):
        new_task("my_op", tmp_path / "file")
