"""db info, db check and recall: what they print, and what they exit with."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kope.cli import app
from kope.memory import Store, embedding
from kope.memory.embedding import HashEmbedder
from tests.documents import parsed
from tests.memory.samples import attempt_of, fails, task_of, works


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with a first kernel, a faster one that came from it, and a failure; in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(embedding, "find_embedder", HashEmbedder)
    with Store.open(tmp_path / "kope.db", embedder=HashEmbedder()) as store:
        store.add_task(task_of())
        session = store.begin_session("key")
        first = attempt_of(session.id, 1, works(10.0), move="draft")
        store.record(first)
        store.record(attempt_of(session.id, 2, works(5.0), move="double-buffer", parent=first, speedup=2.0))
        store.record(attempt_of(session.id, 3, fails(), move="larger-tile", parent=first, speedup=0.0))
    return tmp_path / "kope.db"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_info_counts_what_is_there(database: Path) -> None:
    code, text = run("db", "info", "--json")
    told = parsed(text, "db_info")
    assert code == 0
    assert told["tasks"] == [
        {"name": "rms_norm", "attempts": 3, "verified": 2, "screened": 0, "failed": 1, "versions": 1}
    ]
    assert (told["counts"]["nodes"], told["edges"]) == (3, {"led_to": 2})
    assert told["embedders"] == [{"name": "hash:64", "dim": 64, "experiences": 3}]
    assert "rms_norm" in run("db", "info")[1]


def test_a_whole_database_is_clean(database: Path) -> None:
    code, text = run("db", "check", "--json")
    assert (code, parsed(text, "db_check")["problems"]) == (0, [])
    assert run("db", "check") == (0, f"{database}: clean\n")


def test_a_changed_row_is_named_and_the_exit_status_says_so(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE attempts SET speedup = 9.0 WHERE iteration = 2")
    code, text = run("db", "check", "--json")
    told = parsed(text, "db_check")
    assert code == 1 and not told["clean"]
    assert "content" in {problem["kind"] for problem in told["problems"]}
    code, text = run("db", "check")
    assert code == 1 and "Traceback" not in text and "--db" in text.splitlines()[-1]


def test_recall_shows_move_outcome_and_reason(database: Path) -> None:
    code, text = run("recall", "double buffer", "--json")
    told = parsed(text, "recall")
    assert code == 0
    moves = {item["move"]: item for item in told["items"]}
    assert moves["double-buffer"]["reason"] and moves["double-buffer"]["works"]
    assert {edge["kind"] for edge in told["edges"]} == {"led_to"}
    code, text = run("recall", "double buffer")
    assert "-> double-buffer" in text and "recalled because:" in text


def test_recall_without_an_embedder_says_that_it_is_degraded(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "find_embedder", lambda: None)
    assert parsed(run("recall", "double buffer", "--json")[1], "recall")["degraded"] == "no embedder"
    assert "degraded: no embedder" in run("recall", "double buffer")[1]


@pytest.mark.parametrize("arguments", [("recall",), ("recall", "text", "--task", "rms_norm")])
def test_recall_wants_a_text_or_a_task(database: Path, arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == 2


@pytest.mark.parametrize("command", [("db", "info"), ("db", "check"), ("recall", "anything")])
def test_a_missing_database_is_one_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    code, text = run(*command, "--db", str(tmp_path / "none.db"))
    assert code == 1 and text.startswith("Error: ") and len(text.splitlines()) == 1
