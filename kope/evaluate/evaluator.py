"""TaskEvaluator: the evaluator of a target, as the loop and the command line see it.

What a candidate has to pass, and in which order, is judgement.py's business.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kope.errors import MachineError
from kope.evaluate.duel import Comparison, compare
from kope.evaluate.judgement import Judgement
from kope.evaluate.prepared import CaseLibrary
from kope.evaluate.rules import evaluator_fingerprint
from kope.evaluate.survey import Survey
from kope.model import Candidate, Fingerprint, Outcome, Target, Task


class TaskEvaluator:
    """Judges candidates on one target.

    library: where inputs and reference outputs come from. jobs: processes at a time in full verification.
    time_limit_s: what one run of small cases may take (Target.run); larger ones get more (plan.time_limit_s). seed: 0
    draws the task's own input values, another seed fresh ones.
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
        """Judge a candidate up to the first case that fails. Nothing is left in `workdir` afterwards.

        Raises what the machine or the task is to blame for (MachineError, ReferenceError_, ToolMissing, ...).
        """
        with _folder_in(workdir) as folder:
            return Judgement(self, task, candidate, folder, promote).outcome()

    def judge_all(self, task: Task, candidate: Candidate, workdir: Path) -> Outcome:
        """Judge a candidate on every case, whatever becomes of the others: for pass rates, not for the loop.

        Raises as `evaluate` does.
        """
        with _folder_in(workdir) as folder:
            return Survey(self, task, candidate, folder, lambda times_us: True).outcome()

    def compare(self, task: Task, candidate: Candidate, incumbent: Candidate, workdir: Path) -> Comparison:
        """Time two verified candidates in turns until it is clear whether the first is faster; see duel.

        Raises as `evaluate` does, and MachineError when the incumbent cannot be timed any more.
        """
        with _folder_in(workdir) as folder:
            return compare(self, task, candidate, incumbent, folder)


@contextmanager
def _folder_in(workdir: Path) -> Iterator[Path]:
    try:
        workdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"{workdir}: {error.strerror}; set another cache folder (KOPE_CACHE)") from error
    with tempfile.TemporaryDirectory(prefix="attempt-", dir=workdir, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
