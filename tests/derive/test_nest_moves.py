"""Every move of loop nests changes kernels it is meant for, and leaves them right."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kope.derive.derivation import NEST_SCHEDULE, form_of
from kope.derive.nest import composed
from kope.derive.nest.planner import plan_phases
from kope.derive.nest_moves import NEST_MOVES, NestMove
from kope.derive.schedule import Schedule
from kope.target.twin import TwinTarget
from tests.derive.nests import Sample, source_of, wrong
from tests.derive.random_nests import Maker
from tests.derive.test_nests import sample

F = "float32"
SOFTMAX = sample("softmax", lambda b, x: composed.softmax(b, x, 0), [((96, 700), F)], [F])
PRODUCT = sample("product", lambda b, x, y: b.contract(x, y, ("mk", "kn", "mn")), [((40, 70), F), ((70, 600), F)], [F])

TALL = sample("tall", lambda b, x, y: b.contract(x, y, ("mk", "kn", "mn")), [((4000, 30), F), ((30, 64), F)], [F])
LARGE = sample("large", lambda b, x: b.pointwise("exp", x), [((300, 9000), F)], [F])


@pytest.mark.parametrize("move", NEST_MOVES, ids=lambda move: move.name)
def test_a_move_changes_a_kernel_it_is_meant_for(move: NestMove) -> None:
    start = NEST_SCHEDULE.with_(rows=8) if move.name == "more-rows" else NEST_SCHEDULE
    changed = move.change(start)
    assert changed is not None
    assert {name for name in changed.to_plan() if changed.to_plan()[name] != start.to_plan()[name]} == set(move.fields)
    assert any(source_of([made], changed) != source_of([made], start) for made in (SOFTMAX, PRODUCT, TALL, LARGE))


def test_moves_end_where_their_fields_do() -> None:
    for move in NEST_MOVES:
        schedule, steps = NEST_SCHEDULE, 0
        while (further := move.change(schedule)) is not None:
            schedule, steps = further, steps + 1
        assert steps <= 12
        assert (schedule.rows <= 64, schedule.span <= 1024) == (True, True)


def test_splitting_says_so_in_the_phases() -> None:
    for schedule, phases in ((NEST_SCHEDULE, 4), (NEST_SCHEDULE.with_(split=True), 6)):
        plan = plan_phases(SOFTMAX.graph, SOFTMAX.dtypes, SOFTMAX.outputs, form_of(schedule))
        assert len(plan.phases) == phases


@pytest.mark.parametrize(("shape", "axes", "down"), [((96, 700), [0], True), ((500, 3, 700), [1], False)])
def test_rows_are_folded_where_a_tile_holds_more_of_them_than_of_results(
    shape: tuple[int, ...], axes: list[int], down: bool
) -> None:
    made = sample("sum", lambda b, x: b.reduce("sum", x, axes), [(shape, F)], [F])
    (phase,) = plan_phases(made.graph, made.dtypes, made.outputs).phases
    assert (phase.kind, phase.down) == ("reduce", down)


@pytest.mark.parametrize("span", [64, 512, 1024])
def test_products_of_blocks_are_right(span: int, twin_cache: Path, tmp_path: Path) -> None:
    samples: list[Sample] = []
    for labels in (("mk", "kn", "mn"), ("mk", "nk", "mn"), ("bkm", "bkn", "bmn")):
        for m, k, n, b in ((4, 8, 5, 2), (33, 70, 130, 3), (1, 300, 7, 1), (65, 1, 65, 2), (50, 9, 1100, 1)):
            extents = {"m": m, "k": k, "n": n, "b": b}
            given = [(tuple(extents[label] for label in side), F) for side in labels[:2]]
            samples.append(sample(f"{labels} {m}", lambda b, x, y, n=labels: b.contract(x, y, n), given, [F]))
    schedule = NEST_SCHEDULE.with_(spread="block", span=span)
    assert wrong(TwinTarget(twin_cache), samples, tmp_path, schedule) == []


@pytest.mark.parametrize("seed", range(2))
def test_random_graphs_are_right_where_all_moves_meet(seed: int, twin_cache: Path, tmp_path: Path) -> None:
    rng = random.Random(seed)
    schedule = Schedule(
        tile=rng.choice((512, 4096)), rows=rng.choice((4, 64)), span=rng.choice((64, 1024)), spread="block",
        recompute=True, split=True,
    )  # fmt: skip
    samples = [Maker(700 + 12 * seed + at).sample() for at in range(12)]
    assert wrong(TwinTarget(twin_cache), samples, tmp_path, schedule) == []
