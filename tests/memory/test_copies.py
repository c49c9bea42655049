"""What came from elsewhere is forgotten with the copies that our own runs made of it, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.memory import Selection, Store
from kope.memory.learn import node_id_of
from kope.memory.share import import_file
from kope.model import Attempt
from tests.memory.samples import attempt_of, begin, task_of, works

LINES = [f"    Step{number}(x, y);" for number in range(40)]
SOURCE = "\n".join(["// hers", *LINES]) + "\n"


def changed(count: int, comment: str = "// ours") -> str:
    """The source with some lines changed and another comment."""
    return "\n".join([comment, *(f"    Other{number}(x);" for number in range(count)), *LINES[count:]]) + "\n"


@pytest.fixture
def hers(tmp_path: Path) -> Attempt:
    """A teammate's kernel, in hers.db."""
    with Store.open(tmp_path / "hers.db") as store:
        attempt = attempt_of(begin(store, task_of()), 1, works(), source=SOURCE)
        store.record(attempt)
    return attempt


def recorded(store: Store, session_id: str, number: int, source: str, used: tuple[str, ...] = ()) -> str:
    attempt = attempt_of(session_id, number, works(), source=source, used=used)
    store.record(attempt)
    return attempt.id


def test_copies_go_with_the_origin_and_nothing_else_does(hers: Attempt, tmp_path: Path) -> None:
    own = tmp_path / "own.db"
    import_file(own, tmp_path / "hers.db")
    node = node_id_of(hers.id)
    with Store.open(own) as store:
        session_id = begin(store, task_of(), key="ours")
        same = recorded(store, session_id, 2, SOURCE)
        nearly = recorded(store, session_id, 3, changed(3), (node,))
        far = recorded(store, session_id, 4, changed(20), (node,))
        by_chance = recorded(store, session_id, 5, changed(2))
        child = attempt_of(session_id, 6, works(), parent=store.attempt(nearly), source="int other;\n")
        store.record(child)
        (origin,) = {each.id for each in store.info().origins if each.trust == "quarantined"}
        found = store.forget(Selection(origins=(origin,)))
        assert set(found.attempts) == {hers.id, same, nearly, child.id}
        assert found.descendants == 3
        assert {attempt.id for attempt in store.attempts()} == {far, by_chance}
        assert store.check() == ()
    assert import_file(own, tmp_path / "hers.db").forgotten == 1


def test_copies_may_be_kept(hers: Attempt, tmp_path: Path) -> None:
    own = tmp_path / "own.db"
    import_file(own, tmp_path / "hers.db")
    with Store.open(own) as store:
        same = recorded(store, begin(store, task_of(), key="ours"), 2, SOURCE)
        (origin,) = {each.id for each in store.info().origins if each.trust == "quarantined"}
        assert store.forget(Selection(origins=(origin,), descendants=False)).attempts == (hers.id,)
        assert [attempt.id for attempt in store.attempts()] == [same]


def test_forgetting_our_own_takes_no_copies_along(tmp_path: Path) -> None:
    with Store.open(tmp_path / "own.db") as store:
        session_id = begin(store, task_of())
        first = recorded(store, session_id, 1, SOURCE)
        second = recorded(store, session_id, 2, SOURCE, (node_id_of(first),))
        assert store.forget(Selection(experiences=(node_id_of(first),))).attempts == (first,)
        assert [attempt.id for attempt in store.attempts()] == [second]
