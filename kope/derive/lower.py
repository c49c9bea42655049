"""From graph to vector instructions: what the vector unit has no instruction for is spelled out here.

Choices that cost or save instructions are the schedule's: they arrive as rewritten graphs (rewrite.py) or as names in
`choices`. What is done regardless keeps the meaning exactly, up to the rounding of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kope.derive.graph import COMPARE, REDUCE, Graph, GraphOutput, Node
from kope.derive.program import BINARY_STEPS, ROUND_STEPS, Program, Step
from kope.derive.scalar import Scalar, combine, const
from kope.errors import DeriveError

_SWAP = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_COMMUTES = ("add", "mul", "max", "min")


@dataclass
class Lowering:
    """Steps made so far, and where each node of the graph ended up."""

    graph: Graph
    choices: tuple[str, ...]
    steps: list[Step] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    line: int = 0

    def emit(self, op: str, *args: int, space: str = "", **fields: object) -> int:
        """Append a step; its space is the widest of its operands'."""
        spaces = {self.steps[arg].space for arg in args}
        wide = "full" if "full" in spaces or {"row", "col"} <= spaces else next(iter(spaces), "full")
        self.steps.append(Step(op, args, space or wide, line=self.line, **fields))  # type: ignore[arg-type]
        return len(self.steps) - 1

    def scalar(self, index: int) -> Scalar | None:
        """The scalar behind a node, None for a tensor."""
        return self.graph.nodes[index].expr

    # --- arithmetic ---

    def adds(self, x: int, value: Scalar) -> int:
        return x if value == const(0.0) else self.emit("adds", x, scalar=value)

    def muls(self, x: int, value: Scalar) -> int:
        return x if value == const(1.0) else self.emit("muls", x, scalar=value)

    def fill(self, value: Scalar, space: str) -> int:
        return self.emit("fill", space=space, scalar=value)

    def binary(self, op: str, left: int, right: int) -> int:
        """Two tensors. A wide operand comes first when it meets a row or column value."""
        spaces = (self.steps[left].space, self.steps[right].space)
        if spaces[0] == spaces[1]:
            return self.emit(op, left, right)
        if spaces[1] == "full" or spaces == ("col", "row"):
            if op in _COMMUTES:
                return self.binary(op, right, left)
            if op == "sub":
                return self.binary("add", self.muls(right, const(-1.0)), left)
            raise self.unsupported(f"{op} of a {spaces[0]} value by a {spaces[1]} one")
        if spaces[0] != "full":
            raise self.unsupported(f"{op} of a row value and a column value")
        return self.emit(op, left, right)

    def arithmetic(self, node: Node) -> int:
        """add, sub, mul, div, max, min with at most one scalar operand."""
        left, right = (self.scalar(arg) for arg in node.args)
        if left is None and right is None:
            return self.binary(node.op, self.value(node.args[0]), self.value(node.args[1]))
        if right is not None:
            return self.with_scalar(node.op, self.value(node.args[0]), right)
        assert left is not None
        x = self.value(node.args[1])
        if node.op == "sub":
            return self.adds(self.muls(x, const(-1.0)), left)
        if node.op == "div":
            if "approximate-reciprocal" in self.choices and self.steps[x].space == "full":
                return self.muls(self.emit("reciprocal", x), left)
            return self.emit("div", self.fill(left, self.steps[x].space), x)
        return self.with_scalar(node.op, x, left)

    def with_scalar(self, op: str, x: int, value: Scalar) -> int:
        """Tensor op scalar. Dividing a whole tensor multiplies by the inverse taken in float64; row values, of which
        there are few, are divided exactly."""
        if op in ("add", "sub"):
            return self.adds(x, value if op == "add" else combine("neg", value))
        if op == "div":
            if self.steps[x].space == "row":
                return self.emit("div", x, self.fill(value, "row"))
            return self.muls(x, combine("div", const(1.0), value))
        if op == "mul":
            return self.muls(x, value)
        return self.emit(op + "s", x, scalar=value)

    # --- functions ---

    def function(self, node: Node) -> int:
        """One-operand operators."""
        x = self.value(node.args[0])
        simple = {"exp", "log", "sqrt", "abs", *ROUND_STEPS}
        if node.op in simple:
            return self.emit(node.op, x)
        if node.op in ("and", "or"):
            return self.logical(node)
        if node.op not in _FUNCTIONS:
            raise self.unsupported(node.op)
        return _FUNCTIONS[node.op](self, x)

    def cast(self, node: Node) -> int:
        """Casts inside the graph: whole numbers are cut towards zero, narrow floats rounded, wide floats left alone."""
        x = self.value(node.args[0])
        if node.dtype in ("float16", "bfloat16"):
            return self.emit("narrow-half" if node.dtype == "float16" else "narrow-bfloat16", x)
        if node.kind == "int" and not self.is_whole(node.args[0]):
            return self.emit("trunc", x)
        return x

    def is_whole(self, index: int) -> bool:
        """Whether a node is known to hold whole numbers."""
        node = self.graph.nodes[index]
        if node.kind != "float" or node.op in ROUND_STEPS:
            return True
        if node.op == "scalar" and node.expr is not None:
            return node.expr.op == "const" and node.expr.value.is_integer()
        return node.op in ("max", "min", "neg", "abs") and all(self.is_whole(arg) for arg in node.args)

    # --- masks ---

    def compare(self, node: Node) -> int:
        """A comparison to a bit mask."""
        mode = node.op.upper()
        left, right = (self.scalar(arg) for arg in node.args)
        if left is not None:
            return self.emit("compares", self.value(node.args[1]), scalar=left, mask=True, mode=_SWAP[mode])
        x = self.value(node.args[0])
        if right is not None:
            return self.emit("compares", x, scalar=right, mask=True, mode=mode)
        return self.emit("compare", x, self.value(node.args[1]), mask=True, mode=mode)

    def mask(self, index: int) -> int:
        """A node as a bit mask: comparisons are one, loaded flags are compared with zero."""
        made = self.value(index, allow_mask=True)
        if self.steps[made].mask:
            return made
        return self.emit("compares", made, scalar=const(0.0), mask=True, mode="NE")

    def logical(self, node: Node) -> int:
        """and, or: of truth values as 1 and 0."""
        left, right = (self.truth(arg) for arg in node.args)
        return self.binary("min" if node.op == "and" else "max", left, right)

    def truth(self, index: int) -> int:
        """A node as 1 where it is not zero, else 0."""
        if self.graph.nodes[index].kind == "bool":
            return self.value(index)
        mask = self.mask(index)
        return self.emit("selects", mask, self.fill(const(1.0), self.steps[mask].space), scalar=const(0.0))

    def select(self, node: Node) -> int:
        """select(mask, a, b). A scalar goes second, where the instruction takes one."""
        mask = self.mask(node.args[0])
        yes, no = (self.scalar(arg) for arg in node.args[1:])
        if yes is not None:
            if no is not None:
                return self.emit("selects", mask, self.fill(yes, self.steps[mask].space), scalar=no)
            return self.emit("select", mask, self.fill(yes, self.steps[mask].space), self.value(node.args[2]))
        if no is not None:
            return self.emit("selects", mask, self.value(node.args[1]), scalar=no)
        return self.emit("select", mask, self.value(node.args[1]), self.value(node.args[2]))

    # --- walk ---

    def value(self, index: int, allow_mask: bool = False) -> int:
        """The step that holds a node; a mask becomes 1.0 and 0.0 where numbers are wanted."""
        if index not in self.place:
            expr = self.scalar(index)
            if expr is None:
                raise self.unsupported("a forward reference")
            return self.fill(expr, "full")
        made = self.place[index]
        if self.steps[made].mask and not allow_mask:
            made = self.emit("selects", made, self.fill(const(1.0), self.steps[made].space), scalar=const(0.0))
            self.place[index] = made
        return made

    def unsupported(self, what: str) -> DeriveError:
        return DeriveError(f"reference line {self.line}: {what} has no lowering yet; write the reference without it")

    def node(self, index: int) -> None:
        """Lower one node."""
        node = self.graph.nodes[index]
        if node.op == "scalar":
            return
        self.line = node.line or self.line
        if node.op == "load":
            if node.space == "one":
                raise self.unsupported("an input of a single element")
            made = self.emit("load", space=node.space, input=node.input, part=node.part)
        elif node.op in REDUCE:
            made = self.emit(node.op, self.value(node.args[0]), space="row")
        elif node.op in COMPARE:
            made = self.compare(node)
        elif node.op == "select":
            made = self.select(node)
        elif node.op == "cast":
            made = self.cast(node)
        elif node.op in BINARY_STEPS:
            made = self.arithmetic(node)
        else:
            made = self.function(node)
        self.place[index] = made


