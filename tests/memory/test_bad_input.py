"""What no run of KOPE makes, but a foreign or damaged file may hold, is lived with and said."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from kope.context.lineage import Forest
from kope.memory import RecallQuery, Store
from kope.memory.database import new_generation
from kope.memory.embedding import HashEmbedder
from kope.memory.graph import rescore
from kope.memory.learn import edge_id_of, node_id_of
from tests.memory.samples import TWIN, attempt_of, begin, fails, rows, works

HERE = TWIN.hardware


def alter(path: Path, statements: Sequence[tuple[str, Sequence[object]]]) -> None:
    """Change a file behind the store's back, as an importer of foreign rows would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for sql, values in statements:
            connection.execute(sql, values)
        new_generation(connection)


def in_a_circle(store: Store, session_id: str, path: Path) -> list[str]:
    """Three attempts of which each started from another, and one below them; returns the ids of the experiences."""
    root = attempt_of(session_id, 1, works(), thought="zebra")
    child = attempt_of(session_id, 2, works(), parent=root, speedup=1.5, thought="zebra")
    below = attempt_of(session_id, 3, works(), parent=child, speedup=1.7, thought="zebra")
    leaf = attempt_of(session_id, 4, works(), parent=below, speedup=1.8, thought="zebra")
    for attempt in (root, child, below, leaf):
        store.record(attempt)
    ids = [node_id_of(attempt.id) for attempt in (root, child, below, leaf)]
    origin = rows(path, "SELECT value FROM meta WHERE key = 'origin'")[0][0]
    edge = edge_id_of(ids[2], "led_to", ids[0])
    new = "INSERT INTO edges (id, origin_id, src, dst, kind) VALUES (?, ?, ?, ?, 'led_to')"
    alter(
        path,
        [
            (new, (edge, origin, ids[2], ids[0])),
            ("INSERT INTO edge_texts VALUES (?, 'round')", (edge,)),
        ],
    )  # fmt: skip
    return ids


def test_circle_of_edges_is_said_and_everything_still_answers(store: Store, session_id: str, path: Path) -> None:
    ids = in_a_circle(store, session_id, path)
    assert [problem.message for problem in store.check() if problem.kind == "graph"][-1] == (
        "3 experiences lead back to themselves"
    )
    recall = store.recall(RecallQuery(text="zebra", hardware=HERE))
    assert {item.experience.id for item in recall.items} == set(ids)
    Forest.of(recall).draw(ids)
    assert len(store.surroundings(ids[1]).ancestors) == 2
    assert store.stats().attempts == 4
    store.record(attempt_of(session_id, 5, works(), parent=store.attempt(f"{session_id}-rms_norm-3"), speedup=3.0))
    store.distil()


def test_circle_is_scored_as_if_it_led_nowhere(store: Store, session_id: str, path: Path) -> None:
    ids = in_a_circle(store, session_id, path)
    with store._database.write() as connection:
        rescore(connection)
    scores = dict(rows(path, "SELECT id, downstream FROM nodes"))
    leaf_ratio, below_ratio = 1.8 / 1.7, 1.7 / 1.5
    assert scores[ids[3]] == pytest.approx(leaf_ratio)
    assert scores[ids[2]] == pytest.approx(0.5 * below_ratio + 0.35 * leaf_ratio)
    assert (scores[ids[0]], scores[ids[1]]) == pytest.approx((1.0, 1.5))


def test_lesson_without_evidence_is_said_and_gone_when_distilled(store: Store, session_id: str, path: Path) -> None:
    root = attempt_of(session_id, 1, works(), plan={"tile": 1})
    store.record(root)
    store.record(attempt_of(session_id, 2, works(), parent=root, speedup=1.5, plan={"tile": 2}))
    store.distil()
    alter(path, [("DELETE FROM edges WHERE kind = 'distilled_from'", ())])
    assert ["lesson" in problem.message for problem in store.check()] == [True]
    store.distil()
    assert store.check() == ()
    alter(path, [("DELETE FROM edges WHERE kind = 'led_to'", ())])
    assert store.distil()[2] == 1


def test_two_embedders_in_one_file_are_kept_apart(path: Path) -> None:
    with Store.open(path, embedder=HashEmbedder(64)) as store:
        session_id = begin(store)
        store.record(attempt_of(session_id, 1, works(), thought="zebra"))
    with Store.open(path, embedder=HashEmbedder(128)) as store:
        store.record(attempt_of(session_id, 2, works(), thought="zebra"))
        recall = store.recall(RecallQuery(text="zebra"))
        assert recall.degraded == "1 of 2 experiences have no vector of hash:128"
        assert len(recall.items) == 2
        assert sum("alike in meaning" in item.reason for item in recall.items) == 1


def test_ten_megabytes_of_compiler_text_are_cut_to_head_and_tail(store: Store, session_id: str, path: Path) -> None:
    text = "first error\n" + "x" * 10_000_000 + "\nlast error"
    store.record(attempt_of(session_id, 1, replace(fails(message=text), log=text)))
    kept = store.attempt(f"{session_id}-rms_norm-1")
    assert kept.outcome.log.startswith("first error") and kept.outcome.log.endswith("last error")
    assert len(kept.outcome.log) < 70_000
    store.distil()
    assert path.stat().st_size + path.with_name(path.name + "-wal").stat().st_size < 2_000_000


def test_clock_that_goes_backwards_orders_nothing(store: Store, session_id: str) -> None:
    times = ("2026-05-01T00:00:00+00:00", "2020-01-01T00:00:00+00:00", "", "tomorrow")
    root = attempt_of(session_id, 1, works(), created_at=times[0])
    store.record(root)
    for number, created_at in enumerate(times[1:], start=2):
        store.record(
            attempt_of(session_id, number, works(), parent=root, created_at=created_at, speedup=1.5, plan={"tile": 2})
        )
    assert [attempt.iteration for attempt in store.attempts()] == [1, 2, 3, 4]
    store.distil()
    assert store.stats().by_day == {"": 1, "2020-01-01": 1, "2026-05-01": 1, "tomorrow": 1}
    assert store.check() == ()


@pytest.mark.parametrize("source", ["缓冲区 // 双缓冲\n", "\ufeffint a;\r\nint b;\r\n", "a\0b", "\U0001f600" * 50])
def test_code_in_any_script_comes_back(store: Store, session_id: str, source: str) -> None:
    attempt = attempt_of(session_id, 1, works(), source=source)
    store.record(attempt)
    candidate = store.attempt(attempt.id).candidate
    assert candidate is not None and candidate.source == source
    assert store.check() == ()


def test_chinese_is_found_by_part_of_what_was_said(store: Store, session_id: str) -> None:
    store.record(attempt_of(session_id, 1, works(), thought="使用双缓冲让搬运与计算重叠"))
    store.record(attempt_of(session_id, 2, works(), thought="减少尾块的填充"))
    (first, *_) = store.recall(RecallQuery(text="双缓冲为什么快")).items
    assert first.experience.attempt_id == f"{session_id}-rms_norm-1"
    assert "says 双缓, 缓冲" in first.reason or "says 缓冲, 双缓" in first.reason
