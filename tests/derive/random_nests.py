"""Random graphs of tensors: 1 to 12 operators, ranks 0 to 5, odd extents, extents of 1 and 0, mixed dtypes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from kope.derive.nest.tensors import TensorBuilder
from tests.derive.nests import KINDS, Sample, draw

DTYPES = ("float32", "float32", "float16", "bfloat16", "int32", "int64", "int8", "bool")
EXTENTS = (1, 1, 2, 3, 5, 7, 8, 13, 16, 33, 65)
LARGEST = 20000
UNARY = ("neg", "abs", "exp", "sigmoid", "tanh", "square", "rint", "floor", "sign", "not", "isnan")
BINARY = ("add", "sub", "mul", "max", "min", "lt", "ge", "eq", "and", "or")


class Maker:
    """Makes one graph. Values stay small, so that float32 suffices: what grows is passed through tanh."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values = np.random.default_rng(seed)
        self.b = TensorBuilder()
        self.arrays: list[Any] = []
        self.dtypes: list[str] = []
        self.made: list[int] = []

    def sample(self) -> Sample:
        """A graph with one or two outputs."""
        for _ in range(self.random.randint(1, 2)):
            self.made.append(self.input(self.shape()))
        for _ in range(self.random.randint(1, 12)):
            self.made.append(self.step())
        outputs = [self.made[-1]]
        if self.random.random() < 0.3:
            outputs.append(self.random.choice(self.made))
        outputs = list(dict.fromkeys(outputs))
        graph = self.b.finish(outputs)
        kinds = [self.b.kind(output) for output in outputs]
        dtypes = [self.output_dtype(kind) for kind in kinds]
        return Sample(" > ".join(node.op for node in graph.nodes), graph, self.arrays, self.dtypes, dtypes)

    def output_dtype(self, kind: str) -> str:
        """A dtype an output of a kind can have."""
        choices = {"float": ("float32", "float16"), "int": ("int32", "int64"), "bool": ("bool",)}
        return self.random.choice(choices[kind])

    def shape(self) -> tuple[int, ...]:
        """An awkward shape."""
        shape = tuple(self.random.choice(EXTENTS) for _ in range(self.random.randint(0, 5)))
        while np.prod(shape, dtype=int) > LARGEST:
            shape = shape[1:]
        if shape and self.random.random() < 0.04:
            shape = (*shape[:-1], 0)
        return shape

    def input(self, shape: tuple[int, ...]) -> int:
        """A tensor of the call."""
        dtype = self.random.choice(DTYPES)
        self.arrays.append(draw(self.values, shape, dtype))
        self.dtypes.append(dtype)
        return self.b.input(len(self.arrays) - 1, shape, KINDS[dtype])

    def step(self) -> int:
        """One operator on what there is."""
        x = self.random.choice(self.made)
        moves = [self.unary, self.binary, self.binary, self.layout, self.layout, self.reduce, self.joined, self.select]
        moves += [self.product, self.scan, self.places, self.ordered]
        return self.random.choice(moves)(x)

    def calm(self, x: int) -> int:
        """Values between -1 and 1 where they may have grown."""
        return self.b.pointwise("tanh", x) if self.b.kind(x) == "float" else x

    def unary(self, x: int) -> int:
        op = self.random.choice(UNARY)
        if self.b.kind(x) != "float" and op in ("exp", "sigmoid", "tanh", "rint", "floor", "isnan"):
            x = self.b.pointwise("cast", x, kind="float")
        if self.b.kind(x) == "bool" and op != "not":
            x = self.b.pointwise("cast", x, kind="int")
        return self.b.pointwise(op, self.calm(x) if op == "exp" else x)

    def other(self, x: int) -> int:
        """A second operand: a scalar, another tensor of the same shape, or a new one that broadcasts."""
        shape = self.b.shape(x)
        same = [node for node in self.made if self.b.shape(node) == shape]
        roll = self.random.random()
        if roll < 0.3:
            return self.b.scalar(self.random.choice((0.5, -1.0, 2.0, 0.0)))
        if roll < 0.6 or len(self.arrays) >= 4:
            return self.random.choice(same)
        cut = shape[self.random.randint(0, len(shape)) :]
        return self.input(tuple(1 if self.random.random() < 0.3 else extent for extent in cut))

    def binary(self, x: int) -> int:
        op, y = self.random.choice(BINARY), self.other(x)
        pair = [self.number(node) for node in (x, y)]
        if "float" in {self.b.kind(node) for node in pair}:
            pair = [
                node if self.b.kind(node) == "float" else self.b.pointwise("cast", node, kind="float") for node in pair
            ]
        made = self.b.pointwise(op, *pair)
        return self.calm(made)

    def number(self, x: int) -> int:
        """Truth values as numbers."""
        return self.b.pointwise("cast", x, kind="int") if self.b.kind(x) == "bool" else x

    def select(self, x: int) -> int:
        y = self.random.choice([node for node in self.made if self.b.shape(node) == self.b.shape(x)])
        mask = self.b.pointwise("lt", self.number(x), self.b.scalar(0.25))
        pair = [
            node if self.b.kind(node) == "float" else self.b.pointwise("cast", node, kind="float") for node in (x, y)
        ]
        return self.b.pointwise("select", mask, *pair)

    def layout(self, x: int) -> int:
        shape = self.b.shape(x)
        kind = self.random.choice(("permute", "reshape", "slice", "expand", "flat"))
        if kind == "permute":
            axes = list(range(len(shape)))
            self.random.shuffle(axes)
            return self.b.permute(x, axes)
        if kind == "slice" and shape and min(shape) > 0:
            axis = self.random.randrange(len(shape))
            start = self.random.randrange(shape[axis])
            return self.b.slice(
                x, axis, start, self.random.randint(start + 1, shape[axis]), self.random.choice((1, 1, 2, 3))
            )
        if kind == "expand" and len(shape) < 5 and np.prod(shape, dtype=int) * 3 <= LARGEST:
            return self.b.expand(self.b.reshape(x, [1, *shape]), (3, *shape))
        if kind == "flat" and shape:
            return self.b.reshape(x, [int(np.prod(shape, dtype=int))])
        return self.b.reshape(x, [*shape, 1]) if len(shape) < 5 else x

    def reduce(self, x: int) -> int:
        shape = self.b.shape(x)
        if not shape or 0 in shape:
            return self.unary(x)
        axes = self.random.sample(range(len(shape)), self.random.randint(1, len(shape)))
        op = self.random.choice(("sum", "amax", "amin", "argmax", "argmin"))
        if op == "sum":
            x = self.number(x)
        made = self.b.reduce(op, self.number(x) if op.startswith("arg") else x, axes, self.random.random() < 0.5)
        return self.calm(made)

    def joined(self, x: int) -> int:
        shape = self.b.shape(x)
        if not shape:
            return x
        axis = self.random.randrange(len(shape))
        if self.random.random() < 0.5:
            made = tuple(extent + (3 if at == axis else 0) for at, extent in enumerate(shape))
            before, after = ([n if at == axis else 0 for at in range(len(shape))] for n in (1, 2))
            return self.b.add("pad", (x,), made, self.b.kind(x), tuple(before), tuple(after), 0.0)
        made = tuple(extent * (2 if at == axis else 1) for at, extent in enumerate(shape))
        return self.b.add("cat", (x, x), made, self.b.kind(x), axis) if np.prod(made, dtype=int) <= LARGEST else x

    def product(self, x: int) -> int:
        shape = self.b.shape(x)
        if len(shape) < 1 or 0 in shape or self.b.kind(x) != "float" or len(self.arrays) >= 4:
            return self.binary(x)
        width = self.random.choice((1, 3, 17))
        dtype = self.random.choice(("float32", "float16"))
        self.arrays.append(draw(self.values, (shape[-1], width), dtype, -0.5, 0.5))
        self.dtypes.append(dtype)
        weight = self.b.input(len(self.arrays) - 1, (shape[-1], width), "float")
        lead = "abcde"[: len(shape) - 1]
        return self.calm(self.b.contract(self.calm(x), weight, (f"{lead}k", "kn", f"{lead}n")))

    def scan(self, x: int) -> int:
        shape = self.b.shape(x)
        if not shape or 0 in shape:
            return x
        x = self.number(self.calm(x))
        op = self.random.choice(("cumsum", "cummax", "cummin"))
        return self.b.add(op, (x,), shape, self.b.kind(x), self.random.randrange(len(shape)))

    def places(self, x: int) -> int:
        shape = self.b.shape(x)
        if not shape or 0 in shape or len(self.arrays) >= 4:
            return x
        axis = self.random.randrange(len(shape))
        index = self.values.integers(-shape[axis], shape[axis], (self.random.choice((1, 4, 9)),))
        self.arrays.append(index.astype(np.int64))
        self.dtypes.append("int64")
        node = self.b.input(len(self.arrays) - 1, index.shape, "int")
        rest = tuple(extent for at, extent in enumerate(shape) if at != axis)
        return self.b.add("take", (x, node), (*index.shape, *rest), self.b.kind(x), (axis,))

    def ordered(self, x: int) -> int:
        shape = self.b.shape(x)
        if not shape or 0 in shape or np.prod(shape, dtype=int) * max(shape) > 200000:
            return x
        op = self.random.choice(("sort", "sort-index"))
        x = self.number(x)
        kind = "int" if op == "sort-index" else self.b.kind(x)
        return self.b.add(op, (x,), shape, kind, self.random.randrange(len(shape)), self.random.random() < 0.5)
