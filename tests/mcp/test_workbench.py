"""What an agent can do in a folder, on the replay target: look up, ask, tell - and what it cannot reach."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kope import asking, wiring
from kope.cli import app
from kope.errors import ConfigError, KopeError, NotFound
from kope.mcp.workbench import Workbench
from kope.memory import embedding
from tests.documents import parsed
from tests.replay_task import marked, replay_target, write_task


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "ops"
    write_task(folder / "tasks")
    monkeypatch.setenv("KOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(wiring, "target", lambda settings, *, progress=None: replay_target())
    monkeypatch.setattr(embedding, "find_embedder", embedding.HashEmbedder)
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def bench(place: Path) -> Workbench:
    return Workbench(place)


def test_ask_tell_and_look_around(bench: Workbench, place: Path) -> None:
    said: list[str] = []
    asked = bench.ask("double")
    parsed(json.dumps(asked), "ask")
    failed = bench.tell("double", marked(8, "fail=ub-overflow"), asked["ask"], "draft", "all at once", said.append)
    parsed(json.dumps(failed), "tell")
    assert failed["attempt"]["verdict"] == "failed" and failed["next"].startswith("repair ub-overflow")
    again = bench.ask("double")
    assert again["template"] == "prompts/repair_run" and again["parent"] == failed["attempt"]["id"]
    told = bench.tell("double", marked(4), again["ask"], "smaller-tile", "half", said.append)
    assert told["best"]["id"] == told["attempt"]["id"]
    assert said == ["judging on the 5 cases of double"] * 2
    assert bench.best("double")["source"] == marked(4)
    recalled = bench.recall("tile that fits", "double", 4)
    assert "smaller-tile" in recalled["tree"] and len(recalled["items"]) >= 2
    around = next(bench.neighbourhood(item["id"]) for item in recalled["items"] if item["move"] == "smaller-tile")
    assert around["source"] == marked(4) and around["parent"]["id"] == failed["attempt"]["id"]
    double = next(row for row in bench.tasks()["tasks"] if row["name"] == "double")
    assert double == {"name": "double", "attempts": 2, "verified": 1}
    assert (place / "kope.db").exists()


def test_evaluate_and_context_record_nothing(bench: Workbench, place: Path) -> None:
    verdict = bench.evaluate("double", marked(3), lambda message: None)
    parsed(json.dumps(verdict), "eval")
    assert verdict["verdict"] == "verified"
    parsed(json.dumps(bench.context("double")), "context")
    assert not (place / "kope.db").exists()


def test_documentation_is_there_without_a_database(bench: Workbench) -> None:
    found = bench.docs("DataCopyPad stride", 2)["passages"]
    assert len(found) == 2 and "DataCopyPad" in found[0]["text"]


@pytest.mark.parametrize("name", ["../secret", "/etc", "tasks/../../secret", "..", "."])
def test_nothing_outside_the_folder_is_a_task(bench: Workbench, place: Path, name: str) -> None:
    write_task(place.parent)
    (place.parent / "double").rename(place.parent / "secret")
    with pytest.raises(KopeError):
        bench.task(name)


def test_link_out_of_the_folder_is_no_task(bench: Workbench, place: Path) -> None:
    write_task(place.parent / "elsewhere")
    (place / "link").symlink_to(place.parent / "elsewhere" / "double")
    with pytest.raises(NotFound, match="outside"):
        bench.task("link/../link")
    with pytest.raises(NotFound, match="outside"):
        bench.context("./link")


def test_task_folder_inside_may_be_named_by_its_path(bench: Workbench) -> None:
    assert bench.task("tasks/double").name == "double"


def test_database_outside_the_folder_is_refused(place: Path) -> None:
    (place / "kope.toml").write_text('db = "../other.db"\n')
    with pytest.raises(ConfigError, match="outside"):
        Workbench(place)
    with pytest.raises(ConfigError, match="is no folder"):
        Workbench(place / "none")


def test_two_agents_on_one_database_keep_their_attempts_apart(bench: Workbench, place: Path) -> None:
    other = Workbench(place)
    first, second = bench.ask("double"), other.ask("double")
    told = [
        bench.tell("double", marked(9), first["ask"], "a", "", lambda message: None),
        other.tell("double", marked(7), second["ask"], "b", "", lambda message: None),
    ]
    assert [each["ask"] for each in told] == [first["ask"], second["ask"]]
    assert len({each["attempt"]["id"] for each in told}) == 2


def test_what_is_looked_up_for_an_answer_is_counted_and_kept_with_it(bench: Workbench, place: Path) -> None:
    first = bench.ask("double")
    bench.tell("double", marked(4), first["ask"], "smaller-tile", "half", lambda message: None)
    asked = bench.ask("double")["ask"]
    by_mcp = bench.recall("tile that fits", "double", 4, asked)
    names = [item["id"] for item in by_mcp["items"]]
    shell = ["recall", "smaller tile", "--ask", asked[:6], "--db", str(place / "kope.db")]
    for _ in range(asking.LOOK_UPS - 1):
        done = CliRunner().invoke(app, shell)
        assert (done.exit_code, names[0][:8] in done.stdout) == (0, True), done.output
    with pytest.raises(ConfigError, match=f"6 look-ups were answered for ask {asked}; write the kernel"):
        bench.recall("more", "double", 4, asked)
    done = CliRunner().invoke(app, shell)
    assert (done.exit_code, "6 look-ups were answered" in done.stderr) == (1, True)
    told = bench.tell("double", marked(8), asked, "draft", "again", lambda message: None)
    with wiring.open_existing(bench.settings) as store:
        attempt = store.attempt(told["attempt"]["id"])
        assert set(names) <= set(attempt.proposal.used)
        lines = [line for line in store.asked(asked).ledger if line["reason"] == "looked up"]
        assert [line["name"] for line in lines] == ["recall: tile that fits", *["recall: smaller tile"] * 5]
        assert all(line["tokens"] > 0 and line["included"] for line in lines)
