"""From a graph of tensors to phases: which tensors are stored, and which loop nest makes each of them.

Elementwise operators that one other reads join its nest; all else is stored in float32 in the workspace. Layout
operators are views, elements move only where strides cannot say what is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kope.derive.graph import Graph
from kope.derive.nest.expressions import Expression, stored_nodes
from kope.derive.nest.nests import (
    AXES,
    Axis,
    Operand,
    Phase,
    axes_of,
    cut_of,
    down_nest,
    filled,
    joined,
    map_nest,
    operand,
    reduce_nest,
    split_axis,
    with_columns_of_stride_one,
)
from kope.derive.nest.passes import spelled_out
from kope.derive.nest.places import as_bits, at_places, with_tail, words
from kope.derive.nest.repeats import Loop, rolled
from kope.derive.nest.tensors import (
    INDEXED,
    LAYOUT,
    POINTWISE,
    REDUCTIONS,
    SCANS,
    Shape,
    TensorGraph,
    TensorNode,
    numel,
)
from kope.derive.nest.views import COUNT, WORKSPACE, View, contiguous

_FOLDS = {"sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin"}
_SCAN_FOLDS = {"cumsum": "sum", "cumprod": "prod", "cummax": "amax", "cummin": "amin"}
WORKSPACE_ALIGN = 512
"""Bytes a tensor in the workspace starts on."""
SIZE_BYTES = {
    "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "int32": 4, "int64": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """What a schedule says of phases.

    recompute: what several nests read is computed in each of them instead of being stored. split: long
    reductions to few results are done in parts.
    """

    recompute: bool = False
    split: bool = False


FIRST_FORM = Form()


@dataclass(frozen=True, slots=True)
class Plan:
    """Phases in order, the workspace they need, in bytes, how many outputs they write, and which phases repeat."""

    phases: tuple[Phase, ...]
    workspace: int
    outputs: int
    loops: tuple[Loop, ...] = ()


def plan_phases(
    graph: TensorGraph, input_dtypes: Sequence[str], output_dtypes: Sequence[str], form: Form = FIRST_FORM
) -> Plan:
    """Return the phases of a graph. input_dtypes: by position in the call, "" for one that is left out.

    Raises DeriveError for what has no phase.
    """
    return _Planner(spelled_out(graph), input_dtypes, output_dtypes, form).run()


@dataclass
class _Planner:
    graph: TensorGraph
    input_dtypes: Sequence[str]
    output_dtypes: Sequence[str]
    form: Form
    phases: list[Phase] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)
    used: int = 0

    def __post_init__(self) -> None:
        self.uses = self.graph.uses()
        self.stored = stored_nodes(self.graph, self.uses, self.form.recompute)

    def run(self) -> Plan:
        for index, node in enumerate(self.graph.nodes):
            if index in self.stored:
                self._make(index, node)
        for position, index in enumerate(self.graph.outputs):
            if self.view(index).buffer != f"output:{position}":
                self._copy(self.view(index), self._output_view(position))
        phases, loops = rolled(self.phases)
        return Plan(phases, self.used, len(self.graph.outputs), loops)

    # --- where tensors are ---

    def view(self, index: int) -> View:
        """Where a tensor can be read from; it is made now if it has to be."""
        if index not in self.views:
            self.views[index] = self._view(index, self.graph.nodes[index])
        return self.views[index]

    def _view(self, index: int, node: TensorNode) -> View:
        if node.op == "input":
            position = node.params[0]
            return View(f"input:{position}", self.input_dtypes[position], node.shape, contiguous(node.shape))
        if node.op == "count":
            return View(COUNT, "float32", node.shape, (node.params[1],), node.params[0])
        if node.op in LAYOUT:
            base = self.view(node.args[0])
            made = base.laid_out(node)
            if made is None:
                packed = self._allocate(base.shape)
                self._copy(base, packed)
                made = packed.laid_out(node)
            assert made is not None
            return made
        made = self._allocate(node.shape)
        self._map(index, made)
        return made

    def _allocate(self, shape: Shape, dtype: str = "float32") -> View:
        """A tensor in the workspace. Its offset counts elements of its own type."""
        size = SIZE_BYTES[dtype]
        offset = self.used // size
        self.used += -(-numel(shape) * size // WORKSPACE_ALIGN) * WORKSPACE_ALIGN
        return View(WORKSPACE, dtype, shape, contiguous(shape), offset)

    def _output_of(self, index: int) -> int:
        """The output a node may be written to at once: its only use."""
        if self.uses[index] != 1 or index not in self.graph.outputs:
            return -1
        return self.graph.outputs.index(index)

    def _output_view(self, position: int) -> View:
        shape = self.graph.nodes[self.graph.outputs[position]].shape
        return View(f"output:{position}", self.output_dtypes[position], shape, contiguous(shape))

    def _target(self, index: int) -> View:
        position = self._output_of(index)
        if position >= 0:
            return self._output_view(position)
        return self._allocate(self.graph.nodes[index].shape)

    def _expression(self, shape: Shape) -> Expression:
        return Expression(self.graph, self.views, self.view, shape)

    # --- phases ---

    def _make(self, index: int, node: TensorNode) -> None:
        target = self._written_over(node) or self._target(index)
        if node.op in POINTWISE:
            self._map(index, target)
        elif node.op in REDUCTIONS:
            self._reduce(node, target)
        elif node.op in SCANS:
            self._scan(node, target)
        elif node.op == "contract":
            self._contract(node, target)
        elif node.op in INDEXED:
            target = self._take(node, target) if node.op.startswith("take") else self._put(node, target)
        elif node.op == "cat":
            self._cat(node, target)
        elif node.op == "packed":
            self._copy(self.view(node.args[0]), target)
        elif node.op == "pad":
            self._pad(node, target)
        else:
            self._update(node, target)
        self.views[index] = target

    def _map(self, index: int, target: View) -> None:
        made = self._expression(target.shape)
        self._append_map(made.finish(made.of(index)), made.operands, target, self.graph.nodes[index].line)

    def _append_map(self, expression: Graph, operands: Sequence[View], target: View, line: int = 0) -> None:
        axes = map_nest(target.shape, [*operands, target])
        self.phases.append(_phase("map", axes, [*operands, target], expression=expression, line=line))

    def _copy(self, source: View, target: View) -> None:
        """Move a tensor. Where types agree its bits are moved, whatever they mean."""
        if source.dtype == target.dtype == "int64":
            source, target = words(source), words(target)
        elif source.dtype == target.dtype == "int32":
            source, target = as_bits(source), as_bits(target)
        made = self._expression(target.shape)
        self._append_map(made.finish(made.load(source, "float")), made.operands, target)

    def _fill(self, value: float, target: View) -> None:
        made = self._expression(target.shape)
        self._append_map(made.finish(made.builder.scalar(value)), [], target)

    def _reduce(self, node: TensorNode, target: View) -> None:
        shape, axes = self.graph.nodes[node.args[0]].shape, node.params[0]
        made = self._expression(shape)
        expression = made.finish(made.of(node.args[0]))
        wide = _spread(target, shape, axes)
        walk = axes_of(shape, [*made.operands, wide])
        if self.form.split and (cut := cut_of(shape, axes)) is not None:
            self._reduce_parts(node, target, expression, made.operands, *cut)
            return
        kept = [axis for at, axis in enumerate(walk) if at not in axes]
        folded = [axis for at, axis in enumerate(walk) if at in axes]
        self._append_reduce(node, kept, folded, expression, [*made.operands, target])

    def _reduce_parts(
        self, node: TensorNode, target: View, expression: Graph, operands: Sequence[View], cut: int, parts: int
    ) -> None:
        """One of the folded axes in parts, for as many cores, and these folded together afterwards."""
        shape, axes = self.graph.nodes[node.args[0]].shape, node.params[0]
        partial = self._allocate((parts, *target.shape))
        part = View(partial.buffer, partial.dtype, target.shape, partial.strides[1:], partial.offset)
        walk = axes_of(shape, [*operands, _spread(part, shape, axes)])
        outer, walk[cut] = split_axis(walk[cut], parts, partial.strides[0])
        kept = [outer, *(axis for at, axis in enumerate(walk) if at not in axes)]
        folded = [axis for at, axis in enumerate(walk) if at in axes]
        self._append_reduce(node, kept, folded, expression, [*operands, partial])
        rest = self._expression(partial.shape)
        joining = rest.finish(rest.load(partial, "float"))
        walk = axes_of(partial.shape, [partial, _spread(target, partial.shape, (0,))])
        self._append_reduce(node, walk[1:], walk[:1], joining, [partial, target])

    def _append_reduce(
        self, node: TensorNode, kept: Sequence[Axis], folded: Sequence[Axis], expression: Graph, views: Sequence[View]
    ) -> None:
        nest, across = reduce_nest(kept, folded, len(views) - 1, may_cross=node.op != "prod")
        down = None if across else down_nest(nest, len(views))
        fields = {"op": _FOLDS[node.op], "across": across, "down": down is not None, "line": node.line}
        self.phases.append(_phase("reduce", down or nest, views, expression=expression, **fields))

    def _scan(self, node: TensorNode, target: View) -> None:
        shape, axis = target.shape, node.params[0]
        made = self._expression(shape)
        expression = made.finish(made.of(node.args[0]))
        views = [*made.operands, target]
        walk = axes_of(shape, views)
        kept = joined([item for at, item in enumerate(walk) if at != axis])
        kept = with_columns_of_stride_one(kept, len(views) - 1)
        one = Axis(1, (1,) * len(views))
        row, outer = (kept[-2], kept[:-2]) if len(kept) > 1 else (one, [])
        nest = [*filled(outer, 3, len(views)), *filled([walk[axis]], 3, len(views)), row, kept[-1]]
        self.phases.append(_phase("scan", nest, views, expression=expression, op=_SCAN_FOLDS[node.op], line=node.line))

    def _contract(self, node: TensorNode, target: View) -> None:
        """One operand is read in runs along the columns of the result, the other one is read as scalars."""
        left, right, out = node.params
        a, b = (self.view(arg) for arg in node.args)
        if out and out[-1] in left and out[-1] not in right:
            left, right, a, b = right, left, b, a
        extents = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
        column = out[-1:] if out[-1:] in right and out[-1:] not in left else ""
        rows = [label for label in out if label in left and label not in right]
        row = rows[-1] if rows else ""
        summed = [label for label in extents if label not in out]
        deep = max(
            summed, key=lambda label: (extents[label] > 1, _stride(a, left, label) == 1, extents[label]), default=""
        )
        outer = [label for label in out if label not in (row, column)]
        rest = [label for label in summed if label != deep]
        views = [a, b, target]
        labels = [left, right, out]

        def axis(label: str) -> Axis:
            if not label:
                return Axis(1, (0, 0, 0))
            return Axis(extents[label], tuple(_stride(v, n, label) for v, n in zip(views, labels, strict=True)))

        loops = [
            *filled(joined([axis(label) for label in outer]), 3, 3),
            *filled(joined([axis(label) for label in rest]), 3, 3),
        ]
        m, n, k = axis(row), axis(column), axis(deep)
        operands = (
            _two_axes(a, loops, 0, m.strides[0], k.strides[0]),
            _two_axes(b, loops, 1, k.strides[1], n.strides[1] if column else 1),
        )
        result = _two_axes(target, loops, 2, m.strides[2], n.strides[2] if column else 1)
        shape = (*(item.extent for item in loops), m.extent, n.extent)
        self.phases.append(Phase("contract", shape, operands, result, depth=k.extent, line=node.line))

    def _take(self, node: TensorNode, target: View) -> View:
        """Elements keep their type: what is taken lies in the output only when that has the type of the source."""
        source, indices = self.view(node.args[0]), [self.view(arg) for arg in node.args[1:]]
        if target.buffer == WORKSPACE or target.dtype != source.dtype:
            target = self._allocate(node.shape, source.dtype)
        base, indices, selected = at_places(node.op, node.params[0], source, indices)
        self._places("take", base, target, indices, selected, node.line)
        return target

    def _put(self, node: TensorNode, target: View) -> View:
        """The base is copied, then elements are written over it. Sums and extremes are formed in float32."""
        mode = node.params[1]
        source, written = self.view(node.args[0]), self.view(node.args[1])
        if mode == "set":
            if target.buffer == WORKSPACE or target.dtype != source.dtype:
                target = self._allocate(node.shape, source.dtype)
        elif target.dtype != "float32":
            target = self._allocate(node.shape)
        self._copy(source, target)
        base, indices, selected = at_places(node.op, node.params[0], target, [self.view(a) for a in node.args[2:]])
        if written.dtype != target.dtype or written.buffer == COUNT:
            converted = self._allocate(written.shape, target.dtype)
            self._copy(written, converted)
            written = converted
        self._places("put", base, written.expanded(base.shape), indices, selected, node.line, mode)
        return target

    def _places(
        self, kind: str, base: View, other: View, indices: list[View], wrap: Sequence[tuple[int, int]],
        line: int, mode: str = "set",
    ) -> None:  # fmt: skip
        """Nest over places. Elements that follow one another on both sides are moved in one run."""
        width = 2 if base.dtype == "int64" else 1
        if width == 2:
            base, other = words(base), words(other)
            indices = [with_tail(view, (*view.shape, 2)) for view in indices]
        axes = joined(axes_of(base.shape, [base, other, *indices]))
        run = 1
        if axes and axes[-1].strides[:2] == (1, 1) and not any(axes[-1].strides[2:]):
            run = axes.pop().extent
        axes = filled(axes, AXES, 2 + len(indices))
        operands = [operand(view, axes, at) for at, view in enumerate([base, other, *indices])]
        source, result = (operands[1], operands[0]) if kind == "put" else (operands[0], operands[1])
        wrap = tuple((extent, stride * width) for extent, stride in wrap)
        extents = tuple(axis.extent for axis in axes)
        self.phases.append(
            Phase(kind, extents, (source, *operands[2:]), result, op=mode, wrap=wrap, run=run, line=line)
        )

    def _cat(self, node: TensorNode, target: View) -> None:
        start = 0
        for arg in node.args:
            length = self.graph.nodes[arg].shape[node.params[0]]
            self._copy(self.view(arg), target.sliced(node.params[0], start, 1, length))
            start += length

    def _pad(self, node: TensorNode, target: View) -> None:
        before, _, value = node.params
        source = self.view(node.args[0])
        self._fill(value, target)
        inner = target
        for axis, extent in enumerate(source.shape):
            inner = inner.sliced(axis, before[axis], 1, extent)
        self._copy(source, inner)

    def _update(self, node: TensorNode, target: View) -> None:
        axis, start, step = node.params
        base, new = (self.view(arg) for arg in node.args)
        if base != target:
            self._copy(base, target)
        self._copy(new, target.sliced(axis, start, step, new.shape[axis]))

    def _written_over(self, node: TensorNode) -> View | None:
        """The place of what an update replaces a part of, when nothing else reads it: it is written to in place."""
        base = node.args[0]
        if node.op != "update" or self.uses[base] != 1 or base not in self.stored:
            return None
        held = self.view(base)
        return held if held.buffer == WORKSPACE and held.dtype == "float32" else None


def _phase(kind: str, axes: Sequence[Axis], views: Sequence[View], **fields: object) -> Phase:
    """A phase whose last view is the result."""
    operands = [operand(view, axes, at) for at, view in enumerate(views)]
    extents = tuple(axis.extent for axis in axes)
    return Phase(kind, extents, tuple(operands[:-1]), operands[-1], **fields)  # type: ignore[arg-type]


def _spread(target: View, shape: Shape, axes: Sequence[int]) -> View:
    """The result of a reduction along the axes of what is reduced: it stays where it is along those that go away."""
    strides = iter(target.strides)
    wide = tuple(0 if axis in axes else next(strides) for axis in range(len(shape)))
    return View(target.buffer, target.dtype, shape, wide, target.offset)


def _stride(view: View, labels: str, label: str) -> int:
    return view.strides[labels.index(label)] if label in labels else 0


def _two_axes(view: View, loops: Sequence[Axis], at: int, row: int, column: int) -> Operand:
    return Operand(view.buffer, view.dtype, view.offset, (*(item.strides[at] for item in loops), row, column))
