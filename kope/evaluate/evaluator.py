"""TaskEvaluator: compile, three small cases, times of all cases, full verification when it is worth it.

The candidate runs in processes of its own that never see a reference output; every comparison happens here. Whether a
candidate is worth verifying in full is the caller's decision (`promote`), except where its control flow depends on
data: then times from a run without data mean nothing, and all cases run in full.
"""

from __future__ import annotations

import functools
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from kope.errors import MachineError
from kope.evaluate import plan
from kope.evaluate.draft import Draft
from kope.evaluate.prepared import CaseLibrary, PreparedCase, sha256_of
from kope.evaluate.rules import TIME_AGREEMENT, evaluator_fingerprint
from kope.evaluate.verify import GroupVerdict, judge_group, judge_in_order, launch_case
from kope.model import (
    Built,
    Candidate,
    Case,
    CaseRun,
    Diagnostic,
    Fingerprint,
    LaunchCase,
    Outcome,
    Ran,
    Stage,
    Target,
    Task,
    TimeKind,
    Verdict,
)

DATA_DEPENDENT = "data-dependent"
"""The kind of a note by which a target says that a timing run had to guess at data."""


class TaskEvaluator:
    """Judges candidates on one target.

    library: where inputs and reference outputs come from. jobs: processes at a time in full verification.
    time_limit_s: wall limit of one run of small cases; larger ones get more (plan.time_limit_s). seed: 0 draws the
    task's own input values, another seed fresh ones.
    """

    def __init__(
        self, target: Target, library: CaseLibrary, *, jobs: int = 1, time_limit_s: float = 10.0, seed: int = 0
    ) -> None:
        self.target = target
        self.library = library
        self.jobs = jobs
        self.time_limit_s = time_limit_s
        self.seed = seed

    @functools.cached_property
    def _fingerprint(self) -> Fingerprint:
        target = self.target.fingerprint()
        return replace(target, evaluator="+".join(filter(None, (target.evaluator, evaluator_fingerprint()))))

    def fingerprint(self) -> Fingerprint:
        """Return what times and verdicts depend on: the target's fingerprint with the rules of judgement filled in."""
        return self._fingerprint

    def evaluate(
        self, task: Task, candidate: Candidate, workdir: Path, *, promote: Callable[[Mapping[str, float]], bool]
    ) -> Outcome:
        """Judge a candidate. A temporary folder in `workdir` holds all files and is gone afterwards.

        Raises what the machine or the task is to blame for (MachineError, ReferenceError_, ToolMissing, ...).
        """
        try:
            workdir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(f"{workdir}: {error.strerror}; set another cache folder (KOPE_CACHE)") from error
        with tempfile.TemporaryDirectory(prefix="attempt-", dir=workdir, ignore_cleanup_errors=True) as folder:
            return _Judgement(self, task, candidate, Path(folder), promote).outcome()


