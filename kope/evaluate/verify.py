"""Runs cases on the target and judges what they wrote: the two halves of verification, one process boundary apart."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kope.evaluate.compare import Comparison, compare_output
from kope.evaluate.disputes import disputed_case, excused, native_comparisons
from kope.evaluate.explain import wrong_value
from kope.evaluate.indices import compare_indices, points_into
from kope.evaluate.official import official_verdict
from kope.evaluate.prepared import CaseLibrary, PreparedCase
from kope.evaluate.rules import case_tolerance
from kope.model import CaseRun, Diagnostic, LaunchCase, Ran, Stage, Task, TensorFile

Run = Callable[[Sequence[LaunchCase], Path], Ran]


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """One case, run and compared. stage: where it stopped, VERIFY when it was compared. run: None when it never ran.

    disputed: the case is at fault, so its values do not count. official: the suite's own verdict, None without one.
    """

    case_id: str
    stage: Stage
    passed: bool
    error: float | None
    run: CaseRun | None
    diagnostics: tuple[Diagnostic, ...]
    disputed: bool = False
    official: bool | None = None

    @property
    def never_ran(self) -> bool:
        """Whether the program ended before it came to this case."""
        return self.run is None or any(found.kind == "not-run" for found in self.run.diagnostics)


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """What one run of the executable showed: verdicts in order, and the run itself."""

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


class Bench:
    """Where cases prepared from one seed are run and judged. every: one that fails stops no other."""

    def __init__(self, task: Task, library: CaseLibrary, seed: int, *, every: bool = False) -> None:
        self.task = task
        self.library = library
        self.seed = seed
        self.every = every

    def judge_group(self, group: Sequence[PreparedCase], folder: Path, run: Run) -> GroupVerdict:
        """Run a group in verify mode and compare its outputs, which are removed again."""
        launches = []
        for item in group:
            output_folder = folder / item.case.id
            output_folder.mkdir(parents=True)
            launches.append(launch_case(self.task, item, output_folder))
        try:
            ran = run(launches, folder)
            return GroupVerdict(tuple(self._judge_cases(group, launches, ran)), ran)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _judge_cases(
        self, group: Sequence[PreparedCase], launches: Sequence[LaunchCase], ran: Ran
    ) -> Iterator[CaseVerdict]:
        runs = {run.case_id: run for run in ran.cases}
        for item, launch in zip(group, launches, strict=True):
            run = runs.get(item.case.id)
            verdict = self._compare(launch, item, run) if run is not None and run.ok else self._not_run(item, run)
            yield verdict
            if not verdict.passed and not self.every:
                return

    def _not_run(self, item: PreparedCase, run: CaseRun | None) -> CaseVerdict:
        case_id = item.case.id
        findings = run.diagnostics if run else ()
        if not any(finding.severity == "error" for finding in findings):
            message = f"case {case_id}: the run ended without a result for it"
            remedy = "the log shows what the program printed last"
            findings = (*findings, Diagnostic("no-result", message, remedy=remedy, case_id=case_id))
        return CaseVerdict(
            case_id, Stage.RUN, False, None, run, findings, official=official_verdict(self.task, item, ())
        )

    def _compare(self, launch: LaunchCase, item: PreparedCase, run: CaseRun) -> CaseVerdict:
        comparisons: list[Comparison] = []
        for output, want in zip(launch.outputs, item.wants, strict=True):
            assert output.path is not None and want.path is not None
            rule = case_tolerance(self.task, item.case, want.spec.dtype)
            comparison = compare_output(output.path, want.path, want.spec, rule)
            into = None if comparison.passed else points_into(self.task, item, want.spec.name)
            if into is not None:
                comparison = compare_indices(comparison, output.path, want.path, *into)
            comparisons.append(comparison)
        case_id = item.case.id
        official = official_verdict(self.task, item, [output.path for output in launch.outputs if output.path])
        error = max(comparison.violation for comparison in comparisons)
        wrong = tuple(wrong_value(case_id, comparison) for comparison in comparisons if not comparison.passed)
        dispute = self._dispute(item, comparisons) if wrong else None
        if dispute is not None:
            found = (*run.diagnostics, dispute)
            return CaseVerdict(case_id, Stage.VERIFY, True, error, run, found, disputed=True, official=official)
        found = (*run.diagnostics, *wrong)
        return CaseVerdict(case_id, Stage.VERIFY, not wrong, error, run, found, official=official)

    def _dispute(self, item: PreparedCase, comparisons: Sequence[Comparison]) -> Diagnostic | None:
        """Return what is wrong with the case, where it is the case and not the candidate."""
        (natives,) = self.library.natives(self.task, [item], self.seed)
        if not natives:
            return None
        own = native_comparisons(self.task, item, natives)
        for got, native in zip(comparisons, own, strict=True):
            if not excused(got, native, case_tolerance(self.task, item.case, got.spec.dtype)):
                return None
        return disputed_case(item.case.id, own)


def judge_in_order(
    groups: Sequence[Sequence[PreparedCase]],
    judge: Callable[[int, Sequence[PreparedCase]], GroupVerdict],
    jobs: int,
    *,
    every: bool = False,
) -> Iterator[GroupVerdict]:
    """Judge groups, `jobs` at a time, and yield their verdicts in order, ending with the first that fails.

    Groups start in order, so the failure reported is the same whatever `jobs` is. every: none ends it.
    """
    if jobs <= 1:
        for number, group in enumerate(groups):
            verdict = judge(number, group)
            yield verdict
            if not verdict.passed and not every:
                return
        return
    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="verify") as pool:
        waiting: list[Future[GroupVerdict]] = []
        try:
            waiting.extend(pool.submit(judge, number, group) for number, group in enumerate(groups))
            for future in waiting:
                verdict = future.result()
                yield verdict
                if not verdict.passed and not every:
                    return
        finally:
            for future in waiting:
                future.cancel()