def _sigmoid(low: Lowering, x: int) -> int:
    grown = low.adds(low.emit("exp", low.muls(x, const(-1.0))), const(1.0))
    if "approximate-reciprocal" in low.choices:
        return low.emit("reciprocal", grown)
    return low.emit("div", low.fill(const(1.0), low.steps[x].space), grown)


def _tanh(low: Lowering, x: int) -> int:
    """1 - 2 / (exp(2 x) + 1): right at both ends, where exp overflows and where it vanishes."""
    grown = low.adds(low.emit("exp", low.muls(x, const(2.0))), const(1.0))
    if "approximate-reciprocal" in low.choices:
        share = low.muls(low.emit("reciprocal", grown), const(-2.0))
    else:
        share = low.emit("div", low.fill(const(-2.0), low.steps[x].space), grown)
    return low.adds(share, const(1.0))


def _sign(low: Lowering, x: int) -> int:
    """-1, 0 or 1: steep enough that every number but 0 reaches the bounds. NaN stays NaN."""
    steep = low.muls(low.muls(x, const(2.0**100)), const(2.0**100))
    return low.emit("maxs", low.emit("mins", steep, scalar=const(1.0)), scalar=const(-1.0))


_FUNCTIONS: dict[str, Callable[[Lowering, int], int]] = {
    "neg": lambda low, x: low.muls(x, const(-1.0)),
    "square": lambda low, x: low.emit("mul", x, x),
    "log1p": lambda low, x: low.emit("log", low.adds(x, const(1.0))),
    "expm1": lambda low, x: low.adds(low.emit("exp", x), const(-1.0)),
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "not": lambda low, x: low.emit("compares", x, scalar=const(0.0), mask=True, mode="EQ"),
    "sign": _sign,
    "isnan": lambda low, x: low.emit("compare", x, x, mask=True, mode="NE"),
}


