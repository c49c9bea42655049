"""Ascend C source of planned phases: one kernel per structure, what differs between cases in a table on the host."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kope.derive.body import number
from kope.derive.emit import tidy
from kope.derive.graph import Graph
from kope.derive.naming import identifiers
from kope.derive.nest.nests import AXES, Operand, Phase
from kope.derive.nest.planner import Plan
from kope.derive.nest.tile_code import TileCode, tile_code
from kope.derive.nest.tiling import FIRST_LIMITS, PLACES, Buffers, Limits, TileSize, buffers_for, tile_size
from kope.derive.nest.views import COUNT
from kope.derive.scalar import Scalar
from kope.derive.storage import CPP_TYPES, KOPE_TYPES
from kope.errors import DeriveError
from kope.model import Case, Task
from kope.render import render

CPP = CPP_TYPES | {"int64": "int64_t", "int16": "int16_t"}
KOPE = KOPE_TYPES | {"int64": "KOPE_INT64", "int16": "KOPE_INT16"}
_DTYPE_NUMBERS = {
    "float32": 0, "float16": 1, "bfloat16": 2, "int8": 3, "uint8": 4, "int32": 5, "int64": 6, "bool": 7, "int16": 8,
}  # fmt: skip
_FOLDS = {
    "sum": ("Add", "Sum", "0.0f"), "prod": ("Mul", "", "1.0f"),
    "amax": ("Max", "Max", "-INFINITY"), "amin": ("Min", "Min", "INFINITY"),
}  # fmt: skip
_ABSENT = 1000
"""Stands for the dtype of a tensor that is left out or has no elements: neither has an address."""
_SIZE_TYPES = {"f": "float", "u": "uint32_t", "n": "int64_t"}
_FNV_START, _FNV_PRIME, _WORD = 14695981039346656037, 1099511628211, (1 << 64) - 1


@dataclass
class Group:
    """Cases whose phases differ in numbers only."""

    plans: list[tuple[Case, Plan]] = field(default_factory=list)


def emit_nests(task: Task, plans: Sequence[tuple[Case, Plan]], limits: Limits = FIRST_LIMITS) -> str:
    """Return the source for the planned cases of a task. Raises DeriveError when buffers do not fit."""
    groups: dict[Any, Group] = {}
    for case, plan in plans:
        groups.setdefault(_key(plan), Group()).plans.append((case, plan))
    phases = [phase for _, plan in plans for phase in plan.phases]
    loads = {item.dtype for phase in phases for item in phase.operands if item.buffer != COUNT}
    stores = {phase.result.dtype for phase in phases}
    for dtype in loads | stores:
        if dtype not in CPP:
            raise DeriveError(f"dtype {dtype} has no vector path on this chip; {task.name} cannot be derived")
    buffers = buffers_for(phases, frozenset(loads | stores), limits)
    pointers = _pointers(task, max(plan.outputs for _, plan in plans))
    made = [_Printer(index, group, buffers, pointers).run(task) for index, group in enumerate(groups.values())]
    names = list(pointers.values())
    context = {
        "name": task.name,
        "reference": _reference(task),
        "tile": buffers.tile,
        "slots": buffers.slots,
        "masks": buffers.masks,
        "stage": buffers.stage,
        "packed": buffers.packed,
        "bytes": buffers.bytes,
        "loads": [{"kope": KOPE[d], "cpp": CPP[d]} for d in sorted(loads, key=_DTYPE_NUMBERS.__getitem__)],
        "stores": [{"kope": KOPE[d], "cpp": CPP[d]} for d in sorted(stores, key=_DTYPE_NUMBERS.__getitem__)],
        "reduces": any(phase.kind in ("reduce", "scan", "contract") for phase in phases),
        "contracts": any(phase.kind == "contract" for phase in phases),
        "places": any(phase.kind in ("take", "put") for phase in phases),
        "places_per_tile": PLACES,
        "rounds": any("RoundThrough" in line for group in made for p in group["phases"] for line in p["lines"]),
        "folds": _folds(phases),
        "groups": made,
        "parameters": ", ".join(f"GM_ADDR {name}" for name in names),
        "pointers": names,
        "arguments": [_argument(buffer) for buffer in pointers],
        "attrs": varying_attrs(task),
        "input_count": len(task.inputs),
    }
    return tidy(render("skeletons/nests.asc", k=context))


def _reference(task: Task) -> list[str]:
    lines = task.reference.rstrip().splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith("def ")), 0)
    return lines[start:]


def _folds(phases: Sequence[Phase]) -> list[dict[str, str]]:
    used = dict.fromkeys(phase.op for phase in phases if phase.kind == "reduce" and phase.across)
    return [{"call": _FOLDS[op][0], "name": _FOLDS[op][1]} for op in used]


def _pointers(task: Task, output_count: int) -> dict[str, str]:
    """C++ names of buffers. A list as output has as many as the case with the longest one."""
    inputs = identifiers(list(task.inputs), "In")
    names = [output.name for output in task.outputs]
    names += [f"{names[-1]}_{at}" for at in range(len(names), output_count)]
    outputs = identifiers(names[:output_count], "Out", inputs)
    made = {f"input:{at}": name for at, name in enumerate(inputs)}
    made |= {f"output:{at}": name for at, name in enumerate(outputs)}
    return made | {"workspace": identifiers(["workspace"], "Space", [*inputs, *outputs])[0]}


def _argument(buffer: str) -> str:
    kind, _, position = buffer.partition(":")
    if kind == "workspace":
        return "static_cast<GM_ADDR>(call->workspace)"
    return f"{kind.capitalize()}(call, {position})"


def _key(plan: Plan) -> Any:
    """What two plans of one kernel share."""
    loops = tuple((loop.first, loop.length) for loop in plan.loops)
    return loops, tuple(
        (
            phase.kind, phase.op, phase.across, phase.down, len(phase.wrap), phase.result.buffer,
            tuple(item.buffer for item in phase.operands),
            _expression_key(phase.expression) if phase.expression else None,
        )
        for phase in plan.phases
    )  # fmt: skip


def _expression_key(expression: Graph) -> Any:
    nodes = tuple(replace(node, line=0, expr=None) for node in expression.nodes)
    return nodes, expression.outputs


def _scalars(plan: Plan) -> list[float]:
    """Constants of all expressions, in order."""
    return [
        node.expr.value
        for phase in plan.phases
        if phase.expression is not None
        for node in phase.expression.nodes
        if node.expr is not None
    ]


class _Printer:
    """Prints the kernel of one group."""

    def __init__(self, index: int, group: Group, buffers: Buffers, pointers: Mapping[str, str]) -> None:
        self.index, self.group, self.buffers, self.pointers = index, group, buffers, pointers
        self.plans = [plan for _, plan in group.plans]
        self.tiles = [[tile_size(phase, buffers) for phase in plan.phases] for plan in self.plans]
        self.sizes: dict[tuple[str, tuple[float, ...]], str] = {}
        self.scalar_at = 0

    def run(self, task: Task) -> dict[str, Any]:
        """What the template reads."""
        phases = [self._phase(task, at) for at in range(len(self.plans[0].phases))]
        steps = self._steps()
        sizes = [{"type": _SIZE_TYPES[kind], "name": name} for (kind, _), name in self.sizes.items()]
        return {"index": self.index, "phases": phases, "steps": steps, "sizes": sizes, "rows": self._rows(task)}

    def _steps(self) -> list[dict[str, Any]]:
        """Phases in the order they run: single ones, and rounds of several with how often they come."""
        loops = {loop.first: at for at, loop in enumerate(self.plans[0].loops)}
        made: list[dict[str, Any]] = []
        at = 0
        while at < len(self.plans[0].phases):
            length, rounds = 1, ""
            if at in loops:
                same = [plan.loops[loops[at]] for plan in self.plans]
                length, rounds = same[0].length, self._number([loop.rounds for loop in same])
            made.append({"phases": list(range(at, at + length)), "rounds": rounds})
            at += length
        return made

    def _rows(self, task: Task) -> list[str]:
        rows = []
        for at, (case, plan) in enumerate(self.group.plans):
            numbers = [number(values[at]) if kind == "f" else str(int(values[at])) for kind, values in self.sizes] or [
                "0"
            ]
            signature = f"0x{signature_of(task, case):016x}ULL"
            rows.append(
                f"{{{signature}, {plan.workspace}, {plan.outputs}, {{{', '.join(numbers)}}}}},  // {_shapes(case)}"
            )
        return rows

    def _number(self, values: Sequence[float], kind: str = "n") -> str:
        """A number that may differ from case to case: written out, or the name of a field."""
        if len(set(values)) == 1 and values[0] == values[0]:
            return number(values[0]) if kind == "f" else str(int(values[0]))
        key = (kind, tuple(values))
        if key not in self.sizes:
            self.sizes[key] = f"{kind}{sum(k == kind for k, _ in self.sizes)}"
        return f"s.{self.sizes[key]}"

    def _phases(self, at: int) -> list[Phase]:
        return [plan.phases[at] for plan in self.plans]

    def _tile(self, at: int, name: str) -> str:
        return self._number([getattr(tiles[at], name) for tiles in self.tiles], "u")

    def _view(self, name: str, items: Sequence[Operand]) -> str:
        """The declaration of one operand."""
        first = items[0]
        if first.buffer == COUNT:
            base, dtype = "nullptr", "kCount"
        else:
            base = f"{self.pointers[first.buffer]}Address"
            same = len({item.dtype for item in items}) == 1
            dtype = KOPE[first.dtype] if same else self._number([_DTYPE_NUMBERS[item.dtype] for item in items])
        strides = ", ".join(self._number([item.strides[axis] for item in items]) for axis in range(AXES))
        offset = self._number([item.offset for item in items])
        if any(item.step for item in items):
            offset += f" + round * {self._number([item.step for item in items])}"
        return f"const View {name} = {{{base}, {dtype}, {offset}, {{{strides}}}}};"

    def _nest(self, at: int, *, reduces: bool) -> str:
        extents = ", ".join(self._number([phase.extents[axis] for phase in self._phases(at)]) for axis in range(AXES))
        tile = ", ".join(self._tile(at, name) for name in ("rows", "columns", "pitch"))
        first = self._phases(at)[0]
        flags = ", ".join("true" if flag else "false" for flag in (reduces, first.across, first.down))
        return f"const Nest nest = {{{{{extents}}}, {tile}, {flags}}};"

    def _phase(self, task: Task, at: int) -> dict[str, Any]:
        phases = self._phases(at)
        first = phases[0]
        reduces = first.kind in ("reduce", "scan", "contract")
        lines = [self._nest(at, reduces=reduces)]
        for k in range(len(first.operands)):
            lines.append(self._view(f"x{k}", [phase.operands[k] for phase in phases]))
        lines.append(self._view("y", [phase.result for phase in phases]))
        lines += {
            "map": self._map, "reduce": self._reduce, "scan": self._scan, "contract": self._contract,
            "take": self._place, "put": self._place,
        }[first.kind](at)  # fmt: skip
        moves = any(item.step for phase in phases for item in (*phase.operands, phase.result))
        return {"lines": lines, "comment": _comment(task, first), "moves": moves}

    def _expression(self, at: int) -> Graph:
        """The expression with constants that differ from case to case replaced by names."""
        graphs = [phase.expression for phase in self._phases(at)]
        first = graphs[0]
        assert first is not None
        nodes = []
        for place, node in enumerate(first.nodes):
            if node.expr is not None:
                values = [graph.nodes[place].expr.value for graph in graphs if graph]  # type: ignore[union-attr]
                if len(set(values)) > 1:
                    name = self._number(values, "f").removeprefix("s.")
                    node = replace(node, expr=Scalar("attr", name=name))
            nodes.append(node)
        return replace(first, nodes=tuple(nodes))

    def _code(self, at: int, first_slot: int = 0) -> Any:
        return tile_code(self._expression(at), self._text, first_slot)

    def _text(self, scalar: Scalar) -> str:
        """A scalar operand; expressions of sizes are computed for every case."""
        names = {name: values for (_, values), name in self.sizes.items()}
        count = len(self.plans)
        values = [scalar.evaluate({name: v[at] for name, v in names.items()}, {}) for at in range(count)]
        return self._number(values, "f")

    def _map(self, at: int) -> list[str]:
        code = self._code(at)
        return [
            *_over_tiles(),
            "    const uint32_t count = tile.rows * nest.pitch;",
            *(f"    {line}" for line in code.lines),
            f"    Store(y, {code.result}, tile, nest.pitch);",
            "}",
        ]

    def _reduce(self, at: int) -> list[str]:
        first = self._phases(at)[0]
        fold, name, neutral = _FOLDS[first.op]
        code = self._code(at, 2)
        tail = [f"        FillTail({code.result}, tile, nest.pitch, {neutral});"] if first.across else []
        if first.across:
            store = [
                f"    FoldRows{name}(t[1], t[0], tile.rows, nest.pitch);",
                "    StoreRows(y, t[1], Place(y, tile), 0, 1, tile.rows, kLanes);",
            ]
        else:
            store = ["    Store(y, t[0], tile, nest.pitch);"]
        if first.down:
            return self._reduce_down(code, fold, neutral)
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

    def _reduce_down(self, code: TileCode, fold: str, neutral: str) -> list[str]:
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

    def _scan(self, at: int) -> list[str]:
        first = self._phases(at)[0]
        fold, _, neutral = _FOLDS[first.op]
        code = self._code(at, 1)
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

    def _contract(self, at: int) -> list[str]:
        depth = self._number([phase.depth for phase in self._phases(at)])
        step = self._tile(at, "depth")
        pitches = [TileSize(1, tiles[at].depth).pitch for tiles in self.tiles]
        return [
            f"const int64_t depth = {depth};",
            f"const int64_t step = {step};",
            f"const uint32_t depthPitch = {self._number(pitches, 'u')};",
            *_over_tiles(),
            "    Duplicate(t[0], 0.0f, tile.rows * nest.pitch);",
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
            "            Multiply(t[0], t[1], t[2], tile.rows, deep, depthPitch, nest.pitch);",
            "        }",
            "    }",
            "    Store(y, t[0], tile, nest.pitch);",
            "}",
        ]

    def _place(self, at: int) -> list[str]:
        """take: the first operand at places. put: the first operand to places of the result."""
        phases = self._phases(at)
        first = phases[0]
        count = len(first.operands) - 1
        run = self._number([phase.run for phase in phases])
        lines = [*_over_places(first.kind == "put")]
        lines += [f"    Load(t[{k}], x{k + 1}, tile, nest.pitch);" for k in range(count)]
        terms = []
        for k in range(count):
            extent = self._number([phase.wrap[k][0] for phase in phases])
            stride = self._number([phase.wrap[k][1] for phase in phases])
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


def _comment(task: Task, phase: Phase) -> str:
    lines = task.reference.splitlines()
    if 0 < phase.line <= len(lines):
        return lines[phase.line - 1].strip()
    return ""


def _shapes(case: Case) -> str:
    parts = [
        "-" if item is None else f"{item.spec.dtype}{list(item.spec.shape)}".replace(" ", "") for item in case.inputs
    ]
    return " ".join(parts)[:80]


def varying_attrs(task: Task) -> list[str]:
    """Attributes that tell cases apart."""
    return [name for name in task.attrs if len({repr(_value(task, case, name)) for case in task.cases}) > 1]


def _value(task: Task, case: Case, name: str) -> Any:
    """An attribute as the call has it, None when it has none."""
    return (case.attrs or task.attrs).get(name)


def signature_of(task: Task, case: Case) -> int:
    """The number by which a call is recognised: what the emitted host code computes of it."""
    words: list[int] = []
    for item in case.inputs:
        if item is None:
            words += [_ABSENT, 0]
            continue
        dtype = _DTYPE_NUMBERS[item.spec.dtype] if item.spec.numel else _ABSENT
        words += [dtype, len(item.spec.shape), *item.spec.shape]
    for name in varying_attrs(task):
        words += _attr_words(_value(task, case, name))
    made = _FNV_START
    for word in words:
        made = ((made ^ word) * _FNV_PRIME) & _WORD
    return made


def _attr_words(value: Any) -> list[int]:
    if value is None:
        return [_ABSENT]
    if isinstance(value, str):
        return [*value.encode(), 256]
    if isinstance(value, (list, tuple)):
        return [len(value), *(_bits(item) for item in value)]
    return [_bits(value)]


def _bits(value: float) -> int:
    """A number as the bits of a double."""
    return int(struct.unpack("<Q", struct.pack("<d", float(value)))[0])
