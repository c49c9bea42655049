"""A suite run as a program of its own, to be killed: `python -m tests.suite.killed_suite FOLDER CACHE`.

Prints "begin" before the first task and one line for each result that is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kope import config, wiring
from kope.loop import Limits
from kope.memory import embedding
from kope.propose.replay import ReplayProposer
from kope.suite.run import Progress, in_order, open_run, run_suite
from kope.task import load_task
from tests.replay_task import marked, replay_target, write_task

SOURCES = [marked(10), marked(1, "wrong"), marked(6), marked(3, "fail=ub-overflow"), marked(5), marked(20)]
NAMES = ("double", "twice", "again")


def main(folder: Path, cache: Path) -> None:
    """Run, or go on, until the end."""
    wiring.target = lambda settings, *, progress=None: replay_target()  # type: ignore[assignment,return-value]
    wiring.proposer = lambda plan, settings, **more: ReplayProposer(SOURCES)  # type: ignore[assignment]
    embedding.find_embedder = embedding.HashEmbedder  # type: ignore[assignment]
    settings = config.load({"db": folder / "kope.db", "cache": cache, "jobs": 1})
    tasks = in_order([load_task(write_task(folder / "tasks", name)) for name in NAMES])
    plan, limits = wiring.Plan(), Limits(iterations=8)
    run = open_run(folder / "run", tasks, plan, limits, settings)

    def tell(progress: Progress) -> None:
        sys.stdout.write(f"kept {progress.record.task}\n")
        sys.stdout.flush()

    sys.stdout.write("begin\n")
    sys.stdout.flush()
    run_suite(run, tasks, plan, limits, settings, tell)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
