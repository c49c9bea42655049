"""The graph of whole tensors a reference is captured into when rows and columns do not suffice.

It holds for one case: shapes are numbers. What its operators mean is meaning.py's business, how they become phases that
of planner.py.

    input (position,)             scalar (value,)              count (start, step): start, start + step, ...
    permute (axes,)               reshape ()                   expand (): axes of extent 1, or new ones in front
    slice (axis, start, step)     cat (axis,)                  pad (before, after, value)
    windows (axis, stride, dilation): the axis as two, the window and the place inside it
    packed (): the same, stored without gaps
    update (axis, start, step): the first argument with the second in place of such a slice
    sum, prod, amax, amin, argmax, argmin (axes,): these axes go away
    contract (left, right, out): labels of the axes of two factors and of the result, summed over all others
    take (dims,): the first argument at the indices given for these dims; their common shape comes first
    take-along (dim,): element by element, every index beside its element
    put (dims, mode), put-along (dim, mode): the first argument with the second written at such places
    cumsum, cumprod, cummax, cummin (axis,)
    sort, sort-index (axis, descending): stable
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kope.derive.graph import BINARY, COMPARE, UNARY
from kope.errors import DeriveError

Shape = tuple[int, ...]
POINTWISE = frozenset({*UNARY, *BINARY, *COMPARE, "select"})
LAYOUT = frozenset({"permute", "reshape", "expand", "slice", "windows"})
ASSEMBLY = frozenset({"cat", "pad", "update", "packed"})
REDUCTIONS = frozenset({"sum", "prod", "amax", "amin"})
ARG_REDUCTIONS = frozenset({"argmax", "argmin"})
SCANS = frozenset({"cumsum", "cumprod", "cummax", "cummin"})
SORTS = frozenset({"sort", "sort-index"})
INDEXED = frozenset({"take", "take-along", "put", "put-along"})
SOURCES = frozenset({"input", "scalar", "count"})
KNOWN = POINTWISE | LAYOUT | ASSEMBLY | REDUCTIONS | ARG_REDUCTIONS | SCANS | SORTS | INDEXED | SOURCES | {"contract"}


@dataclass(frozen=True, slots=True)
class TensorNode:
    """One tensor. kind: float, int or bool. params: as the module says. line: of the reference, 0 when unknown."""

    op: str
    args: tuple[int, ...] = ()
    shape: Shape = ()
    kind: str = "float"
    params: tuple[Any, ...] = ()
    line: int = 0

    @property
    def numel(self) -> int:
        """Number of elements."""
        return numel(self.shape)


@dataclass(frozen=True, slots=True)
class TensorGraph:
    """Nodes in order, arguments first, and the nodes that are returned."""

    nodes: tuple[TensorNode, ...]
    outputs: tuple[int, ...]

    def to_json(self) -> str:
        """Return compact JSON; from_json gives the same graph back."""
        rows = [[n.op, list(n.args), list(n.shape), n.kind, n.params, n.line] for n in self.nodes]
        return json.dumps({"nodes": rows, "outputs": list(self.outputs)}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> TensorGraph:
        """Read a graph. Raises DeriveError when it is not one."""
        try:
            data = json.loads(text)
            nodes = tuple(
                TensorNode(op, tuple(args), tuple(shape), kind, _tuples(params), line)
                for op, args, shape, kind, params, line in data["nodes"]
            )
            graph = TensorGraph(nodes, tuple(data["outputs"]))
        except (ValueError, KeyError, TypeError) as error:
            raise DeriveError(f"not a graph of tensors: {error}; capture the reference again") from error
        check(graph)
        return graph

    def uses(self) -> tuple[int, ...]:
        """Per node how often it is read, as an argument or as an output."""
        counts = [0] * len(self.nodes)
        for node in self.nodes:
            for arg in node.args:
                counts[arg] += 1
        for output in self.outputs:
            counts[output] += 1
        return tuple(counts)


def check(graph: TensorGraph) -> None:
    """Raise DeriveError unless operators exist and arguments come before their users."""
    for index, node in enumerate(graph.nodes):
        if node.op not in KNOWN or any(not 0 <= arg < index for arg in node.args):
            raise DeriveError(f"node {index} ({node.op}) is malformed; capture the reference again")


def numel(shape: Sequence[int]) -> int:
    """Number of elements of a shape."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def broadcast(*shapes: Shape) -> Shape:
    """The common shape, by NumPy's rule. Raises DeriveError when there is none."""
    rank = max(map(len, shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        extents = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(extents) > 1:
            raise DeriveError(f"shapes {', '.join(map(str, shapes))} do not broadcast; check the reference")
        result.append(extents.pop() if extents else 1)
    return tuple(result)


@dataclass
class TensorBuilder:
    """Nodes of a graph being built. Every method returns the index of a node; equal nodes are made once."""

    nodes: list[TensorNode] = field(default_factory=list)
    line: int = 0
    _known: dict[Any, int] = field(default_factory=dict)

    def add(self, op: str, args: Sequence[int], shape: Shape, kind: str, *params: Any) -> int:
        """Append a node, or find an equal one."""
        key = (op, tuple(args), shape, kind, repr(params))
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(TensorNode(op, tuple(args), shape, kind, params, self.line))
        return self._known[key]

    def shape(self, index: int) -> Shape:
        """Shape of a node."""
        return self.nodes[index].shape

    def kind(self, index: int) -> str:
        """float, int or bool."""
        return self.nodes[index].kind

    def input(self, position: int, shape: Shape, kind: str) -> int:
        """A tensor of the call."""
        return self.add("input", (), shape, kind, position)

    def scalar(self, value: float, kind: str = "float") -> int:
        """A number."""
        return self.add("scalar", (), (), kind, float(value))

    def count(self, extent: int, start: int = 0, step: int = 1) -> int:
        """Whole numbers in a row."""
        return self.add("count", (), (extent,), "int", start, step)

    def pointwise(self, op: str, *args: int, kind: str = "", params: tuple[Any, ...] = ()) -> int:
        """An elementwise operator with broadcasting."""
        shape = broadcast(*(self.shape(arg) for arg in args))
        return self.add(op, args, shape, kind or self._kind(op, args), *params)

    def _kind(self, op: str, args: Sequence[int]) -> str:
        if op in COMPARE or op in ("and", "or", "not", "isnan"):
            return "bool"
        kinds = {self.kind(arg) for arg in (args[1:] if op == "select" else args)}
        exact = op in ("add", "sub", "mul", "max", "min", "select", "neg", "abs", "square", "sign")
        if exact and "float" not in kinds:
            return "bool" if kinds == {"bool"} and op in ("select", "max", "min") else "int"
        return "float"

    def permute(self, x: int, axes: Sequence[int]) -> int:
        """Axes in another order."""
        axes = tuple(axis % len(self.shape(x)) for axis in axes)
        if axes == tuple(range(len(axes))):
            return x
        return self.add("permute", (x,), tuple(self.shape(x)[axis] for axis in axes), self.kind(x), axes)

    def reshape(self, x: int, shape: Sequence[int]) -> int:
        """The same elements in order, in another shape."""
        if tuple(shape) == self.shape(x):
            return x
        return self.add("reshape", (x,), tuple(shape), self.kind(x))

    def expand(self, x: int, shape: Sequence[int]) -> int:
        """Repeat along axes of extent 1, and along new ones in front."""
        if tuple(shape) == self.shape(x):
            return x
        return self.add("expand", (x,), tuple(shape), self.kind(x))

    def packed(self, x: int) -> int:
        """The same tensor, stored without gaps: for what would be read many times in jumps."""
        return self.add("packed", (x,), self.shape(x), self.kind(x))

    def slice(self, x: int, axis: int, start: int, stop: int, step: int = 1) -> int:
        """x[..., start:stop:step, ...] with 0 <= start <= stop <= extent."""
        shape = self.shape(x)
        axis %= len(shape)
        length = max(0, -(-(stop - start) // step))
        if length == shape[axis] and step == 1:
            return x
        made = (*shape[:axis], length, *shape[axis + 1 :])
        return self.add("slice", (x,), made, self.kind(x), axis, start, step)

    def reduce(self, op: str, x: int, axes: Sequence[int], keepdims: bool = False) -> int:
        """A reduction over some axes."""
        shape = self.shape(x)
        axes = tuple(sorted({axis % len(shape) for axis in axes})) if shape else ()
        kept = tuple(extent for axis, extent in enumerate(shape) if axis not in axes)
        kind = "int" if op in ARG_REDUCTIONS or (op in ("sum", "prod") and self.kind(x) == "bool") else self.kind(x)
        made = self.add(op, (x,), kept, kind, axes) if axes else x
        return self.reshape(made, [1 if a in axes else e for a, e in enumerate(shape)]) if keepdims else made

    def contract(self, left: int, right: int, labels: tuple[str, str, str]) -> int:
        """A sum of products, in the notation of einsum: contract(a, b, ("mk", "kn", "mn"))."""
        extents = dict(zip(labels[0], self.shape(left), strict=True)) | dict(
            zip(labels[1], self.shape(right), strict=True)
        )
        kind = "float" if "float" in (self.kind(left), self.kind(right)) else "int"
        return self.add("contract", (left, right), tuple(extents[label] for label in labels[2]), kind, *labels)

    def finish(self, outputs: Sequence[int]) -> TensorGraph:
        """The graph with what no output needs left out."""
        needed = set(outputs)
        for index in range(len(self.nodes) - 1, -1, -1):
            if index in needed:
                needed.update(self.nodes[index].args)
        kept = sorted(needed)
        place = {old: new for new, old in enumerate(kept)}
        nodes = []
        for old in kept:
            n = self.nodes[old]
            nodes.append(TensorNode(n.op, tuple(place[a] for a in n.args), n.shape, n.kind, n.params, n.line))
        return TensorGraph(tuple(nodes), tuple(place[output] for output in outputs))


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
