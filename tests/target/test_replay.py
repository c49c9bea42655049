"""The replay target answers like a toolchain, so that the real evaluator judges what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kope.errors import ConfigError
from kope.evaluate import TaskEvaluator
from kope.model import Candidate, Outcome, Stage, Task, Verdict
from kope.target.replay import Answer, read_marker
from kope.task import load_task
from tests.replay_task import marked, replay_evaluator, replay_target, write_task

Judge = Callable[..., Outcome]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replay")


@pytest.fixture(scope="module")
def task(cache: Path) -> Task:
    return load_task(write_task(cache))


@pytest.fixture
def judge(task: Task, cache: Path, tmp_path: Path) -> Judge:
    evaluator = replay_evaluator(cache)

    def evaluate(source: str, promote: bool = True) -> Outcome:
        return evaluator.evaluate(task, Candidate.of(source), tmp_path, promote=lambda times_us: promote)

    return evaluate


def test_right_answer_is_verified_with_the_tables_times(judge: Judge, task: Task) -> None:
    outcome = judge(marked(12.5))
    assert (outcome.verdict, outcome.passed_count) == (Verdict.VERIFIED, 5)
    assert outcome.times_us == {case.id: 12.5 for case in task.cases}


def test_answer_that_is_not_promoted_is_screened(judge: Judge) -> None:
    outcome = judge(marked(12.5), promote=False)
    assert (outcome.verdict, outcome.passed_count, len(outcome.times_us)) == (Verdict.SCREENED, 3, 5)


def test_wrong_answer_fails_at_verify(judge: Judge) -> None:
    outcome = judge(marked(1, "wrong"))
    assert (outcome.verdict, outcome.stage) == (Verdict.FAILED, Stage.VERIFY)


@pytest.mark.parametrize(("kind", "stage"), [("compile-error", Stage.COMPILE), ("ub-overflow", Stage.RUN)])
def test_failure_stops_at_its_stage_with_its_kind(judge: Judge, kind: str, stage: Stage) -> None:
    outcome = judge(marked(1, f"fail={kind}"))
    assert (outcome.verdict, outcome.stage, outcome.diagnostics[0].kind) == (Verdict.FAILED, stage, kind)


def test_source_without_an_answer_is_a_compile_error(judge: Judge) -> None:
    assert judge("int main() {}\n").stage is Stage.COMPILE


def test_table_goes_before_the_marker(task: Task, cache: Path, tmp_path: Path) -> None:
    source = marked(12.5)
    target = replay_target()
    target.answers = {Candidate.of(source).id: Answer(time_us={case.id: 3.0 for case in task.cases})}
    evaluator = TaskEvaluator(target, replay_evaluator(cache).library)
    outcome = evaluator.evaluate(task, Candidate.of(source), tmp_path, promote=lambda times_us: True)
    assert set(outcome.times_us.values()) == {3.0}


def test_marker_reads_every_word_and_refuses_others() -> None:
    assert read_marker("x\n// replay: time_us=2 wrong fail=timeout\n") == Answer(2.0, "timeout", True)
    assert read_marker("int x;") is None
    with pytest.raises(ConfigError, match="unknown word 'fast'"):
        read_marker("// replay: fast")
