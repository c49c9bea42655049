"""What one session recorded is in the bytes of another's next prompt, in every mode that claims memory."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from kope import config, wiring
from kope.loop import state_of
from kope.memory import Store
from kope.memory.embedding import HashEmbedder
from kope.model import Fingerprint, Task
from kope.task import find_task, shipped_folder
from tests.memory.samples import attempt_of, works

WORD = "okapi4711"


@pytest.fixture
def task() -> Task:
    return find_task("sigmoid", [shipped_folder()])


def planted(path: Path, task: Task, fingerprint: Fingerprint) -> str:
    """A database with one session's kernel and a better one made from it; returns the better one's experience."""
    with Store.open(path, embedder=HashEmbedder(64)) as store:
        store.add_task(task)
        session_id = store.begin_session("planted").id
        root = attempt_of(session_id, 1, works(), task=task, move="draft", fingerprint=fingerprint)
        store.record(root)
        better = attempt_of(
            session_id, 2, works(), task=task, parent=root, speedup=1.5, thought=WORD, fingerprint=fingerprint
        )
        made = store.record(better)
        store.end_session(session_id, "done")
    return made.id


def prompt(settings: config.Settings, task: Task, memory: str) -> tuple[str, tuple[str, ...]]:
    """The prompt that a new session would send first, and the experiences that it says are in it."""
    with wiring.open_view(wiring.Plan(proposer="llm", memory=memory), settings) as opened:
        parts = opened.parts
        state = state_of(task, opened.memory.standing(task), parts)
        state = replace(state, incumbent=None, baseline=None, recall=opened.memory.recall(state))
        assert parts.assemble is not None
        made = parts.assemble(state)
        return made.text, made.used


@pytest.mark.parametrize(
    ("memory", "told", "why"),
    [
        ("on", True, True),
        ("starter", True, True),
        ("placebo", True, False),  # its reason could tell what gained before
        ("only:other.db", True, True),
        ("off", False, False),
    ],
)
def test_planted_experience_is_in_the_next_prompt(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str, told: bool, why: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOPE_EMBEDDER", "none")
    settings = config.load({"db": tmp_path / ("other.db" if memory != "only:other.db" else "own.db")})
    fingerprint = wiring.evaluator(settings).fingerprint()
    name = planted(tmp_path / "other.db", task, fingerprint)
    if memory.startswith("only"):
        Store.open(tmp_path / "own.db").close()
    before = hashlib.sha256((tmp_path / "other.db").read_bytes()).hexdigest()
    text, used = prompt(settings, task, memory)
    assert (WORD in text, name in used) == (why, told)
    assert ("starter" in text) == (memory == "starter")
    if memory != "only:other.db":
        return
    assert hashlib.sha256((tmp_path / "other.db").read_bytes()).hexdigest() == before
