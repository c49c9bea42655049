"""The named moves of kernels of loop nests: one change of the schedule each, and why one would try it.

In the default order of a search that knows nothing yet. Whether a move changes the kernel at hand shows in its source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kope.derive.schedule import LANES, MAX_TILE, MIN_TILE, Schedule

MOST_ROWS = 64
"""Rows that are turned over have to fit into a block of what arrives from device memory."""
WIDEST_PRODUCT = 1024
"""The distance of rows in blocks of 8 floats has to fit into 8 bits."""

Change = Callable[[Schedule], "Schedule | None"]


@dataclass(frozen=True, slots=True)
class NestMove:
    """One transformation. fields: schedule fields it changes. change: None where it cannot apply."""

    name: str
    why: str
    fields: tuple[str, ...]
    change: Change


def _scaled(name: str, factor: float, low: int, high: int) -> Change:
    def change(schedule: Schedule) -> Schedule | None:
        value = int(getattr(schedule, name) * factor)
        return schedule.with_(**{name: value}) if low <= value <= high else None

    return change


def _switched_on(name: str) -> Change:
    return lambda schedule: None if getattr(schedule, name) else schedule.with_(**{name: True})


NEST_MOVES: tuple[NestMove, ...] = (
    NestMove("split-reduction", "a long reduction to few results is done in parts, so that all cores have work",
             ("split",), _switched_on("split")),
    NestMove("block-spread", "elements that meet rows stay in the vector unit: no waits, few instructions",
             ("spread",), lambda schedule: None if schedule.spread == "block" else schedule.with_(spread="block")),
    NestMove("larger-tile", "each copy and each wait has a fixed cost that a longer tile spreads over more elements",
             ("tile",), _scaled("tile", 2, MIN_TILE, MAX_TILE // 2)),
    NestMove("wider-products", "one multiplication of a product works on more columns",
             ("span",), _scaled("span", 2, LANES, WIDEST_PRODUCT)),
    NestMove("narrower-products", "narrower tiles of a product have more rows, so what they share is read less often",
             ("span",), _scaled("span", 0.5, LANES, WIDEST_PRODUCT)),
    NestMove("recompute-values", "what several nests read is computed in each of them: fewer phases and less traffic",
             ("recompute",), _switched_on("recompute")),
    NestMove("fewer-rows", "tiles of fewer rows give more cores work",
             ("rows",), _scaled("rows", 0.5, 1, MOST_ROWS)),
    NestMove("more-rows", "tiles of more rows share copies and waits",
             ("rows",), _scaled("rows", 2, 1, MOST_ROWS)),
    NestMove("smaller-tile", "shorter tiles give more cores work",
             ("tile",), _scaled("tile", 0.5, MIN_TILE, MAX_TILE // 2)),
)  # fmt: skip

NEST_FIELDS = frozenset(name for move in NEST_MOVES for name in move.fields)
"""Fields of a schedule that mean something to a kernel of loop nests."""
