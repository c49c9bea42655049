"""From a kernel back to the schedule it was made with, by trying: which source of the schedule space is this one?

Only sources that KOPE's own generator made are recognised; nothing is read out of a foreign kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from kope.derive.emit import emit
from kope.derive.first import first_schedule
from kope.derive.graph import Graph
from kope.derive.moves import MOVES
from kope.derive.schedule import Schedule
from kope.errors import DeriveError
from kope.model import Task

_STEPS = 60
"""How many schedules are walked through before giving up; the way to a best kernel is a dozen moves long."""


def recognise(task: Task, graph: Graph, source: str) -> tuple[Schedule | None, int]:
    """Return the schedule whose kernel is this source, and how many lines differ from the nearest kernel found.

    Walks from the first kernel, always by the move that makes the text more like the source, and where none does, by
    the one that makes it least unlike and was not tried yet. None: no kernel on the way was the same; lines then says
    how far the nearest was.
    """
    wanted = _lines(source)

    def distance(schedule: Schedule) -> int | None:
        try:
            made = _lines(emit(task, graph, schedule))
        except DeriveError:
            return None
        return sum(((made - wanted) + (wanted - made)).values())

    at = first_schedule(task, graph)
    nearest = distance(at) or 0
    seen = {at}
    if nearest == 0:
        return at, 0
    for _ in range(_STEPS):
        tried = [
            (far, n, made)
            for n, made in enumerate(_around(task, graph, at, seen))
            if (far := distance(made)) is not None
        ]
        if not tried:
            break
        far, _, at = min(tried, key=lambda item: item[:2])
        seen.add(at)
        nearest = min(nearest, far)
        if far == 0:
            return at, 0
    return None, nearest


def _lines(source: str) -> Counter[str]:
    return Counter(line.strip() for line in source.splitlines() if line.strip())


def _around(task: Task, graph: Graph, schedule: Schedule, seen: set[Schedule]) -> Iterator[Schedule]:
    """Yield what is one move away, whether its buffers fit or not, and not tried yet."""
    for move in MOVES:
        for made in _both(move.change, task, graph, schedule):
            if made not in seen:
                yield made


def _both(
    change: Callable[[Task, Graph, Schedule], Schedule | None], task: Task, graph: Graph, schedule: Schedule
) -> Iterator[Schedule]:
    """Yield the schedule after a move and, where the move also touches the tile, with the tile as it was."""
    made = change(task, graph, schedule)
    if made is not None and made != schedule:
        yield made
        if made.tile != schedule.tile and made.with_(tile=schedule.tile) != schedule:
            yield made.with_(tile=schedule.tile)
