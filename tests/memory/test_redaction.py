"""What leaves: secrets, home paths, names and addresses do not, wherever they stand; kernels stay as they are."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kope.errors import NotFound, StoreError
from kope.memory import Prompt, RecallQuery, Store, index
from kope.memory.embedding import HashEmbedder
from kope.memory.share import Choice, Form, Left, Redactor, export_file, import_file
from kope.memory.share.redact import literals_of
from kope.memory.share.travel import TABLES
from kope.model import CaseResult, Diagnostic, Fingerprint, Outcome, Proposal, Stage, Verdict
from tests.documents import parsed
from tests.memory.samples import attempt_of, begin, grow, rows, task_of, works

SECRET = "sk-ant-api03-" + "Zx9" * 12
PATH = "/home/carol/kernels/secret_client/rms.cpp"
HOST = "build-7.corp"
ADDRESS = "http://10.9.8.7:8000/v1/chat"
NAME = "zorro"
PLANTED = f"key {SECRET} in {PATH} on {HOST} by {NAME} via {ADDRESS}"
FRAGMENTS = ("api03", "Zx9Zx9", "carol", "secret_client", "build-7", "10.9.8.7", NAME)
REDACTOR = Redactor((NAME,))


@pytest.fixture
def planted(path: Path) -> Path:
    """A database with all of it in every text that a run can put into it."""
    task = replace(task_of(PLANTED), text=PLANTED, tags=(PLANTED,), reference=f"# {PLANTED}\n", digest=f"d {PLANTED}")
    outcome = Outcome(
        Stage.RUN,
        Verdict.FAILED,
        (Diagnostic(PLANTED, PLANTED, "error", PLANTED, PLANTED, 3, PLANTED),),
        (CaseResult(PLANTED, False, (1.0,), 1.0, 2.0, {PLANTED: 3.0}),),
        log=PLANTED,
        steps=({"argv": ["g++", PATH], PLANTED: PLANTED},),
        evidence={PLANTED: PLANTED},
    )
    proposal = Proposal(
        f"// {PLANTED}\n", PLANTED, PLANTED, None, {PLANTED: PLANTED, "password": "hunter22"}, (), (PLANTED,), 1,
        PLANTED, PLANTED, ({"url": ADDRESS, "headers": {"Authorization": f"Bearer {SECRET}"}},),
    )  # fmt: skip
    prompt = Prompt(PLANTED, PLANTED, 3, ({"item": PLANTED},))
    where = Fingerprint(*(PLANTED,) * 4)
    with Store.open(path, embedder=HashEmbedder(16)) as store:
        store.add_task(task)
        session_id = store.begin_session(PLANTED, {PLANTED: PLANTED}, session_id=f"s {PLANTED}").id
        common = {"task": task, "fingerprint": where, "proposer": PLANTED, "proposal": proposal}
        first = attempt_of(session_id, 1, outcome, **common)
        store.record(first, bottleneck=PLANTED, prompt=prompt)
        child = replace(proposal, source=f"// two {PLANTED}\n", parent_id=first.id)
        store.record(attempt_of(session_id, 2, outcome, **{**common, "proposal": child}), bottleneck=PLANTED)
        store.end_session(session_id, PLANTED)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE origins SET label = ?", (PLANTED,))
    return path


def leave(path: Path, name: str, choice: Choice | None = None, **form: Any) -> tuple[Path, Left]:
    place = path.with_name(name)
    form.setdefault("redactor", REDACTOR)
    return place, export_file(path, place, choice or Choice(), Form(lines=name.endswith("jsonl"), **form))


def test_planted_texts_are_in_every_column_to_begin_with(planted: Path) -> None:
    place, _ = leave(planted, "raw.jsonl", redactor=None)
    found: dict[str, set[str]] = {}
    for line in map(json.loads, place.read_text("utf-8").splitlines()):
        for column, value in line.items():
            if "carol" in json.dumps(value):
                found.setdefault(line["table"], set()).add(column)
    assert found["attempts"] >= {"session_id", "task_name", "move", "traits", "proposer", "hardware", "toolchain"}
    assert found["attempt_texts"] >= {"thought", "plan", "diagnostics", "details"}
    assert found["tasks"] >= {"name", "text", "tags", "definition", "digest"}
    assert {"origins", "sessions", "prompts", "candidates", "case_results", "nodes", "node_texts", "edge_texts",
            "journals"} <= found.keys()  # fmt: skip


@pytest.mark.parametrize("form", [{}, {"code": False}, {"text": False}, {"code": False, "text": False}])
def test_nothing_planted_leaves(planted: Path, tmp_path: Path, form: dict[str, bool]) -> None:
    lines, left = leave(planted, "out.jsonl", **form)
    file, _ = leave(planted, "out.db", **form)
    for content in (lines.read_bytes(), file.read_bytes()):
        assert [fragment for fragment in FRAGMENTS if fragment.encode() in content] == []
    assert "hunter22" not in lines.read_text()
    assert {removal.kind for removal in left.removals} == {"secret", "home", "name", "address"}
    for removal in left.removals:
        assert [fragment for fragment in FRAGMENTS if fragment in removal.shown] in ([], ["carol"]), removal
    own = tmp_path / "own.db"
    taken = import_file(own, file)
    assert (taken.new, taken.refused) == (2, 0)
    with Store.open(own) as store:
        assert store.check() == ()
        assert store.recall(RecallQuery(text="key in home")).items


def test_links_survive_names_that_had_to_change(planted: Path) -> None:
    file, _ = leave(planted, "out.db")
    assert rows(file, "PRAGMA foreign_key_check") == []
    ((child, parent),) = rows(file, "SELECT id, parent_id FROM attempts WHERE parent_id IS NOT NULL")
    assert rows(file, f"SELECT count(*) FROM attempts WHERE id = '{parent}'") == [(1,)]
    assert len(rows(file, "SELECT 1 FROM edges WHERE kind = 'led_to'")) == 1
    assert child.startswith("id-")


def test_dry_run_writes_nothing_and_finds_the_same(planted: Path) -> None:
    before = sorted(place.name for place in planted.parent.iterdir())
    told = export_file(planted, None, Choice(), Form(redactor=REDACTOR))
    assert sorted(place.name for place in planted.parent.iterdir()) == before
    _, left = leave(planted, "out.db")
    assert (told.removals, told.content_hash, told.size_bytes) == (left.removals, left.content_hash, 0)


def test_without_redaction_it_is_one_s_own_backup(planted: Path) -> None:
    file, left = leave(planted, "backup.db", redactor=None)
    assert left.removals == ()
    own = planted.with_name("restored.db")
    assert import_file(own, file, trusted=True).new == 2
    assert rows(own, "SELECT id, content_digest FROM attempts ORDER BY id") == rows(
        planted, "SELECT id, content_digest FROM attempts ORDER BY id"
    )


# --- the patterns ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1B2" * 9, "hf_" + "Abc1" * 8, "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "Authorization: Bearer abcdefghijklmnop",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        'api_key = "hunter2222"', "password: geheim77",
        "/home/alice/x.cpp:3:4: error", f"/{'Users'}/bob/work", "/data/home/joe/k", "C:\\Users\\Eve\\k",
        f"/{'root'}/.cache/kope",
        "mail bob@example.com now", "ssh me@box1:~/", "gpu-3.cluster.internal",
        "https://llm.example.com/v1", "10.1.2.3:80",
        "fe80::1ff:fe23:4567:890a", "gpu-node-17:8000", "on zorro", "ZORRO",
    ],
)  # fmt: skip
def test_what_must_not_leave_is_found_and_replaced(text: str) -> None:
    assert not REDACTOR.is_clean(text)
    replaced = REDACTOR.replace(text)
    assert REDACTOR.is_clean(replaced)
    assert "[" in replaced


KERNEL = """
// Copyright, see https://www.apache.org/licenses/LICENSE-2.0
#include "kernel_operator.h"
__aicore__ inline void Process(LocalTensor<half>& q, uint32_t tokenNum) {
    uint32_t tokenIdx = blockIdx * tokensPerCore, key = AIV_0::id, apiKeyIdx = 3;
    for (int32_t i = 0; i < tokenNum; ++i) { DataCopyPad(q[i * 128], x[tokenIdx], {1, 256, 0, 0}); }
    auto token = num_tokens == 0 ? a : b; y = q@k.transpose(1, 2) * std::local::value; buf.local = 1;
    secret_size = secretLen + passwordLen; // root of the lineage, home of the data; version 8.0.RC3, 1.2.3
}
"""


def test_a_kernel_stays_as_it_is() -> None:
    assert REDACTOR.replace(KERNEL) == KERNEL


def test_literals_are_in_every_match() -> None:
    import re

    for pattern, text in ((r"(?:ghp|gho)_\w+", "gho_x"), (r"(?i)bearer +x", "BEARER x"), (r"a+(bc|de)f*", "ade")):
        found = literals_of(re.compile(pattern))
        assert found and any(literal in text or literal in text.lower() for literal in found)
    assert literals_of(re.compile(r"\d+\.\d+")) == ()


@settings(max_examples=400, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_a_text_that_is_passed_over_unread_has_nothing_to_find(data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from(REDACTOR.rules))
    text = data.draw(st.from_regex(rule.pattern))
    assert rule.may_match(text, text.lower())


# --- choosing -------------------------------------------------------------------------------------------------------


@pytest.fixture
def several(path: Path) -> Path:
    with Store.open(path) as store:
        session_id = begin(store, task_of(), task_of("exp"))
        grow(store, session_id, 10)
        grow(store, session_id, 5, task=task_of("exp"))
        late = attempt_of(session_id, 99, works(3.0), created_at="2027-05-05T00:00:00.000+00:00")
        store.record(late)
    return path


@pytest.mark.parametrize(
    ("choice", "count"),
    [
        (Choice(), 16),
        (Choice(tasks=("exp",)), 5),
        (Choice(tasks=("digest-of-exp", "rms_norm")), 16),
        (Choice(since=datetime(2027, 1, 1, tzinfo=UTC)), 1),
        (Choice(targets=("twin",), tasks=("exp",)), 5),
        (Choice(best=True), 2),
    ],
)
def test_only_what_is_chosen_leaves(several: Path, choice: Choice, count: int) -> None:
    file, left = leave(several, "part.db", choice)
    assert (left.attempts, len(rows(file, "SELECT 1 FROM attempts"))) == (count, count)
    assert rows(file, "PRAGMA foreign_key_check") == []
    assert rows(file, "SELECT count(*) FROM candidates WHERE id NOT IN (SELECT candidate_id FROM attempts)") == [(0,)]


def test_a_choice_that_nothing_meets_is_said(several: Path) -> None:
    with pytest.raises(NotFound, match="meets the conditions"):
        leave(several, "none.db", Choice(targets=("ascend",)))
    assert not several.with_name("none.db").exists()


def test_an_export_is_one_file_without_log_index_and_local_rows(several: Path) -> None:
    file, _ = leave(several, "out.db")
    assert file.read_bytes()[18:20] == b"\x01\x01"
    names = {name for (name,) in rows(file, "SELECT name FROM sqlite_schema")}
    assert not any(name.startswith(("node_words", "passage_words")) for name in names)
    local = ("asks", "calls", "imports", "forgotten", "documents", "passages", "digests", *index.TABLES)
    for table in local:
        assert rows(file, f"SELECT count(*) FROM {table}") == [(0,)], table
    assert sorted(place.name for place in several.parent.iterdir()) == ["kope.db", "out.db"]


def test_an_export_is_overwritten_by_nothing(several: Path) -> None:
    leave(several, "out.db")
    with pytest.raises(StoreError, match="is there already"):
        leave(several, "out.db")


def test_an_export_can_be_recalled_from(several: Path) -> None:
    file, _ = leave(several, "out.db")
    with Store.open(file, create=False) as store:
        assert (store.read_only, "is an export" in store.notes[0]) == (True, True)
        assert store.recall(RecallQuery(task_name="exp", text="loop")).items
        assert store.check() == ()


def test_every_line_of_json_is_as_published(several: Path) -> None:
    file, left = leave(several, "out.jsonl")
    lines = file.read_text("utf-8").splitlines()
    for line in lines:
        parsed(line, "export_line")
    assert json.loads(lines[0])["content_hash"] == left.content_hash
    assert sum(json.loads(line)["table"] == "attempts" for line in lines) == 16


def test_every_column_of_a_travelling_table_is_described(several: Path) -> None:
    for table in TABLES:
        there = {row[1] for row in rows(several, f"PRAGMA table_info({table.name})")}
        assert there == {*table.columns, *table.local}, table.name
