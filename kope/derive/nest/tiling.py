"""How large the tiles of every phase are, so that buffers fit and all cores have work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kope.derive.nest.nests import COLUMN, CORES, LANES, ROW, Phase
from kope.derive.nest.tile_code import literal, tile_code

UB_BYTES = 188160
STAGE_BYTES = 32768
PLACES = 32
"""Places of take and put that are looked up together."""
LONGEST_FOLD = 2040
"""Floats of a row in a tile of several rows: repeat strides count blocks of 8 and are at most 255."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a schedule says of tiles.

    tile: elements of a buffer. rows: most rows of a tile; those that are turned over fit into a block of the stage up
    to 64. span: most columns of a tile of a product.
    """

    tile: int = 4096
    rows: int = 64
    span: int = 512


FIRST_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Buffers:
    """Buffers all phases of a kernel share. packed: bytes per element of the buffer for other types."""

    limits: Limits
    tile: int
    slots: int
    masks: int
    packed: int
    bytes: bool

    @property
    def stage(self) -> int:
        """Bytes of the stage."""
        return max(STAGE_BYTES, self.tile * self.packed)


@dataclass(frozen=True, slots=True)
class TileSize:
    """rows, columns and pitch of a tile; depth: of a contraction, what is multiplied at a time."""

    rows: int
    columns: int
    depth: int = 1

    @property
    def pitch(self) -> int:
        """Floats from row to row."""
        return rounded(self.columns)


def rounded(columns: int) -> int:
    """Up to whole repeats."""
    return max(LANES, -(-columns // LANES) * LANES)


def buffers_for(phases: Sequence[Phase], dtypes: frozenset[str], limits: Limits) -> Buffers:
    """The largest tile up to the wanted one with which all buffers fit."""
    tile = limits.tile
    needs = [slots_of(phase) for phase in phases]
    slots = max((slots for slots, _ in needs), default=1)
    masks = max((masks for _, masks in needs), default=0)
    packed = 8 if "int64" in dtypes else 4
    with_bytes = bool(dtypes & {"int8", "uint8", "bool"})
    while True:
        made = Buffers(limits, tile, slots, masks, packed, with_bytes)
        stage = made.stage * (2 if with_bytes else 1)
        if slots * tile * 4 + masks * tile // 8 + packed * tile + 4 * tile + stage + 1024 <= UB_BYTES or tile <= LANES:
            return made
        tile //= 2


def slots_of(phase: Phase) -> tuple[int, int]:
    """Buffers and bit masks a phase needs."""
    if phase.kind == "contract":
        return 4, 0
    if phase.kind in ("take", "put"):
        return max(1, len(phase.operands) - 1), 0
    assert phase.expression is not None
    code = tile_code(phase.expression, literal)
    extra = {"map": 0, "scan": 1, "reduce": 2}[phase.kind]
    return code.slots + extra, code.masks


def tile_size(phase: Phase, buffers: Buffers) -> TileSize:
    """Tile of one phase."""
    rows, columns = max(phase.extents[ROW], 1), max(phase.extents[COLUMN], 1)
    if phase.kind in ("take", "put"):
        return TileSize(1, min(columns, PLACES))
    if phase.kind == "contract":
        return _contract_size(phase, buffers, rows, columns)
    jumping = any(item.strides[COLUMN] not in (0, 1) and columns > 1 for item in phase.operands)
    most_columns = min(buffers.tile, LANES * 4) if jumping and rows > 1 else buffers.tile
    columns = min(columns, most_columns)
    if phase.kind != "reduce" or not phase.across:
        columns = _shared(phase, rows, columns)
    rows = min(rows, buffers.limits.rows, buffers.tile // rounded(columns))
    if phase.down:
        return TileSize(rows, columns)
    if rounded(columns) > LONGEST_FOLD and phase.across:
        rows = 1
    return TileSize(_spread_rows(phase, rows), columns)


def _outer(phase: Phase) -> int:
    count = 1
    for extent in phase.extents[: 3 if phase.kind in ("reduce", "scan", "contract") else ROW]:
        count *= extent
    return count


def _shared(phase: Phase, rows: int, columns: int) -> int:
    """Shorter columns where there would be fewer tiles than cores."""
    whole = max(phase.extents[COLUMN], 1)
    rows = 1 if phase.down else rows
    while columns > 4 * LANES and _outer(phase) * -(-whole // columns) * rows < CORES:
        columns = rounded(columns // 2)
    return columns


def _spread_rows(phase: Phase, rows: int) -> int:
    while rows > 1 and _outer(phase) * -(-phase.extents[ROW] // rows) < CORES:
        rows = (rows + 1) // 2
    return rows


def _contract_size(phase: Phase, buffers: Buffers, rows: int, columns: int) -> TileSize:
    columns = min(columns, buffers.limits.span, buffers.tile)
    pitch = rounded(columns)
    depth = min(phase.depth, buffers.tile // pitch, LANES)
    rows = min(rows, buffers.tile // pitch, buffers.tile // rounded(depth), buffers.limits.rows)
    return TileSize(max(1, _spread_rows(phase, rows)), columns, max(1, depth))
