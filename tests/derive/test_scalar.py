"""Scalar expressions: the same number in Python and in the C++ text, folded where that loses nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kope.derive.body import number
from kope.derive.naming import identifiers
from kope.derive.scalar import Scalar, combine, const, cpp_number
from kope.errors import DeriveError

BETA = Scalar("attr", name="beta")
COLUMNS = Scalar("size", name="x.-1")


def test_an_expression_says_the_same_in_every_form() -> None:
    expr = combine("div", combine("sub", const(1.0), combine("pow", BETA, const(3.0))), COLUMNS)
    assert expr.evaluate({"beta": 0.5}, {"x.-1": 8.0}) == (1.0 - 0.5**3) / 8.0
    assert expr.cpp() == "((1.0 - std::pow(attr_beta, 3.0)) / size_x_1)"
    assert expr.readable() == "((1 - pow(beta, 3)) / x.shape[-1])"
    assert Scalar.from_json(expr.to_json()) == expr
    assert [leaf.name for leaf in expr.leaves()] == ["beta", "x.-1"]


def test_neutral_elements_and_constants_are_folded() -> None:
    assert combine("mul", const(1.0), BETA) == BETA
    assert combine("sub", BETA, const(0.0)) == BETA
    assert combine("mul", const(2.0), const(3.0)) == const(6.0)
    assert combine("sub", const(0.0), BETA).op == "sub"


def test_division_by_zero_is_what_floats_make_of_it() -> None:
    assert combine("div", const(1.0), const(0.0)) == const(math.inf)
    assert math.isnan(combine("div", const(0.0), const(0.0)).value)


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(DeriveError, match="no attr called beta"):
        BETA.evaluate({}, {})


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_literal_reads_back(value: float) -> None:
    assert float(cpp_number(value).strip("()")) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_literal_reads_back(value: float) -> None:
    text = number(value)
    assert text.endswith("f")
    assert float(text.removesuffix("f")) == pytest.approx(value, rel=1e-7)


def test_names_clash_neither_with_keywords_nor_with_each_other() -> None:
    assert identifiers(["x", "float", "x", "2nd", "m_new", "t0", "rows"], "In") == [
        "x", "floatIn", "xIn", "tensor2nd", "mNew", "t0In", "rowsIn",
    ]  # fmt: skip
    assert identifiers(["x", "y"], "Out", ["x", "xOut"]) == ["xOut2", "y"]
