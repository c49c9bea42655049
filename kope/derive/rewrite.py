"""Named rewrites of a graph into one that computes the same with fewer or cheaper vector instructions.

Each is a move of the schedule space. All are identities in real numbers; what they do to rounding and overflow is said
at each, and whether the result is still right is for the evaluator to find.
"""

from __future__ import annotations

from collections.abc import Callable

from kope.derive.builder import Builder, rebuild
from kope.derive.graph import Graph, Node
from kope.derive.scalar import Scalar, combine, const

TANH_SATURATES = 20.0
"""tanh(log(1 + exp(z))) equals 1 to float32 from z = 9 on; the bound keeps exp(z) squared finite."""


def _nodes(builder: Builder, index: int) -> tuple[Node, tuple[int, ...]]:
    node = builder.nodes[index]
    return node, node.args


def _match(builder: Builder, index: int, op: str) -> tuple[int, ...] | None:
    """Arguments of a value when it was made by this operator."""
    node, args = _nodes(builder, index)
    return args if node.op == op else None


def _scalar_side(builder: Builder, args: tuple[int, ...]) -> tuple[int, Scalar] | None:
    """For a commutative pair with exactly one scalar: (tensor, scalar)."""
    left, right = (builder.expr(arg) for arg in args)
    if left is None and right is not None:
        return args[0], right
    if right is None and left is not None:
        return args[1], left
    return None


def tanh_as_sigmoid(graph: Graph) -> Graph:
    """1 + tanh(z) = 2 sigmoid(2 z): saves two instructions, and the cancellation at large negative z."""

    def visit(builder: Builder, index: int, node: Node, args: tuple[int, ...]) -> int | None:
        if node.op != "add":
            return None
        pair = _scalar_side(builder, args)
        inner = _match(builder, pair[0], "tanh") if pair and pair[1] == const(1.0) else None
        if inner is None:
            return None
        twice = builder.add("mul", inner[0], builder.scalar(2.0), line=node.line)
        return builder.add("mul", builder.add("sigmoid", twice, line=node.line), builder.scalar(2.0), line=node.line)

    return rebuild(graph, visit)


def rational_tanh(graph: Graph) -> Graph:
    """tanh(log(1 + e)) = u / (u + 2) with u = e (e + 2), e = exp(min(z, 20)): one exp and one division in all."""

    def visit(builder: Builder, index: int, node: Node, args: tuple[int, ...]) -> int | None:
        if node.op != "tanh":
            return None
        exponent = _softplus_argument(builder, args[0])
        if exponent is None:
            return None
        line = node.line
        clamped = builder.add("min", exponent, builder.scalar(TANH_SATURATES), line=line)
        e = builder.add("exp", clamped, line=line)
        u = builder.add("mul", e, builder.add("add", e, builder.scalar(2.0), line=line), line=line)
        return builder.add("div", u, builder.add("add", u, builder.scalar(2.0), line=line), line=line)

    return rebuild(graph, visit)


def _softplus_argument(builder: Builder, index: int) -> int | None:
    """z when the value is log1p(exp(z)), log(1 + exp(z)), or max(z, 0) + log1p(exp(-|z|))."""
    inner = _match(builder, index, "log1p")
    if inner is None and (logged := _match(builder, index, "log")) is not None:
        added = _match(builder, logged[0], "add")
        pair = _scalar_side(builder, added) if added else None
        inner = (pair[0],) if pair and pair[1] == const(1.0) else None
    if inner is not None:
        exponent = _match(builder, inner[0], "exp")
        return exponent[0] if exponent else None
    added = _match(builder, index, "add")
    return _stable_softplus(builder, added) if added else None


def _stable_softplus(builder: Builder, args: tuple[int, ...]) -> int | None:
    for high, rest in (args, args[::-1]):
        clamped, logged = _match(builder, high, "max"), _match(builder, rest, "log1p")
        pair = _scalar_side(builder, clamped) if clamped else None
        powered = _match(builder, logged[0], "exp") if logged else None
        if not pair or pair[1] != const(0.0) or not powered:
            continue
        negated = _match(builder, powered[0], "neg")
        size = _match(builder, negated[0], "abs") if negated else None
        if size and _strip_zero(builder, size[0]) == pair[0]:
            return pair[0]
    return None


def _strip_zero(builder: Builder, index: int) -> int:
    """z of 0 - z or z - 0 (what np.logaddexp(0, z) leaves inside its absolute value)."""
    args = _match(builder, index, "sub")
    pair = _scalar_side(builder, args) if args else None
    return pair[0] if pair and pair[1] == const(0.0) else index


def merge_divisions(graph: Graph) -> Graph:
    """x * (1 / d) = x / d, and x * sigmoid(z) = x / (1 + exp(-z)): one instruction and one rounding less."""

    def visit(builder: Builder, index: int, node: Node, args: tuple[int, ...]) -> int | None:
        if node.op != "mul":
            return None
        for x, other in (args, args[::-1]):
            made, inner = _nodes(builder, other)
            if made.op == "sigmoid" and builder.expr(x) is None:
                negative = builder.add("neg", inner[0], line=node.line)
                grown = builder.add("exp", negative, line=node.line)
                return builder.add("div", x, builder.add("add", grown, builder.scalar(1.0)), line=node.line)
            if made.op == "div" and builder.expr(inner[0]) is not None:
                top = builder.add("mul", x, inner[0], line=node.line)
                return builder.add("div", top, inner[1], line=node.line)
        return None

    return rebuild(graph, visit)


