"""Derived kernels on the real twin: right on every case, without a finding of the sanitizer, in many schedules."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from kope.derive import Schedule, capture_graph, emit, first_kernel, first_schedule
from kope.derive.graph import Graph
from kope.derive.moves import MOVES, made_to_fit
from kope.derive.rewrite import REWRITES
from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.model import Candidate, Case, CaseInput, Outcome, Task, TensorSpec, Tolerance, Values, Verdict
from kope.target.twin import TwinTarget
from kope.task import load_task, new_task
from tests.derive.operators import NAMES, shipped, small_task

GAMBLES = ("native-half", "approximate-reciprocal", "call-reduction", "one-pass-variance")
"""Moves that may cost accuracy; whether they do is for the evaluator to find, so the walks leave them out."""


@pytest.fixture(scope="module")
def evaluator(twin_cache: Path) -> TaskEvaluator:
    return TaskEvaluator(TwinTarget(twin_cache), CaseLibrary(twin_cache / "cases", ReferenceRunner()))


def judged(evaluator: TaskEvaluator, task: Task, source: str, folder: Path) -> Outcome:
    return evaluator.evaluate(task, Candidate.of(source), folder, promote=lambda times: True)


def assert_right(outcome: Outcome, task: Task) -> None:
    errors = [f"{d.case_id} {d.kind}: {d.message}" for d in outcome.diagnostics if d.severity == "error"]
    assert errors == []
    assert outcome.verdict is Verdict.VERIFIED
    assert outcome.passed_count == len(task.cases)


def walked(task: Task, graph: Graph, seed: int) -> Schedule:
    """A schedule some safe moves away from the first."""
    rng = random.Random(seed)
    schedule = first_schedule(task, graph)
    for move in rng.choices([move for move in MOVES if move.name not in GAMBLES], k=14):
        schedule = move.apply(task, graph, schedule) or schedule
    return schedule


@pytest.mark.parametrize("name", ["exp", "layer_norm", "dynamic_quant"])
def test_the_first_kernel_is_right_on_every_case(name: str, evaluator: TaskEvaluator, tmp_path: Path) -> None:
    task = shipped(name)
    assert_right(judged(evaluator, task, first_kernel(task)[2], tmp_path), task)


def test_the_first_kernel_of_a_new_task_is_right_as_it_stands(evaluator: TaskEvaluator, tmp_path: Path) -> None:
    task = load_task(new_task("leaky_relu", tmp_path))
    assert_right(judged(evaluator, task, first_kernel(task)[2], tmp_path), task)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"exp", "layer_norm", "dynamic_quant"}))
def test_the_first_kernel_of_the_others_is_right_too(name: str, evaluator: TaskEvaluator, tmp_path: Path) -> None:
    task = shipped(name)
    assert_right(judged(evaluator, task, first_kernel(task)[2], tmp_path), task)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_safe_moves_keep_it_right(name: str, seed: int, evaluator: TaskEvaluator, tmp_path: Path) -> None:
    task = shipped(name)
    graph = capture_graph(task)
    schedule = walked(task, graph, seed)
    assert_right(judged(evaluator, task, emit(task, graph, schedule), tmp_path), task)


def jumped(task: Task, graph: Graph, seed: int) -> Schedule:
    """Any point of the schedule space, as a compound move may reach it in one step."""
    rng = random.Random(seed)
    fields = {
        "tile": rng.choice([512, 1024, 2048, 4096, 8192]), "buffers": rng.choice([1, 2]),
        "grain": rng.choice([64, 256, 1024, 4096]), "rows": rng.choice([1, 2, 4, 16, 64, 240]),
        "reuse": rng.choice([False, True]), "copy": rng.choice(["pad", "aligned"]),
        "columns": rng.choice(["reload", "resident"]), "reduction": rng.choice(["fold", "accumulate", "strips"]),
        "spread": rng.choice(["scalar", "block"]),
        "rewrites": tuple(n for n in sorted(REWRITES) if n not in GAMBLES and rng.random() < 0.4),
        "choices": tuple(n for n in ("axpy", "fused-multiply-add") if rng.random() < 0.4),
    }  # fmt: skip
    return made_to_fit(task, graph, first_schedule(task, graph).with_(**fields)) or first_schedule(task, graph)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_point_of_the_schedule_space_is_wrong_on_small_cases(
    name: str, evaluator: TaskEvaluator, tmp_path: Path
) -> None:
    task = shipped(name)
    smallest = sorted(task.cases, key=lambda case: sum(item.spec.numel for item in case.inputs if item))[:7]
    task = replace(task, cases=tuple(smallest))
    graph = capture_graph(task)
    for seed in range(8):
        schedule = jumped(task, graph, seed)
        assert_right(judged(evaluator, task, emit(task, graph, schedule), tmp_path / str(seed)), task)


SHAPES = [(1, 1), (3, 7), (50, 64), (9, 65), (130, 100), (5, 2047), (2, 5000), (700, 9)]
ODD = {
    "column and row values": ("m = x.max(axis=-1, keepdims=True)\nreturn np.exp(x - m) * g + g", True),
    "masks": ("y = np.where(x > 0.5, x * 2.0, np.where(x < -0.5, 0.0 - x, x))\nreturn y * (x >= 0.0)", False),
    "rounding on the way": ("return (x * 0.5).astype(np.float16).astype(np.float32)", False),
    "minimum and mean": ("return (x - x.min(axis=-1, keepdims=True)) * x.mean(axis=-1, keepdims=True)", False),
    "nested reductions": (
        "c = x - x.mean(axis=-1, keepdims=True)\ns = np.abs(c).sum(axis=-1, keepdims=True)\n"
        "d = c / (s + 1.0)\nreturn d / (np.max(np.abs(d), axis=-1, keepdims=True) + 0.5)",
        False,
    ),
}


def odd_task(name: str) -> Task:
    """A reference no shipped task has, over awkward shapes and all float types."""
    body, columns = ODD[name]
    plain = small_task(body, [{"x": (4, 8), "g": (8,)} if columns else {"x": (4, 8)}])
    cases = []
    for at, (rows, width) in enumerate(SHAPES):
        dtype = ("float32", "float16", "bfloat16")[at % 3]
        specs = [TensorSpec("x", (rows, width), dtype), TensorSpec("g", (width,), dtype)]
        inputs = tuple(CaseInput(spec, Values(-2.0, 2.0)) for spec in specs[: len(plain.inputs)])
        cases.append(Case(f"c{at}", inputs))
    tolerance = {"float32": Tolerance(1e-4, 1e-5), "float16": Tolerance(2e-3, 1e-3), "bfloat16": Tolerance(1e-2, 1e-2)}
    return Task(
        name.replace(" ", "_"), "", plain.inputs, plain.outputs, {}, plain.reference, "reference", "numpy",
        tuple(cases), tolerance, f"odd {name}",
    )  # fmt: skip


def test_an_input_that_is_left_out_is_not_read(evaluator: TaskEvaluator, tmp_path: Path) -> None:
    body = "return np.exp(x) if bias is None else np.exp(x) + bias"
    plain = small_task(body, [{"x": (4, 8), "bias": (4, 8)}])
    shapes = [(64,), (3, 1000), (5, 7, 9)]
    cases = tuple(
        Case(f"c{at}", (CaseInput(TensorSpec("x", shape, "float32")), None)) for at, shape in enumerate(shapes)
    )
    task = replace(plain, cases=cases, tolerance={"float32": Tolerance(1e-4, 1e-6)}, digest="left out")
    graph, _, source = first_kernel(task)
    assert graph.absent == (1,)
    assert "call->inputs[1].data != nullptr" in source
    assert_right(judged(evaluator, task, source, tmp_path), task)


@pytest.mark.parametrize("name", ODD)
def test_unknown_operators_over_awkward_shapes_are_right(name: str, evaluator: TaskEvaluator, tmp_path: Path) -> None:
    task = odd_task(name)
    graph = capture_graph(task)
    for seed in range(3):
        schedule = walked(task, graph, seed) if seed else first_schedule(task, graph)
        assert_right(judged(evaluator, task, emit(task, graph, schedule), tmp_path), task)
