"""`check` finds every kind of damage, and nothing where there is none."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kope.memory import Prompt, RecallQuery, Store
from kope.memory.embedding import HashEmbedder
from tests.memory.samples import attempt_of, begin, grow, task_of, works


@pytest.fixture
def filled(path: Path) -> Path:
    with Store.open(path, embedder=HashEmbedder()) as store:
        session_id = begin(store, task_of(), task_of("exp"))
        grow(store, session_id, 12)
        store.record(attempt_of(session_id, 1, works(), task=task_of("exp")), prompt=Prompt("Write.", "t", 2))
    return path


def alter(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;" + sql)


def test_whole_database_has_no_problem(filled: Path) -> None:
    for read_only in (False, True):
        with Store.open(filled, read_only=read_only) as store:
            assert store.check() == ()


ONE = "(SELECT id FROM attempts ORDER BY seq LIMIT 1)"
NODE = "(SELECT id FROM nodes ORDER BY seq LIMIT 1)"
EDGE = "(SELECT id FROM edges WHERE kind = 'led_to' ORDER BY seq LIMIT 1)"


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("DELETE FROM tasks WHERE name = 'exp'", "links", "points to a row of tasks that is not there"),
        ("UPDATE candidates SET source = zeroblob(9)", "content", "candidates .* is not what its id says"),
        ("UPDATE prompts SET text = x'00'", "content", "prompts .* is not what its id says"),
        ("UPDATE attempts SET wall_s = 99", "content", "attempt .* is not what its digest says"),
        ("UPDATE attempt_texts SET thought = 'other'", "content", "is not what its digest says"),
        ("UPDATE attempt_texts SET details = x'00'", "content", "cannot be read"),
        ("UPDATE case_results SET duration_us = '[1.0]'", "content", "is not what its digest says"),
        (f"DELETE FROM case_results WHERE attempt_id = {ONE}", "content", "is not what its digest says"),
        (f"DELETE FROM nodes WHERE id = {NODE}", "graph", "has no experience"),
        (f"DELETE FROM node_texts WHERE node_id = {NODE}", "graph", "has no text"),
        (f"DELETE FROM journals WHERE attempt_id = {ONE}", "graph", "has no journal entry"),
        (f"DELETE FROM edges WHERE id = {EDGE}", "graph", "is not linked to the one it started from"),
        (f"DELETE FROM edge_texts WHERE edge_id = {EDGE}", "graph", "edge .* has no text"),
        (f"UPDATE edges SET id = 'x' WHERE id = {EDGE}", "graph", "edge x does not have the id of what it links"),
        (f"UPDATE nodes SET id = 'x' WHERE id = {NODE}", "graph", "experience x does not have the id"),
        (f"UPDATE nodes SET works = 1 - works WHERE id = {NODE}", "graph", "does not say what attempt"),
        (f"UPDATE nodes SET downstream = 9 WHERE id = {NODE}", "derived", "downstream score 9.0, not"),
        (f"UPDATE nodes SET label = 'effective' WHERE id = {NODE}", "derived", "is labelled"),
        ("UPDATE nodes SET embedding = zeroblob(128)", "derived", "has length 0.000, not 1"),
        ("INSERT INTO node_words (rowid, text) VALUES (99, 'x')", "words", "1 entries of experiences that are gone"),
        ("INSERT INTO node_words (node_words) VALUES ('delete-all')", "words", "13 experiences are missing"),
        ("UPDATE node_words_docsize SET sz = x'01010101'", "words", "does not hold the words"),
        ("UPDATE node_words_data SET block = zeroblob(40) WHERE id > 10", "words", "damaged inside"),
    ],
)
def test_damage_is_found(filled: Path, sql: str, kind: str, message: str) -> None:
    alter(filled, sql)
    with Store.open(filled) as store:
        found = store.check()
    assert any(problem.kind == kind and re.search(message, problem.message) for problem in found), found
    assert all("\n" not in problem.message for problem in found)


def test_circle_in_the_lineage_is_found_and_recall_survives_it(filled: Path) -> None:
    alter(
        filled,
        """
        DELETE FROM edges WHERE kind = 'led_to';
        INSERT INTO edges (id, origin_id, src, dst, kind) SELECT 'e' || a.seq, a.origin_id, a.id, b.id, 'led_to'
        FROM nodes AS a JOIN nodes AS b ON b.seq = a.seq % 3 + 1 WHERE a.seq <= 3;
        """,
    )
    with Store.open(filled, embedder=HashEmbedder()) as store:
        assert any("3 experiences lead back to themselves" in problem.message for problem in store.check())
        assert store.recall(RecallQuery(text="variant of the loop", limit=50)).items
        session_id = store.sessions()[0].id
        parent = store.attempts(session_id=session_id)[0]
        store.record(attempt_of(session_id, 77, works(), parent=parent))


def test_damaged_full_text_index_costs_one_ranking_not_the_answer(filled: Path) -> None:
    alter(filled, f"UPDATE node_words_data SET block = x'{'ff' * 40}'")
    with Store.open(filled) as store:
        recall = store.recall(RecallQuery(text="variant of the loop", task_name="rms_norm"))
    assert recall.items
    assert recall.degraded == "no embedder; the full-text index is damaged (see kope db check)"
