"""A run of the loop as a program of its own, to be killed: `python -m tests.loop.killed_run FOLDER replay|twin CACHE`.

Prints "begin" before the first attempt and one line for each attempt that is recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kope.loop import Limits, Parts, TaskResult, optimize
from kope.memory import Scope, Store
from kope.model import Attempt, Task
from kope.propose.replay import ReplayProposer
from kope.session import SessionMemory, settings_key
from kope.task import load_task
from tests.replay_task import marked, replay_evaluator, write_task

SOURCES = [
    marked(10),
    marked(1, "wrong"),
    marked(6),
    marked(20),
    "no answer\n",
    marked(3, "fail=ub-overflow"),
    marked(6),
    marked(5),
    marked(20),
    marked(4.5),
]
TWIN_ATTEMPTS = 5


def tell(line: str) -> None:
    """Print a line at once: what was said before a kill counts."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Telling:
    """Prints what is recorded, at once."""

    def begin(self, task: Task, session_id: str, earlier: Sequence[Attempt]) -> None:
        tell("begin")

    def trying(self, task: Task, iteration: int, move: str) -> None:
        pass

    def attempt(self, task: Task, attempt: Attempt) -> None:
        tell(f"finished {attempt.id}")

    def end(self, result: TaskResult) -> None:
        pass


@contextmanager
def replay_session(folder: Path, cache: Path) -> Iterator[tuple[Task, Parts, Store]]:
    """A session on the replay target; fast, and without a compiler."""
    task = load_task(write_task(folder))
    judge = replay_evaluator(cache)
    fingerprint = judge.fingerprint()
    with Store.open(folder / "kope.db") as store:
        session = store.begin_session(settings_key([task], fingerprint, proposer="replay"))
        memory = SessionMemory(store, session, fingerprint, Scope(session_id=session.id))
        yield task, Parts(memory, ReplayProposer(SOURCES), judge, fingerprint, folder / "work"), store


@contextmanager
def twin_session(folder: Path, cache: Path) -> Iterator[tuple[Task, Parts, Store]]:
    """A session of the search on the twin, as the command line opens it."""
    from kope import config, resources, wiring

    settings = config.load({"db": folder / "kope.db", "cache": cache, "jobs": 1})
    task = load_task(resources.shipped_tasks() / "exp")
    with wiring.open_session([task], wiring.Plan(), settings) as opened:
        yield task, opened.parts, opened.store


def main() -> None:
    """Run, or go on, until the end."""
    folder, kind, cache = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    open_session, limits = (
        (replay_session, Limits(iterations=None)) if kind == "replay" else (twin_session, Limits(TWIN_ATTEMPTS))
    )
    with open_session(folder, cache) as (task, parts, store):
        (result,) = optimize([task], parts, limits, Telling())
        store.end_session(parts.memory.session_id, result.stop.value)


if __name__ == "__main__":
    main()
