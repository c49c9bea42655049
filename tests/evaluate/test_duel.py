"""Two kernels timed in turns: order, verdict, what is recorded, and whose fault it is when one cannot be timed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from kope.errors import MachineError
from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.evaluate.duel import Comparison
from kope.model import Built, Candidate, CaseRun, Diagnostic, Fingerprint, LaunchCase, Ran, RunMode, Task, TimeKind

CANDIDATE, INCUMBENT = Candidate.of("candidate"), Candidate.of("incumbent")


class NoisyTarget:
    """Times by kernel, with log-normal noise; `drift` makes every run slower than the one before."""

    name = "noisy"
    time_kind = TimeKind.MEASURED

    def __init__(
        self, times_us: dict[str, float], *, noise: float = 0.02, drift: float = 0.0, fails: str = "", seed: int = 0
    ) -> None:
        self.times_us = times_us
        self.noise, self.drift, self.fails = noise, drift, fails
        self.random = np.random.default_rng(seed)
        self.order: list[str] = []

    def fingerprint(self) -> Fingerprint:
        return Fingerprint("noisy", "noisy:1", "none", "1")

    def build(self, candidate: Candidate, workdir: Path) -> Built:
        (workdir / "candidate").write_text(candidate.source)
        return Built(workdir / "candidate", (), "")

    def run(
        self, built: Built, cases: Sequence[LaunchCase], mode: RunMode, workdir: Path, *, time_limit_s: float
    ) -> Ran:
        assert built.executable is not None and mode == "time" and workdir.is_dir()
        name = built.executable.read_text()
        slower = (1.0 + self.drift) ** len(self.order)
        self.order.append(name)
        if name == self.fails:
            found = Diagnostic("device-timeout", "vector core timeout", case_id=cases[0].case_id)
            return Ran((CaseRun(cases[0].case_id, False, (found,)),), "")
        runs = [
            CaseRun(
                case.case_id,
                True,
                duration_us=tuple(
                    (self.times_us[name] * slower * np.exp(self.random.normal(0.0, self.noise, 3))).tolist()
                ),
            )
            for case in cases
        ]
        return Ran(tuple(runs), "")

    def bound_us(self, case: LaunchCase) -> float | None:
        return None


Compare = Callable[[NoisyTarget], Comparison]


@pytest.fixture
def compare(task: Task, tmp_path: Path) -> Compare:
    library = CaseLibrary(tmp_path / "cases", ReferenceRunner())

    def run(target: NoisyTarget) -> Comparison:
        return TaskEvaluator(target, library).compare(task, CANDIDATE, INCUMBENT, tmp_path / "work")

    return run


def test_a_faster_kernel_is_found_after_a_few_pairs_and_every_sample_is_kept(compare: Compare, tmp_path: Path) -> None:
    target = NoisyTarget({"candidate": 8.0, "incumbent": 10.0})
    found = compare(target)
    assert found.faster
    assert found.summary.startswith("faster than the best kernel: +2") and found.summary.endswith(
        "in 4 pairs of runs in turns"
    )
    turns = ["candidate", "incumbent", "incumbent", "candidate"]
    assert target.order == 2 * turns
    record = json.loads(json.dumps(found.record))
    assert (record["unit"], record["clock"], record["decision"]) == ("us", "device", "faster")
    assert record["order"] == target.order
    assert [len(run) for run in record["runs"]] == [5] * 8
    assert all(len(samples) == 3 and min(samples) > 0.0 for run in record["runs"] for samples in run.values())
    assert record["interval"][0] < 0.25 < record["interval"][1]
    assert list((tmp_path / "work").iterdir()) == []


def test_equal_kernels_are_compared_to_the_end_and_not_promoted(compare: Compare) -> None:
    target = NoisyTarget({"candidate": 10.0, "incumbent": 10.0}, noise=0.2, seed=4)
    found = compare(target)
    assert not found.faster and len(target.order) <= 32
    assert found.summary.startswith("not proven faster than the best kernel")


def test_a_slower_kernel_is_given_up_early(compare: Compare) -> None:
    target = NoisyTarget({"candidate": 10.4, "incumbent": 10.0}, noise=0.002)
    assert not compare(target).faster and len(target.order) == 8


def test_a_steady_drift_makes_neither_kernel_faster(compare: Compare) -> None:
    assert not compare(NoisyTarget({"candidate": 10.0, "incumbent": 10.0}, noise=0.001, drift=0.005)).faster


def test_a_machine_whose_times_run_away_decides_nothing(compare: Compare) -> None:
    found = compare(NoisyTarget({"candidate": 7.0, "incumbent": 10.0}, noise=0.001, drift=0.1))
    assert not found.faster
    assert found.summary.startswith("nothing decided: the same kernel's times drift on this machine")


def test_a_candidate_that_fails_while_it_is_timed_again_is_not_faster(compare: Compare) -> None:
    found = compare(NoisyTarget({"candidate": 1.0, "incumbent": 10.0}, fails="candidate"))
    assert (found.faster, found.summary) == (
        False,
        "the candidate failed while it was timed again: vector core timeout",
    )


def test_an_incumbent_that_fails_is_the_machines_fault(compare: Compare) -> None:
    with pytest.raises(MachineError, match="best kernel of double cannot be timed any more .vector core timeout"):
        compare(NoisyTarget({"candidate": 1.0, "incumbent": 10.0}, fails="incumbent"))
