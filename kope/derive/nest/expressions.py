"""What a nest computes per element: which operators join it, and which tensors are stored instead."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from kope.derive.builder import Builder
from kope.derive.graph import TRANSCENDENTAL, Graph, GraphInput, GraphOutput, Node
from kope.derive.nest.tensors import LAYOUT, POINTWISE, REDUCTIONS, SCANS, Shape, TensorGraph, TensorNode
from kope.derive.nest.views import View

LARGEST_EXPRESSION = 16
"""Operators that may share a nest: more would need more buffers than the unified buffer has."""


class Expression:
    """What is computed per element of a nest: operators that join it, and loads of what is stored."""

    def __init__(self, graph: TensorGraph, made: Container[int], view: Callable[[int], View], shape: Shape) -> None:
        """made: tensors that are in memory by now. view: where one is, or is put now."""
        self.graph, self.made, self.view, self.shape = graph, made, view, shape
        self.builder = Builder()
        self.operands: list[View] = []

    def load(self, view: View, kind: str) -> int:
        """One operand, spread over the nest."""
        wide = view.expanded(self.shape)
        if wide not in self.operands:
            self.operands.append(wide)
        return self.builder.keep(Node("load", kind=kind, input=self.operands.index(wide)), ())

    def of(self, index: int) -> int:
        """A tensor: its operator if that joins the nest, else a load."""
        node = self.graph.nodes[index]
        number = constant_of(self.graph, index)
        if number is not None:
            return self.builder.scalar(number)
        joins = node.op in POINTWISE and index not in self.made
        if not joins:
            return self.load(self.view(index), node.kind)
        args = [self.of(arg) for arg in node.args]
        dtype = str(node.params[0]) if node.op == "cast" and node.params else ""
        return self.builder.add(node.op, *args, kind=node.kind, dtype=dtype, line=node.line)

    def finish(self, root: int) -> Graph:
        """The expression as a graph with one output."""
        inputs = tuple(GraphInput(f"x{at}", at, "full") for at in range(len(self.operands)))
        output = GraphOutput("y", root, "full", "float32")
        return Graph(inputs, tuple(self.builder.nodes), (output,))


def constant_of(graph: TensorGraph, index: int) -> float | None:
    """The number that every element of a tensor is, if that is known."""
    node = graph.nodes[index]
    if node.op == "scalar":
        return float(node.params[0])
    return constant_of(graph, node.args[0]) if node.op in LAYOUT else None


def stored_nodes(graph: TensorGraph, uses: Sequence[int], recompute: bool) -> frozenset[int]:
    """Nodes that are made by a phase of their own."""
    joinable = _joinable(graph)
    stored, weight = set(), [0] * len(graph.nodes)
    for index, node in enumerate(graph.nodes):
        if node.op in LAYOUT or node.op in ("input", "scalar", "count"):
            continue
        if node.op not in POINTWISE:
            stored.add(index)
            continue
        weight[index] = 1 + sum(weight[arg] for arg in node.args if arg not in stored)
        cheap = recompute or (weight[index] <= 2 and node.op not in TRANSCENDENTAL)
        if index not in joinable or weight[index] > LARGEST_EXPRESSION or (uses[index] > 1 and not cheap):
            stored.add(index)
    return frozenset(stored)


def _joinable(graph: TensorGraph) -> set[int]:
    """Elementwise nodes whose users all read them element by element, in their own shape."""
    readers: dict[int, list[TensorNode]] = {index: [] for index in range(len(graph.nodes))}
    for node in graph.nodes:
        for arg in node.args:
            readers[arg].append(node)
    found = set()
    for index, node in enumerate(graph.nodes):
        fits = all(
            (user.op in POINTWISE and user.shape == node.shape) or (user.op in REDUCTIONS or user.op in SCANS)
            for user in readers[index]
        )
        if fits and index not in graph.outputs:
            found.add(index)
    return found
