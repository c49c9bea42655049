"""How long does making a prompt take, from a memory of made-up attempts?

    scripts/bench prompt [--attempts 100000] [--folder DIR] [--repeats 20]

Recall, documentation and assembly together, warm: the database is open and its vectors are in memory. The query's own
embedding is kept from call to call and so left out. The database is made once, in DIR.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from filled import HERE, Quick, attempts, filled, task_number
from measure import machine, timed

from kope.context import Assembled, Briefing, Budget, Sources, assemble
from kope.library import Library
from kope.memory import Scope, Store
from kope.model import Recall, State
from kope.propose.search import bound_by
from kope.session import SessionMemory


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "kope-bench")
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    with Store.open(filled(options.folder / f"{options.attempts}.db", options.attempts), embedder=Quick()) as store:
        session = store.begin_session("prompt", resume=False)
        memory = SessionMemory(store, session, HERE, Scope(session_id=session.id))
        library = Library(store)
        best = next(
            each for each in itertools.islice(attempts(400, session.id), 400) if each.speedup and each.candidate
        )
        task = task_number(0)
        sources = Sources(passages=library.search, change_of=memory.change_of, bound_by=bound_by)
        briefing = Briefing("twin", "vector_core_count = 48")

        def make() -> Assembled:
            state = State(task, HERE, 0, 2, best, best, best, (best,), Recall())
            return assemble(replace(state, recall=memory.recall(state)), briefing, Budget(), sources)

        made = make()
        times = timed(make, repeats=options.repeats)
        began = time.process_time()
        for _ in range(options.repeats):
            make()
        busy_s = (time.process_time() - began) / options.repeats
        print(f"{options.attempts} attempts: {times}, {busy_s * 1e3:.1f} ms of processor time on average,")
        print(f"per prompt of {made.tokens} tokens;")
        print(f"{len(made.used)} experiences and {sum(line.tier == 'cold' for line in made.ledger)} cold items offered")
        print(machine())
        library.close()


if __name__ == "__main__":
    main()