class _Stop(Exception):
    """The candidate failed: where, and why."""

    def __init__(self, stage: Stage, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(stage)
        self.stage = stage
        self.diagnostics = diagnostics


class _Judgement:
    """One candidate's way through the stages."""

    def __init__(
        self,
        evaluator: TaskEvaluator,
        task: Task,
        candidate: Candidate,
        folder: Path,
        promote: Callable[[Mapping[str, float]], bool],
    ) -> None:
        self.evaluator = evaluator
        self.target = evaluator.target
        self.task = task
        self.candidate = candidate
        self.folder = folder
        self.promote = promote
        fingerprint = evaluator.fingerprint()
        evidence = {
            "source": candidate.id,
            "task": task.digest,
            "evaluator": fingerprint.evaluator,
            "target": fingerprint.target,
            "hardware": fingerprint.hardware,
            "toolchain": fingerprint.toolchain,
            "python": platform.python_version(),
            "numpy": np.__version__,
        }
        self.draft = Draft(task.cases, self.target.time_kind, evidence)

    def outcome(self) -> Outcome:
        """Go through the stages until one refuses."""
        try:
            return self.draft.outcome(Stage.PROFILE, self._stages())
        except _Stop as stop:
            self.draft.diagnostics.extend(stop.diagnostics)
            return self.draft.outcome(stop.stage, Verdict.FAILED)

    def _stages(self) -> Verdict:
        built = self._compile()
        small = self._prepare(plan.small_cases(self.task.cases))
        small_runs = self._verify(built, [small], "small cases")
        everything = self._prepare(plan.by_size(self.task.cases))
        timed = self._time(built, everything)
        depends_on_data = _depends_on_data(small_runs, timed)
        self._check_floor(timed)
        times = {run.case_id: median(run.duration_us) for run in timed.values() if run.duration_us}
        if not depends_on_data and not self.promote(times):
            return Verdict.SCREENED
        rest = [item for item in everything if item.case.id not in small_runs]
        runs = small_runs | self._verify(built, plan.groups(rest), "verify")
        self._check_times(timed, runs)
        return Verdict.VERIFIED

    def _compile(self) -> Built:
        folder = self.folder / "build"
        folder.mkdir()
        built = self.target.build(self.candidate, folder)
        self.draft.add_program("compile", built)
        self.draft.diagnostics.extend(built.diagnostics)
        if built.executable is None:
            raise _Stop(Stage.COMPILE)
        return built

    def _prepare(self, cases: Sequence[Case]) -> list[PreparedCase]:
        runner = self.evaluator.library.runner
        known = len(runner.steps)
        prepared = self.evaluator.library.prepare(self.task, cases, self.evaluator.seed)
        self.draft.steps.extend(runner.steps[known:])
        self.draft.evidence["inputs"] = sha256_of([item.input_hash for item in prepared])
        self.draft.evidence["reference"] = sha256_of([item.want_hash for item in prepared])
        return prepared

    def _verify(self, built: Built, groups: Sequence[Sequence[PreparedCase]], name: str) -> dict[str, CaseRun]:
        """Run and compare groups; raises _Stop at the first case that fails."""

        def judge(number: int, group: Sequence[PreparedCase]) -> GroupVerdict:
            limit = plan.time_limit_s(self.evaluator.time_limit_s, [item.case for item in group])

            def run(launches: Sequence[LaunchCase], folder: Path) -> Ran:
                return self.target.run(built, launches, "verify", folder, time_limit_s=limit)

            return judge_group(self.task, group, self.folder / f"{name}-{number}".replace(" ", "-"), run)

        runs: dict[str, CaseRun] = {}
        for number, verdict in enumerate(judge_in_order(groups, judge, self.evaluator.jobs)):
            self.draft.add_verdicts(name, verdict)
            self._check_inputs(groups[number])
            if not verdict.passed:
                raise _Stop(verdict.cases[-1].stage)
            runs |= {case.case_id: case.run for case in verdict.cases if case.run is not None}
        return runs

    def _time(self, built: Built, everything: Sequence[PreparedCase]) -> dict[str, CaseRun]:
        """Time all cases in one run; raises _Stop when one of them fails."""
        folder = self.folder / "time"
        folder.mkdir()
        launches = [launch_case(self.task, item, folder) for item in everything]
        ran = self.target.run(built, launches, "time", folder, time_limit_s=self._time_limit(everything))
        self.draft.add_program("time", ran)
        self._check_inputs(everything)
        bounds = {launch.case_id: self.target.bound_us(launch) for launch in launches}
        self.draft.add_times(ran.cases, bounds)
        runs = {run.case_id: run for run in ran.cases}
        for launch in launches:
            run = runs.get(launch.case_id)
            if run is None or not run.ok or not run.duration_us:
                findings = run.diagnostics if run else ()
                said = any(found.severity == "error" for found in findings)
                raise _Stop(Stage.PROFILE, findings if said else (*findings, _untimed(launch.case_id)))
        return runs

    def _time_limit(self, everything: Sequence[PreparedCase]) -> float:
        return plan.time_limit_s(self.evaluator.time_limit_s, [item.case for item in everything])

    def _check_inputs(self, group: Sequence[PreparedCase]) -> None:
        """A candidate that got at its input files has failed, and the files are made anew."""
        touched = [item for item in group if not self.evaluator.library.untouched(item)]
        for item in touched:
            self.evaluator.library.drop(item)
        if touched:
            case_id = touched[0].case.id
            message = f"case {case_id}: the input files were changed while the candidate ran"
            remedy = "read inputs through the tensors of the call; write only outputs and workspace"
            raise _Stop(Stage.RUN, (Diagnostic("input-modified", message, remedy=remedy, case_id=case_id),))

    def _check_floor(self, runs: Mapping[str, CaseRun]) -> None:
        """No time below what moving the case's bytes takes at peak bandwidth is believed."""
        for case_id, run in runs.items():
            bound = self.draft.results[case_id].bound_us
            if bound is not None and run.duration_us and min(run.duration_us) < bound * (1 - 1e-6):
                message = f"case {case_id}: {min(run.duration_us):.3f} us is below the floor of {bound:.3f} us"
                remedy = "every input must be read and every output written by the kernel that is timed"
                raise _Stop(Stage.PROFILE, (Diagnostic("below-floor", message, remedy=remedy, case_id=case_id),))

    def _check_times(self, timed: Mapping[str, CaseRun], verified: Mapping[str, CaseRun]) -> None:
        """Hold modelled times of both runs against each other; where the path differed, the run with data counts."""
        if self.target.time_kind is not TimeKind.MODELLED:
            return
        replaced = []
        for case_id, run in verified.items():
            fast = timed[case_id]
            same_path = run.control_flow == fast.control_flow
            if _agree(fast, run) and same_path:
                continue
            if not same_path or _read_data(fast):
                replaced.append(run)
            else:
                without, with_data = median(fast.duration_us), median(run.duration_us)
                message = f"case {case_id}: {without:.3f} us without data, {with_data:.3f} us with, on the same path"
                remedy = "the time must come from the work itself; remove what tells the two runs apart"
                raise _Stop(Stage.PROFILE, (Diagnostic("time-mismatch", message, remedy=remedy, case_id=case_id),))
        self.draft.add_times(replaced, {run.case_id: self.draft.results[run.case_id].bound_us for run in replaced})
        self._check_floor({run.case_id: run for run in replaced})
        if replaced:
            case_id = replaced[0].case_id
            message = f"control flow depends on data in {len(replaced)} cases; their times come from the run with data"
            self.draft.diagnostics.append(Diagnostic(DATA_DEPENDENT, message, severity="note", case_id=case_id))


def _read_data(run: CaseRun) -> bool:
    """Whether the target had to guess at data that the candidate read in a timing run."""
    return any(found.kind == DATA_DEPENDENT for found in run.diagnostics)


def _agree(fast: CaseRun, full: CaseRun) -> bool:
    if not fast.duration_us or not full.duration_us:
        return True
    fast_us, full_us = median(fast.duration_us), median(full.duration_us)
    return abs(fast_us - full_us) <= TIME_AGREEMENT * full_us


def _depends_on_data(small: Mapping[str, CaseRun], timed: Mapping[str, CaseRun]) -> bool:
    """Whether a small case took another path with its data than without, or read data and took another time.

    Reading alone is no dependence: row kernels pass a reduced scalar on as an operand. What the small cases do not show
    is found in full verification, before a time counts.
    """
    for case_id, run in small.items():
        other = timed[case_id]
        if run.control_flow != other.control_flow or (_read_data(other) and not _agree(other, run)):
            return True
    return False


def _untimed(case_id: str) -> Diagnostic:
    remedy = "the log shows what the program printed last"
    return Diagnostic(
        "no-result", f"case {case_id}: the timing run gave no time for it", remedy=remedy, case_id=case_id
    )
