"""One candidate's way through the stages: compile, three small cases, times of all cases, all cases in full, challenge.

The candidate runs in processes of its own that never see a reference output; every comparison happens here. Whether a
candidate is worth verifying in full is the caller's decision (`promote`), except where its control flow depends on
data: then times from a run without data mean nothing, and all cases run in full.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Protocol

from kope import __version__
from kope.evaluate import plan, times
from kope.evaluate.challenge import challenge_seed, fresh_values, other_shapes
from kope.evaluate.draft import Draft
from kope.evaluate.explain import learned_by_heart, wrong_when_timed
from kope.evaluate.needed import needed_inputs
from kope.evaluate.null_candidates import has_a_constant_output
from kope.evaluate.prepared import CaseLibrary, PreparedCase, sha256_of
from kope.evaluate.verify import Bench, GroupVerdict, Run, judge_in_order, launch_case
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


class Means(Protocol):
    """What an evaluator judges with; see TaskEvaluator."""

    target: Target
    library: CaseLibrary
    jobs: int
    time_limit_s: float
    seed: int

    def fingerprint(self) -> Fingerprint:
        """Return what times and verdicts depend on."""


class Stop(Exception):
    """The candidate failed: where, and why."""

    def __init__(self, stage: Stage, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(stage)
        self.stage = stage
        self.diagnostics = diagnostics


class Judgement:
    """One candidate on one task. folder: empty, for all files."""

    every = False
    """Whether cases are judged that come after one that failed."""

    def __init__(
        self,
        means: Means,
        task: Task,
        candidate: Candidate,
        folder: Path,
        promote: Callable[[Mapping[str, float]], bool],
    ) -> None:
        self.means = means
        self.target = means.target
        self.task = task
        self.candidate = candidate
        self.folder = folder
        self.promote = promote
        self.bench = Bench(task, means.library, means.seed, every=self.every)
        self.bounds: dict[str, float | None] = {}
        self.draft = Draft(
            task.cases, self.target.time_kind, evidence(task, candidate, means.fingerprint(), means.seed)
        )

    def outcome(self) -> Outcome:
        """Go through the stages until one refuses."""
        try:
            return self.draft.outcome(Stage.PROFILE, self.stages())
        except Stop as stop:
            self.draft.diagnostics.extend(stop.diagnostics)
            return self.draft.outcome(stop.stage, Verdict.FAILED)

    def stages(self) -> Verdict:
        """Run the stages; raises Stop."""
        built = self.compile()
        small = self.prepare(plan.small_cases(self.task.cases))
        small_runs = self.verify(built, [small], "small cases")
        everything = self.prepare(plan.by_size(self.task.cases))
        timed = self.time(built, everything)
        times_us = {run.case_id: median(run.duration_us) for run in timed.values()}
        all_timed = len(timed) == len(everything)
        if all_timed and not times.depends_on_data(small_runs, timed) and not self.promote(times_us):
            return Verdict.SCREENED
        rest = [item for item in everything if item.case.id not in small_runs]
        runs = small_runs | self.verify(built, plan.groups(rest), "verify")
        self.check_times(timed, runs, everything)
        self.challenge(built, everything)
        return Verdict.VERIFIED

    def compile(self) -> Built:
        """Build the candidate."""
        folder = self.folder / "build"
        folder.mkdir()
        built = self.target.build(self.candidate, folder)
        self.draft.add_program("compile", built)
        self.draft.diagnostics.extend(built.diagnostics)
        if built.executable is None:
            raise Stop(Stage.COMPILE)
        return built

    def prepare(self, cases: Sequence[Case]) -> list[PreparedCase]:
        """Have inputs and expected outputs of cases ready."""
        with self.recorded():
            prepared = self.means.library.prepare(self.task, cases, self.means.seed)
        self.draft.evidence["inputs"] = sha256_of([item.input_hash for item in prepared])
        self.draft.evidence["reference"] = sha256_of([item.want_hash for item in prepared])
        return prepared

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Keep what references were run meanwhile."""
        steps = self.means.library.runner.steps
        known = len(steps)
        try:
            yield
        finally:
            self.draft.steps.extend(steps[known:])

    def runner(self, built: Built, group: Sequence[PreparedCase]) -> Run:
        """Return what runs a group with data, in a time that fits it."""
        limit = plan.time_limit_s(self.means.time_limit_s, [item.case for item in group])

        def run(launches: Sequence[LaunchCase], folder: Path) -> Ran:
            return self.target.run(built, launches, "verify", folder, time_limit_s=limit)

        return run

    def verify(self, built: Built, groups: Sequence[Sequence[PreparedCase]], name: str) -> dict[str, CaseRun]:
        """Run and compare groups; raises Stop at the first case that fails."""

        def judge(number: int, group: Sequence[PreparedCase]) -> GroupVerdict:
            folder = self.folder / f"{name}-{number}".replace(" ", "-")
            return self.bench.judge_group(group, folder, self.runner(built, group))

        runs: dict[str, CaseRun] = {}
        with self.recorded():
            for number, verdict in enumerate(judge_in_order(groups, judge, self.means.jobs, every=self.every)):
                self.record(name, verdict)
                self.check_inputs(groups[number])
                if not verdict.passed and not self.every:
                    raise Stop(verdict.cases[-1].stage)
                runs |= {case.case_id: case.run for case in verdict.cases if case.run is not None and case.passed}
        return runs

    def record(self, name: str, verdict: GroupVerdict) -> None:
        """Keep the verdicts of a group."""
        self.draft.add_verdicts(name, verdict)

    def time(self, built: Built, everything: Sequence[PreparedCase]) -> dict[str, CaseRun]:
        """Time all cases in one run; raises Stop when one of them has no time that can be believed.

        A case that read data where there was none and went wrong is left out: the run with data gives its time. So are
        the cases behind it that the program then did not reach.
        """
        folder = self.folder / "time"
        limit = plan.time_limit_s(self.means.time_limit_s, [item.case for item in everything])

        def start(launches: Sequence[LaunchCase], where: Path) -> Ran:
            return self.target.run(built, launches, "time", where, time_limit_s=limit)

        launches = [launch_case(self.task, item, folder) for item in everything]
        wrong: dict[str, tuple[Diagnostic, ...]] = {}
        if self.target.time_kind is TimeKind.MEASURED:  # it gives the outputs of one of the timed calls
            verdict = self.bench.judge_group(everything, folder, start)
            ran, judged = verdict.ran, [one for one in verdict.cases if one.stage is Stage.VERIFY]
            wrong = {one.case_id: wrong_when_timed(one.diagnostics) for one in judged if not one.passed}
        else:
            folder.mkdir()
            ran = start(launches, folder)
        self.draft.add_program("time", ran)
        self.check_inputs(everything)
        self.bounds |= {launch.case_id: self.target.bound_us(launch) for launch in launches}
        runs = {run.case_id: run for run in ran.cases}
        believed: dict[str, CaseRun] = {}
        guessed = False
        for launch in launches:
            run = runs.get(launch.case_id)
            found = wrong.get(launch.case_id) or times.untimed(launch.case_id, run)
            guessed |= bool(found) and run is not None and times.read_data(run)
            if found and not guessed:
                self.refuse(launch.case_id, found)
            elif run is not None and not found:
                believed[launch.case_id] = run
        self.draft.add_times(believed.values(), self.bounds)
        self.check_floor(believed, everything)
        return believed

    def refuse(self, case_id: str, found: Sequence[Diagnostic]) -> None:
        """Deal with a time that is not believed."""
        raise Stop(Stage.PROFILE, tuple(found))

    def check_inputs(self, group: Sequence[PreparedCase]) -> None:
        """A candidate that got at its input files has failed, and the files are made anew."""
        touched = [item for item in group if not self.means.library.untouched(item)]
        for item in touched:
            self.means.library.drop(item)
        if touched:
            case_id = touched[0].case.id
            message = f"case {case_id}: the input files were changed while the candidate ran"
            remedy = "read inputs through the tensors of the call; write only outputs and workspace"
            raise Stop(Stage.RUN, (Diagnostic("input-modified", message, remedy=remedy, case_id=case_id),))

    def check_floor(self, runs: Mapping[str, CaseRun], cases: Sequence[PreparedCase]) -> None:
        """No time below what moving a case's bytes takes at peak bandwidth is believed.

        Where a time is below that of whole inputs, as a slice's or a gather's may be, only what is needed counts.
        """
        for item in cases:
            run = runs.get(item.case.id)
            if run is None or not times.below_floor(run, self.bounds[item.case.id]):
                continue
            with self.recorded():
                needed = needed_inputs(self.task, item, self.means.library)
            launch = replace(launch_case(self.task, item, self.folder), inputs=needed)
            self.bounds[item.case.id] = self.target.bound_us(launch)
            self.draft.add_times([run], self.bounds)
            if found := times.below_floor(run, self.bounds[item.case.id]):
                self.refuse(item.case.id, (found,))

    def check_times(
        self, timed: Mapping[str, CaseRun], verified: Mapping[str, CaseRun], cases: Sequence[PreparedCase]
    ) -> None:
        """Hold modelled times of both runs against each other; where the path differed, the run with data counts."""
        if self.target.time_kind is not TimeKind.MODELLED:
            return
        replaced = []
        for case_id, run in verified.items():
            fast = timed.get(case_id)
            mismatch = times.mismatch(fast, run) if fast is not None else None
            if found := (mismatch,) if mismatch is not None else times.untimed(case_id, run):
                self.refuse(case_id, found)
            elif fast is None or times.supersedes(fast, run):
                replaced.append(run)
        self.draft.add_times(replaced, self.bounds)
        self.check_floor({run.case_id: run for run in replaced}, cases)
        if replaced:
            case_id = replaced[0].case_id
            message = f"control flow depends on data in {len(replaced)} cases; their times come from the run with data"
            self.draft.diagnostics.append(Diagnostic(times.DATA_DEPENDENT, message, severity="note", case_id=case_id))

    def challenge(self, built: Built, everything: Sequence[PreparedCase]) -> None:
        """Ask for fresh values and other shapes; raises Stop at the first wrong answer.

        Questions that the reference does not accept are left out: a shape may not go with the attributes.
        """
        seed = challenge_seed(self.task, self.candidate)
        library = CaseLibrary(self.folder / "challenge", self.means.library.runner)
        weak = [item.case for item in everything if has_a_constant_output(self.task, item, self.folder)]
        alternatives = [[question] for question in fresh_values(self.task, seed, weak)] + other_shapes(self.task)
        asked = {question.case.id: question for several in alternatives for question in several}
        with self.recorded():
            prepared = library.prepare_accepted(self.task, [question.case for question in asked.values()], seed)
        accepted = {item.case.id: item for item in prepared}
        firsts = [next((q.case.id for q in several if q.case.id in accepted), "") for several in alternatives]
        group = [accepted[case_id] for case_id in firsts if case_id]
        self.draft.evidence["challenge"] = sha256_of([[item.input_hash, item.want_hash] for item in group])
        if not group:
            return
        with self.recorded():
            bench = Bench(self.task, library, seed)
            verdict = bench.judge_group(group, self.folder / "challenge-runs", self.runner(built, group))
            self.draft.add_program("challenge", verdict.ran)
        if not verdict.passed:
            failed = verdict.cases[-1]
            raise Stop(Stage.VERIFY, learned_by_heart(asked[failed.case_id], failed.diagnostics))


def evidence(task: Task, candidate: Candidate, fingerprint: Fingerprint, seed: int) -> dict[str, str]:
    """Return what makes a verdict checkable: hashes of what was judged by what, and the versions of the tools.

    Hashes of inputs, expected outputs, challenge and log are added on the way.
    """
    return {
        "source": candidate.id,
        "task": task.digest,
        "reference_source": hashlib.sha256(task.reference.encode()).hexdigest(),
        "seed": str(seed),
        "evaluator": fingerprint.evaluator,
        "target": fingerprint.target,
        "hardware": fingerprint.hardware,
        "toolchain": fingerprint.toolchain,
        "kope": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "ml_dtypes": version("ml_dtypes"),
        "machine": platform.machine(),
    }
