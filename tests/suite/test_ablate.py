"""An ablation runs every arm from the same start, apart from the others, and refuses an arm that lacks something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope import wiring
from kope.cli import app
from kope.memory import Store, embedding
from kope.propose.replay import ReplayProposer
from kope.suite.record import RunFolder
from tests.documents import parsed
from tests.replay_task import marked, replay_target, write_task


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tasks, and a proposer that does better with memory on."""

    def proposer(plan: wiring.Plan, settings: Any, **more: Any) -> ReplayProposer:
        return ReplayProposer([marked(10), marked(4 if plan.memory == "on" else 8)])

    for name in ("double", "twice"):
        write_task(tmp_path / "tasks", name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOPE_CACHE", str(cache))
    monkeypatch.setattr(wiring, "target", lambda settings, *, progress=None: replay_target())
    monkeypatch.setattr(wiring, "proposer", proposer)
    monkeypatch.setattr(embedding, "find_embedder", embedding.HashEmbedder)
    return tmp_path


def kope(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["suite", "ablate", *words])
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done


TASKS = ("tasks/double", "tasks/twice", "--out", "all", "--iterations", "2")


def test_every_arm_runs_apart_and_they_are_set_side_by_side(place: Path) -> None:
    done = kope(*TASKS, "--arms", "graph,placebo")
    assert "graph: 0.5 times as fast as base on 10 cases [0.5, 0.5]" in done.stdout
    assert "placebo: 0.5 times as fast as base on 10 cases" in done.stdout
    assert done.stdout.splitlines()[-1] == "report: all/report.md"
    assert "| graph | 10/10 | 100.0% |" in (place / "all" / "report.md").read_text()
    for name, memory in (("base", "on"), ("graph", "off"), ("placebo", "placebo")):
        assert RunFolder.open(place / "all" / name).info.facts["memory"] == memory
        with Store.open(place / "all" / f"{name}.db", read_only=True) as store:
            assert len(store.attempts()) == 4


def test_seeds_repeat_every_arm_and_a_finished_one_is_not_run_again(place: Path) -> None:
    words = (*TASKS, "--arms", "graph", "--seeds", "0,1")
    kope(*words)
    document = parsed(kope(*words, "--json").stdout, "suite_ablate")
    assert [one["system"] for one in document["comparison"]["systems"]] == ["base-0", "graph-0", "base-1", "graph-1"]
    assert document["arms"] == {"base": "everything on", "graph": "without the experience graph"}
    with Store.open(place / "all" / "base-0.db", read_only=True) as store:
        assert len(store.sessions()) == 2


def test_arms_begin_with_a_copy_of_what_is_known(place: Path) -> None:
    with Store.open(place / "known.db"):
        pass
    before = (place / "known.db").read_bytes()
    kope(*TASKS, "--arms", "graph", "--start", "known.db")
    assert (place / "known.db").read_bytes() == before
    (place / "known.db-wal").write_bytes(b"not empty")
    done = kope("tasks/double", "--out", "other", "--start", "known.db", code=1)
    assert "known.db is in use" in done.stderr
    assert (
        "give a database that can be read" in kope("tasks/double", "--out", "x", "--start", "absent.db", code=1).stderr
    )


def test_the_experience_of_other_hardware_is_an_arm(place: Path) -> None:
    with Store.open(place / "other.db"):
        pass
    kope(*TASKS, "--arms", "hardware", "--other-hardware", "other.db")
    assert RunFolder.open(place / "all" / "hardware").info.facts["memory"] == "only:other.db"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--arms", "hardware"), "arm hardware: needs a database of other hardware"),
        (("--arms", "context"), "arm context: the proposer search sends no prompt"),
        (("--arms", "graph,luck"), "no arm 'luck'; known: graph, placebo, hardware, context, none"),
    ],
)
def test_an_arm_that_lacks_something_is_refused_before_anything_runs(
    place: Path, words: tuple[str, ...], said: str
) -> None:
    assert said in kope(*TASKS, *words, code=1).stderr
    assert not (place / "all").exists()


def test_seeds_are_whole_numbers() -> None:
    assert "write whole numbers with commas" in kope(*TASKS, "--seeds", "0,x", code=2).stderr
