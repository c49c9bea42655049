"""A session in the database: what resuming depends on, and what each memory mode may start from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kope.loop import Limits, Parts, TaskResult, optimize
from kope.memory import MemoryMode, Scope, Store
from kope.report.progress import Silent
from kope.session import SessionMemory, settings_key
from tests.loop.fakes import FINGERPRINT, MarkerEvaluator, Script, marked, small_task


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "kope.db") as opened:
        yield opened


def run(store: Store, mode: MemoryMode, sources: list[str]) -> TaskResult:
    session = store.begin_session(f"{mode}", resume=False)
    memory = SessionMemory(store, session, FINGERPRINT, Scope(mode, session.id))
    parts = Parts(memory, Script(sources), MarkerEvaluator(), FINGERPRINT, Path("/nowhere"))
    with Silent() as watcher:
        (result,) = optimize([small_task()], parts, Limits(), watcher)
    store.end_session(session.id, result.stop.value)
    return result


def test_key_is_equal_exactly_when_resuming_makes_sense() -> None:
    task = small_task()
    key = settings_key([task], FINGERPRINT, seed=0, memory="on")
    assert key == settings_key([task], FINGERPRINT, memory="on", seed=0)
    others = [
        settings_key([task], FINGERPRINT, seed=1, memory="on"),
        settings_key([task], FINGERPRINT, seed=0, memory="off"),
        settings_key([task, task], FINGERPRINT, seed=0, memory="on"),
        settings_key([replace(task, digest="other")], FINGERPRINT, seed=0, memory="on"),
        settings_key([task], replace(FINGERPRINT, toolchain="other"), seed=0, memory="on"),
    ]
    assert len({key, *others}) == 6


def test_with_memory_on_a_session_goes_on_from_the_best_kernel_of_all(store: Store) -> None:
    first = run(store, MemoryMode.ON, [marked(10), marked(5)])
    second = run(store, MemoryMode.ON, [marked(4)])
    assert second.standing.baseline == first.standing.baseline
    (attempt,) = second.standing.history
    assert attempt.proposal.parent_id == first.standing.history[1].id
    assert (attempt.speedup, attempt.step_ratio, attempt.promoted) == (2.5, 1.25, True)


@pytest.mark.parametrize("mode", [MemoryMode.OFF, MemoryMode.PLACEBO])
def test_other_modes_start_from_nothing_of_other_sessions(store: Store, mode: MemoryMode) -> None:
    run(store, MemoryMode.ON, [marked(10), marked(5)])
    (attempt,) = run(store, mode, [marked(8)]).standing.history
    assert (attempt.proposal.parent_id, attempt.speedup, attempt.promoted) == (None, 1.0, True)


def test_attempts_come_back_from_the_database_as_they_were(store: Store) -> None:
    result = run(store, MemoryMode.ON, [marked(10), marked(1, "fail=crash"), marked(5)])
    assert store.attempts() == result.standing.history
