"""What a session looks up: changes, experiences in full, documentation - within what it may be told of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kope.context import Change
from kope.errors import NotFound
from kope.library import Library
from kope.lookup import NOTHING, SessionLookup
from kope.memory import MemoryMode, RecallQuery, Scope, Store
from kope.memory.embedding import HashEmbedder
from kope.memory.learn import node_id_of
from kope.model import Attempt, Candidate, Outcome, Proposal, Recall, Stage, State, Verdict
from kope.propose.gather import Request
from kope.session import SessionMemory
from tests.propose.states import FINGERPRINT, TASK, kernel

STATE = State(TASK, FINGERPRINT, 0, 1, None, None, None, (), Recall())


def attempt(session_id: str, number: int, source: str, parent: str | None, thought: str) -> Attempt:
    return Attempt(
        id=f"a{number}",
        session_id=session_id,
        iteration=number,
        task_name=TASK.name,
        task_digest=TASK.digest,
        candidate=Candidate.of(source),
        proposal=Proposal(source, "larger-tile", thought, parent_id=parent),
        outcome=Outcome(Stage.PROFILE, Verdict.VERIFIED),
        fingerprint=FINGERPRINT,
        proposer="test",
    )


def filled(path: Path) -> Store:
    """A database with a kernel, and another that came of it."""
    store = Store.open(path, embedder=HashEmbedder())
    session = store.begin_session("filled")
    store.add_task(TASK)
    store.record(attempt(session.id, 1, kernel(8), None, "first"))
    store.record(attempt(session.id, 2, kernel(16), "a1", "twice the tile"))
    return store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with filled(tmp_path / "kope.db") as opened:
        yield opened


def memory_of(store: Store, scope: Scope | None = None) -> SessionMemory:
    session = store.begin_session("looking", resume=False)
    return SessionMemory(store, session, FINGERPRINT, scope or Scope(session_id=session.id))


def test_change_is_what_the_attempt_did_to_its_parent(store: Store) -> None:
    memory = memory_of(store)
    child, root = store.experience(node_id_of("a2")), store.experience(node_id_of("a1"))
    assert memory.change_of(child) == Change(kernel(8), kernel(16), foreign=False)
    assert memory.change_of(replace(child, origin="shared.db")) == Change(kernel(8), kernel(16), foreign=True)
    assert memory.change_of(root) is None


def test_change_of_a_digest_is_the_code_it_was_distilled_to(store: Store) -> None:
    child = store.experience(node_id_of("a2"))
    digest = replace(child, kind="digest", attempt_id=None, before="int a;", after="int b;")
    assert memory_of(store).change_of(digest) == Change("int a;", "int b;", foreign=False)
    assert memory_of(store).change_of(replace(digest, before="", after="")) is None


def test_change_is_found_in_the_database_that_memory_is_limited_to(tmp_path: Path) -> None:
    with filled(tmp_path / "other.db") as other, Store.open(tmp_path / "own.db", embedder=HashEmbedder()) as own:
        memory = memory_of(own, Scope(MemoryMode.ONLY, source=other))
        assert memory.change_of(other.experience(node_id_of("a2"))) == Change(kernel(8), kernel(16))


def test_only_what_was_recalled_is_shown_in_full(store: Store) -> None:
    memory = memory_of(store)
    wanted = node_id_of("a2")
    with pytest.raises(NotFound, match="recall it first"):
        memory.shown(wanted[:8])
    memory.look_up(RecallQuery(text="twice the tile", hardware=FINGERPRINT.hardware))
    experience, source = memory.shown(wanted[:8])
    assert (experience.id, source) == (wanted, kernel(16))
    with pytest.raises(NotFound):
        memory.shown("")


def test_lookup_answers_each_kind_of_request(store: Store) -> None:
    library = Library(store)
    lookup = SessionLookup(memory_of(store), library)
    found = lookup(Request("recall", "twice the tile"), STATE)
    assert node_id_of("a2") in found.used and "larger-tile" in found.text
    shown = lookup(Request("show", f"[{node_id_of('a2')[:8]}]"), STATE)
    assert kernel(16) in shown.text and shown.used == (node_id_of("a2"),)
    assert "recall it first" in lookup(Request("show", "ffffffff"), STATE).text
    assert "[Ascend C guide/" in lookup(Request("docs", "DataCopyPad stride"), STATE).text
    assert lookup(Request("docs", "zxqj"), STATE).text == NOTHING
    library.close()


def test_session_without_memory_is_told_nothing(store: Store) -> None:
    memory = memory_of(store, Scope(MemoryMode.OFF, "another"))
    assert SessionLookup(memory, Library(None))(Request("recall", "twice the tile"), STATE).text == NOTHING
