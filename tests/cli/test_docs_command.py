"""kope docs: documents in, passages out, in the database and in prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope.cli import app
from kope.library import Library
from kope.memory import Store
from tests.documents import parsed

MANUAL = "# Zorbing\n\nA zorb flag is set with SetZorb before FlipZorb.\n\n## Limits\n\nAt most 7 zorbs.\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "manuals").mkdir()
    (tmp_path / "manuals" / "zorb.md").write_text(MANUAL)
    (tmp_path / "manuals" / "flip.html").write_text("<h1>Flip</h1><p>FlipZorb turns a zorb.</p>")
    return tmp_path


def kope(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done


def test_documents_are_added_listed_found_replaced_and_removed(place: Path) -> None:
    added = parsed(kope("docs", "add", "manuals", "--json").stdout, "docs_add")["documents"]
    assert added == [
        {"name": "manuals/flip.html", "passages": 1, "added": True, "problem": ""},
        {"name": "manuals/zorb.md", "passages": 2, "added": True, "problem": ""},
    ]
    found = parsed(kope("docs", "search", "how is a zorb flag set", "--limit", "2", "--json").stdout, "docs_search")
    assert found["passages"][0]["source"] == "manuals/zorb.md" and "SetZorb" in found["passages"][0]["text"]
    assert [
        row["added"] for row in parsed(kope("docs", "add", "manuals", "--json").stdout, "docs_add")["documents"]
    ] == [
        False,
        False,
    ]
    (place / "manuals" / "zorb.md").write_text(MANUAL.replace("SetZorb", "PutZorb"))
    kope("docs", "add", "manuals")
    assert "PutZorb" in kope("docs", "search", "zorb flag set").stdout
    assert "SetZorb" not in kope("docs", "search", "SetZorb").stdout
    listed = parsed(kope("docs", "list", "--json").stdout, "docs_list")["documents"]
    assert [(row["name"], row["passage_count"]) for row in listed] == [("manuals/flip.html", 1), ("manuals/zorb.md", 2)]
    kope("docs", "remove", "manuals/zorb.md")
    assert "PutZorb" not in kope("docs", "search", "PutZorb zorb").stdout
    assert "there is no document" in kope("docs", "remove", "manuals/zorb.md", code=1).stderr


def test_guide_is_found_without_a_database(place: Path) -> None:
    assert "Ascend C guide/" in kope("docs", "search", "missing-sync between V and MTE3").stdout
    assert not (place / "kope.db").exists()


def test_words_are_never_query_syntax() -> None:
    kope("docs", "add", "manuals")
    for text in ('"', "zorb AND (", "NEAR(zorb, 3)", "*", "zorb:x OR", "-", "'; DROP TABLE documents;--"):
        assert "Traceback" not in kope("docs", "search", text).output


def test_own_documents_and_the_guide_take_turns(place: Path) -> None:
    kope("docs", "add", "manuals")
    with Store.open(place / "kope.db") as store:
        library = Library(store)
        sources = [passage.source for passage in library.search("flag set zorb SetFlag", 4)]
        library.close()
    assert sources[0].startswith("manuals/") and sources[1].startswith("Ascend C guide/")
    assert len(sources) == 4


def test_documents_of_the_same_name_in_two_folders_are_two(place: Path) -> None:
    (place / "more" / "manuals").mkdir(parents=True)
    (place / "more" / "manuals" / "zorb.md").write_text("# Other\n\nQuux.\n")
    kope("docs", "add", "manuals", "more/manuals", "manuals/zorb.md")
    listed = parsed(kope("docs", "list", "--json").stdout, "docs_list")["documents"]
    names = ["manuals/flip.html", "manuals/zorb.md", "more/manuals/zorb.md"]
    assert [row["name"] for row in listed] == names


def test_document_that_cannot_be_read_does_not_keep_the_others_out(place: Path) -> None:
    (place / "manuals" / "a.txt").write_bytes(b"\x7fELF\0\0")
    rows = parsed(kope("docs", "add", "manuals", "--json", code=1).stdout, "docs_add")["documents"]
    assert [(row["name"], row["added"]) for row in rows] == [
        ("manuals/a.txt", False),
        ("manuals/flip.html", True),
        ("manuals/zorb.md", True),
    ]
    assert "is not text" in rows[0]["problem"]


def test_nothing_to_add_is_one_line(place: Path) -> None:
    (place / "empty").mkdir()
    assert "holds no documents" in kope("docs", "add", "empty", code=1).stderr
    assert "does not exist" in kope("docs", "add", "nowhere", code=1).stderr


def test_database_with_documents_is_whole(place: Path) -> None:
    kope("docs", "add", "manuals")
    assert "nothing wrong" in kope("db", "check").stdout
