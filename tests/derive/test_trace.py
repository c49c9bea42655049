"""Tracing: what a reference computes is captured exactly, and what cannot be followed is refused with its line."""

from __future__ import annotations

import numpy as np
import pytest

from kope.derive.builder import canonical
from kope.derive.capture import capture_graph
from kope.derive.graph import Graph, traits
from kope.derive.interpret import run
from kope.derive.trace import capture, case_sizes, load_reference
from kope.errors import DeriveError
from tests.derive.operators import NAMES, PLAIN, shipped, small_task


def shape_of(graph: Graph) -> list[tuple[str, str]]:
    return [(node.op, node.space) for node in graph.nodes if node.op != "scalar"]


def test_a_row_normalization_becomes_a_typed_graph() -> None:
    graph = canonical(capture(shipped("rms_norm")))
    assert shape_of(graph) == [
        ("load", "full"), ("load", "col"), ("mul", "full"), ("sum", "row"), ("div", "row"), ("add", "row"),
        ("sqrt", "row"), ("div", "full"), ("mul", "full"),
    ]  # fmt: skip
    assert [node.expr.readable() for node in graph.nodes if node.expr] == ["x.shape[-1]", "eps"]
    assert graph.passes == 2
    assert not graph.flat


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_reference_is_captured_and_survives_json(name: str) -> None:
    graph = canonical(capture(shipped(name)))
    assert Graph.from_json(graph.to_json()) == graph
    assert graph.guards == ()
    assert {output.name for output in graph.outputs} == {output.name for output in shipped(name).outputs}


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_computes_what_the_reference_computes(name: str) -> None:
    task = shipped(name)
    graph = canonical(capture(task))
    case = task.cases[1]
    rng = np.random.default_rng(5)
    arrays = {
        item.spec.name: rng.integers(0, 2, item.spec.shape).astype(np.float64)
        if "int" in item.spec.dtype
        else rng.uniform(0.1, 2.0, item.spec.shape)
        for item in case.inputs
        if item is not None
    }
    attrs = {**task.attrs, **case.attrs}
    want = load_reference(task)(**{key: value.copy() for key, value in arrays.items()}, **attrs)
    got = run(graph, arrays, {key: float(value) for key, value in attrs.items()}, case_sizes(task, case))
    for left, right in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(left.ravel().astype(float), right.ravel().astype(float), rtol=1e-12, atol=1e-12)


def test_the_sandboxed_capture_gives_the_same_graph() -> None:
    task = shipped("layer_norm")
    assert capture_graph(task) == canonical(capture(task))


def test_attributes_stay_symbolic_in_any_expression() -> None:
    task = small_task("return x * (1.0 - beta ** step) / np.sqrt(beta)", PLAIN, attrs={"beta": 0.9, "step": 3})
    graph = canonical(capture(task))
    assert [node.expr.readable() for node in graph.nodes if node.expr] == ["(1 - pow(beta, step))", "sqrt(beta)"]


def test_sizes_stay_symbolic() -> None:
    graph = canonical(
        capture(small_task("n = x.shape[-1] // 2\nreturn x[..., :n] * x[..., n:] / n", [{"x": (4, 8)}, {"x": (3, 34)}]))
    )
    loads = [(node.part, node.parts) for node in graph.nodes if node.op == "load"]
    assert loads == [(0, 2), (1, 2)]
    assert [node.expr.readable() for node in graph.nodes if node.expr] == ["floordiv(x.shape[-1], 2)"]


def test_a_branch_on_an_attribute_becomes_a_guard() -> None:
    graph = capture(small_task("if half:\n    x = x * 0.5\nreturn np.exp(x)", PLAIN, attrs={"half": True}))
    assert [(guard.expr.readable(), guard.value) for guard in graph.guards] == [("half", 1.0)]


def test_reductions_without_keepdims_come_back_to_rows() -> None:
    kept = canonical(capture(small_task("return x - x.max(axis=-1, keepdims=True)", PLAIN)))
    added = canonical(capture(small_task("m = np.max(x, axis=-1)\nreturn x - m[..., None]", PLAIN)))
    expanded = canonical(capture(small_task("return x - np.expand_dims(np.max(x, -1), -1)", PLAIN)))
    assert kept.key() == added.key() == expanded.key()


