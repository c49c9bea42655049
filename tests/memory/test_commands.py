"""`kope recall` and `kope db`: what they print, with which status they end, and how fast they load."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope.cli import app
from kope.memory import Store, embedding
from kope.memory.embedding import HashEmbedder
from kope.memory.migrate import version_known
from tests.documents import parsed
from tests.memory.samples import TWIN, attempt_of, begin, fails, grow, task_of, works


@pytest.fixture
def db(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(embedding, "find_embedder", lambda: HashEmbedder(512))
    with Store.open(path, embedder=HashEmbedder(512)) as store:
        session_id = begin(store, task_of(), task_of("exp", ("elementwise",)))
        grow(store, session_id, 12)
        root = attempt_of(session_id, 1, works(), task=task_of("exp"), move="draft", thought="first kernel")
        store.record(root)
        store.record(
            attempt_of(session_id, 2, fails(message="crocodile"), task=task_of("exp"), parent=root, promoted=False)
        )
        store.end_session(session_id, "iterations")
        begin(store, key="open")
    return path


def kope(arguments: Sequence[str], code: int = 0) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done


def test_recall_shows_experiences_with_reasons(db: Path) -> None:
    done = kope(["recall", "a crocodile", "--db", str(db), "--limit", "1"])
    assert "says crocodile" in done.stdout
    assert "failed at run" in done.stdout
    assert done.stderr == ""


def test_recall_as_a_tree_shows_parent_move_and_outcome(db: Path) -> None:
    done = kope(["recall", "crocodile", "--db", str(db), "--limit", "1", "--tree"])
    lines = done.stdout.splitlines()
    assert lines[0].startswith("exp: draft -> verified")
    assert lines[1].startswith("  -> double-buffer: tile 1024 -> 2048; copies and arithmetic do not overlap -> failed")
    assert lines[2].strip().startswith("recalled because: says crocodile")


def test_recall_for_a_task_ranks_its_experiences_first(db: Path) -> None:
    document = parsed(kope(["recall", "--task", "exp", "--db", str(db), "--json"]).stdout, "recall")
    assert document["task"] == "exp"
    assert document["hardware"] == TWIN.hardware
    assert {item["task"] for item in document["items"][:2]} == {"exp"}
    assert all(item["reason"].startswith("same task") for item in document["items"][:2])
    assert document["edges"][0]["kind"] == "led_to"


def test_recall_takes_exact_conditions(db: Path) -> None:
    argv = ["recall", "loop", "--db", str(db), "--json", "--label", "negative", "--limit", "50"]
    document = parsed(kope(argv).stdout, "recall")
    assert {item["label"] for item in document["items"]} == {"negative"}
    assert "no label 'good'" in kope([*argv, "--label", "good"], code=2).stderr


def test_recall_of_nothing_says_so(db: Path) -> None:
    assert "nothing in" in kope(["recall", "hippopotamus", "--db", str(db), "--move", "x"]).stdout
    assert "give TEXT, or --task TASK" in kope(["recall", "--db", str(db)], code=2).stderr
    assert "there is no database" in kope(["recall", "x", "--db", str(db.with_name("none.db"))], code=1).stderr


def test_recall_without_embedder_says_so(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "find_embedder", lambda: None)
    done = kope(["recall", "crocodile", "--db", str(db)])
    assert done.stderr == "recalled with less than everything: no embedder\n"
    document = parsed(kope(["recall", "crocodile", "--db", str(db), "--json"]).stdout, "recall")
    assert document["degraded"] == "no embedder"


def test_info_tells_what_is_in_the_database(db: Path) -> None:
    text = kope(["db", "info", "--db", str(db)]).stdout
    for part in ("14 attempts with 14 candidates in 2 sessions (1 not ended)", "vectors of hash:512", "exp"):
        assert part in text
    document = parsed(kope(["db", "info", "--db", str(db), "--json"]).stdout, "db_info")
    assert document["rows"]["attempts"] == 14
    assert document["tasks"][0] == {
        "name": "exp",
        "attempts": 2,
        "verified": 1,
        "screened": 0,
        "failed": 1,
        "versions": 1,
    }
    assert [session["end_reason"] for session in document["sessions"]] == ["iterations", None]
    assert document["schema_version"] == version_known()


def test_check_of_a_whole_database(db: Path) -> None:
    assert kope(["db", "check", "--db", str(db)]).stdout.endswith("14 attempts, nothing wrong\n")
    assert parsed(kope(["db", "check", "--db", str(db), "--json"]).stdout, "db_check")["ok"]


def test_check_of_an_altered_database_fails(db: Path) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("UPDATE attempts SET wall_s = 77 WHERE iteration = 1")
    done = kope(["db", "check", "--db", str(db)], code=1)
    assert "is not what its digest says" in done.stdout
    document = parsed(kope(["db", "check", "--db", str(db), "--json"], code=1).stdout, "db_check")
    assert {problem["kind"] for problem in document["problems"]} == {"content"}


def test_unusable_database_is_one_line(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("hello")
    for argv in (["db", "info"], ["db", "check"], ["recall", "x"]):
        done = kope([*argv, "--db", str(place)], code=1)
        assert done.stderr == f"Error: {place} is not a KOPE database; name another file with --db\n"
        assert done.stdout == ""


def test_recall_without_embedder_loads_no_numpy(db: Path) -> None:
    code = """
import sys
from kope.memory import RecallQuery, Store
with Store.open(__import__("pathlib").Path(sys.argv[1])) as store:
    assert store.recall(RecallQuery(text="loop")).items
print(sorted({"numpy", "torch", "sentence_transformers", "sqlite_utils", "scipy"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code, str(db)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
