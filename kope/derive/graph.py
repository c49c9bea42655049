"""The typed graph a reference is captured into: what is computed, on which part of the iteration space.

How it is captured is trace.py's business, how it becomes a kernel lower.py's. The iteration space is [rows, cols]: the
leading axes flattened, the last axis kept. Every value lives in one space:

    full   one element per point         row   one element per row (what a reduction gives)
    col    one element per column        one   a single element

A load may read one of `parts` equal pieces of the last axis (x[..., :n] and x[..., n:] of a last axis of 2n).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from kope.derive.scalar import Scalar
from kope.errors import DeriveError

SPACES = ("full", "row", "col", "one")
UNARY: tuple[str, ...] = ("neg", "abs", "exp", "log", "log1p", "expm1", "sqrt", "square", "tanh", "sigmoid", "rint")
UNARY += ("floor", "ceil", "trunc", "sign", "not", "isnan", "cast")
BINARY = ("add", "sub", "mul", "div", "max", "min", "and", "or")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
REDUCE = ("sum", "amax", "amin")
TRANSCENDENTAL = ("exp", "log", "log1p", "expm1", "sqrt", "tanh", "sigmoid", "div")


@dataclass(frozen=True, slots=True)
class Node:
    """One value.

    op: "load", "scalar", "select", or a name of UNARY, BINARY, COMPARE, REDUCE. args: indices of earlier nodes.
    kind: "float", "int" or "bool". expr: of a scalar. input, part, parts: of a load. dtype: of a cast.
    line: line of the reference that made it, 0 when none did.
    """

    op: str
    args: tuple[int, ...] = ()
    space: str = "full"
    kind: str = "float"
    expr: Scalar | None = None
    input: int = -1
    part: int = 0
    parts: int = 1
    dtype: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class GraphInput:
    """One tensor of the call. position: its place in the call. parts: how many pieces its last axis has."""

    name: str
    position: int
    space: str
    parts: int = 1


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """One result: its name, the node that holds it, and its dtype ("float16", or "same:<input>")."""

    name: str
    node: int
    space: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Guard:
    """What was decided while tracing: the graph holds for calls where the expression has this value."""

    expr: Scalar
    value: float


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in an order in which every argument comes before its user; only what an output needs is kept."""

    inputs: tuple[GraphInput, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[GraphOutput, ...]
    guards: tuple[Guard, ...] = ()
    absent: tuple[int, ...] = ()

    @property
    def flat(self) -> bool:
        """Whether rows and columns do not matter: every tensor is full, nothing is reduced or cut in pieces."""
        return all(self._is_flat(node) for node in self.nodes)

    @staticmethod
    def _is_flat(node: Node) -> bool:
        return node.space in ("full", "one") and node.parts == 1 and node.op not in REDUCE

    @property
    def passes(self) -> int:
        """How many times the columns of a row are visited when a row is too long to be kept: 1 + nested reductions."""
        return 1 + max(self.levels(), default=0)

    def levels(self) -> tuple[int, ...]:
        """Per node: how many reductions lie one after the other before its value is known."""
        levels: list[int] = []
        for node in self.nodes:
            levels.append(max((levels[arg] for arg in node.args), default=0) + (node.op in REDUCE))
        return tuple(levels)

    def users(self, index: int) -> tuple[int, ...]:
        """Nodes that read this one."""
        return tuple(at for at, node in enumerate(self.nodes) if index in node.args)

    def to_json(self) -> str:
        """Return compact JSON; from_json gives the same graph back."""
        data: dict[str, Any] = {
            "inputs": [[i.name, i.position, i.space, i.parts] for i in self.inputs],
            "nodes": [_node_to_json(node) for node in self.nodes],
            "outputs": [[o.name, o.node, o.space, o.dtype] for o in self.outputs],
            "guards": [[g.expr.to_json(), g.value] for g in self.guards],
            "absent": list(self.absent),
        }
        return json.dumps(data, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Graph:
        """Read a graph. Raises DeriveError when it is not one, or an argument does not come before its user."""
        try:
            data = json.loads(text)
            graph = Graph(
                inputs=tuple(GraphInput(*row) for row in data["inputs"]),
                nodes=tuple(_node_from_json(row) for row in data["nodes"]),
                outputs=tuple(GraphOutput(*row) for row in data["outputs"]),
                guards=tuple(Guard(Scalar.from_json(expr), value) for expr, value in data["guards"]),
                absent=tuple(data["absent"]),
            )
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise DeriveError(f"not a graph: {error}; capture the reference again") from error
        check(graph)
        return graph

    def key(self) -> str:
        """The graph without source lines: equal for references that compute the same in the same way."""
        return replace(self, nodes=tuple(replace(node, line=0) for node in self.nodes)).to_json()


def check(graph: Graph) -> None:
    """Raise DeriveError unless arguments come first, operators and spaces exist, and outputs are tensors."""
    known = {"load", "scalar", "select", *UNARY, *BINARY, *COMPARE, *REDUCE}
    for index, node in enumerate(graph.nodes):
        if node.op not in known or node.space not in SPACES or any(not 0 <= arg < index for arg in node.args):
            raise DeriveError(f"node {index} ({node.op}) is malformed; capture the reference again")
    for output in graph.outputs:
        if not 0 <= output.node < len(graph.nodes) or graph.nodes[output.node].op == "scalar":
            raise DeriveError(f"output {output.name} does not depend on any input; check what the reference returns")


def traits(graph: Graph, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """Structure words, for transfer between operators: family, counts, instruction mix, dtypes. Sorted, no repeats."""
    ops = [node.op for node in graph.nodes]
    words = {"elementwise" if graph.flat else "rows"}
    reductions = sum(op in REDUCE for op in ops)
    if reductions:
        words |= {"row-reduction", f"reductions:{reductions}", f"passes:{graph.passes}"}
    words |= {op for op in ("amax", "sum", "select", "rint") if op in ops}
    if any(op in TRANSCENDENTAL for op in ops):
        words.add("transcendental")
    if any(node.space == "col" for node in graph.nodes):
        words.add("column-broadcast")
    if any(node.parts > 1 for node in graph.nodes):
        words.add("split-last-axis")
    work = sum(op not in ("load", "scalar") for op in ops)
    words.add("work:light" if work <= 4 else "work:medium" if work <= 12 else "work:heavy")
    words |= {f"inputs:{len(graph.inputs)}", f"outputs:{len(graph.outputs)}"}
    words |= {f"dtype:{dtype}" for dtype in dtypes}
    return tuple(sorted(words))


_DEFAULTS = Node(op="")


def _node_to_json(node: Node) -> dict[str, Any]:
    fields = ("args", "space", "kind", "input", "part", "parts", "dtype", "line")
    row: dict[str, Any] = {"op": node.op}
    row |= {name: getattr(node, name) for name in fields if getattr(node, name) != getattr(_DEFAULTS, name)}
    if node.expr is not None:
        row["expr"] = node.expr.to_json()
    return row


def _node_from_json(row: dict[str, Any]) -> Node:
    row = dict(row)
    row["args"] = tuple(row.get("args", ()))
    if "expr" in row:
        row["expr"] = Scalar.from_json(row["expr"])
    return Node(**row)
