"""Build a graph from another one: same values once, scalars folded, what no output needs left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kope.derive.graph import COMPARE, REDUCE, Graph, GraphOutput, Node
from kope.derive.scalar import Scalar, combine, const

_JOIN = {"one": 0, "col": 1, "row": 2, "full": 3}
_NEUTRAL = {"add": (0.0, 0.0), "sub": (None, 0.0), "mul": (1.0, 1.0), "div": (None, 1.0)}
"""Per operator the neutral element on the left and on the right."""


@dataclass
class Builder:
    """Nodes of the graph being built. `add` gives the index of a value, new or known."""

    nodes: list[Node] = field(default_factory=list)
    _known: dict[Node, int] = field(default_factory=dict)

    def add(self, op: str, *args: int, line: int = 0, kind: str = "", dtype: str = "") -> int:
        """Apply an operator to values; scalars are folded into one expression where the operator exists for them."""
        operands = [self.nodes[arg] for arg in args]
        folded = self._fold(op, operands, args)
        if folded is not None:
            return folded
        space = "row" if op in REDUCE else join(node.space for node in operands)
        node = Node(op, args, space=space, kind=kind or self._kind(op, operands), dtype=dtype, line=line)
        return self._intern(node)

    def scalar(self, value: Scalar | float, line: int = 0) -> int:
        """A number or expression."""
        expr = value if isinstance(value, Scalar) else const(value)
        return self._intern(Node("scalar", space="one", expr=expr, line=line))

    def keep(self, node: Node, args: Sequence[int]) -> int:
        """Carry a node of the old graph over, with its arguments' new places."""
        if node.op == "scalar" and node.expr is not None:
            return self.scalar(node.expr, node.line)
        if node.op == "load":
            return self._intern(node)
        return self.add(node.op, *args, line=node.line, kind=node.kind, dtype=node.dtype)

    def expr(self, index: int) -> Scalar | None:
        """The expression of a scalar, None for a tensor."""
        return self.nodes[index].expr

    def _intern(self, node: Node) -> int:
        key = replace(node, line=0)
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(node)
        return self._known[key]

    def _fold(self, op: str, operands: list[Node], args: tuple[int, ...]) -> int | None:
        exprs = [node.expr for node in operands]
        if all(expr is not None for expr in exprs) and op not in ("select", "cast", "rint"):
            name = {"square": "mul"}.get(op, op)
            given = [expr for expr in exprs if expr is not None]
            return self.scalar(combine(name, *given, *(given if op == "square" else [])))
        if op in _NEUTRAL:
            left, right = _NEUTRAL[op]
            if right is not None and exprs[1] == const(right):
                return args[0]
            if left is not None and exprs[0] == const(left):
                return args[1]
        return None

    @staticmethod
    def _kind(op: str, operands: list[Node]) -> str:
        if op in COMPARE or op in ("and", "or", "not", "isnan"):
            return "bool"
        tensors = [node for node in operands if node.op != "scalar"]
        kinds = {node.kind for node in tensors or operands}
        return "int" if kinds == {"int"} and op in ("add", "sub", "mul", "max", "min") else "float"

    def finish(self, graph: Graph, place: Sequence[int]) -> Graph:
        """The graph whose outputs are the old ones at their new places; unneeded nodes are dropped."""
        roots = [place[output.node] for output in graph.outputs]
        needed = set(roots)
        for index in range(len(self.nodes) - 1, -1, -1):
            if index in needed:
                needed.update(self.nodes[index].args)
        kept = sorted(needed)
        new = {old: at for at, old in enumerate(kept)}
        nodes = tuple(replace(self.nodes[old], args=tuple(new[a] for a in self.nodes[old].args)) for old in kept)
        outputs = tuple(
            GraphOutput(o.name, new[root], nodes[new[root]].space, o.dtype)
            for o, root in zip(graph.outputs, roots, strict=True)
        )
        used = {node.input for node in nodes if node.op == "load"}
        inputs = tuple(item for item in graph.inputs if item.position in used)
        return Graph(inputs, nodes, outputs, graph.guards, graph.absent)


def join(spaces: object) -> str:
    """The space of an elementwise result: the widest of its operands; a row and a column value span the whole."""
    names = set(spaces)  # type: ignore[call-overload]
    if {"row", "col"} <= names:
        return "full"
    return max(names, key=lambda name: _JOIN[name], default="one")


Visit = Callable[[Builder, int, Node, tuple[int, ...]], "int | None"]


def rebuild(graph: Graph, visit: Visit) -> Graph:
    """Walk a graph and build it anew. visit(builder, old index, node, new arguments) returns the replacement's index,
    or None to carry the node over."""
    builder = Builder()
    place: list[int] = []
    for index, node in enumerate(graph.nodes):
        args = tuple(place[arg] for arg in node.args)
        made = visit(builder, index, node, args)
        place.append(builder.keep(node, args) if made is None else made)
    return builder.finish(graph, place)


def canonical(graph: Graph) -> Graph:
    """The same graph with equal values merged."""
    return rebuild(graph, lambda builder, index, node, args: None)