def test_an_in_place_result_is_followed() -> None:
    written = capture(
        small_task(
            "y = x - x.max(axis=-1, keepdims=True)\nnp.exp(y, out=y)\ny /= y.sum(axis=-1, keepdims=True)\nreturn y",
            PLAIN,
        )
    )
    assert [op for op, _ in shape_of(written)] == ["load", "amax", "sub", "exp", "sum", "div"]


def test_a_masked_write_is_a_select() -> None:
    graph = capture(small_task("y = x * 1.5\ny[y < 0.0] = 0.0\nreturn y", PLAIN))
    assert [op for op, _ in shape_of(graph)] == ["load", "mul", "lt", "select"]


REFUSED = {
    "np.asarray": ("return np.exp(np.asarray(x))", "reference line 5: np.asarray or np.array lets a tensor escape"),
    "a branch on data": (
        "if np.max(x, axis=-1) > 0:\n    return x\nreturn -x",
        "reference line 5: a branch or assert depends on data",
    ),
    "a write into an input": ("x -= 1.0\nreturn x", "reference line 5: a write into an input"),
    "a write into a piece": ("y = x * 2\ny[..., 0] = 0.0\nreturn y", "reference line 6: a write into part of a tensor"),
    "np.add.at": (
        "y = np.zeros((4, 8))\nnp.add.at(y, 0, x)\nreturn y",
        "reference line 6: np.add (at) cannot be followed",
    ),
    "a loop over rows": ("return np.stack([np.exp(row) for row in x])", "reference line 5: a loop over the elements"),
    "a size as a loop count": ("for k in range(x.shape[0]):\n    x = x * 2.0\nreturn x", "takes a plain number from x"),
    "another axis": ("return x - x.sum(axis=0)", "reference line 5: sum over axis 0 of 2 is not supported yet"),
    "an array of constants": ("return x + np.arange(8)", "reference line 5: a constant array"),
    "an untraced result": ("return np.zeros((4, 8))", "output y is a plain ndarray"),
    "float16 arithmetic": ("return x.astype(np.float16) * 2.0", "reference line 5: arithmetic in a narrow float type"),
    "item": ("return x * x.item()", "reference line 5: .item of a tensor"),
    "no return": ("np.exp(x)", "output y is a plain NoneType"),
    "an error of its own": ("return undefined_name + x", "reference line 5: NameError"),
}


@pytest.mark.parametrize("trap", REFUSED)
def test_what_escapes_the_tracer_is_refused_with_its_line(trap: str) -> None:
    body, message = REFUSED[trap]
    with pytest.raises(DeriveError) as caught:
        capture(small_task(body, [{"x": (4, 8)}]))
    assert message in str(caught.value)


def test_hidden_state_is_caught_by_running_the_graph() -> None:
    body = "reference.calls = getattr(reference, 'calls', 0) + 1\nreturn x * float(reference.calls)"
    with pytest.raises(DeriveError, match="the captured graph is not the reference"):
        capture(small_task(body, PLAIN))


def test_randomness_is_caught_by_running_the_graph() -> None:
    with pytest.raises(DeriveError, match="the captured graph is not the reference"):
        capture(small_task("return x * np.random.default_rng().uniform(1.0, 2.0)", PLAIN))


def test_cases_of_another_structure_are_refused() -> None:
    with pytest.raises(DeriveError, match=r"case case-1: g of shape \(4, 1\) broadcasts differently"):
        capture(small_task("return x * g", [{"x": (4, 8), "g": (8,)}, {"x": (4, 8), "g": (4, 1)}]))


def test_a_reference_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from kope import sandbox
    from kope.derive import capture as module

    monkeypatch.setattr(module, "_LIMITS", sandbox.Limits(wall_s=1.0))
    with pytest.raises(DeriveError, match="it must not loop or wait"):
        capture_graph(small_task("while True:\n    pass", PLAIN))


def test_traits_name_the_structure_and_nothing_of_the_name() -> None:
    graph = canonical(capture(shipped("layer_norm")))
    assert traits(graph, ("float16", "float32")) == (
        "column-broadcast", "dtype:float16", "dtype:float32", "inputs:3", "outputs:1", "passes:3", "reductions:2",
        "row-reduction", "rows", "sum", "transcendental", "work:medium",
    )  # fmt: skip
