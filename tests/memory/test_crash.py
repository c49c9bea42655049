"""Killed at any moment or written by many at once, the database loses nothing it had acknowledged."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kope.memory import RecallQuery, Store
from tests.memory.samples import attempt_of, begin, grow, task_of, works

ROOT = Path(__file__).parents[2]


def start(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "tests.memory.writer", str(path), name, str(count)]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed(path: Path, name: str, after_s: float) -> list[str]:
    """Run a writer, kill it some time after it began; return what it had acknowledged."""
    program = start(path, name, 100_000)
    assert program.stdout is not None
    assert program.stdout.readline() == "begin\n", program.communicate()[1]
    time.sleep(after_s)
    program.send_signal(signal.SIGKILL)
    lines = program.communicate(timeout=60)[0].splitlines(keepends=True)
    return [line.strip() for line in lines if line.endswith("\n")]


def hold(path: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    acknowledged: set[str] = set()
    for number in range(kills):
        # On a busy machine writers may get nothing done in this time; the last one is given more.
        is_last_chance = not acknowledged and number == kills - 1
        acknowledged |= set(killed(path, str(number), 10.0 if is_last_chance else rng.uniform(0.0, 0.15)))
        with Store.open(path, create=False) as store:
            assert store.check() == ()
            assert acknowledged <= {attempt.id for attempt in store.attempts()}
        assert [place.name for place in path.parent.iterdir()] == [path.name]
    assert acknowledged


def test_killed_writer_loses_nothing_acknowledged(path: Path) -> None:
    hold(path, kills=12, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_killed_writer_loses_nothing_acknowledged_200_times(path: Path, seed: int) -> None:
    hold(path, kills=25, seed=seed)


def test_killed_while_the_database_is_made_leaves_one_that_opens(path: Path) -> None:
    rng = random.Random(5)
    for _ in range(6):
        program = start(path, "x", 1)
        time.sleep(rng.uniform(0.1, 0.6))
        program.send_signal(signal.SIGKILL)
        program.communicate(timeout=60)
        with Store.open(path) as store:
            assert store.check() == ()
        path.unlink()


def test_eight_writers_and_a_reader_at_once_lose_nothing(path: Path) -> None:
    """They also make the database together: none of them finds one."""
    programs = [start(path, f"writer-{number}", 20) for number in range(8)]
    seen = 0
    while any(program.poll() is None for program in programs):
        if path.exists() and path.stat().st_size:
            with Store.open(path) as store:
                recall = store.recall(RecallQuery(text="double buffer"))
                assert len(recall.moves) >= seen
                seen = len(recall.moves)
        time.sleep(0.05)
    answers = [program.communicate(timeout=60) for program in programs]
    assert [(program.returncode, err) for program, (_, err) in zip(programs, answers, strict=True)] == [(0, "")] * 8
    acknowledged = {line for out, _ in answers for line in out.splitlines() if line != "begin"}
    assert len(acknowledged) == 160
    with Store.open(path) as store:
        assert {attempt.id for attempt in store.attempts()} == acknowledged
        assert store.check() == ()
    assert [place.name for place in path.parent.iterdir()] == [path.name]


def test_threads_share_a_store(path: Path) -> None:
    with Store.open(path) as store:
        names = [f"task{number}" for number in range(4)]
        session_id = begin(store, *(task_of(name) for name in names))
        failures: list[BaseException] = []

        def work(name: str) -> None:
            try:
                grow(store, session_id, 15, task=task_of(name))
                store.recall(RecallQuery(text="variant of the loop", task_name=name))
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test has to see it
                failures.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(store.attempts()) == 60
        assert store.check() == ()


def test_writer_that_waits_too_long_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kope.errors import StoreError
    from kope.memory import database

    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)
    with Store.open(path) as first, Store.open(path) as second:
        session_id = begin(first)
        with first._database.write(), pytest.raises(StoreError, match="was busy for 0 s; repeat"):
            second.record(attempt_of(session_id, 1, works()))
        second.record(attempt_of(session_id, 1, works()))
        assert len(first.attempts()) == 1
