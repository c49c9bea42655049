"""What the function of a phase says after its nest and its views are declared, by the kind of the phase."""

from __future__ import annotations

from collections.abc import Callable

from kope.derive.nest.case_numbers import CaseNumbers
from kope.derive.nest.tile_code import TileCode
from kope.derive.nest.tiling import TileSize

FOLDS = {
    "sum": ("Add", "Sum", "0.0f"), "prod": ("Mul", "", "1.0f"),
    "amax": ("Max", "Max", "-INFINITY"), "amin": ("Min", "Min", "INFINITY"),
}  # fmt: skip
"""Instruction, name and neutral value of what folds."""


def body(made: CaseNumbers, at: int) -> list[str]:
    """Statements of phase `at`. Raises DeriveError when an operator has no instruction."""
    return _BODIES[made.phases(at)[0].kind](made, at)


def _map(made: CaseNumbers, at: int) -> list[str]:
    code = made.code(at)
    return [
        *_over_tiles(),
        "    const uint32_t count = tile.rows * nest.pitch;",
        *(f"    {line}" for line in code.lines),
        f"    Store(y, {code.result}, tile, nest.pitch);",
        "}",
    ]


def _reduce(made: CaseNumbers, at: int) -> list[str]:
    first = made.phases(at)[0]
    fold, name, neutral = FOLDS[first.op]
    code = made.code(at, 2)
    tail = [f"        FillTail({code.result}, tile, nest.pitch, {neutral});"] if first.across else []
    if first.across:
        store = [
            f"    FoldRows{name}(t[1], t[0], tile.rows, nest.pitch);",
            "    StoreRows(y, t[1], Place(y, tile), 0, 1, tile.rows, kLanes);",
        ]
    else:
        store = ["    Store(y, t[0], tile, nest.pitch);"]
    if first.down:
        return _reduce_down(code, fold, neutral)
    return [
        *_over_tiles(),
        "    const uint32_t count = tile.rows * nest.pitch;",
        f"    Duplicate(t[0], {neutral}, count);",
        *_over_folds(),
        *(f"        {line}" for line in code.lines),
        *tail,
        f"        {fold}(t[0], t[0], {code.result}, count);",
        "    }",
        *store,
        "}",
    ]


def _reduce_down(code: TileCode, fold: str, neutral: str) -> list[str]:
    """Rows are folded: as many as a tile holds side by side first, then these into the first one."""
    return [
        *_over_tiles(),
        f"    Duplicate(t[0], {neutral}, nest.rows * nest.pitch);",
        *_over_folds(),
        "        const uint32_t count = tile.rows * nest.pitch;",
        *(f"        {line}" for line in code.lines),
        f"        {fold}(t[0], t[0], {code.result}, count);",
        "    }",
        "    for (uint32_t rows = nest.rows; rows > 1; rows -= rows / 2) {  // the lower half onto the upper one",
        "        const uint32_t half = rows / 2 * nest.pitch;",
        f"        {fold}(t[0], t[0], t[0][rows * nest.pitch - half], half);",
        "    }",
        "    tile.at[kRow] = 0;",
        "    tile.rows = 1;",
        "    Store(y, t[0], tile, nest.pitch);",
        "}",
    ]


def _scan(made: CaseNumbers, at: int) -> list[str]:
    first = made.phases(at)[0]
    fold, _, neutral = FOLDS[first.op]
    code = made.code(at, 1)
    return [
        *_over_tiles(),
        "    const uint32_t count = tile.rows * nest.pitch;",
        f"    Duplicate(t[0], {neutral}, count);",
        *_over_folds(),
        *(f"        {line}" for line in code.lines),
        f"        {fold}(t[0], t[0], {code.result}, count);",
        "        Store(y, t[0], tile, nest.pitch);",
        "    }",
        "}",
    ]


