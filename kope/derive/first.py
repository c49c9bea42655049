"""The first kernel of a task: correct, on all cores, with a tile that is sensible for anything, and nothing clever."""

from __future__ import annotations

from kope.derive.budget import fits
from kope.derive.capture import capture_graph
from kope.derive.emit import emit
from kope.derive.graph import Graph
from kope.derive.schedule import MIN_TILE, Schedule
from kope.errors import DeriveError
from kope.model import Task


def first_schedule(task: Task, graph: Graph) -> Schedule:
    """The default schedule, with a tile small enough for its buffers to fit.

    Raises DeriveError when even the smallest tile does not fit.
    """
    schedule = Schedule()
    while not fits(task, graph, schedule):
        if schedule.reuse and schedule.tile <= MIN_TILE:
            raise DeriveError(f"{task.name} needs more buffers than the unified buffer holds; split the operator")
        schedule = schedule.with_(tile=schedule.tile // 2) if schedule.tile > MIN_TILE else schedule.with_(reuse=True)
    return schedule


def first_kernel(task: Task) -> tuple[Graph, Schedule, str]:
    """Return graph, schedule and source. Raises DeriveError when the reference cannot be captured or lowered."""
    graph = capture_graph(task)
    schedule = first_schedule(task, graph)
    return graph, schedule, emit(task, graph, schedule)
