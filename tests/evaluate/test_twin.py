"""The evaluator on the twin: a right kernel is verified, seeded mistakes stop at the right stage with their line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.model import Candidate, Outcome, Stage, Task, Verdict
from kope.target.twin.target import TwinTarget

KERNEL = (Path(__file__).parents[1] / "target" / "kernels" / "exp.asc").read_text()
TOML = """
text = "y = e ** x"
inputs = { x = { range = [-5, 5] } }
outputs = { y = "same:x" }
cases = [
  { dtype = "float32", shape = [1024] },
  { dtype = "float16", shape = [1023] },
  { dtype = "bfloat16", shape = [7, 129], special = "nan" },
  { dtype = "float32", shape = [300, 1001], special = "inf" },
  { dtype = "float16", shape = [1048577] },
]
"""
REFERENCE = "import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n"


@pytest.fixture(scope="module")
def evaluator(twin_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> TaskEvaluator:
    library = CaseLibrary(tmp_path_factory.mktemp("cases"), ReferenceRunner())
    return TaskEvaluator(TwinTarget(twin_cache, jobs=2), library, jobs=2, time_limit_s=5.0)


@pytest.fixture
def judge(make_task: Callable[..., Task], evaluator: TaskEvaluator, tmp_path: Path) -> Callable[..., Outcome]:
    task = make_task(toml=TOML, reference=REFERENCE, name="exp")

    def run(*change: tuple[str, str], promote: bool = True) -> Outcome:
        source = KERNEL
        for old, new in change:
            assert old in source
            source = source.replace(old, new)
        return evaluator.evaluate(task, Candidate.of(source), tmp_path / "work", promote=lambda times_us: promote)

    return run


def test_a_right_kernel_is_verified_on_every_case(judge: Callable[..., Outcome]) -> None:
    outcome = judge()
    assert (outcome.verdict, outcome.stage, outcome.passed_count) == (Verdict.VERIFIED, Stage.PROFILE, 5), outcome
    assert [finding for finding in outcome.diagnostics if finding.severity == "error"] == []
    for case in outcome.cases:
        assert case.error is not None and case.error <= 1
        assert case.bound_us is not None and case.duration_us[0] >= case.bound_us
    again = judge()
    assert again.times_us == outcome.times_us
    assert again.evidence == outcome.evidence


def test_a_screened_kernel_has_the_times_of_a_verified_one(judge: Callable[..., Outcome]) -> None:
    screened, verified = judge(promote=False), judge()
    assert screened.verdict is Verdict.SCREENED
    assert screened.times_us == verified.times_us
    assert screened.passed_count == 3


def test_control_flow_that_depends_on_data_is_verified_in_full_with_the_times_of_that_run(
    judge: Callable[..., Outcome],
) -> None:
    branch = """        if constexpr (sizeof(T) == 4) {
            if (x_.GetValue(0) != 1.0f) {
                for (int k = 0; k < 200; ++k) {
                    PipeBarrier<PIPE_ALL>();
                }
            }
        }
        for (uint64_t done"""
    plain, outcome = judge(), judge(("        for (uint64_t done", branch), promote=False)
    assert (outcome.verdict, outcome.passed_count) == (Verdict.VERIFIED, 5), outcome
    assert "data-dependent" in [finding.kind for finding in outcome.diagnostics]
    assert outcome.times_us["1"] > plain.times_us["1"] + 1.0  # the barriers that only real data reaches


MISTAKES: dict[str, tuple[tuple[str, str], Stage, str]] = {
    "does not compile": (("Exp(y, x, n);", "Exp(y, x, n)"), Stage.COMPILE, "compile-error"),
    "another formula": (("Exp(y, x, n);", "Adds(y, x, 1.0f, n);"), Stage.VERIFY, "wrong-value"),
    "refuses": (("case KOPE_FLOAT16:", "case KOPE_INT8:"), Stage.RUN, ""),
    "forgets the last core": (("tiling{total, per_core, 8192}", "tiling{total - 1, per_core, 8192}"), Stage.RUN, ""),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_stops_at_its_stage(judge: Callable[..., Outcome], name: str) -> None:
    change, stage, kind = MISTAKES[name]
    outcome = judge(change)
    assert (outcome.stage, outcome.verdict) == (stage, Verdict.FAILED)
    error = outcome.diagnostics[0]
    assert error.severity == "error"
    assert error.kind == kind or not kind
    assert error.message and error.remedy
