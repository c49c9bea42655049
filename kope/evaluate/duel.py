"""Two kernels timed in turns on one target, until it is clear whether the newer one is faster.

What the pairs prove is `timing`'s business; whether a kernel is right was found out before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from kope.errors import MachineError
from kope.evaluate import plan
from kope.evaluate.judgement import Means
from kope.evaluate.times import untimed
from kope.evaluate.timing import Finding, Rule, checked, decide
from kope.evaluate.verify import launch_case
from kope.model import Built, Candidate, Task

IN_TURNS = Rule(looks=(4, 8, 16))
"""A run on a card takes seconds, and its value is a median over calls already: few pairs are enough."""

Samples = Mapping[str, tuple[float, ...]]
"""One run of one kernel: every call's time in microseconds, by case."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of it. faster: proven beyond the interval. summary: one line. record: JSON-able, every raw sample."""

    faster: bool
    summary: str
    record: Mapping[str, Any]


@dataclass(slots=True)
class _Turns:
    """Runs as they come. order: which kernel ran, in time order; runs: what each showed."""

    order: list[str] = field(default_factory=list)
    runs: list[Samples] = field(default_factory=list)

    def controls(self) -> list[float]:
        """Return log ratios of runs of the same kernel that followed each other."""
        pairs = zip(self.order, self.order[1:], self.runs, self.runs[1:], strict=False)
        return [log_ratio(first, second) for one, two, first, second in pairs if one == two]

    def log_ratios(self) -> list[float]:
        """Return log(incumbent / candidate) of each pair."""
        found = []
        for k in range(0, len(self.runs) - 1, 2):
            pair = dict(zip(self.order[k : k + 2], self.runs[k : k + 2], strict=True))
            found.append(log_ratio(pair["incumbent"], pair["candidate"]))
        return found


def log_ratio(first: Samples, second: Samples) -> float:
    """Return the mean over cases of log(median of first / median of second): the log of a geometric mean."""
    return fmean(math.log(median(first[case_id]) / median(second[case_id])) for case_id in first)


def compare(
    means: Means, task: Task, candidate: Candidate, incumbent: Candidate, folder: Path, rule: Rule = IN_TURNS
) -> Comparison:
    """Time both kernels on all cases, in turns: candidate, incumbent, incumbent, candidate, ... in an empty folder.

    Both were verified before. A candidate that fails now is not faster; an incumbent that does is the machine's fault.
    Raises MachineError for the latter.
    """
    built = {
        name: _build(means, of, folder / name) for name, of in (("candidate", candidate), ("incumbent", incumbent))
    }
    if built["candidate"].executable is None:
        return Comparison(False, "the candidate did not compile a second time", {})
    turns = _Turns()
    found = Finding("undecided", 0, 0.0, -math.inf, math.inf)
    for name in _order(rule.looks[-1]):
        samples, problem = _time(means, task, built[name], folder / f"run-{len(turns.runs)}")
        if problem and name == "incumbent":
            raise MachineError(
                f"the best kernel of {task.name} cannot be timed any more ({problem}); see `kope doctor`"
            )
        if problem:
            return Comparison(False, f"the candidate failed while it was timed again: {problem}", _record(turns, found))
        turns.order.append(name)
        turns.runs.append(samples)
        if len(turns.runs) % 2 == 0:
            found = decide(turns.log_ratios(), rule, turns.controls())
            if found.decision != "undecided":
                break
    return Comparison(found.decision == "faster", _summary(found), _record(turns, found))


def _build(means: Means, candidate: Candidate, folder: Path) -> Built:
    folder.mkdir(parents=True)
    return means.target.build(candidate, folder)


def _order(pairs: int) -> Iterator[str]:
    """Yield who runs next: the order turns round with every pair, so that a steady drift cancels."""
    for number in range(pairs):
        yield from ("candidate", "incumbent") if number % 2 == 0 else ("incumbent", "candidate")


def _time(means: Means, task: Task, built: Built, folder: Path) -> tuple[Samples, str]:
    """Time all cases once; return the samples, or what went wrong."""
    folder.mkdir(parents=True)
    prepared = means.library.prepare(task, plan.by_size(task.cases), means.seed)
    launches = [launch_case(task, item, folder) for item in prepared]
    limit_s = plan.time_limit_s(means.time_limit_s, [item.case for item in prepared])
    ran = means.target.run(built, launches, "time", folder, time_limit_s=limit_s)
    runs = {run.case_id: run for run in ran.cases}
    for launch in launches:
        if found := untimed(launch.case_id, runs.get(launch.case_id)):
            return {}, found[-1].message
    return {case_id: tuple(checked(run.duration_us)) for case_id, run in runs.items()}, ""


def _summary(found: Finding) -> str:
    words = {
        "faster": "faster than the best kernel",
        "not-faster": "not proven faster than the best kernel",
        "unsteady": "nothing decided: the same kernel's times drift on this machine",
        "undecided": "nothing decided",
    }[found.decision]
    interval = f" [{found.low:+.1%}, {found.high:+.1%}]" if math.isfinite(found.low) else ""
    return f"{words}: {found.gain:+.1%}{interval} in {found.pairs} pairs of runs in turns"


def _record(turns: _Turns, found: Finding) -> dict[str, Any]:
    return {
        "unit": "us",
        "clock": "device",
        "decision": found.decision,
        "gain": found.gain,
        "interval": [found.low, found.high] if math.isfinite(found.low) else None,
        "order": list(turns.order),
        "runs": [{case_id: list(samples) for case_id, samples in run.items()} for run in turns.runs],
    }
