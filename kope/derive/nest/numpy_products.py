"""NumPy's sums of products on recorders: matmul and its like, einsum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kope.derive.nest.array import Array, array_of, at_line, builder_of
from kope.derive.tape import refuse

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def matmul(x: Any, y: Any) -> Array:
    """x @ y with NumPy's broadcasting of batches, and vectors on either side."""
    builder = builder_of((x, y))
    x, y = array_of(builder, x), array_of(builder, y)
    if not x.ndim or not y.ndim:
        raise ValueError("matmul: an operand has no axes")
    rank = max(x.ndim, y.ndim, 2)
    batch = _LETTERS[: rank - 2]
    left = batch[rank - x.ndim :] + "YZ" if x.ndim > 1 else "Z"
    right = batch[rank - y.ndim :] + "ZX" if y.ndim > 1 else "Z"
    out = batch + ("Y" if x.ndim > 1 else "") + ("X" if y.ndim > 1 else "")
    return _summed([(x, left), (y, right)], out)


def einsum(subscripts: Any, *operands: Any, **rest: Any) -> Array:
    """np.einsum with letters for all axes, of any number of factors."""
    if not isinstance(subscripts, str) or "." in subscripts:
        raise refuse("np.einsum with lists or an ellipsis", "write it with one letter per axis")
    builder = builder_of(operands)
    inputs, arrow, out = subscripts.replace(" ", "").partition("->")
    labels = inputs.split(",")
    if not arrow:
        out = "".join(sorted(letter for letter in set(inputs) - {","} if inputs.count(letter) == 1))
    if any(len(set(part)) != len(part) for part in (*labels, out)):
        raise refuse("np.einsum of a diagonal", "take np.diagonal first")
    given = [array_of(builder, item) for item in operands]
    if [len(part) for part in labels] != [item.ndim for item in given]:
        raise ValueError("einsum: labels and axes do not agree")
    return _summed(list(zip(given, labels, strict=True)), out)


def _summed(factors: list[tuple[Array, str]], out: str) -> Array:
    """The sum of products over all labels that the result does not have, two factors at a time.

    An axis of extent 1 joins a longer one of the same label.
    """
    dtype = np.result_type(*(item.dtype for item, _ in factors))
    if dtype.kind == "b" or dtype.name in ("float16", "bfloat16", "int8", "uint8", "int16", "uint16"):
        raise refuse(f"a product of matrices in {dtype.name}", "compute in float32 or int32 and cast the result")
    extents = _extents(factors)
    factors = [_without_ones(item, labels, extents) for item, labels in factors]
    x, have = factors[0]
    for at, (y, labels) in enumerate(factors[1:], start=1):
        later = {letter for _, rest in factors[at + 1 :] for letter in rest}
        wanted = [letter for letter in dict.fromkeys(have + labels) if letter in out or letter in later]
        x, have = _pair(x, have, y, labels, "".join(wanted), dtype)
    x, have = _only(x, have, out)
    b = at_line(x.builder)
    held = [letter for letter in out if letter in have]
    node = b.permute(x.node, [have.index(letter) for letter in held]) if held else x.node
    spread = b.reshape(node, [extents[letter] if letter in have else 1 for letter in out])
    return Array(b, b.expand(spread, [extents[letter] for letter in out]), dtype)


def _extents(factors: Sequence[tuple[Array, str]]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for item, labels in factors:
        for letter, extent in zip(labels, item.shape, strict=True):
            if extents.setdefault(letter, extent) == 1:
                extents[letter] = extent
            elif extent not in (1, extents[letter]):
                raise ValueError(f"axes of {extents[letter]} and {extent} do not go together in a sum of products")
    return extents


def _without_ones(x: Array, labels: str, extents: dict[str, int]) -> tuple[Array, str]:
    """Without axes that only broadcast."""
    kept = [at for at, letter in enumerate(labels) if x.shape[at] == extents[letter]]
    node = at_line(x.builder).reshape(x.node, [x.shape[at] for at in kept])
    return Array(x.builder, node, x.dtype), "".join(labels[at] for at in kept)


def _only(x: Array, have: str, wanted: str) -> tuple[Array, str]:
    """Summed over the labels that nothing needs."""
    gone = [at for at, letter in enumerate(have) if letter not in wanted]
    if not gone:
        return x, have
    node = at_line(x.builder).reduce("sum", x.node, gone)
    return Array(x.builder, node, x.dtype), "".join(letter for letter in have if letter in wanted)


def _pair(x: Array, left: str, y: Array, right: str, out: str, dtype: Any) -> tuple[Array, str]:
    x, left = _only(x, left, right + out)
    y, right = _only(y, right, left + out)
    b = at_line(x.builder)
    if set(left) <= set(out) and set(right) <= set(out):  # nothing is summed
        node = b.pointwise("mul", _aligned(x, left, out), _aligned(y, right, out))
    else:
        node = b.contract(x.node, y.node, (left, right, out))
    return Array(b, node, dtype), out


def _aligned(x: Array, labels: str, out: str) -> int:
    b = x.builder
    held = [letter for letter in out if letter in labels]
    node = b.permute(x.node, [labels.index(letter) for letter in held]) if held else x.node
    shape = iter(b.shape(node))
    return b.reshape(node, [next(shape) if letter in labels else 1 for letter in out])


def _dot(x: Any, y: Any) -> Any:
    builder = builder_of((x, y))
    x, y = array_of(builder, x), array_of(builder, y)
    if not x.ndim or not y.ndim:
        return x * y
    if y.ndim > 2:
        raise refuse("np.dot with more than two axes on the right", "use np.matmul or np.einsum")
    return matmul(x, y) if x.ndim <= 2 or y.ndim == 2 else _tensordot(x, y, 1)


def _tensordot(x: Any, y: Any, axes: Any = 2) -> Array:
    builder = builder_of((x, y))
    x, y = array_of(builder, x), array_of(builder, y)
    if isinstance(axes, int):
        pairs = ([x.ndim - axes + k for k in range(axes)], list(range(axes)))
    else:
        left, right = ([part] if isinstance(part, int) else list(part) for part in axes)
        pairs = ([at % x.ndim for at in left], [at % y.ndim for at in right])
    one, other = _LETTERS[: x.ndim], list(_LETTERS[x.ndim : x.ndim + y.ndim])
    for a, b in zip(*pairs, strict=True):
        if x.shape[a] != y.shape[b]:
            raise ValueError("shape-mismatch for sum")
        other[b] = one[a]
    out = [letter for letter in [*one, *other] if (letter in one) != (letter in other)]
    return _summed([(x, one), (y, "".join(other))], "".join(out))


def _outer(x: Any, y: Any) -> Any:
    builder = builder_of((x, y))
    x, y = array_of(builder, x), array_of(builder, y)
    return np.reshape(x, (-1, 1)) * np.reshape(y, (1, -1))


def _inner(x: Any, y: Any) -> Any:
    builder = builder_of((x, y))
    x, y = array_of(builder, x), array_of(builder, y)
    return _tensordot(x, y, ([-1], [-1])) if x.ndim and y.ndim else x * y


PRODUCTS: dict[Any, Callable[..., Any]] = {
    np.dot: _dot, np.einsum: einsum, np.tensordot: _tensordot, np.outer: _outer, np.inner: _inner,
    np.vdot: lambda x, y: _inner(np.ravel(x), np.ravel(y)),
}  # fmt: skip
