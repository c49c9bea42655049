"""An experience is shown with all that is linked to it; a memory's figures are what was counted; vectors change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kope.errors import NotFound, StoreError
from kope.memory import Prompt, RecallQuery, Selection, Store
from kope.memory.embedding import HashEmbedder
from kope.memory.learn import node_id_of
from tests.memory.samples import TWIN, attempt_of, begin, fails, grow, rows, works

HERE = TWIN.hardware


def test_surroundings_answer_why_what_came_of_it_and_what_else_was_tried(store: Store, session_id: str) -> None:
    root = attempt_of(session_id, 1, works(), move="draft")
    hit = attempt_of(session_id, 2, works(), parent=root, speedup=1.5, plan={"tile": 7}, used=(node_id_of(root.id),))
    sibling = attempt_of(session_id, 3, fails(), parent=root, move="longer-tile")
    child = attempt_of(session_id, 4, works(), parent=hit, speedup=1.6, move="in-place")
    for attempt in (root, hit, sibling, child):
        store.record(attempt)
    store.distil()
    found = store.surroundings(hit.id)
    assert found.node.attempt_id == hit.id
    assert [node.attempt_id for node in found.ancestors] == [root.id]
    assert [node.attempt_id for node in found.siblings] == [sibling.id]
    links = {(link.edge.kind, link.outward, link.other.attempt_id) for link in found.links}
    assert links == {
        ("led_to", False, root.id),
        ("led_to", True, child.id),
        ("used", True, root.id),
        ("contrasts", False, sibling.id),
        ("distilled_from", False, None),
    }
    assert found.journal.startswith("## rms_norm, attempt 2: double-buffer")
    assert store.surroundings(node_id_of(child.id)[:9]).ancestors == (found.ancestors[0], found.node)


def test_unknown_experience_is_named(store: Store, session_id: str) -> None:
    with pytest.raises(NotFound, match="no experiences begin with 'zz'"):
        store.surroundings("zz")


def test_stats_are_what_was_counted(store: Store, session_id: str) -> None:
    prompt = Prompt("write")
    first = attempt_of(session_id, 1, works(), thought="zebra", source="a")
    store.record(first, prompt=prompt)
    seen = node_id_of(first.id)
    store.record(attempt_of(session_id, 2, works(), thought="zebra", source="a", used=(seen,)), prompt=prompt)
    store.record(attempt_of(session_id, 3, works(), thought="lion", source="b", used=(seen,)), prompt=prompt)
    store.record(attempt_of(session_id, 4, works(), thought="okapi", source="c"))
    found = store.stats()
    assert (found.attempts, found.by_day, found.kinds) == (4, {"2026-01-02": 4}, {"attempt": 4})
    assert (found.hit_share, found.used_share, found.uses) == (pytest.approx(2 / 3), 0.25, 2)
    assert (found.repeated_share, found.echo_share) == (0.25, 0.5)
    assert (found.near_share, found.near_compared) == (0.5, 4)
    assert (found.stale_share, found.retired, found.by_hand) == (0.0, 0, 0)
    assert [rated.experience_id for rated in found.best] == [seen]
    store.retire(seen, True)
    assert (store.stats().retired, store.stats().by_hand) == (1, 1)


def test_attempts_of_an_older_evaluator_are_out_of_date(store: Store, session_id: str) -> None:
    from dataclasses import replace

    store.record(attempt_of(session_id, 1, works()))
    store.record(attempt_of(session_id, 2, works(), fingerprint=replace(TWIN, evaluator="rules-2")))
    assert store.stats().stale_share == 0.5


def test_stats_of_nothing(store: Store) -> None:
    found = store.stats()
    assert (found.attempts, found.kinds, found.hit_share, found.best) == (0, {}, 0.0, ())


# --- vectors --------------------------------------------------------------------------------------------------------


def filled(path: Path, count: int = 70) -> None:
    with Store.open(path, embedder=HashEmbedder(64)) as store:
        session_id = begin(store)
        grow(store, session_id, count)
        store.end_session(session_id, "done")


def test_reembedding_replaces_every_vector(path: Path) -> None:
    filled(path)
    told: list[tuple[int, int]] = []
    with Store.open(path, embedder=HashEmbedder(128)) as store:
        assert "have no vector of hash:128" in store.recall(RecallQuery(text="loop over tiles")).degraded
        done = store.reembed(lambda count, total: told.append((count, total)))
        assert store.recall(RecallQuery(text="loop over tiles")).degraded == ""
        assert store.check() == ()
        assert store.reembed() == 0
    assert told[-1] == (done, done)
    assert [count for count, _ in told] == sorted({count for count, _ in told})
    assert rows(path, "SELECT DISTINCT embedder, length(embedding) FROM nodes") == [("hash:128", 256)]
    with Store.open(path.with_name("same.db"), embedder=HashEmbedder(128)) as store:
        session_id = begin(store)
        grow(store, session_id, 70)
    sql = "SELECT n.embedding FROM nodes n JOIN attempts a ON a.id = n.attempt_id ORDER BY a.iteration"
    assert rows(path, sql) == rows(path.with_name("same.db"), sql)


def test_reembedding_that_was_stopped_goes_on(path: Path) -> None:
    filled(path)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with Store.open(path, embedder=HashEmbedder(128)) as store:
        with pytest.raises(KeyboardInterrupt):
            store.reembed(stop)
        ((first,),) = rows(path, "SELECT count(*) FROM nodes WHERE embedder = 'hash:128'")
        assert first == 64
        told: list[tuple[int, int]] = []
        store.reembed(lambda done, total: told.append((done, total)))
        assert store.recall(RecallQuery(text="loop over tiles")).degraded == ""
    ((both,),) = rows(path, "SELECT (SELECT count(*) FROM nodes) + (SELECT count(*) FROM edges WHERE kind = 'led_to')")
    assert told[-1][1] == both - 64


def test_reembedding_without_an_embedder_says_what_to_do(path: Path) -> None:
    filled(path, 3)
    with Store.open(path) as store, pytest.raises(StoreError, match="setting embedder"):
        store.reembed()


def test_vector_that_is_no_direction_is_not_kept_and_ranks_nothing(path: Path) -> None:
    class Broken(HashEmbedder):
        def embed(self, texts: object) -> object:  # type: ignore[override]
            return np.full((len(list(texts)), self.dim), np.nan, np.float32)  # type: ignore[call-overload]

    filled(path, 5)
    broken = Broken(64)
    broken.name = "broken"
    with Store.open(path, embedder=broken) as store:
        store.reembed()
        assert rows(path, "SELECT count(*) FROM nodes WHERE embedding IS NOT NULL") == [(0,)]
        assert store.recall(RecallQuery(text="loop over tiles")).items != ()
        assert store.check() == ()


def test_a_whole_id_is_meant_even_where_others_begin_with_it(store: Store, session_id: str) -> None:
    """Attempt 2 is not attempt 20."""
    for number in (2, 20):
        store.record(attempt_of(session_id, number, works()))
    name = f"{session_id}-rms_norm-2"
    assert store.surroundings(name).node.attempt_id == name
    assert store.attempt(name).id == name
    assert store.retire(name, True) == node_id_of(name)
    assert store.forget(Selection(experiences=(name,)), dry_run=True).attempts == (name,)
    with pytest.raises(NotFound, match="several"):
        store.surroundings(name[:-1])
