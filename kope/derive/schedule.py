"""How a graph is turned into a kernel: the point of the schedule space a candidate stands for.

A schedule says nothing about what is computed. It is the `plan` of the search's proposals, so it is JSON-able and
tolerant of fields it does not know (plans of an older or newer KOPE).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

LANES = 64
"""float32 elements one vector instruction handles per repeat; tiles are multiples of it."""

MIN_TILE = 512
MAX_TILE = 32768
MAX_ROWS = 240
"""Rows of one tile. An instruction repeats at most 255 times; a multiple of 8 keeps row values in whole blocks."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One way to run a graph.

    tile: elements of one tile of the unified buffer, per tensor.
    buffers: 1, or 2 to copy the next tile while this one is computed.
    grain: least elements a core is given; small tensors then use fewer cores.
    rows: most rows in one tile (kernels with rows, and loop nests).
    precision: "float" computes in float32 throughout, "native" computes float16 tensors in float16.
    reuse: a value may take over the buffer of an operand that is not needed any more.
    copy: "pad" copies by DataCopyPad always, "aligned" by DataCopy where the length allows it.
    columns: "reload" loads per-column tensors with every tile, "resident" once per core.
    reduction: how a row comes down to one repeat. "fold" halves it by full-rate additions, "accumulate" adds all its
        repeats in one instruction, "strips" does that for all short rows of a tile together, "call" is one ReduceSum or
        ReduceMax per row.
    spread: how a row value meets its columns: "scalar" reads it back and uses it as a scalar operand, "block" fills a
        32-byte block with it that the instruction repeats.
    span: most columns of a tile of a product (loop nests).
    recompute: what several loop nests read is computed in each of them instead of being stored.
    split: long reductions of loop nests to few results are done in parts, for all cores.
    rewrites: names of rewrite.REWRITES. choices: instruction choices of lowering.
    """

    tile: int = 1024
    buffers: int = 1
    grain: int = 256
    rows: int = 1
    precision: str = "float"
    reuse: bool = False
    copy: str = "pad"
    columns: str = "reload"
    reduction: str = "fold"
    spread: str = "scalar"
    span: int = 512
    recompute: bool = False
    split: bool = False
    rewrites: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    def to_plan(self) -> dict[str, Any]:
        """JSON-able form, every field."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @staticmethod
    def from_plan(plan: Mapping[str, Any]) -> Schedule:
        """Read a plan; unknown fields are ignored, missing ones have their defaults.

        Raises ValueError for a value of the wrong type.
        """
        known: dict[str, Any] = {}
        for field in fields(Schedule):
            if field.name in plan:
                known[field.name] = _checked(field.name, plan[field.name])
        return Schedule(**known)

    def with_(self, **changes: Any) -> Schedule:
        """A copy with some fields changed."""
        return replace(self, **changes)


_DEFAULT = Schedule()
_WORDS = {
    "precision": ("float", "native"),
    "copy": ("pad", "aligned"),
    "columns": ("reload", "resident"),
    "reduction": ("fold", "accumulate", "strips", "call"),
    "spread": ("scalar", "block"),
}


def _checked(name: str, value: Any) -> Any:
    default = getattr(_DEFAULT, name)
    if isinstance(default, tuple):
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"{name} of a plan must be a list of names, not {value!r}")
        return tuple(sorted(value))
    if type(value) is not type(default) or (name in _WORDS and value not in _WORDS[name]):
        raise ValueError(f"{name} of a plan cannot be {value!r}")
    if isinstance(value, int) and not isinstance(value, bool) and value < 1:
        raise ValueError(f"{name} of a plan must be at least 1, not {value}")
    return value
