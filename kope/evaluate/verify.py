"""Runs cases on the target and judges what they wrote: the two halves of verification, one process boundary apart."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kope.evaluate.compare import Comparison, compare_output
from kope.evaluate.explain import wrong_value
from kope.evaluate.prepared import PreparedCase
from kope.model import CaseRun, Diagnostic, LaunchCase, Ran, Stage, Task, TensorFile, Tolerance


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """One case, run and compared. stage: where it stopped, VERIFY when it was compared. run: None when it never ran."""

    case_id: str
    stage: Stage
    passed: bool
    error: float | None
    run: CaseRun | None
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """What one run of the executable showed: verdicts in order up to the first failure, and the run itself."""

    cases: tuple[CaseVerdict, ...]
    ran: Ran

    @property
    def passed(self) -> bool:
        """Whether every case of the group is right."""
        return all(case.passed for case in self.cases)


def launch_case(task: Task, prepared: PreparedCase, folder: Path) -> LaunchCase:
    """Return the call for a case, its outputs going to `folder`."""
    outputs = tuple(TensorFile(want.spec, folder / f"{want.spec.name}.bin") for want in prepared.wants)
    return LaunchCase(prepared.case.id, prepared.inputs, outputs, prepared.case.attrs or task.attrs)


def judge_group(
    task: Task,
    group: Sequence[PreparedCase],
    folder: Path,
    run: Callable[[Sequence[LaunchCase], Path], Ran],
) -> GroupVerdict:
    """Run a group in verify mode and compare its outputs, which are removed again."""
    launches = []
    for item in group:
        output_folder = folder / item.case.id
        output_folder.mkdir(parents=True)
        launches.append(launch_case(task, item, output_folder))
    try:
        ran = run(launches, folder)
        return GroupVerdict(tuple(_judge_cases(task, group, launches, ran)), ran)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judge_cases(
    task: Task, group: Sequence[PreparedCase], launches: Sequence[LaunchCase], ran: Ran
) -> Iterator[CaseVerdict]:
    runs = {run.case_id: run for run in ran.cases}
    for item, launch in zip(group, launches, strict=True):
        run = runs.get(item.case.id)
        if run is None or not run.ok:
            yield _not_run(item.case.id, run)
            return
        verdict = _compare(launch, item, run, task.tolerance)
        yield verdict
        if not verdict.passed:
            return


def _not_run(case_id: str, run: CaseRun | None) -> CaseVerdict:
    findings = run.diagnostics if run else ()
    if not any(finding.severity == "error" for finding in findings):
        message = f"case {case_id}: the run ended without a result for it"
        remedy = "the log shows what the program printed last"
        findings = (*findings, Diagnostic("no-result", message, remedy=remedy, case_id=case_id))
    stage = Stage.PROFILE if any(finding.kind == "below-floor" for finding in findings) else Stage.RUN
    return CaseVerdict(case_id, stage, False, None, run, findings)


def _compare(launch: LaunchCase, item: PreparedCase, run: CaseRun, tolerance: Mapping[str, Tolerance]) -> CaseVerdict:
    comparisons: list[Comparison] = []
    for output, want in zip(launch.outputs, item.wants, strict=True):
        assert output.path is not None and want.path is not None
        comparisons.append(compare_output(output.path, want.path, want.spec, tolerance[want.spec.dtype]))
    wrong = tuple(wrong_value(item.case.id, comparison) for comparison in comparisons if not comparison.passed)
    error = max(comparison.violation for comparison in comparisons)
    return CaseVerdict(item.case.id, Stage.VERIFY, not wrong, error, run, (*run.diagnostics, *wrong))


def judge_in_order(
    groups: Sequence[Sequence[PreparedCase]], judge: Callable[[int, Sequence[PreparedCase]], GroupVerdict], jobs: int
) -> Iterator[GroupVerdict]:
    """Judge groups, `jobs` at a time, and yield their verdicts in order, ending with the first that fails.

    Groups start in order, so the failure reported is the same whatever `jobs` is.
    """
    if jobs <= 1:
        for number, group in enumerate(groups):
            verdict = judge(number, group)
            yield verdict
            if not verdict.passed:
                return
        return
    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="verify") as pool:
        waiting: list[Future[GroupVerdict]] = []
        try:
            waiting.extend(pool.submit(judge, number, group) for number, group in enumerate(groups))
            for future in waiting:
                verdict = future.result()
                yield verdict
                if not verdict.passed:
                    return
        finally:
            for future in waiting:
                future.cancel()
