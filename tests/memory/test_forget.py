"""What is forgotten is gone from every table, from every answer and from the file; the rest is as if it never was."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kope.errors import NotFound
from kope.memory import RecallQuery, Selection, Store
from kope.memory.learn import node_id_of
from kope.model import Attempt
from tests.memory.samples import TWIN, attempt_of, begin, fails, grow, rows, task_of, works

HERE = TWIN.hardware
COUNTED = (
    "attempts", "attempt_texts", "case_results", "journals", "candidates", "prompts", "nodes", "node_texts", "edges",
    "edge_texts", "digests", "sessions", "asks", "node_words_docsize",
)  # fmt: skip


def counts(path: Path) -> dict[str, int]:
    return {table: rows(path, f"SELECT count(*) FROM {table}")[0][0] for table in COUNTED}


def lineage(store: Store, session_id: str) -> tuple[Attempt, Attempt, Attempt, Attempt]:
    """A kernel, one made from it, one made from that; and another root."""
    root = attempt_of(session_id, 1, works(), thought="zebra")
    child = attempt_of(session_id, 2, works(), parent=root, speedup=1.4, plan={"tile": 9}, thought="giraffe")
    below = attempt_of(session_id, 3, fails(), parent=child, thought="lion")
    other = attempt_of(session_id, 4, works(), thought="okapi")
    for attempt in (root, child, below, other):
        store.record(attempt)
    return root, child, below, other


def test_forgotten_is_as_if_it_never_was(store: Store, session_id: str, path: Path) -> None:
    grow(store, session_id, 12)
    store.distil()
    before = counts(path)
    second = begin(store, key="second")
    grow(store, second, 15, seed=3)
    store.end_session(second, "done")
    assert counts(path) != before
    found = store.forget(Selection(sessions=(second,)))
    assert (len(found.attempts), found.by_task) == (15, {"rms_norm": 15})
    assert counts(path) == before
    assert store.check() == ()


def test_what_started_from_it_goes_with_it(store: Store, session_id: str) -> None:
    root, child, below, other = lineage(store, session_id)
    found = store.forget(Selection(experiences=(node_id_of(child.id)[:10],)))
    assert (found.attempts, found.descendants) == ((child.id, below.id), 1)
    assert [attempt.id for attempt in store.attempts()] == [root.id, other.id]
    assert store.check() == ()
    assert store.experience(node_id_of(root.id)).downstream == 1.0


def test_descendants_may_be_kept(store: Store, session_id: str) -> None:
    root, child, below, other = lineage(store, session_id)
    store.forget(Selection(experiences=(child.id,), descendants=False))
    assert [attempt.id for attempt in store.attempts()] == [root.id, below.id, other.id]
    assert store.surroundings(node_id_of(below.id)).ancestors == ()
    assert store.check() == ()
    store.forget(Selection(experiences=(below.id,)))
    assert store.check() == ()


def test_dry_run_forgets_nothing(store: Store, session_id: str, path: Path) -> None:
    lineage(store, session_id)
    before = counts(path)
    assert len(store.forget(Selection(tasks=("rms_norm",)), dry_run=True).attempts) == 4
    assert counts(path) == before


def test_conditions_of_several_kinds_all_hold(store: Store, session_id: str) -> None:
    store.record(attempt_of(session_id, 1, works(), task=task_of("exp"), created_at="2026-01-01T00:00:00+00:00"))
    store.record(attempt_of(session_id, 2, works(), task=task_of("exp"), created_at="2026-03-01T00:00:00+00:00"))
    store.record(attempt_of(session_id, 3, works(), created_at="2026-03-01T00:00:00+00:00"))
    store.record(attempt_of(session_id, 4, works(), created_at="yesterday"))
    since = Selection(tasks=("exp",), since=datetime(2026, 2, 1, tzinfo=UTC))
    assert store.forget(since, dry_run=True).by_task == {"exp": 1}
    before = Selection(before=datetime(2026, 2, 1, tzinfo=UTC))
    assert store.forget(before, dry_run=True).by_task == {"exp": 1}


def test_forgotten_word_is_nowhere_in_the_file(store: Store, session_id: str, path: Path) -> None:
    lineage(store, session_id)
    store.record(attempt_of(session_id, 5, works(), source="int unforgettableName;", thought="rhinoceros"))
    store.forget(Selection(experiences=(f"{session_id}-rms_norm-5",)))
    store.close()
    content = path.read_bytes()
    assert b"rhinoceros" not in content and b"unforgettable" not in content
    assert b"giraffe" in content


def test_number_that_is_given_again_does_not_find_the_old_words(store: Store, session_id: str) -> None:
    """Row numbers are given again after the newest row went; the index must not answer for the row that had it."""
    lineage(store, session_id)
    store.forget(Selection(experiences=(f"{session_id}-rms_norm-4",)))
    store.record(attempt_of(session_id, 6, works(), thought="badger"))
    assert store.recall(RecallQuery(text="okapi")).items == ()
    (item,) = store.recall(RecallQuery(text="badger")).items
    assert item.experience.attempt_id == f"{session_id}-rms_norm-6"


def test_open_store_notices_what_another_forgot(store: Store, session_id: str, path: Path) -> None:
    _, child, *_ = lineage(store, session_id)
    assert len(store.recall(RecallQuery(hardware=HERE, limit=0)).moves) == 4
    with Store.open(path) as second:
        second.forget(Selection(experiences=(child.id,)))
        second.record(attempt_of(session_id, 7, works()))
        second.record(attempt_of(session_id, 8, works()))
    names = {move.experience_id for move in store.recall(RecallQuery(hardware=HERE, limit=0)).moves}
    assert names == {node_id_of(f"{session_id}-rms_norm-{number}") for number in (1, 4, 7, 8)}


def test_forgotten_ids_stay_on_record(store: Store, session_id: str, path: Path) -> None:
    *_, other = lineage(store, session_id)
    store.forget(Selection(experiences=(other.id,)))
    assert rows(path, "SELECT attempt_id FROM forgotten") == [(other.id,)]


def test_use_of_the_forgotten_teaches_nothing(store: Store, session_id: str) -> None:
    root, _, _, other = lineage(store, session_id)
    advice = node_id_of(other.id)
    for number in range(10, 13):
        store.record(attempt_of(session_id, number, works(), parent=root, used=(advice,), speedup=1.5))
    assert len(store.surroundings(advice).worths) == 1
    store.forget(Selection(experiences=tuple(f"{session_id}-rms_norm-{number}" for number in range(10, 13))))
    assert store.surroundings(advice).worths == {}


@pytest.mark.parametrize(
    "selection",
    [
        Selection(sessions=("nowhere",)),
        Selection(tasks=("nowhere",)),
        Selection(origins=("nowhere",)),
        Selection(experiences=("nowhere",)),
        Selection(sessions=("",)),
    ],
)
def test_unknown_name_is_refused_and_nothing_happens(
    store: Store, session_id: str, path: Path, selection: Selection
) -> None:
    lineage(store, session_id)
    before = counts(path)
    with pytest.raises(NotFound):
        store.forget(selection)
    assert counts(path) == before


def test_lesson_is_retired_not_forgotten(store: Store, session_id: str) -> None:
    lineage(store, session_id)
    store.distil()
    ((name,),) = store._database.rows("SELECT node_id FROM digests WHERE rule = 'gain'")
    with pytest.raises(NotFound, match="kope db retire"):
        store.forget(Selection(experiences=(name,)))
