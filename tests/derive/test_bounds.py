"""Integers that float32 lanes cannot hold are refused, those that are only moved are not."""

from __future__ import annotations

import pytest

from kope.derive.nest.bounds import check_exact
from kope.derive.nest.tensors import TensorBuilder
from kope.errors import DeriveError

WIDE = float(1 << 31)


def test_moved_integers_keep_all_bits() -> None:
    b = TensorBuilder()
    x = b.input(0, (4, 5), "int")
    index = b.input(1, (3,), "int")
    taken = b.add("take", (b.permute(x, [1, 0]), index), (3, 4), "int", (0,))
    check_exact(b.finish([taken]), [WIDE, 4.0])


@pytest.mark.parametrize("op", ["add", "max", "mul"])
def test_computed_integers_beyond_the_exact_range_are_refused(op: str) -> None:
    b = TensorBuilder()
    x, y = b.input(0, (4,), "int"), b.input(1, (4,), "int")
    graph = b.finish([b.pointwise(op, x, y)])
    check_exact(graph, [2000.0, 2000.0])
    with pytest.raises(DeriveError, match=rf"{op} of integers up to .*: beyond 2\^24"):
        check_exact(graph, [WIDE, 1.0])


def test_comparisons_need_exact_operands() -> None:
    b = TensorBuilder()
    graph = b.finish([b.pointwise("lt", b.input(0, (4,), "int"), b.scalar(3.0, "int"))])
    with pytest.raises(DeriveError, match="lt of integers"):
        check_exact(graph, [WIDE])


def test_what_becomes_a_float_may_round() -> None:
    b = TensorBuilder()
    total = b.contract(b.input(0, (8, 4096), "int"), b.input(1, (4096, 8), "int"), ("mk", "kn", "mn"))
    check_exact(b.finish([b.pointwise("mul", total, b.scalar(0.01))]), [127.0, 127.0])
