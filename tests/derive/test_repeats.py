"""Loops rolled up again say the very phases they were made of; kernels of iterated references stay small and right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kope.derive.nest.nests import Operand, Phase
from kope.derive.nest.planner import plan_phases
from kope.derive.nest.repeats import Loop, rolled
from kope.target.twin import TwinTarget
from tests.derive.nests import source_of, wrong
from tests.derive.test_numpy import Shapes, held_against_numpy


def phase(kind: int, offset: int, result: int) -> Phase:
    one = (0,) * 7
    return Phase(
        "map", (1,) * 8, (Operand("input:0", "float32", offset, (*one, kind)),),
        Operand("workspace", "float32", result, (*one, 1)),
    )  # fmt: skip


def unrolled(phases: Sequence[Phase], loops: Sequence[Loop]) -> list[Phase]:
    """All rounds, one after the other."""
    starts = {loop.first: loop for loop in loops}
    made: list[Phase] = []
    at = 0
    while at < len(phases):
        loop = starts.get(at, Loop(at, 1, 1))
        for number in range(loop.rounds):
            made += [_moved(item, number) for item in phases[at : at + loop.length]]
        at += loop.length
    return made


def _moved(item: Phase, number: int) -> Phase:
    def there(operand: Operand) -> Operand:
        return replace(operand, offset=operand.offset + number * operand.step, step=0)

    return replace(item, operands=tuple(map(there, item.operands)), result=there(item.result))


PIECES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4),
        st.integers(1, 6),
    ),
    max_size=5,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(pieces=PIECES)
def test_rolling_up_loses_nothing(pieces: list[tuple[list[tuple[int, int, int]], int]]) -> None:
    phases = [
        phase(kind, at + number * (kind + at), to + number)
        for stretch, rounds in pieces
        for number in range(rounds)
        for kind, at, to in stretch
    ]
    made, loops = rolled(phases)
    assert unrolled(made, loops) == phases
    assert all(loop.rounds >= 3 for loop in loops)


def test_uneven_steps_are_not_taken_for_a_loop() -> None:
    phases = [phase(0, offset, 0) for offset in (0, 1, 2, 4, 8)]
    made, loops = rolled(phases)
    assert loops == (Loop(0, 1, 3),)
    assert unrolled(made, loops) == phases


ITERATED: dict[str, tuple[str, Shapes]] = {
    "recurrence": (
        "h = np.zeros(x.shape[1])\nout = np.empty_like(x)\nfor t in range(x.shape[0]):\n"
        "    h = np.tanh(h * 0.5 + x[t])\n    out[t] = h\nreturn out",
        {"x": (12, 9)},
    ),
    "gated recurrence": (
        "h = np.zeros((x.shape[1], x.shape[2]))\nfor t in range(x.shape[0]):\n"
        "    z = 1.0 / (1.0 + np.exp(-(x[t] @ g + h @ g)))\n"
        "    h = (1.0 - z) * np.tanh(x[t] + h @ g) + z * h\nreturn h",
        {"x": (9, 3, 8), "g": (8, 8)},
    ),
    "iteration": (
        "y = np.exp(x)\nfor _ in range(9):\n    y = y / y.sum(axis=1, keepdims=True)\n"
        "    y = y / y.sum(axis=0, keepdims=True)\nreturn y",
        {"x": (6, 13)},
    ),
    "items": ("return np.stack([x[k] @ g[k] for k in range(6)])", {"x": (6, 5, 8), "g": (6, 8, 9)}),
}


@pytest.mark.parametrize("name", ITERATED)
def test_iterated_references_become_loops(name: str) -> None:
    sample = held_against_numpy(name, *ITERATED[name], np.random.default_rng(1))
    assert sample is not None
    plan = plan_phases(sample.graph, sample.dtypes, sample.outputs)
    rounds = sum(loop.length * (loop.rounds - 1) for loop in plan.loops)
    assert rounds > 0.5 * (len(plan.phases) + rounds)
    assert "for (int64_t round = 0; round < " in source_of([sample])


def test_kernels_with_loops_are_right(twin_cache: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    samples = [held_against_numpy(name, *given_, rng) for name, given_ in ITERATED.items()]
    assert wrong(TwinTarget(twin_cache), [sample for sample in samples if sample], tmp_path) == []
