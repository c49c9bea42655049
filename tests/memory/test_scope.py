"""What a session may be told of: all, its own, all with outcomes permuted, or what another database holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kope.errors import StoreError
from kope.memory import MemoryMode, RecallQuery, Scope, Store
from kope.memory.learn import node_id_of
from kope.model import Experience, MoveEvidence, Recall
from tests.memory.samples import TWIN, attempt_of, begin, fails, grow, task_of, works

HERE = TWIN.hardware
QUERY = RecallQuery(
    text="variant of the loop over tiles", task_name="rms_norm", hardware=HERE, traits=("elementwise",), limit=500
)


@pytest.fixture
def grown(store: Store, session_id: str) -> Iterator[tuple[Store, str]]:
    """An older session on two tasks, and one that goes on with the first of them. Yields its id."""
    grow(store, session_id, 25)
    grow(store, session_id, 25, task=task_of("layer_norm"))
    own = begin(store, key="own")
    grow(store, own, 10, seed=1)
    yield store, own


def by_id(recall: Recall) -> dict[str, Experience]:
    return {item.experience.id: item.experience for item in recall.items}


def outcome(node: Experience) -> tuple[object, ...]:
    return node.stage, node.works, node.label, node.speedup, node.step_ratio, node.downstream, node.confidence


def decision(node: Experience) -> str:
    return node.text.partition("\n")[0]


def lesson(node: Experience) -> str:
    return node.text.partition("\n")[2]


def move_outcome(move: MoveEvidence) -> tuple[object, ...]:
    return move.works, move.step_ratio, move.speedup, move.downstream, move.promoted


def test_off_shows_the_sessions_own_attempts_on_the_task(grown: tuple[Store, str]) -> None:
    store, own = grown
    recall = store.recall(QUERY, Scope(MemoryMode.OFF, own))
    expected = {node_id_of(f"{own}-rms_norm-{number}") for number in range(1, 11)}
    assert set(by_id(recall)) == expected
    assert {move.experience_id for move in recall.moves} <= expected
    assert len(recall.moves) == 10
    assert {node.id for node in recall.neighbours} <= expected
    assert store.recall(QUERY, Scope(MemoryMode.OFF)) == Recall()


def test_off_of_a_session_on_another_task_shows_that_task_only(grown: tuple[Store, str]) -> None:
    store, own = grown
    grow(store, own, 3, task=task_of("exp"))
    recall = store.recall(RecallQuery(text="variant", task_name="exp", limit=500), Scope(MemoryMode.OFF, own))
    assert {node.task_name for node in by_id(recall).values()} == {"exp"}


def test_placebo_permutes_outcomes_and_keeps_everything_else(grown: tuple[Store, str]) -> None:
    store, own = grown
    true = by_id(store.recall(QUERY, Scope(MemoryMode.ON, own)))
    placebo = by_id(store.recall(QUERY, Scope(MemoryMode.PLACEBO, own, seed=3)))
    assert set(placebo) == set(true)
    assert len(true) == 60
    assert Counter(map(outcome, placebo.values())) == Counter(map(outcome, true.values()))
    assert sum(outcome(placebo[name]) != outcome(true[name]) for name in true) > 30
    for name, node in placebo.items():
        other = true[name]
        same = (node.title, node.move, node.traits, node.task_name, node.hardware)
        assert same == (other.title, other.move, other.traits, other.task_name, other.hardware)


def test_placebo_has_the_same_lessons(grown: tuple[Store, str]) -> None:
    store, own = grown
    true = by_id(store.recall(QUERY, Scope(MemoryMode.ON, own)))
    placebo = by_id(store.recall(QUERY, Scope(MemoryMode.PLACEBO, own)))
    assert Counter(map(lesson, placebo.values())) == Counter(map(lesson, true.values()))


def test_placebo_tells_no_true_outcome_in_what_attempts_and_lessons_say(grown: tuple[Store, str]) -> None:
    """A reason names what gained before, a contrast which of two went well, a title of a lesson its failure."""
    store, own = grown
    other = begin(store, task_of("exp", ("elementwise",)), key="other")
    root = attempt_of(other, 1, works(), task=task_of("exp"), thought="it gained up to 7.77x on gelu")
    fast = attempt_of(other, 2, works(5.0), task=task_of("exp"), parent=root, speedup=2.0, thought="gained 7.77x")
    bad = attempt_of(other, 3, fails("wrong-value"), task=task_of("exp"), parent=root, thought="gained 7.77x")
    for attempt in (root, fast, bad):
        store.record(attempt)
    store.distil()
    for mode, tells in ((MemoryMode.ON, True), (MemoryMode.PLACEBO, False)):
        found = store.recall(replace(QUERY, text="gained 7.77x wrong-value"), Scope(mode, own))
        nodes = [*(item.experience for item in found.items), *found.neighbours]
        said = " ".join(f"{node.title} {decision(node)} {node.before} {node.after}" for node in nodes)
        assert {node.kind for node in nodes} == {"attempt", "digest"}
        assert ("7.77x" in said) == tells
        assert ("wrong-value" in said) == tells
        assert any(edge.kind == "contrasts" for edge in found.edges) == tells
        assert any("7.77x" in edge.text for edge in found.edges) == tells


def test_placebo_tells_one_story_per_experience(grown: tuple[Store, str]) -> None:
    """The lesson in words, the numbers of the node and the evidence on its move come from the same other attempt."""
    store, own = grown
    recall = store.recall(QUERY, Scope(MemoryMode.PLACEBO, own))
    nodes = by_id(recall)
    for node in nodes.values():
        assert lesson(node).startswith("Failed at") == (node.label == "negative" and node.speedup == 0.0)
        assert lesson(node).startswith("Verified") == node.works
    for move in recall.moves:
        node = nodes[move.experience_id]
        assert (move.step_ratio, move.speedup, move.downstream) == (node.step_ratio, node.speedup, node.downstream)


def test_placebo_leaves_the_sessions_own_attempts_as_they_are(grown: tuple[Store, str]) -> None:
    store, own = grown
    true = store.recall(QUERY, Scope(MemoryMode.ON, own))
    placebo = store.recall(QUERY, Scope(MemoryMode.PLACEBO, own))
    mine = {node_id_of(f"{own}-rms_norm-{number}") for number in range(1, 11)}
    assert {name: by_id(true)[name] for name in mine} == {name: by_id(placebo)[name] for name in mine}
    assert [move for move in true.moves if move.experience_id in mine] == [
        move for move in placebo.moves if move.experience_id in mine
    ]


def test_placebo_permutes_evidence_on_moves(grown: tuple[Store, str]) -> None:
    store, own = grown
    true = {move.experience_id: move for move in store.recall(QUERY, Scope(MemoryMode.ON, own)).moves}
    placebo = {move.experience_id: move for move in store.recall(QUERY, Scope(MemoryMode.PLACEBO, own)).moves}
    assert set(placebo) == set(true)
    assert Counter(map(move_outcome, placebo.values())) == Counter(map(move_outcome, true.values()))
    assert sum(move_outcome(placebo[name]) != move_outcome(true[name]) for name in true) > 30
    assert all((placebo[name].move, placebo[name].plan) == (true[name].move, true[name].plan) for name in true)


def test_placebo_depends_on_its_seed_alone(grown: tuple[Store, str]) -> None:
    store, own = grown
    first = store.recall(QUERY, Scope(MemoryMode.PLACEBO, own, seed=1))
    assert store.recall(QUERY, Scope(MemoryMode.PLACEBO, own, seed=1)) == first
    assert store.recall(QUERY, Scope(MemoryMode.PLACEBO, own, seed=2)) != first


def test_placebo_stays_while_the_session_goes_on(grown: tuple[Store, str]) -> None:
    store, own = grown
    before = by_id(store.recall(QUERY, Scope(MemoryMode.PLACEBO, own, seed=1)))
    store.record(attempt_of(own, 99, works()))
    after = by_id(store.recall(QUERY, Scope(MemoryMode.PLACEBO, own, seed=1)))
    theirs = {name for name in before if before[name].attempt_id and own not in str(before[name].attempt_id)}
    assert len(theirs) == 50
    assert {name: before[name] for name in theirs} == {name: after[name] for name in theirs}


def test_only_shows_the_other_database_and_own_attempts(tmp_path: Path) -> None:
    with Store.open(tmp_path / "other.db") as other:
        theirs = begin(other, task_of("layer_norm"))
        other.record(attempt_of(theirs, 1, works(), task=task_of("layer_norm"), thought="zebra"))
    before = (tmp_path / "other.db").read_bytes()
    with (
        Store.open(tmp_path / "kope.db") as store,
        Store.open(tmp_path / "other.db", create=False, read_only=True) as source,
    ):
        earlier, own = begin(store, key="a"), begin(store, key="b")
        store.record(attempt_of(earlier, 1, works(), thought="zebra"))
        store.record(attempt_of(own, 1, fails(), thought="zebra", promoted=False))
        query = RecallQuery(text="zebra", task_name="rms_norm", hardware=HERE)
        recall = store.recall(query, Scope(MemoryMode.ONLY, own, source=source))
        assert {item.experience.attempt_id for item in recall.items} == {f"{theirs}-layer_norm-1", f"{own}-rms_norm-1"}
        assert {move.task_name for move in recall.moves} == {"layer_norm", "rms_norm"}
        assert len(recall.moves) == 2
        assert recall.degraded == "no embedder"
        assert (
            len(store.recall(RecallQuery(text="zebra", limit=1), Scope(MemoryMode.ONLY, own, source=source)).items) == 1
        )
        with pytest.raises(StoreError, match="only:FILE"):
            store.recall(query, Scope(MemoryMode.ONLY, own))
    assert (tmp_path / "other.db").read_bytes() == before
    assert sorted(place.name for place in tmp_path.iterdir()) == ["kope.db", "other.db"]