def fold_scalars(graph: Graph) -> Graph:
    """Collect the scalar factors of a product into one: (a x) (b y) = (a b) (x y). Changes the order of roundings."""
    single = {index for index in range(len(graph.nodes)) if len(graph.users(index)) <= 1}
    held = {output.node for output in graph.outputs}

    def factors(index: int, top: bool) -> tuple[Scalar, list[int]]:
        node = graph.nodes[index]
        if node.op == "scalar" and node.expr is not None:
            return node.expr, []
        if not top and (index not in single or index in held):
            return const(1.0), [index]
        if node.op == "neg":
            scale, rest = factors(node.args[0], False)
            return combine("mul", const(-1.0), scale), rest
        if node.op == "mul" and node.kind == "float":
            left, right = factors(node.args[0], False), factors(node.args[1], False)
            return combine("mul", left[0], right[0]), left[1] + right[1]
        divisor = graph.nodes[node.args[1]].expr if node.op == "div" else None
        if divisor is not None:
            scale, rest = factors(node.args[0], False)
            return combine("div", scale, divisor), rest
        return const(1.0), [index]

    place: dict[int, int] = {}

    def visit(builder: Builder, index: int, node: Node, args: tuple[int, ...]) -> int | None:
        made: int | None = None
        if node.op in ("mul", "neg", "div") and node.kind == "float" and node.expr is None:
            scale, rest = factors(index, True)
            if rest != [index]:
                made = _product(builder, scale, [place[item] for item in rest], node.line)
        place[index] = builder.keep(node, args) if made is None else made
        return place[index]

    return rebuild(graph, visit)


def _product(builder: Builder, scale: Scalar, factors: list[int], line: int) -> int:
    """A product with its narrow factors (rows, columns) multiplied into the wide ones last, and one scale."""
    order = sorted(factors, key=lambda at: builder.nodes[at].space != "full")
    product = order[0]
    for factor in order[1:]:
        product = builder.add("mul", product, factor, line=line)
    return builder.add("mul", product, builder.scalar(scale), line=line)


def reciprocal_rows(graph: Graph) -> Graph:
    """x / r = x * (1 / r) for one r per row: the division is done once per row. One more rounding."""

    def visit(builder: Builder, index: int, node: Node, args: tuple[int, ...]) -> int | None:
        if node.op != "div" or builder.nodes[args[0]].space != "full" or builder.nodes[args[1]].space != "row":
            return None
        inverse = builder.add("div", builder.scalar(1.0), args[1], line=node.line)
        return builder.add("mul", args[0], inverse, line=node.line)

    return rebuild(graph, visit)


def one_pass_variance(graph: Graph) -> Graph:
    """sum((x - mean)^2) = sum(x^2) - n mean^2: both sums in one visit of the row. Cancels when |mean| >> deviation."""

    def visit(builder: Builder, index: int, node: Node, args: tuple[int, ...]) -> int | None:
        if node.op != "sum":
            return None
        x, mean = _centred(builder, args[0])
        total = _match(builder, mean, "div") if mean >= 0 else None
        count = builder.expr(total[1]) if total else None
        summed = _match(builder, total[0], "sum") if total else None
        if total is None or count is None or summed is None or summed[0] != x:
            return None
        squares = builder.add("sum", builder.add("square", x, line=node.line), line=node.line)
        excess = builder.add("mul", mean, total[0], line=node.line)
        difference = builder.add("sub", squares, excess, line=node.line)
        return builder.add("max", difference, builder.scalar(0.0), line=node.line)

    return rebuild(graph, visit)


def _centred(builder: Builder, index: int) -> tuple[int, int]:
    """(x, mean) when the value is (x - mean)^2 with one mean per row, else (-1, -1)."""
    node, args = _nodes(builder, index)
    inner = args[0] if node.op == "square" or (node.op == "mul" and args[0] == args[1]) else -1
    difference = _match(builder, inner, "sub") if inner >= 0 else None
    if difference is None or builder.nodes[difference[1]].space != "row":
        return -1, -1
    return difference[0], difference[1]


Rewrite = Callable[[Graph], Graph]
REWRITES: dict[str, Rewrite] = {
    "one-pass-variance": one_pass_variance,
    "tanh-as-sigmoid": tanh_as_sigmoid,
    "rational-tanh": rational_tanh,
    "reciprocal-rows": reciprocal_rows,
    "fold-scalars": fold_scalars,
    "merge-divisions": merge_divisions,
}
"""In the order in which they are applied, whatever the order in which a schedule took them up."""


def apply_rewrites(graph: Graph, names: tuple[str, ...]) -> Graph:
    """Apply the named rewrites. Raises KeyError for an unknown name."""
    unknown = set(names) - set(REWRITES)
    if unknown:
        raise KeyError(", ".join(sorted(unknown)))
    for name, rewrite in REWRITES.items():
        if name in names:
            graph = rewrite(graph)
    return graph
