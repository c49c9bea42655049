"""Defects seeded into the kernels of all shipped operators: each is named by its kind, at its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path

import pytest

from kope.derive import first_kernel
from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.model import Candidate, Case, Outcome, Task, Verdict
from kope.target.twin import TwinTarget
from tests.derive.operators import NAMES, shipped


@dataclass(frozen=True)
class Defect:
    """An edit of the first place that matches, and what must be said: kind, and a pattern of the line it is said of.

    unless: operators whose kernel the edit does no harm, because their cases do not reach that code or their buffers
    are filled before.
    """

    name: str
    place: str
    edit: str
    kind: str
    line: str = ""
    unless: tuple[str, ...] = ()


_QUEUE = r"(InitBuffer\(\w+Queue, kBuffers, )kTile"
_COPY_IN, _COPY_OUT = r"DataCopyPad\(local, global", r"DataCopyPad\(global"
_NO_ROWS_STORED = ("reduce_sum",)
DEFECTS = [
    Defect("EnQue of an input forgotten", r"^ *\w+\.EnQue\(\w+\);\n", "", "deque-empty", "DeQue<"),
    Defect("EnQue of an output forgotten", r"^ *yQueue\.EnQue\(\w+\);\n", "", "deque-empty", "DeQue<"),
    Defect("input not freed", r"^ *\w+Queue\.FreeTensor\(\w+Local\);\n", "", "alloc-none", "AllocTensor<"),
    Defect(
        "output not freed",
        r"(?<=local, copy\);\n) *queue\.FreeTensor\(local\);\n",
        "",
        "alloc-none",
        "AllocTensor<",
        unless=_NO_ROWS_STORED,
    ),
    Defect("freed twice", r"^( *\w+Queue\.FreeTensor\(\w+Local\);\n)", r"\1\1", "double-free", "FreeTensor"),
    Defect(
        "freed before it is read",
        r"^( *)LocalTensor<(?:T|int8_t)> (\w+)Local = \w+\.template DeQue<\w+>\(\);\n",
        r"\g<0>\1\2Queue.FreeTensor(\2Local);\n",
        "use-after-free",
        r"Local|stored|DataCopyPad|\bx\b|\bline\b",
    ),
    Defect("buffers too large", _QUEUE, r"\g<1>256 * kTile", "ub-overflow", "InitBuffer"),
    Defect("buffers too small", _QUEUE, r"\g<1>kTile / 2", "ub-oob", rf"{_COPY_IN}|Duplicate\(buffers"),
    Defect("slots misaligned", r"\[index \* kTile\]", "[index * kTile + 1]", "align", r"^ *\w+\(\w+.*, \w+"),
    Defect(
        "input not copied",
        rf"^ *{_COPY_IN}.*copy, pad\);\n",
        "",
        "uninit",
        rf"{_COPY_OUT}|GetValue",
        unless=("dynamic_quant",),
    ),
    Defect("output not copied", rf"^ *{_COPY_OUT}.*, local, copy\);\n", "", "unwritten-output", unless=_NO_ROWS_STORED),
    Defect(
        "count past the buffer",
        r"(Exp|Mul|Add|Sub|Muls|Adds|Abs|Sqrt|Div)\((\w+, .*), count\)",
        r"\1(\2, count + 60000)",
        "ub-oob",
        r"count \+ 60000",
        unless=_NO_ROWS_STORED,
    ),
    Defect("input written", r"Address\(call->outputs\[0\]\)", "Address(call->inputs[0])", "input-written", _COPY_OUT),
    Defect("too many blocks", r"<<<blocks", "<<<blocks + 100000", "block-count", "<<<"),
    Defect(
        "written past the end",
        r"(Store\(yGm\[offset|StoreRows\(yQueue, yGm, row \* columns)",
        r"\1 + 64",
        "gm-oob",
        _COPY_OUT,
    ),
]


@cache
def kernel(name: str) -> str:
    return first_kernel(shipped(name))[2]


def some_cases(task: Task) -> Task:
    """Two small cases and one in which every core has several tiles."""

    def size(case: Case) -> int:
        return max(prod(given.spec.shape) for given in case.inputs if given is not None)

    ordered = sorted(task.cases, key=size)
    large = next(case for case in ordered if size(case) >= 1_000_000)
    return replace(task, cases=(ordered[0], ordered[2], large))


def seeded() -> Iterator[tuple[str, Defect]]:
    for name in NAMES:
        for defect in DEFECTS:
            if name not in defect.unless and re.search(defect.place, kernel(name), re.MULTILINE):
                yield name, defect


@pytest.fixture(scope="module")
def evaluator(twin: TwinTarget, tmp_path_factory: pytest.TempPathFactory) -> TaskEvaluator:
    return TaskEvaluator(twin, CaseLibrary(tmp_path_factory.mktemp("cases"), ReferenceRunner()), jobs=2)


def judged(evaluator: TaskEvaluator, name: str, source: str, folder: Path) -> Outcome:
    return evaluator.evaluate(some_cases(shipped(name)), Candidate.of(source), folder, promote=lambda _: True)


def test_there_are_enough_of_them() -> None:
    found = list(seeded())
    assert len(found) >= 150
    assert len({name for name, _ in found}) == len(NAMES) == 14
    assert {defect.name for _, defect in found} == {defect.name for defect in DEFECTS}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_without_a_defect_nothing_is_said(evaluator: TaskEvaluator, tmp_path: Path, name: str) -> None:
    outcome = judged(evaluator, name, kernel(name), tmp_path)
    assert (outcome.verdict, [one for one in outcome.diagnostics if one.severity != "note"]) == (Verdict.VERIFIED, [])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "defect"), [pytest.param(*each, id=f"{each[0]}-{each[1].name}") for each in seeded()])
def test_a_seeded_defect_is_named_at_its_line(
    evaluator: TaskEvaluator, tmp_path: Path, name: str, defect: Defect
) -> None:
    source = re.sub(defect.place, defect.edit, kernel(name), count=1, flags=re.MULTILINE)
    outcome = judged(evaluator, name, source, tmp_path)
    found = next((one for one in outcome.diagnostics if one.kind == defect.kind), None)
    assert found is not None and found.severity == "error", outcome.diagnostics
    assert found.message and found.remedy
    if defect.line:
        assert found.file == "candidate.asc" and found.line
        assert re.search(defect.line, source.splitlines()[found.line - 1]), source.splitlines()[found.line - 1]
