"""Strided views of buffers in device memory: what layout operators do to them costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kope.derive.nest.tensors import Shape, TensorNode

WORKSPACE = "workspace"
COUNT = "count"
"""A buffer that is not there: its element number k is k."""


@dataclass(frozen=True, slots=True)
class View:
    """Part of a buffer. buffer: "input:0", "output:1", WORKSPACE or COUNT. dtype: as stored. offset and strides count
    elements; a stride of 0 repeats."""

    buffer: str
    dtype: str
    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0

    def permuted(self, axes: Sequence[int]) -> View:
        """Axes in another order."""
        return replace(self, shape=tuple(self.shape[a] for a in axes), strides=tuple(self.strides[a] for a in axes))

    def expanded(self, shape: Shape) -> View:
        """Broadcast to a shape."""
        missing = len(shape) - len(self.shape)
        strides = [0] * missing + [
            stride if have == want else 0
            for have, want, stride in zip(self.shape, shape[missing:], self.strides, strict=True)
        ]
        return replace(self, shape=shape, strides=tuple(strides))

    def sliced(self, axis: int, start: int, step: int, length: int) -> View:
        """Every step-th element of an axis from start on."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis]
        shape[axis], strides[axis] = length, strides[axis] * step
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=offset)

    def windowed(self, shape: Shape, axis: int, stride: int, dilation: int) -> View:
        """One axis as two, the window and the place inside it; windows may overlap."""
        step = self.strides[axis]
        pair = (step * stride, step * dilation)
        return replace(self, shape=shape, strides=(*self.strides[:axis], *pair, *self.strides[axis + 1 :]))

    def reshaped(self, shape: Shape) -> View | None:
        """The same elements in another shape, None when strides cannot say that."""
        if 0 in self.shape:
            return replace(self, shape=shape, strides=contiguous(shape))
        old = [(extent, stride) for extent, stride in zip(self.shape, self.strides, strict=True) if extent != 1]
        strides: list[int] = []
        for extent in reversed(shape):
            if extent == 1:
                strides.append(0)
                continue
            if not old or not _take(old, extent):
                return None
            strides.append(_taken_stride(old))
            _shrink(old, extent)
        return replace(self, shape=shape, strides=tuple(reversed(strides)))

    def laid_out(self, node: TensorNode) -> View | None:
        """What a layout operator makes of the view; None when the elements have to be moved."""
        if node.op == "permute":
            return self.permuted(node.params[0])
        if node.op == "expand":
            return self.expanded(node.shape)
        if node.op == "slice":
            axis, start, step = node.params
            return self.sliced(axis, start, step, node.shape[axis])
        if node.op == "windows":
            return self.windowed(node.shape, *node.params)
        return self.reshaped(node.shape)


def _take(old: list[tuple[int, int]], extent: int) -> bool:
    """Whether the innermost old axis, joined with outer ones while they are contiguous, has whole `extent`s."""
    inner, stride = old[-1]
    while inner % extent and len(old) > 1 and old[-2][1] == stride * inner:
        inner *= old[-2][0]
        old[-2:] = [(inner, stride)]
    while inner < extent and len(old) > 1 and old[-2][1] == stride * inner:
        inner *= old[-2][0]
        old[-2:] = [(inner, stride)]
    return inner % extent == 0


def _taken_stride(old: list[tuple[int, int]]) -> int:
    return old[-1][1]


def _shrink(old: list[tuple[int, int]], extent: int) -> None:
    inner, stride = old.pop()
    if inner > extent:
        old.append((inner // extent, stride * extent))


def contiguous(shape: Shape) -> tuple[int, ...]:
    """Strides of a tensor without gaps."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
