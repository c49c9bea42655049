"""NumPy references beyond rows and columns: captured as loop nests and right on the twin, or refused; never wrong."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.derive.derivation import derive
from kope.derive.nest.cases import answer, load_function
from kope.derive.nest.meaning import run_tensors
from kope.derive.nest.numpy_child import agree, captured
from kope.derive.nest.tensors import TensorGraph
from kope.target.twin import TwinTarget
from tests.derive.nests import Sample, draw, wrong
from tests.derive.operators import small_task

Shapes = Mapping[str, tuple[int, ...]]

RIGHT: dict[str, tuple[str, Shapes]] = {
    "largest of columns": ("return x.max(axis=0)", {"x": (5, 70)}),
    "softmax down the columns": (
        "e = np.exp(x - x.max(axis=0, keepdims=True))\nreturn e / e.sum(axis=0, keepdims=True)", {"x": (9, 33)},
    ),
    "transposed product": ("return x.T @ g + 1.0", {"x": (17, 6), "g": (17, 9)}),
    "batched product of vectors": ("return np.einsum('bik,bjk->bij', x, g)", {"x": (2, 5, 7), "g": (2, 3, 7)}),
    "products with broadcast": ("return x @ g", {"x": (2, 1, 5, 7), "g": (3, 7, 4)}),
    "causal attention": (
        "s = x @ g.swapaxes(-1, -2) / np.sqrt(x.shape[-1])\nn = s.shape[-1]\n"
        "s = np.where(np.tril(np.ones((n, n), dtype=bool)), s, -np.inf)\n"
        "p = np.exp(s - s.max(-1, keepdims=True))\nreturn p / p.sum(-1, keepdims=True) @ g",
        {"x": (2, 9, 8), "g": (2, 9, 8)},
    ),
    "concatenation turned over": ("return np.concatenate([x, x[::-1] * 2.0], axis=1)", {"x": (4, 7)}),
    "a written box": ("y = np.zeros((5, 7))\ny[1:3, ::2] = x[1:3, ::2]\ny[4] += 1.0\nreturn y", {"x": (5, 7)}),
    "running sum of all axes": ("return np.cumsum(x, axis=1) + np.cumsum(x.T, axis=1).T", {"x": (5, 7)}),
    "a recurrence": (
        "h = np.zeros(x.shape[1])\nout = np.empty_like(x)\nfor t in range(x.shape[0]):\n"
        "    h = np.tanh(h * 0.5 + x[t])\n    out[t] = h\nreturn out",
        {"x": (4, 9)},
    ),
    "median and sort": ("return np.sort(x, axis=0) - np.median(x, axis=0)", {"x": (6, 5)}),
    "places of the largest": ("return np.take_along_axis(x, np.argsort(x, axis=-1)[:, -2:], axis=-1)", {"x": (6, 9)}),
    "rows looked up": ("i = np.argmax(x, axis=1)\nreturn x[np.arange(6), i] + x[:, 1][i % 6]", {"x": (6, 9)}),
    "statistics of channels": (
        "a = (0, 2, 3)\nm = x.mean(axis=a, keepdims=True)\nreturn (x - m) / np.sqrt(x.var(axis=a, keepdims=1) + 1e-3)",
        {"x": (2, 3, 4, 5)},
    ),
    "windows": (
        "p = np.pad(x, ((0, 0), (1, 1)))\nreturn np.stack([p[:, k:k + x.shape[1]] for k in range(3)]).mean(axis=0)",
        {"x": (4, 9)},
    ),
    "tiles and repeats": ("return np.tile(x, (2, 3)) * np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)", {"x": (3, 5)}),
    "added at equal places": (
        "y = np.zeros((3, 5))\nnp.add.at(y, np.array([0, 2, 0, 2]), x)\nreturn y", {"x": (4, 5)},
    ),
    "diagonals": ("return np.diagonal(x @ x.T, offset=1) + np.trace(x @ x.T)", {"x": (5, 4)}),
    "choices": ("y = np.select([x > 1, x > 0], [x, 2.0 * x], 0.25)\nreturn np.ascontiguousarray(y.T)", {"x": (5, 4)}),
    "norms": ("return np.linalg.norm(x, axis=0) * np.linalg.norm(x)", {"x": (5, 4)}),
    "rounding to half": ("return (x.T.astype(np.float16)).astype(np.float32) * 3.0", {"x": (5, 4)}),
}  # fmt: skip

REFUSED = {
    "a branch on data": ("if x.sum() > 0:\n    return x.T\nreturn -x.T", "reference line 5: a branch"),
    "a shape from data": ("return x[x > 0]", "reference line 5: indexing with a mask"),
    "a write into an input": ("x[0] = 1.0\nreturn x.T", "reference line 5: a write into an input"),
    "a write through a view": ("y = x + 1.0\ny.T[0] = 2.0\nreturn y.T", "reference line 6: a write into an input"),
    "a view that outlives a write": ("a = x.copy()\nb = a[0]\na[0] = 5.0\nreturn b + a", "effects the tracer cannot"),
    "a number taken out": ("return x.T * float(x[0, 0])", "reference line 5: float()"),
    "a plain result": ("return 4.0", "result 0 is a plain float"),
    "an operator without lowering": ("return np.linalg.inv(x)", "reference line 5: np.inv"),
    "arithmetic in half": ("return np.exp(x.astype(np.float16).T)", "reference line 5: np.exp in float16"),
    "randomness": ("return x.T + np.random.rand(4, 4)", "not the reference's on random numbers"),
    "lists of numbers": ("return np.array([float(v) for v in x[0]])", "reference line 5: float()"),
    "an order left open": ("return np.argsort((x.T * 2).astype(np.int32))", "reference line 5: np.argsort of whole"),
}


def in_process(body: str, shapes: Shapes) -> tuple[Any, dict[str, Any]]:
    """The reference as a function, and what the child says of one case of it."""
    function = load_function(small_task(body, [shapes]).reference, "reference")
    inputs = [{"shape": list(shape), "dtype": "float32", "range": [-2.0, 2.0]} for shape in shapes.values()]
    parameters = [{"name": name, "kind": "tensor", "places": [at]} for at, name in enumerate(shapes)]
    return function, answer(captured, function, function, {"inputs": inputs, "attrs": {}, "parameters": parameters})


def held_against_numpy(name: str, body: str, shapes: Shapes, rng: np.random.Generator) -> Sample | None:
    """The captured graph with values for its inputs, after comparing it with the reference; None when refused."""
    function, said = in_process(body, shapes)
    if "graph" not in said:
        assert said["error"], name
        return None
    graph = TensorGraph.from_json(said["graph"])
    arrays = [draw(rng, shape, "float32") for shape in shapes.values()]
    wide = [array.astype(np.float64) for array in arrays]
    with np.errstate(all="ignore"):
        wanted = np.asarray(function(**dict(zip(shapes, [array.copy() for array in wide], strict=True))))
    (got,) = run_tensors(graph, dict(enumerate(wide)))
    assert agree(np.asarray(got), wanted, 2e-3), f"{name}: {body}"
    return Sample(name, graph, arrays, ["float32"] * len(arrays), ["float32"])


def test_captured_references_give_right_kernels(twin_cache: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    samples = [held_against_numpy(name, body, shapes, rng) for name, (body, shapes) in RIGHT.items()]
    assert [name for name, sample in zip(RIGHT, samples, strict=True) if sample is None] == []
    assert wrong(TwinTarget(twin_cache), [sample for sample in samples if sample], tmp_path) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_captured_is_refused_with_the_reason(name: str) -> None:
    body, reason = REFUSED[name]
    _, said = in_process(body, {"x": (4, 4)})
    assert re.search(re.escape(reason), said["error"])


def test_what_fits_rows_stays_there_and_the_rest_becomes_nests() -> None:
    assert derive(small_task("return x - x.max(axis=-1, keepdims=True)", [{"x": (4, 8)}])).form == "rows"
    made = derive(small_task("return x - x.max(axis=0, keepdims=True)", [{"x": (4, 8)}, {"x": (3, 5)}]))
    assert (made.form, len(made.nests.cases if made.nests else ())) == ("nests", 2)


STEPS = (
    "{a} + {b}", "{a} * {b}", "{a} - 0.5 * {b}", "np.maximum({a}, {b})", "np.where({a} > {b}, {a}, 0.25)",
    "np.exp(-np.abs({a}))", "np.tanh({a})", "{a}.T", "{a}.swapaxes(0, -1)", "{a}[::-1]", "{a}[..., 1:]", "{a}[0]",
    "{a}[:, None]", "{a}[1::2]", "{a}.sum(axis=0)", "{a}.mean(axis=-1, keepdims=True)",
    "{a}.max(axis=0, keepdims=True)",
    "{a}.min(axis=-1)", "np.cumsum({a}, axis=0)", "np.sort({a}, axis=-1)", "np.concatenate([{a}, {b}], axis=0)",
    "np.stack([{a}, {b}])", "{a} @ {b}", "{a} @ {b}.T", "{a}.reshape(-1)", "np.expand_dims({a}, 1)",
    "np.broadcast_to({a}, (2,) + {a}.shape)", "np.roll({a}, 1, axis=0)", "np.pad({a}, 1)", "np.flip({a}, -1)",
    "np.take({a}, [0, -1, 0], axis=0)", "{a}.var(axis=0)", "np.outer({a}, {b})", "np.diff({a}, axis=-1)",
    "np.tril({a})", "np.repeat({a}, 2, axis=0)", "np.moveaxis({a}, 0, -1)", "np.prod({a}, axis=0)",
    "np.take_along_axis({a}, np.argsort({a}, axis=0), axis=0)", "{a}[np.argmax({a}, axis=0) % {a}.shape[0]]",
    "np.clip({a}, -0.5, {b})", "np.einsum('ij,kj->ik', {a}, {b})", "{a} / (np.abs({b}) + 1.0)", "np.squeeze({a})",
)  # fmt: skip


def random_reference(seed: int) -> tuple[str, Shapes]:
    """A few steps one after the other, each of values that came before."""
    rng = random.Random(seed)
    rank = rng.randint(1, 3)
    shape = tuple(rng.choice((1, 2, 3, 5)) for _ in range(rank))
    other = tuple(extent if rng.random() < 0.8 else 1 for extent in shape)
    names, lines = ["x", "g"], []
    for at in range(rng.randint(1, 6)):
        step = rng.choice(STEPS).format(a=rng.choice(names[-3:]), b=rng.choice(names[-3:]))
        lines.append(f"v{at} = {step}")
        names.append(f"v{at}")
    return "\n".join([*lines, f"return {names[-1]}"]), {"x": shape, "g": other}


def runs_in_numpy(body: str, shapes: Shapes) -> bool:
    """Whether NumPy itself takes the reference and gives finite numbers of reasonable size."""
    function = load_function(small_task(body, [shapes]).reference, "reference")
    rng = np.random.default_rng(0)
    try:
        with np.errstate(all="ignore"):
            made = np.asarray(function(**{name: rng.uniform(-2, 2, shape) for name, shape in shapes.items()}))
    except (ValueError, IndexError, TypeError):
        return False
    return made.dtype.kind == "f" and 0 < made.size < 4000 and bool(np.all(np.abs(made) < 1e4))


def check_random(seed: int, twin_cache: Path, tmp_path: Path) -> None:
    """Twenty random references in one kernel; nearly all that NumPy takes are captured."""
    rng, samples, asked = np.random.default_rng(seed), [], 0
    for number in range(1000 * seed, 1000 * seed + 400):
        body, shapes = random_reference(number)
        if len(samples) < 20 and runs_in_numpy(body, shapes):
            asked += 1
            sample = held_against_numpy(f"{number}: {body}", body, shapes, rng)
            samples += [sample] if sample is not None else []
    assert len(samples) >= 0.8 * asked
    assert wrong(TwinTarget(twin_cache), samples, tmp_path) == []


def test_random_references_are_right_on_the_twin_or_refused(twin_cache: Path, tmp_path: Path) -> None:
    check_random(0, twin_cache, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_more_random_references_are_right_on_the_twin_or_refused(seed: int, twin_cache: Path, tmp_path: Path) -> None:
    check_random(seed, twin_cache, tmp_path)
