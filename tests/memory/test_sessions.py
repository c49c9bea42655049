"""Sessions end once; one that never did is taken up by the same settings when its process is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kope.errors import NotFound, StoreError
from kope.memory import Prompt, Store
from tests.memory.samples import begin, task_of

BEGIN = """
import os, sys
from pathlib import Path
from kope.memory import Store
store = Store.open(Path(sys.argv[1]))
print(store.begin_session("key", {"seed": 1}).id, flush=True)
if len(sys.argv) > 2:
    sys.stdin.read()
os._exit(9)
"""


def begun_elsewhere(path: Path) -> str:
    done = subprocess.run([sys.executable, "-c", BEGIN, str(path)], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 9
    return done.stdout.strip()


def test_session_of_a_dead_process_is_taken_up(path: Path) -> None:
    first = begun_elsewhere(path)
    with Store.open(path) as store:
        session = store.begin_session("key")
        assert (session.id, session.resumed, session.info) == (first, True, {"seed": 1})


def test_session_of_a_living_process_is_left_alone(path: Path) -> None:
    argv = [sys.executable, "-c", BEGIN, str(path), "wait"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        first = program.stdout.readline().strip()
        with Store.open(path) as store:
            session = store.begin_session("key")
        assert (session.id != first, session.resumed) == (True, False)
        program.communicate("")


def test_other_settings_or_the_wish_for_a_new_one_begin_anew(path: Path) -> None:
    first = begun_elsewhere(path)
    with Store.open(path) as store:
        assert store.begin_session("other").id != first
        assert store.begin_session("key", resume=False).id != first
        assert store.sessions()[0].id == first


def test_ended_session_is_not_taken_up(path: Path) -> None:
    first = begun_elsewhere(path)
    with Store.open(path) as store:
        store.end_session(first, "iterations")
        assert not store.begin_session("key").resumed
        ended = store.sessions()[0]
        assert (ended.id, ended.end_reason, bool(ended.ended_at)) == (first, "iterations", True)
        with pytest.raises(NotFound, match="no session nowhere"):
            store.end_session("nowhere", "")


def test_same_process_takes_up_its_own_session(path: Path) -> None:
    with Store.open(path) as store:
        first = store.begin_session("key").id
    with Store.open(path) as store:
        assert store.begin_session("key").id == first


def test_ask_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    session_id = begin(store)
    ask = store.ask(session_id, task_of().digest, Prompt("Write."), used=("a", "b"), parent_id="p")
    assert store.asked(ask.id) == store.asked(ask.id[:6]) == ask
    assert (ask.task_name, ask.used, ask.parent_id) == ("rms_norm", ("a", "b"), "p")
    assert store.prompt(ask.prompt_id) == "Write."
    for unknown in ("", "zz", "\udc80"):
        with pytest.raises(NotFound, match="no ask begins with"):
            store.asked(unknown)
    with pytest.raises(StoreError, match="add it before asking"):
        store.ask(session_id, "unknown", Prompt("Write."))


def test_task_is_kept_as_it_was_first_seen(store: Store) -> None:
    store.add_task(task_of())
    store.add_task(task_of())
    assert store.info().counts["tasks"] == 1
