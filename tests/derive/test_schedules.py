"""Every schedule that moves can reach: its kernel computes the reference, its registers do not clash, it fits."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kope.derive import capture_graph, emit, first_schedule
from kope.derive.budget import UB_BYTES, ub_bytes
from kope.derive.graph import Graph
from kope.derive.interpret import run
from kope.derive.kernel_plan import Plan, plan_kernel, whole_section
from kope.derive.moves import BY_NAME, MOVES
from kope.derive.registers import allocate
from kope.derive.row_plan import plan_rows
from kope.derive.schedule import Schedule
from kope.derive.trace import case_sizes
from kope.model import Task
from tests.derive.machine import loads_of, run_section
from tests.derive.operators import NAMES, PLAIN, shipped, small_task

WALKS = st.lists(st.sampled_from([move.name for move in MOVES]), max_size=14)

EXTRA = {
    "several uses of one value": "e = np.exp(x)\nreturn (e - 1.0) / (e + 1.0) + x * e",
    "a long chain": "y = x * x * x * 0.5 + x * 0.25\nreturn np.tanh(y) + y * 2.0 + x",
    "masks": "y = np.where(x > 0.5, x * 2.0, np.where(x < -0.5, 0.0 - x, x))\nreturn y * (x >= 0.0)",
    "a stable softplus": "return x * np.tanh(np.logaddexp(0.0, x))",
    "log of one plus exp": "return x * np.tanh(np.log(1.0 + np.exp(x)))",
    "two reductions at once": "s = x.sum(axis=-1, keepdims=1)\nm = x.max(axis=-1, keepdims=1)\nreturn (x - m) * s",
    "a variance": "return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-3)",
    "row minus whole": "m = x.max(axis=-1, keepdims=True)\nreturn np.exp(0.5 - (m - x))",
}


def task_of(name: str) -> Task:
    return shipped(name) if name in NAMES else small_task(EXTRA[name], PLAIN)


@cache
def captured(name: str) -> tuple[Task, Graph]:
    task = task_of(name)
    return task, capture_graph(task)


def walk(task: Task, graph: Graph, names: list[str]) -> Schedule:
    schedule = first_schedule(task, graph)
    for name in names:
        schedule = BY_NAME[name].apply(task, graph, schedule) or schedule
    return schedule


def example(task: Task) -> tuple[dict[str, Any], dict[str, float], dict[str, float]]:
    """Inputs of a small case, attributes and sizes."""
    case = task.cases[1]
    rng = np.random.default_rng(7)
    arrays = {
        item.spec.name: rng.integers(0, 2, item.spec.shape)
        if "int" in item.spec.dtype
        else rng.uniform(0.1, 2.0, item.spec.shape)
        for item in case.inputs
        if item is not None
    }
    attrs = {key: float(value) for key, value in {**task.attrs, **case.attrs}.items()}
    return arrays, attrs, case_sizes(task, case)


def computed(plan: Plan, arrays: dict[str, Any], numbers: dict[str, float], wide: bool) -> list[Any]:
    loads = loads_of(plan.program, arrays)
    if plan.graph.flat:
        part = whole_section(plan)
        allocation = allocate(plan.program, part, plan.names(), plan.schedule.reuse)
    else:
        rows = plan_rows(plan)
        part, allocation = rows.whole, rows.whole_allocation
        staying = {tensor.step: tensor.name for tensor in rows.resident}
        part = type(part)((*staying, *part.steps), part.stored)
        allocation.wide.update({name: 100 + at for at, name in enumerate(staying.values())})
    stored = run_section(plan, part, allocation, loads, numbers, wide=wide)
    return [stored[output.node] for output in plan.program.outputs]


@pytest.mark.parametrize("name", [*NAMES, *EXTRA])
@settings(max_examples=8, deadline=None, derandomize=True)
@given(names=WALKS)
def test_a_reachable_schedule_fits_and_computes_the_reference(name: str, names: list[str]) -> None:
    task, graph = captured(name)
    schedule = walk(task, graph, names)
    assert ub_bytes(task, graph, schedule) <= UB_BYTES
    assert Schedule.from_plan(schedule.to_plan()) == schedule
    plan = plan_kernel(task, graph, schedule)
    arrays, attrs, sizes = example(task)
    want = run(graph, arrays, attrs, sizes)
    for wide in (False, True):
        for left, right in zip(computed(plan, arrays, attrs | sizes, wide), want, strict=True):
            np.testing.assert_allclose(np.broadcast_to(left, right.shape), right.astype(float), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_schedule_is_conservative(name: str) -> None:
    task, graph = captured(name)
    schedule = first_schedule(task, graph)
    assert (schedule.buffers, schedule.precision, schedule.rewrites, schedule.choices) == (1, "float", (), ())


def test_a_move_is_refused_where_its_precondition_fails() -> None:
    task, graph = captured("gelu")
    first = first_schedule(task, graph)
    assert BY_NAME["more-rows"].apply(task, graph, first) is None
    assert BY_NAME["resident-columns"].apply(task, graph, first) is None
    assert BY_NAME["double-buffer"].apply(task, graph, first.with_(buffers=2)) is None
    rows_task, rows_graph = captured("softmax")
    rows_first = first_schedule(rows_task, rows_graph)
    assert BY_NAME["native-half"].apply(rows_task, rows_graph, rows_first) is None
    assert BY_NAME["strip-reduction"].apply(rows_task, rows_graph, rows_first) is None
    assert BY_NAME["more-rows"].apply(rows_task, rows_graph, rows_first) == rows_first.with_(rows=4)


def test_a_tile_stops_growing_where_the_unified_buffer_ends() -> None:
    task, graph = captured("exp")
    schedule = first_schedule(task, graph).with_(buffers=2)
    while (longer := BY_NAME["larger-tile"].apply(task, graph, schedule)) is not None:
        schedule = longer
    assert (schedule.tile, ub_bytes(task, graph, schedule)) == (8192, 8192 * (2 * 4 + 2 * 4))
    assert ub_bytes(task, graph, schedule.with_(tile=16384)) > UB_BYTES


def test_sharing_buffers_makes_room_for_two_of_them() -> None:
    task, graph = captured("apply_adam_w")
    longer = first_schedule(task, graph).with_(tile=2048)
    assert BY_NAME["double-buffer"].apply(task, graph, longer) == longer.with_(buffers=2, reuse=True)


@pytest.mark.parametrize(
    "plan", [{"tile": "2048"}, {"tile": 0}, {"copy": "fast"}, {"rewrites": "fold-scalars"}, {"buffers": True}]
)
def test_a_plan_with_a_wrong_value_is_refused(plan: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="of a plan"):
        Schedule.from_plan(plan)


def test_a_plan_of_a_newer_version_keeps_what_is_known() -> None:
    assert Schedule.from_plan({"tile": 4096, "swizzle": 3}) == Schedule(tile=4096)


@pytest.mark.parametrize("name", NAMES)
def test_every_move_that_applies_changes_the_source_or_says_none(name: str) -> None:
    task, graph = captured(name)
    first = first_schedule(task, graph)
    changed = [
        m.name for m in MOVES if (s := m.apply(task, graph, first)) and emit(task, graph, s) != emit(task, graph, first)
    ]
    assert "double-buffer" in changed
    assert len(changed) >= 6
