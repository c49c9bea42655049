"""What a traced run writes on: nodes with the shapes they had, and the spaces these shapes turn out to mean.

Spaces cannot be told while tracing, because the iteration space is known only once everything is recorded: the tape
keeps concrete shapes and `finish` reads the spaces off them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kope.derive.graph import REDUCE, Graph, GraphInput, GraphOutput, Guard, Node, check
from kope.errors import DeriveError

REFERENCE_FILE = "<reference>"
"""The file name a reference is compiled under; frames with it give the line of a node."""

Shape = tuple[int, ...]


def reference_line() -> int:
    """Line of the reference that is running now, 0 when none is."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == REFERENCE_FILE:
            return frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return 0


def refuse(what: str, remedy: str) -> DeriveError:
    """A DeriveError that names the line of the reference."""
    line = reference_line()
    where = f"reference line {line}: " if line else ""
    return DeriveError(f"{where}{what}; {remedy}")


@dataclass
class Tape:
    """Nodes recorded so far. squeezed: the value lost its last axis to a reduction without keepdims."""

    nodes: list[Node] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    squeezed: list[bool] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    _known: dict[tuple[Node, Shape], int] = field(default_factory=dict)

    def add(self, node: Node, shape: Shape, squeezed: bool = False) -> int:
        """Record a value, or find the same one recorded before."""
        key = (node, shape)
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(replace(node, line=reference_line()))
            self.shapes.append(shape)
            self.squeezed.append(squeezed)
        return self._known[key]

    def decide(self, guard: Guard) -> None:
        """Keep a branch that was taken on a symbol."""
        if guard not in self.guards:
            self.guards.append(guard)

    def aligned(self, index: int) -> Shape:
        """The shape with the reduced last axis put back as 1."""
        return (*self.shapes[index], 1) if self.squeezed[index] else self.shapes[index]

    def finish(self, inputs: Sequence[GraphInput], outputs: Sequence[GraphOutput], absent: tuple[int, ...]) -> Graph:
        """Keep what the outputs need, give every value its space, and check the result.

        Raises DeriveError when a value's shape is not a row, column or element of the iteration space.
        """
        keep = self._reachable([output.node for output in outputs])
        place = {old: new for new, old in enumerate(keep)}
        domain = self._domain(keep)
        nodes = []
        for old in keep:
            space = self._space(old, domain)
            nodes.append(replace(self.nodes[old], args=tuple(place[arg] for arg in self.nodes[old].args), space=space))
        used = {node.input: node for node in nodes if node.op == "load"}
        kept = tuple(
            replace(item, space=used[item.position].space, parts=used[item.position].parts)
            for item in inputs
            if item.position in used
        )
        renumbered = tuple(replace(o, node=place[o.node], space=nodes[place[o.node]].space) for o in outputs)
        graph = Graph(kept, tuple(nodes), renumbered, tuple(self.guards), absent)
        check(graph)
        return graph

    def _reachable(self, roots: Sequence[int]) -> list[int]:
        needed = set(roots)
        for index in range(len(self.nodes) - 1, -1, -1):
            if index in needed:
                needed.update(self.nodes[index].args)
        return sorted(needed)

    def _domain(self, keep: Sequence[int]) -> Shape:
        shapes = [self.aligned(index) for index in keep if self.nodes[index].op != "scalar"]
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError as error:
            raise DeriveError(f"values of the reference do not share one iteration space ({error})") from error

    def _space(self, index: int, domain: Shape) -> str:
        if self.nodes[index].op == "scalar":
            return "one"
        shape = self.aligned(index)
        shape = (1,) * (len(domain) - len(shape)) + shape
        if self.nodes[index].op in REDUCE:
            return "row" if shape == (*domain[:-1], 1) else self._unplaced(index, shape, domain)
        if shape == domain:
            return "full"
        if shape == (*domain[:-1], 1):
            return "row"
        if shape == (1,) * (len(domain) - 1) + domain[-1:]:
            return "col"
        return "one" if all(extent == 1 for extent in shape) else self._unplaced(index, shape, domain)

    def _unplaced(self, index: int, shape: Shape, domain: Shape) -> str:
        node = self.nodes[index]
        raise DeriveError(
            f"reference line {node.line}: {node.op} has shape {shape} in an iteration space of {domain}; only whole "
            "tensors, one value per row, one row of columns and single elements are supported"
        )
