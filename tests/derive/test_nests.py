"""Kernels of loop nests on the twin: every kind of phase is right on awkward shapes, in every tile size."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.derive.derivation import NEST_SCHEDULE
from kope.derive.nest import composed, selection
from kope.derive.nest.meaning import run_tensors
from kope.derive.nest.planner import plan_phases
from kope.derive.nest.signature import signature_of
from kope.derive.nest.tensors import TensorBuilder, TensorGraph
from kope.derive.schedule import Schedule
from kope.errors import DeriveError
from kope.target.twin import TwinTarget
from tests.derive.nests import KINDS, Sample, draw, source_of, task_of, wrong
from tests.derive.random_nests import Maker

Build = Callable[..., Any]
RANDOM = 24
"""Random graphs that always run; the slow proof runs 300."""


@pytest.fixture(scope="module")
def target(twin_cache: Path) -> TwinTarget:
    return TwinTarget(twin_cache)


def sample(
    name: str, build: Build, inputs: list[tuple[tuple[int, ...], str]], outputs: list[str], high: float = 2.0
) -> Sample:
    """A graph of given inputs with random values."""
    rng = np.random.default_rng(11)
    b = TensorBuilder()
    nodes = [b.input(at, shape, KINDS[dtype]) for at, (shape, dtype) in enumerate(inputs)]
    made = build(b, *nodes)
    graph = b.finish(made if isinstance(made, (list, tuple)) else [made])
    low = 0.0 if high > 2.0 else -high
    arrays = [draw(rng, shape, dtype, low, high) for shape, dtype in inputs]
    return Sample(name, graph, arrays, [dtype for _, dtype in inputs], outputs)


def check(target: TwinTarget, samples: list[Sample], schedule: Schedule = NEST_SCHEDULE) -> None:
    """All samples in one kernel are right."""
    with tempfile.TemporaryDirectory() as folder:
        assert wrong(target, samples, Path(folder), schedule) == []


SPLIT = NEST_SCHEDULE.with_(split=True)


def jumped(seed: int) -> Schedule:
    """Any point of the schedule space of loop nests."""
    rng = random.Random(seed)
    return Schedule(
        tile=rng.choice((512, 1024, 4096, 16384)), rows=rng.choice((1, 4, 64)), span=rng.choice((64, 512, 2048)),
        recompute=rng.random() < 0.5, split=rng.random() < 0.6,
    )  # fmt: skip


F, H, B = "float32", "float16", "bfloat16"


def test_layout_moves_every_dtype(target: TwinTarget) -> None:
    turned = [((3, 70, 33), dtype) for dtype in (F, H, B, "int32", "int64", "int8", "bool")]
    samples = [
        sample(f"turn {dtype}", lambda b, x: b.permute(x, [2, 0, 1]), [(s, dtype)], [dtype]) for s, dtype in turned
    ]
    samples += [
        sample("strided", lambda b, x: b.slice(b.slice(x, 1, 2, 60, 3), 0, 1, 9, 2), [((10, 64), F)], [F]),
        sample("reshaped after a turn", lambda b, x: b.reshape(b.permute(x, [1, 0]), [7, 30]), [((14, 15), F)], [F]),
        sample("repeated", lambda b, x: b.expand(b.reshape(x, [1, 5, 1]), (4, 5, 9)), [((5,), H)], [H]),
    ]
    check(target, samples)


def test_large_integers_are_moved_bit_by_bit(target: TwinTarget) -> None:
    b = TensorBuilder()
    graph = b.finish([b.permute(b.input(0, (5, 3), "int"), [1, 0])])
    wide = (np.arange(15, dtype=np.int64).reshape(5, 3) << 40) + 7
    narrow = np.full((5, 3), 2**31 - 3, np.int32)
    check(
        target,
        [Sample("int64", graph, [wide], ["int64"], ["int64"]), Sample("int32", graph, [narrow], ["int32"], ["int32"])],
    )


@pytest.mark.parametrize("schedule", [Schedule(tile=512, rows=64), NEST_SCHEDULE, SPLIT])
def test_reductions_over_any_axes(target: TwinTarget, schedule: Schedule) -> None:
    shapes = [((4, 9, 65), F), ((3, 2, 1500), H), ((1, 300, 3), F), ((64, 3, 96), F), ((32, 7, 48), F)]
    axes = [[0], [1], [2], [0, 2], [0, 1, 2]]
    samples = [
        sample(f"{op} {over}", lambda b, x, op=op, over=over: b.reduce(op, x, over), [given], [F])
        for op in ("sum", "amax", "amin", "prod")
        for over, given in zip(axes, [*shapes, *shapes], strict=False)
    ]
    check(target, samples, schedule)


def test_arg_reductions_take_the_first_and_know_nan(target: TwinTarget) -> None:
    def both(b: TensorBuilder, x: int) -> list[int]:
        return [b.reduce("argmax", x, [1]), b.reduce("argmin", x, [0, 1])]

    made = sample("arg", both, [((6, 40), F)], ["int64", "int32"])
    made.arrays[0][2, 5:9] = 9.0
    made.arrays[0][3, 7] = np.nan
    made.arrays[0][0, 0] = -np.inf
    wanted = sample("arg", lambda b, x: b.reduce("argmax", x, [1]), [((4, 9), F)], ["int64"])
    wanted.arrays[0][:] = np.round(wanted.arrays[0])
    check(target, [wanted])
    graph, arrays = made.graph, made.arrays
    check(target, [Sample("nan", TensorGraph(graph.nodes, graph.outputs[:1]), arrays, [F], ["int64"])])


@pytest.mark.parametrize(
    "labels", [("mk", "kn", "mn"), ("mk", "nk", "mn"), ("bmk", "bkn", "bmn"), ("bkm", "bkn", "bmn")]
)
def test_products_of_any_layout(target: TwinTarget, labels: tuple[str, str, str]) -> None:
    samples = []
    for m, k, n, b in ((4, 8, 5, 2), (33, 70, 130, 3), (1, 300, 7, 1), (65, 1, 65, 2)):
        extents = {"m": m, "k": k, "n": n, "b": b}
        given = [(tuple(extents[label] for label in side), dtype) for side, dtype in zip(labels, (F, H), strict=False)]
        samples.append(sample(f"{labels} {m}", lambda b, x, y: b.contract(x, y, labels), given, [F]))
    check(target, samples)


def test_rounding_does_not_grow_with_what_a_long_product_sums_over(target: TwinTarget, tmp_path: Path) -> None:
    made = sample("long", lambda b, x, y: b.contract(x, y, ("mk", "kn", "mn")), [((2, 20000), F), ((20000, 9), F)], [F])
    for array in made.arrays:
        array[:] = np.float32(0.1)
    assert wrong(target, [made], tmp_path) == []
    got = np.fromfile(tmp_path / "c0" / "out0.bin", np.float32)
    exact = 20000 * float(np.float32(0.1)) ** 2
    one_by_one = np.cumsum(np.full(20000, np.float32(0.1) ** 2, np.float32))[-1]
    assert abs(got - exact).max() < abs(one_by_one - exact) / 10


def test_convolutions_are_products_of_windows(target: TwinTarget) -> None:
    def convolved(stride: int, padding: int, dilation: int, groups: int) -> Build:
        return lambda b, x, w: composed.convolution(b, x, w, None, [stride] * 2, [padding] * 2, [dilation] * 2, groups)

    samples = [
        sample("plain", convolved(1, 0, 1, 1), [((2, 3, 9, 11), F), ((4, 3, 3, 3), F)], [F]),
        sample("strided", convolved(2, 1, 1, 1), [((1, 5, 12, 7), F), ((2, 5, 3, 3), F)], [F]),
        sample("dilated", convolved(1, 2, 2, 1), [((1, 2, 10, 10), F), ((3, 2, 3, 3), F)], [F]),
        sample("depthwise", convolved(1, 1, 1, 6), [((1, 6, 8, 8), F), ((6, 1, 3, 3), F)], [F]),
    ]
    check(target, samples)


def test_scans_and_sorts_along_any_axis(target: TwinTarget) -> None:
    samples = [
        sample(
            f"{op} {axis}",
            lambda b, x, op=op, axis=axis: b.add(op, (x,), b.shape(x), "float", axis),
            [((5, 9, 33), F)],
            [F],
        )
        for op, axis in (("cumsum", 2), ("cummax", 0), ("cummin", 1), ("cumprod", 1))
    ]

    def ordered(b: TensorBuilder, x: int) -> list[int]:
        shape = b.shape(x)
        return [b.add("sort", (x,), shape, "float", 1, True), b.add("sort-index", (x,), shape, "int", 1, True)]

    samples.append(sample("sort", ordered, [((4, 70), F)], [F, "int64"]))
    check(target, samples)


@pytest.mark.parametrize("largest", [True, False])
def test_a_few_of_many_are_selected_in_order_with_infinities_and_nan(target: TwinTarget, largest: bool) -> None:
    def few(b: TensorBuilder, x: int) -> list[int]:
        return list(selection.selected(b, x, 1, 4, largest))

    made = sample("few", few, [((6, 40), F)], [F, "int64"])
    x = made.arrays[0]
    x[0, 3:9] = 7.0
    x[1, [2, 30]] = np.inf
    x[2, :] = -np.inf
    x[3, [5, 6]], x[3, 20], x[3, 30] = np.nan, np.inf, -np.inf
    x[4, 2:] = np.nan
    check(target, [made])
    values, places = run_tensors(made.graph, {0: x})
    order = np.stack([sorted(range(40), key=lambda at, row=row: _torch_order(row[at], at, largest))[:4] for row in x])
    assert np.array_equal(places, order)
    assert np.array_equal(values, np.take_along_axis(x, order, 1), equal_nan=True)


def _torch_order(value: float, at: int, largest: bool) -> tuple[float, float, int]:
    """NaN is larger than infinity; of equal ones the first comes first."""
    sign = -1.0 if largest else 1.0
    return sign * np.isnan(value), 0.0 if np.isnan(value) else sign * value, at


def test_places_are_looked_up_and_written(target: TwinTarget) -> None:
    def taken(b: TensorBuilder, x: int, index: int) -> int:
        return b.add("take", (x, index), (*b.shape(index), *b.shape(x)[1:]), b.kind(x), (0,))

    def added(b: TensorBuilder, x: int, index: int, new: int) -> int:
        return b.add("put", (x, new, index), b.shape(x), "float", (0,), "add")

    def beside(b: TensorBuilder, x: int, index: int) -> int:
        return b.add("take-along", (x, index), b.shape(index), b.kind(x), 1)

    samples = [
        sample(f"rows {dtype}", taken, [((10, 33), dtype), ((7,), "int64")], [dtype], high=9.0)
        for dtype in (F, H, "int8", "int64")
    ]
    samples += [
        sample("elements", beside, [((5, 10, 3), F), ((5, 4, 3), "int32")], [F], high=9.0),
        sample("sums", added, [((10, 17), H), ((40,), "int64"), ((40, 17), H)], [H], high=9.0),
    ]
    check(target, samples)


def test_calls_of_other_shapes_are_told_apart() -> None:
    samples = [sample("a", lambda b, x: b.pointwise("exp", x), [((3, 4), F)], [F]) for _ in range(2)]
    task = task_of(samples)
    assert signature_of(task, task.cases[0]) != signature_of(task, task.cases[1]), "they differ in an attribute"
    assert source_of(samples).count("class Kernel") == 1, "one structure, one kernel"


def test_a_call_with_nan_as_attribute_is_recognised_whatever_its_sign() -> None:
    task = task_of([sample("a", lambda b, x: b.pointwise("exp", x), [((3, 4), F)], [F]) for _ in range(2)])
    signs = [replace(task.cases[0], attrs={"scale": math.copysign(math.nan, sign)}) for sign in (1.0, -1.0)]
    with_scale = replace(task, attrs={"scale": 1.0}, cases=(*signs, replace(task.cases[1], attrs={"scale": 1.0})))
    found = [signature_of(with_scale, case) for case in with_scale.cases]
    assert found[0] == found[1] != found[2]


def test_a_sort_of_very_long_rows_is_refused() -> None:
    b = TensorBuilder()
    x = b.input(0, (1 << 20,), "float")
    graph = b.finish([b.add("sort", (x,), (1 << 20,), "float", 0, False)])
    with pytest.raises(DeriveError, match="a sort of 1 rows of 1048576 elements is too long"):
        plan_phases(graph, [F], [F])


def test_random_graphs_are_right(target: TwinTarget) -> None:
    check(target, [Maker(seed).sample() for seed in range(RANDOM)])


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_are_right_at_any_point_of_the_schedule_space(target: TwinTarget, seed: int) -> None:
    check(target, [Maker(400 + 12 * seed + at).sample() for at in range(12)], jumped(seed))


@pytest.mark.slow(minutes=6)
@pytest.mark.parametrize("start", range(0, 300, 25))
def test_three_hundred_random_graphs_are_right_at_other_points(target: TwinTarget, start: int) -> None:
    check(target, [Maker(seed).sample() for seed in range(start, start + 25)], jumped(100 + start))


@pytest.mark.slow(minutes=6)
@pytest.mark.parametrize("start", range(0, 300, 25))
def test_three_hundred_random_graphs_are_right(target: TwinTarget, start: int) -> None:
    check(target, [Maker(seed).sample() for seed in range(start, start + 25)])