def lower(graph: Graph, choices: tuple[str, ...] = ()) -> Program:
    """Return the instructions of a graph. Raises DeriveError for what has none."""
    low = Lowering(graph, choices)
    for index in range(len(graph.nodes)):
        low.node(index)
    outputs: list[GraphOutput] = []
    for output in graph.outputs:
        at = low.value(output.node)
        if low.steps[at].op == "load" or any(o.node == at for o in outputs):
            at = low.emit("muls", at, scalar=const(1.0))
        outputs.append(replace(output, node=at, space=low.steps[at].space))
    program = Program(graph.inputs, tuple(low.steps), tuple(outputs))
    return _without_dead(_fuse(program, choices))


def _fuse(program: Program, choices: tuple[str, ...]) -> Program:
    """a + s b in one instruction (axpy) and a b + c in one (fused-multiply-add), where the product has no other use."""
    uses = [0] * len(program.steps)
    for step in program.steps:
        for arg in step.args:
            uses[arg] += 1
    for output in program.outputs:
        uses[output.node] += 2
    steps = list(program.steps)
    for at, step in enumerate(steps):
        if step.op == "add" and step.space != "row":
            mixed = program.mixed(step)
            fused = (
                _fused_columns(steps, uses, step) if mixed == "col" else None if mixed else _fused(steps, uses, step)
            )
            if fused is not None and fused.op in choices:
                steps[at] = fused
    return replace(program, steps=tuple(steps))


def _fused_columns(steps: list[Step], uses: list[int], step: Step) -> Step | None:
    """x g + b with g and b per column."""
    product, added = step.args
    made = steps[product]
    if made.op != "mul" or uses[product] != 1 or steps[made.args[1]].space != "col":
        return None
    if uses[made.args[0]] != 1 or steps[made.args[0]].op == "load":
        return None
    return replace(step, op="fused-multiply-add", args=(made.args[0], made.args[1], added))


def _fused(steps: list[Step], uses: list[int], step: Step) -> Step | None:
    for kept, product in (step.args, step.args[::-1]):
        made = steps[product]
        if uses[product] != 1 or made.space != step.space or kept == product:
            continue
        if made.op == "muls" and uses[kept] == 1 and steps[kept].op != "load":
            return replace(step, op="axpy", args=(kept, made.args[0]), scalar=made.scalar)
        same = all(steps[arg].space == step.space for arg in made.args)
        if made.op == "mul" and same:
            for first, second in (made.args, made.args[::-1]):
                if uses[first] == 1 and first != second and steps[first].op != "load":
                    return replace(step, op="fused-multiply-add", args=(first, second, kept))
    return None


def _without_dead(program: Program) -> Program:
    needed: set[int] = {output.node for output in program.outputs}
    for at in range(len(program.steps) - 1, -1, -1):
        if at in needed:
            needed.update(program.steps[at].args)
    kept = sorted(needed)
    new = {old: at for at, old in enumerate(kept)}
    steps = tuple(replace(program.steps[old], args=tuple(new[a] for a in program.steps[old].args)) for old in kept)
    outputs = tuple(replace(output, node=new[output.node]) for output in program.outputs)
    return Program(program.inputs, steps, outputs)
