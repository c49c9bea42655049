"""Kernels that are right when verified and do less when timed: found where times are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.model import Candidate, Outcome, Stage, Verdict
from kope.target.ascend.target import AscendTarget, Choice
from kope.target.twin import TwinTarget
from kope.task import load_task
from tests.target.ascend.toolkit import NEW_A2, StandIn, install
from tests.target.launching import kernel

ENTRY = 'extern "C" int kope_entry(const KopeCall* call)\n{'
TOML = """
text = "y = e ** x"
inputs = { x = {} }
outputs = { y = "same:x" }
cases = [{ dtype = "float32", shape = [1025] }, { dtype = "float16", shape = [40, 33] }]
"""
REMEMBERS = """
    static int64_t last = 0;
    KopeTensor small = call->inputs[0];
    KopeCall less = *call;
    less.inputs = &small;
    if (last == small.numel) {
        small.numel = 64;
        call = &less;
    } else {
        last = small.numel;
    }
"""


@pytest.fixture(scope="module")
def stand_in(twin: TwinTarget, twin_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    return install(tmp_path_factory.mktemp("machine") / "cann", NEW_A2, twin, twin_cache)


def judge(source: str, stand_in: StandIn, folder: Path) -> Outcome:
    (folder / "exp").mkdir()
    (folder / "exp" / "task.toml").write_text(TOML)
    (folder / "exp" / "reference.py").write_text("import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n")
    target = AscendTarget(stand_in.home.parent / "cache", Choice(inherited=stand_in.inherited))
    evaluator = TaskEvaluator(target, CaseLibrary(folder / "cases", ReferenceRunner()), time_limit_s=60.0)
    return evaluator.evaluate(
        load_task(folder / "exp"), Candidate.of(source), folder / "work", promote=lambda times_us: True
    )


def test_an_honest_kernel_is_verified(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = judge(kernel("exp"), stand_in, tmp_path)
    assert (outcome.verdict, outcome.passed_count, outcome.diagnostics) == (Verdict.VERIFIED, 2, ())
    assert [len(case.duration_us) for case in outcome.cases] == [10, 10]


def test_a_kernel_that_does_less_from_its_second_call_on_is_found(stand_in: StandIn, tmp_path: Path) -> None:
    source = kernel("exp")
    assert ENTRY in source
    outcome = judge(source.replace(ENTRY, ENTRY + REMEMBERS), stand_in, tmp_path)
    assert (outcome.verdict, outcome.stage) == (Verdict.FAILED, Stage.PROFILE)
    assert [found.kind for found in outcome.diagnostics] == ["timed-call-wrong", "wrong-value"]
    assert all(case.duration_us == () for case in outcome.cases)
