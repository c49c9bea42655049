"""The named moves of the schedule space: one change each, with what must hold for it and why one would try it.

Their order here is the default order of a search that knows nothing yet: first what overlaps and amortises copies,
then what batches rows, then what saves vector instructions, last what is a gamble. A move that does not change the
source, or whose buffers would not fit, is not applicable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kope.derive.budget import fits
from kope.derive.graph import REDUCE, Graph
from kope.derive.program import ROUND_STEPS
from kope.derive.schedule import MAX_ROWS, MAX_TILE, MIN_TILE, Schedule
from kope.errors import DeriveError
from kope.model import Task

NEST_ONLY = ("span", "recompute", "split")
"""Fields of a schedule that mean nothing to a kernel of one fused tile."""

Change = Callable[[Task, Graph, Schedule], "Schedule | None"]


@dataclass(frozen=True, slots=True)
class Move:
    """One transformation. why: one sentence. fields: schedule fields it changes. change: None when it cannot apply."""

    name: str
    why: str
    fields: tuple[str, ...]
    change: Change

    def apply(self, task: Task, graph: Graph, schedule: Schedule) -> Schedule | None:
        """The changed schedule, or None when a precondition fails or the buffers would not fit.

        Where only the buffers are in the way of a move that is not about the tile, values share buffers and the tile is
        shortened to make room.
        """
        changed = self.change(task, graph, schedule)
        if changed is None or changed == schedule:
            return None
        try:
            if "tile" in self.fields:
                return changed if fits(task, graph, changed) else None
            return made_to_fit(task, graph, changed)
        except DeriveError:
            return None


def made_to_fit(task: Task, graph: Graph, schedule: Schedule) -> Schedule | None:
    """The schedule itself, with buffers shared, or with a shorter tile too; None when even that does not fit."""
    if not fits(task, graph, schedule):
        schedule = schedule.with_(reuse=True)
    while not fits(task, graph, schedule):
        if schedule.tile <= MIN_TILE:
            return None
        schedule = schedule.with_(tile=schedule.tile // 2)
    return schedule


def matters(graph: Graph, name: str) -> bool:
    """Whether a field of the schedule can change the kernel of a graph."""
    if name in ("rows", "reduction", "spread", "columns"):
        if graph.flat:
            return False
        if name == "reduction":
            return any(node.op in REDUCE for node in graph.nodes)
        return name != "columns" or any(node.op == "load" and node.space == "col" for node in graph.nodes)
    return name not in NEST_ONLY and (name != "precision" or graph.flat)


def _set(name: str, value: object, only: Callable[[Task, Graph, Schedule], bool] | None = None) -> Change:
    def change(task: Task, graph: Graph, schedule: Schedule) -> Schedule | None:
        if only is not None and not only(task, graph, schedule):
            return None
        return schedule.with_(**{name: value})

    return change


def _scale(
    name: str, factor: float, low: int, high: int, only: Callable[[Task, Graph, Schedule], bool] | None = None
) -> Change:
    def change(task: Task, graph: Graph, schedule: Schedule) -> Schedule | None:
        value = int(getattr(schedule, name) * factor)
        if not low <= value <= high or (only is not None and not only(task, graph, schedule)):
            return None
        return schedule.with_(**{name: value})

    return change


def _include(name: str, value: str, only: Callable[[Task, Graph, Schedule], bool] | None = None) -> Change:
    def change(task: Task, graph: Graph, schedule: Schedule) -> Schedule | None:
        held = getattr(schedule, name)
        if value in held or (only is not None and not only(task, graph, schedule)):
            return None
        return schedule.with_(**{name: tuple(sorted((*held, value)))})

    return change


def _reuse(task: Task, graph: Graph, schedule: Schedule) -> Schedule | None:
    if schedule.reuse:
        return None
    longer = schedule.with_(reuse=True, tile=min(schedule.tile * 2, MAX_TILE))
    return longer if fits(task, graph, longer) else schedule.with_(reuse=True)


def _rows(task: Task, graph: Graph, schedule: Schedule) -> bool:
    return not graph.flat


def _reduces(task: Task, graph: Graph, schedule: Schedule) -> bool:
    return any(node.op in REDUCE for node in graph.nodes)


def _many_rows(task: Task, graph: Graph, schedule: Schedule) -> bool:
    return not graph.flat and schedule.rows > 1


def _has_columns(task: Task, graph: Graph, schedule: Schedule) -> bool:
    return any(node.op == "load" and node.space == "col" for node in graph.nodes)


def _half_is_enough(task: Task, graph: Graph, schedule: Schedule) -> bool:
    """Float16 cases exist, nothing is reduced, rounded to whole numbers or held in another float type."""
    floats = {item.spec.dtype for case in task.cases for item in case.inputs if item is not None}
    uniform = all(
        len({item.spec.dtype for item in case.inputs if item is not None and "float" in item.spec.dtype}) <= 1
        for case in task.cases
    )
    plain = all(node.op not in (*REDUCE, *ROUND_STEPS, "cast") for node in graph.nodes)
    return graph.flat and "float16" in floats and uniform and plain


def _more_rows(task: Task, graph: Graph, schedule: Schedule) -> Schedule | None:
    rows = min(schedule.rows * 4, MAX_ROWS)
    return None if graph.flat or rows == schedule.rows else schedule.with_(rows=rows)


def _fewer_rows(task: Task, graph: Graph, schedule: Schedule) -> Schedule | None:
    return None if graph.flat or schedule.rows == 1 else schedule.with_(rows=max(schedule.rows // 2, 1))


MOVES: tuple[Move, ...] = (
    Move("double-buffer", "the next tile is copied in while this one is computed and the last one copied out",
         ("buffers",), _set("buffers", 2)),
    Move("larger-tile", "each copy and each instruction has a fixed cost that a longer tile spreads over more elements",
         ("tile",), _scale("tile", 2, MIN_TILE, MAX_TILE)),
    Move("more-rows", "several short rows in one tile share copies, instructions and waits",
         ("rows",), _more_rows),
    Move("reuse-buffers", "values that are not needed any more give their buffers back: room for a tile twice as long",
         ("reuse", "tile"), _reuse),
    Move("resident-columns", "per-column tensors are the same for all rows: copied and widened once per core",
         ("columns",), _set("columns", "resident", _has_columns)),
    Move("reciprocal-rows", "one division per row instead of one per element",
         ("rewrites",), _include("rewrites", "reciprocal-rows", _rows)),
    Move("accumulate-reduction", "one instruction adds up all repeats of a row, instead of one per halving",
         ("reduction",), _set("reduction", "accumulate", lambda t, g, s: _reduces(t, g, s) and s.reduction == "fold")),
    Move("strip-reduction", "short rows of a tile are reduced together, one instruction per strip of all of them",
         ("reduction",), _set("reduction", "strips", lambda t, g, s: _reduces(t, g, s) and _many_rows(t, g, s))),
    Move("block-spread", "row values stay in the vector unit: no waits, few instructions",
         ("spread",), _set("spread", "block", _rows)),
    Move("aligned-copy", "whole blocks are moved by the plain copy, and rows without gaps by a single one",
         ("copy",), _set("copy", "aligned")),
    Move("fold-scalars", "scalar factors of a product are multiplied on the host, not per element",
         ("rewrites",), _include("rewrites", "fold-scalars")),
    Move("tanh-as-sigmoid", "1 + tanh(z) = 2 sigmoid(2 z) needs fewer instructions",
         ("rewrites",), _include("rewrites", "tanh-as-sigmoid")),
    Move("merge-divisions", "a product with a quotient of a scalar is one division",
         ("rewrites",), _include("rewrites", "merge-divisions")),
    Move("rational-tanh", "tanh(log(1 + e)) is a quotient of polynomials in e: one exponential in all",
         ("rewrites",), _include("rewrites", "rational-tanh")),
    Move("one-pass-variance", "sum and sum of squares are formed in the same visit of the row",
         ("rewrites",), _include("rewrites", "one-pass-variance", _reduces)),
    Move("axpy", "a product with a scalar and an addition are one instruction",
         ("choices",), _include("choices", "axpy")),
    Move("fused-multiply-add", "a product and an addition are one instruction",
         ("choices",), _include("choices", "fused-multiply-add")),
    Move("native-half", "float16 runs at twice the rate of float32 and needs no conversion; accuracy may not suffice",
         ("precision",), _set("precision", "native", _half_is_enough)),
    Move("coarser-grain", "small tensors on fewer cores: less to start, no shared blocks",
         ("grain",), _scale("grain", 4, 64, 16384)),
    Move("approximate-reciprocal", "the reciprocal instruction is cheaper than a division; accuracy may not suffice",
         ("choices",), _include("choices", "approximate-reciprocal")),
    Move("call-reduction", "one call reduces a row; it adds repeats one after the other, so accuracy may not suffice",
         ("reduction",), _set("reduction", "call", _reduces)),
    Move("smaller-tile", "more tiles per core overlap better when a core has few of them",
         ("tile",), _scale("tile", 0.5, MIN_TILE, MAX_TILE)),
    Move("fewer-rows", "tiles of fewer rows overlap better when a core has few of them",
         ("rows",), _fewer_rows),
    Move("finer-grain", "small tensors on more cores",
         ("grain",), _scale("grain", 0.25, 64, 16384)),
)  # fmt: skip

BY_NAME = {move.name: move for move in MOVES}
