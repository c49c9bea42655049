"""Rules of ATen operators that look up, write at indices, sort and scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kope.derive.nest import selection
from kope.derive.nest.call import Call, Rule, T
from kope.derive.nest.tensors import TensorBuilder, broadcast, numel
from kope.errors import DeriveError


def _gather(c: Call) -> int:
    b, x, index = c.b, c.node(0), c.node(2)
    if not b.shape(x):
        return b.expand(x, b.shape(index))
    return b.add("take-along", (x, index), b.shape(index), b.kind(x), c.dim(c.args[1]))


def _index_select(c: Call) -> int:
    return take(c.b, c.node(0), c.dim(c.args[1]), c.node(2))


def take(b: TensorBuilder, x: int, dim: int, index: int) -> int:
    """x at the indices of one dimension; their axes take its place."""
    shape, count = b.shape(x), b.shape(index)
    rest = [axis for axis in range(len(shape)) if axis != dim]
    taken = b.add("take", (x, index), (*count, *(shape[axis] for axis in rest)), b.kind(x), (dim,))
    front, new = list(range(len(count))), len(count)
    order = [*range(new, new + dim), *front, *range(new + dim, new + len(rest))]
    return b.permute(taken, order)


def _embedding(c: Call) -> int:
    return take(c.b, c.node(0), 0, c.node(1))


def _indices(c: Call, given: Sequence[Any]) -> tuple[list[int], list[int]]:
    dims = [dim for dim, item in enumerate(given) if item is not None]
    nodes = [c.value(given[dim]) for dim in dims]
    if any(c.b.kind(node) == "bool" for node in nodes):
        raise DeriveError("indexing with a mask gives a shape that depends on data; use where")
    return dims, nodes


def _index(c: Call) -> int:
    b, x = c.b, c.node(0)
    dims, nodes = _indices(c, c.args[1])
    shape = b.shape(x)
    common = broadcast(*(b.shape(node) for node in nodes))
    rest = [axis for axis in range(len(shape)) if axis not in dims]
    taken = b.add("take", (x, *nodes), (*common, *(shape[axis] for axis in rest)), b.kind(x), tuple(dims))
    if dims != list(range(dims[0], dims[0] + len(dims))):
        return taken
    new, before = len(common), dims[0]
    order = [*range(new, new + before), *range(new), *range(new + before, new + len(rest))]
    return b.permute(taken, order)


def _index_put(c: Call) -> int:
    b, x = c.b, c.node(0)
    given = [(dim, item) for dim, item in enumerate(c.args[1]) if item is not None]
    if len(given) == 1 and b.kind(c.value(given[0][1])) == "bool" and not c.given(3, "accumulate", False):
        return _put_by_mask(c, given[0][0], c.value(given[0][1]))
    dims, nodes = _indices(c, c.args[1])
    shape = b.shape(x)
    common = broadcast(*(b.shape(node) for node in nodes))
    rest = [axis for axis in range(len(shape)) if axis not in dims]
    values = c.typed(c.node(2))
    if dims == list(range(dims[0], dims[0] + len(dims))) and dims[0] > 0:
        before = dims[0]
        spread = (*(shape[a] for a in rest[:before]), *common, *(shape[a] for a in rest[before:]))
        values = b.expand(values, spread)
        new = len(common)
        values = b.permute(values, [*range(before, before + new), *range(before), *range(before + new, len(spread))])
    else:
        values = b.expand(values, (*common, *(shape[axis] for axis in rest)))
    mode = "add" if c.given(3, "accumulate", False) else "set"
    return b.add("put", (x, values, *nodes), shape, b.kind(x), tuple(dims), mode)


def _put_by_mask(c: Call, dim: int, mask: int) -> int:
    """Where a mask over the axes from dim on holds, a value that is the same at all its places."""
    b, x = c.b, c.node(0)
    value = c.typed(c.node(2))
    rest = len(b.shape(x)) - dim - len(b.shape(mask))
    if numel(b.shape(value)) == 1:
        value = b.reshape(value, [])
    elif len(b.shape(value)) > rest:
        raise DeriveError("a mask places as many values as it has true elements, which depends on data; use where")
    wide = b.reshape(mask, [*[1] * dim, *b.shape(mask), *[1] * rest])
    return b.pointwise("select", wide, value, x)


def _scatter(mode: str) -> Rule:
    def rule(c: Call) -> int:
        b, x, index = c.b, c.node(0), c.node(2)
        source = b.expand(c.typed(c.node(3)), b.shape(index)) if not isinstance(c.args[3], T) else c.node(3)
        for axis, extent in enumerate(b.shape(index)):
            source = b.slice(source, axis, 0, extent)
        return b.add("put-along", (x, c.typed(source), index), b.shape(x), b.kind(x), c.dim(c.args[1]), mode)

    return rule


def _scatter_reduce(c: Call) -> int:
    modes = {"sum": "add", "amax": "amax", "amin": "amin"}
    mode = c.given(4, "reduce")
    if mode not in modes or not c.named.get("include_self", True):
        raise DeriveError(f"scatter_reduce by {mode} is not supported yet; use sum, amax or amin with include_self")
    return int(_scatter(modes[mode])(c))


def scatter_mode(c: Call) -> int:
    """scatter.reduce and scatter.value_reduce."""
    mode = c.named.get("reduce")
    if mode != "add":
        raise DeriveError(f"scatter with reduce={mode} is not supported yet")
    return int(_scatter("add")(c))


def _index_add(c: Call) -> int:
    b, x, dim = c.b, c.node(0), c.dim(c.args[1])
    values = c.typed(c.node(3))
    if c.named.get("alpha", 1) != 1:
        values = b.pointwise("mul", values, c.value(c.named["alpha"]))
    front = [dim, *(axis for axis in range(len(b.shape(x))) if axis != dim)]
    return b.add("put", (x, b.permute(values, front), c.node(2)), b.shape(x), b.kind(x), (dim,), "add")


def _sort(c: Call) -> list[int]:
    named = "stable" in c.named
    dim, descending = (c.named.get("dim", -1), c.named.get("descending", False)) if named else (-1, False)
    dim = c.given(1, "dim", dim)
    descending = c.given(2, "descending", descending)
    return _sorted(c, dim, bool(descending))


def _sorted(c: Call, dim: int, descending: bool) -> list[int]:
    x = c.node(0)
    axis = c.dim(dim)
    shape = c.shape(0)
    values = c.b.add("sort", (x,), shape, c.b.kind(x), axis, descending)
    return [values, c.b.add("sort-index", (x,), shape, "int", axis, descending)]


def _top_k(c: Call) -> list[int]:
    count, dim, largest = int(c.args[1]), c.given(2, "dim", -1), bool(c.given(3, "largest", True))
    axis = c.dim(dim)
    if c.shape(0) and selection.pays(c.shape(0)[axis], count):
        return list(selection.selected(c.b, c.node(0), axis, count, largest))
    return [c.b.slice(made, axis, 0, count) for made in _sorted(c, dim, largest)]


def _scan(op: str) -> Rule:
    return lambda c: c.b.add(op, (c.typed(c.node(0)),), c.shape(0), c.result.kind, c.dim(c.args[1]))


def _extreme_scan(op: str) -> Rule:
    """cummax and cummin: values, and where the latest of equal ones is."""

    def rule(c: Call) -> list[int]:
        b, x, axis = c.b, c.node(0), c.dim(c.args[1])
        shape = c.shape(0)
        values = b.add(op, (x,), shape, b.kind(x), axis)
        here = b.pointwise("eq", x, values)
        if b.kind(x) == "float":
            here = b.pointwise("or", here, b.pointwise("isnan", x))
        count = b.reshape(b.count(shape[axis]), [shape[axis], *[1] * (len(shape) - axis - 1)])
        place = b.pointwise("select", here, count, b.scalar(-1.0, "int"))
        return [values, b.add("cummax", (place,), shape, "int", axis)]

    return rule


RULES: dict[str, Rule] = {
    "gather": _gather,
    "index_select": _index_select,
    "embedding": _embedding,
    "index": _index,
    "index_put": _index_put,
    "scatter": _scatter("set"),
    "scatter_add": _scatter("add"),
    "scatter_reduce": _scatter_reduce,
    "index_add": _index_add,
    "sort": _sort,
    "topk": _top_k,
    "cumsum": _scan("cumsum"),
    "cumprod": _scan("cumprod"),
    "cummax": _extreme_scan("cummax"),
    "cummin": _extreme_scan("cummin"),
}
