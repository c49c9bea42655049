"""A program that records attempts until it is killed: `python -m tests.memory.writer DB NAME COUNT`.

Prints "begin" once it is open, then the id of every attempt as soon as `record` has returned.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kope.memory import Store
from kope.memory.embedding import HashEmbedder
from tests.memory.samples import attempt_of, begin, works


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Record; every attempt starts from the one before, so that scores change all the way up."""
    path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with Store.open(path, embedder=HashEmbedder()) as store:
        session_id = begin(store, key=name)
        say("begin")
        parent = None
        for number in range(1, count + 1):
            attempt = attempt_of(session_id, number, works(), parent=parent, speedup=1.0 + number % 7 / 10)
            store.record(attempt, bottleneck="mte2")
            say(attempt.id)
            parent = attempt


if __name__ == "__main__":
    main()
