"""Numbers of a kernel that stands for several cases: written out where all agree, fields of a table otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kope.derive.body import number as literal_number
from kope.derive.graph import Graph
from kope.derive.nest.nests import Phase
from kope.derive.nest.planner import Plan
from kope.derive.nest.tile_code import TileCode, tile_code
from kope.derive.nest.tiling import Buffers, tile_size
from kope.derive.scalar import Scalar


class CaseNumbers:
    """Plans of the same phases, the tiles of each, and the fields they need: by kind and value per plan a name.

    Kinds: "n" an int64_t, "u" an uint32_t, "f" a float.
    """

    def __init__(self, plans: Sequence[Plan], buffers: Buffers) -> None:
        self.plans = plans
        self.tiles = [[tile_size(phase, buffers) for phase in plan.phases] for plan in plans]
        self.fields: dict[tuple[str, tuple[float, ...]], str] = {}

    def number(self, values: Sequence[float], kind: str = "n") -> str:
        """A number that may differ from case to case: written out, or the name of a field."""
        if len(set(values)) == 1 and values[0] == values[0]:
            return literal_number(values[0]) if kind == "f" else str(int(values[0]))
        key = (kind, tuple(values))
        if key not in self.fields:
            self.fields[key] = f"{kind}{sum(k == kind for k, _ in self.fields)}"
        return f"s.{self.fields[key]}"

    def phases(self, at: int) -> list[Phase]:
        """Phase `at` of every case."""
        return [plan.phases[at] for plan in self.plans]

    def tile(self, at: int, name: str) -> str:
        """A size of the tiles of phase `at`: rows, columns, pitch, depth."""
        return self.number([getattr(tiles[at], name) for tiles in self.tiles], "u")

    def _expression(self, at: int) -> Graph:
        """The expression with constants that differ from case to case replaced by names."""
        graphs = [phase.expression for phase in self.phases(at)]
        first = graphs[0]
        assert first is not None
        nodes = []
        for place, node in enumerate(first.nodes):
            if node.expr is not None:
                values = [graph.nodes[place].expr.value for graph in graphs if graph]  # type: ignore[union-attr]
                if len(set(values)) > 1:
                    name = self.number(values, "f").removeprefix("s.")
                    node = replace(node, expr=Scalar("attr", name=name))
            nodes.append(node)
        return replace(first, nodes=tuple(nodes))

    def code(self, at: int, first_slot: int = 0) -> TileCode:
        """Statements of the expression of phase `at`, in buffers from first_slot on."""
        return tile_code(self._expression(at), self._text, first_slot)

    def _text(self, scalar: Scalar) -> str:
        """A scalar operand; expressions of sizes are computed for every case."""
        names = {name: values for (_, values), name in self.fields.items()}
        count = len(self.plans)
        values = [scalar.evaluate({name: v[at] for name, v in names.items()}, {}) for at in range(count)]
        return self.number(values, "f")