def _contract(made: CaseNumbers, at: int) -> list[str]:
    depth = made.number([phase.depth for phase in made.phases(at)])
    step = made.tile(at, "depth")
    pitches = [TileSize(1, tiles[at].depth).pitch for tiles in made.tiles]
    return [
        f"const int64_t depth = {depth};",
        f"const int64_t step = {step};",
        f"const uint32_t depthPitch = {made.number(pitches, 'u')};",
        *_over_tiles(),
        "    const uint32_t count = tile.rows * nest.pitch;",
        "    Duplicate(t[0], 0.0f, count);",
        "    Duplicate(t[3], 0.0f, count);  // sums of few products first: their rounding errors are small",
        "    int64_t summed = 0;",
        *_over_folds(),
        "        for (int64_t k = 0; k < depth; k += step) {",
        "            const uint32_t deep = depth - k < step ? depth - k : step;",
        "            Tile left = tile;   // rows x what is summed over",
        "            left.at[kColumn] = k;",
        "            left.columns = deep;",
        "            Tile right = tile;  // what is summed over x columns",
        "            right.at[kRow] = k;",
        "            right.rows = deep;",
        "            Load(t[1], x0, left, depthPitch);",
        "            Load(t[2], x1, right, nest.pitch);",
        "            Multiply(t[3], t[1], t[2], tile.rows, deep, depthPitch, nest.pitch);",
        "            summed += deep;",
        "            if (summed >= kLanes) {",
        "                Add(t[0], t[0], t[3], count);",
        "                Duplicate(t[3], 0.0f, count);",
        "                summed = 0;",
        "            }",
        "        }",
        "    }",
        "    Add(t[0], t[0], t[3], count);",
        "    Store(y, t[0], tile, nest.pitch);",
        "}",
    ]


def _place(made: CaseNumbers, at: int) -> list[str]:
    """take: the first operand at places. put: the first operand to places of the result."""
    phases = made.phases(at)
    first = phases[0]
    count = len(first.operands) - 1
    run = made.number([phase.run for phase in phases])
    lines = [*_over_places(first.kind == "put")]
    lines += [f"    Load(t[{k}], x{k + 1}, tile, nest.pitch);" for k in range(count)]
    terms = []
    for k in range(count):
        extent = made.number([phase.wrap[k][0] for phase in phases])
        stride = made.number([phase.wrap[k][1] for phase in phases])
        terms.append(f"Wrapped(t[{k}], k, {extent}, {stride})")
    indexed, plain = ("y", "x0") if first.kind == "put" else ("x0", "y")
    lines += [
        "    Wait();",
        "    int64_t indexed[kPlaces];",
        "    int64_t plain[kPlaces];",
        "    for (uint32_t k = 0; k < tile.columns; ++k) {",
        f"        indexed[k] = Place({indexed}, tile) + k * {indexed}.stride[kColumn] + {' + '.join(terms)};",
        f"        plain[k] = Place({plain}, tile) + k * {plain}.stride[kColumn];",
        "    }",
    ]
    if first.kind == "put":
        atomic = {"add": "Add", "amax": "Max", "amin": "Min"}.get(first.op)
        lines += [f"    SetAtomic{atomic}<float>();"] if atomic else []
        lines.append(f"    MoveAny(y, x0, indexed, plain, tile.columns, {run});")
        lines += ["    SetAtomicNone();"] if atomic else []
    else:
        lines.append(f"    MoveAny(y, x0, plain, indexed, tile.columns, {run});")
    return [*lines, "}"]


def _over_tiles() -> list[str]:
    return [
        "for (int64_t number = GetBlockIdx(); number < TileCount(nest); number += GetBlockNum()) {",
        "    Tile tile = TileAt(nest, number);",
    ]


def _over_places(in_order: bool) -> list[str]:
    """Tiles of places. What is written goes in whole stretches to the cores, so that later places win on one core."""
    if not in_order:
        return _over_tiles()
    return [
        "const int64_t share = Pieces(TileCount(nest), GetBlockNum());",
        "const int64_t end = (GetBlockIdx() + 1) * share;",
        "const int64_t last = end < TileCount(nest) ? end : TileCount(nest);",
        "for (int64_t number = GetBlockIdx() * share; number < last; ++number) {",
        "    Tile tile = TileAt(nest, number);",
    ]


def _over_folds() -> list[str]:
    return [
        "    for (int64_t fold = 0; fold < FoldCount(nest); ++fold) {",
        "        FoldAt(nest, fold, tile);",
    ]


_BODIES: dict[str, Callable[[CaseNumbers, int], list[str]]] = {
    "map": _map, "reduce": _reduce, "scan": _scan, "contract": _contract, "take": _place, "put": _place,
}  # fmt: skip
