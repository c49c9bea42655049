"""`kope db show|stats|forget|retire|reembed`: what they print and do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope.cli import app
from kope.memory import Store, embedding
from kope.memory.embedding import HashEmbedder
from kope.memory.learn import node_id_of
from tests.documents import parsed
from tests.memory.samples import attempt_of, begin, fails, rows, task_of, works


@pytest.fixture
def db(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel, a better one made from it, and one that failed; distilled."""
    monkeypatch.setattr(embedding, "find_embedder", lambda: HashEmbedder(128))
    with Store.open(path, embedder=HashEmbedder(64)) as store:
        session_id = begin(store, task_of())
        root = attempt_of(session_id, 1, works(), move="draft", id="a1")
        store.record(root)
        store.record(attempt_of(session_id, 2, works(), parent=root, speedup=1.5, id="b2", used=(node_id_of("a1"),)))
        store.record(attempt_of(session_id, 3, fails(), parent=root, id="c3", move="longer-tile"))
        store.end_session(session_id, "done")
    return path


def kope(arguments: Sequence[str], code: int = 0, text: str | None = None) -> Any:
    done = CliRunner().invoke(app, list(arguments), input=text)
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done


def test_show_draws_what_is_linked(db: Path) -> None:
    text = kope(["db", "show", "b2", "--journal", "--db", str(db)]).stdout
    lines = [line.strip("│├└─ ") for line in text.splitlines()]
    assert lines[0].endswith(
        "rms_norm: draft -> verified, 1.00x its parent, 1.00x the first kernel of its task (partial)"
    )
    assert lines[1].startswith(node_id_of("b2")[:8])
    for verb in ("used:", "taught:", "ended better than, from the same start:", "also tried from the same start:"):
        assert verb in lines
    assert "## rms_norm, attempt 2: double-buffer" in lines
    document = parsed(kope(["db", "show", "b2", "--db", str(db), "--json"]).stdout, "db_show")
    assert document["node"]["attempt"] == "b2"
    assert [node["attempt"] for node in document["ancestors"]] == ["a1"]
    assert {link["edge"]["kind"] for link in document["links"]} == {"led_to", "used", "contrasts", "distilled_from"}


def test_show_of_a_lesson_names_its_evidence(db: Path) -> None:
    ((name,),) = rows(db, "SELECT node_id FROM digests WHERE rule = 'gain'")
    document = parsed(kope(["db", "show", name[:10], "--db", str(db), "--json"]).stdout, "db_show")
    assert (document["node"]["kind"], document["node"]["evidence"]) == ("digest", ["b2"])
    assert "no experiences begin with 'zz'" in kope(["db", "show", "zz", "--db", str(db)], code=1).stderr


def test_stats_are_printed(db: Path) -> None:
    text = kope(["db", "stats", "--db", str(db)]).stdout
    assert "3 attempts, 2 digests; code " in text
    assert "retired: 0, 0 of them by hand" in text
    document = parsed(kope(["db", "stats", "--db", str(db), "--json"]).stdout, "db_stats")
    assert document["uses"] == 1
    assert document["best"][0]["experience"] == node_id_of("a1")


def test_forget_asks_first_and_says_what_goes(db: Path) -> None:
    argv = ["db", "forget", "--node", "a1", "--db", str(db)]
    assert kope([*argv, "--dry-run"]).stdout == (
        "3 attempts (3 on rms_norm), 2 of them for what they started from or copy. Nothing was forgotten.\n"
    )
    assert "Nothing was forgotten." in kope(argv, text="n\n").stdout
    assert rows(db, "SELECT count(*) FROM attempts") == [(3,)]
    document = parsed(kope([*argv, "--json", "--yes"]).stdout, "db_forget")
    assert document == {
        "forgotten": True,
        "attempts": ["a1", "b2", "c3"],
        "descendants": 2,
        "by_task": {"rms_norm": 3},
    }
    assert rows(db, "SELECT count(*) FROM nodes") == [(0,)]


def test_forget_takes_times_and_wants_a_condition(db: Path) -> None:
    assert "nothing meets that" in kope(["db", "forget", "--since", "2027-01-01", "--yes", "--db", str(db)]).stdout
    assert "3 attempts" in kope(["db", "forget", "--before", "2027-01-01", "--dry-run", "--db", str(db)]).stdout
    assert "say what to forget" in kope(["db", "forget", "--db", str(db)], code=2).stderr


def test_retired_is_not_recalled_until_it_is_taken_back(db: Path) -> None:
    name = node_id_of("b2")
    argv = ["recall", "--task", "rms_norm", "--db", str(db), "--json"]
    retire = ["db", "retire", name[:8], "--db", str(db)]

    def recalled() -> set[str]:
        return {item["id"] for item in parsed(kope(argv).stdout, "recall")["items"]}

    assert name in recalled()
    assert kope(retire).stdout == f"{name}: not recalled any more\n"
    assert name not in recalled()
    assert kope([*retire, "--keep"]).stdout == f"{name}: recalled, whatever its record\n"
    assert name in recalled()
    assert kope([*retire, "--auto"]).stdout == f"{name}: its record decides\n"
    assert "not both" in kope([*retire, "--auto", "--keep"], code=2).stderr


def test_reembed_says_how_many_and_by_what(db: Path) -> None:
    document = parsed(kope(["db", "reembed", "--db", str(db), "--json"]).stdout, "db_reembed")
    assert document == {"embedder": "hash:128", "made": 7}
    assert kope(["db", "reembed", "--db", str(db)]).stdout == "0 vectors made by hash:128\n"


def test_embedder_is_a_setting(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOPE_EMBEDDER", "none")
    assert "no embedder" in kope(["recall", "draft", "--db", str(db)]).stderr
    assert "there is no embedder" in kope(["db", "reembed", "--db", str(db)], code=1).stderr
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("KOPE_EMBEDDER", str(tmp_path / "empty"))
    assert "holds no model weights" in kope(["recall", "draft", "--db", str(db)], code=1).stderr


def test_task_texts_are_found_by_what_they_say(db: Path) -> None:
    """Attempts do not repeat what their task computes; a question in those words finds them all the same."""
    document = parsed(kope(["recall", "over the last axis", "--db", str(db), "--json"]).stdout, "recall")
    assert {item["task"] for item in document["items"]} == {"rms_norm"}
    assert "its task says" in document["items"][0]["reason"]
