"""What `kope task check` finds out about a task: that its reference runs, repeats itself, and that cases can tell.

Warnings change no verdict; what makes a task unusable is raised as ReferenceError_ or MachineError on the way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kope.errors import ReferenceError_
from kope.evaluate.compare import MISMATCH
from kope.evaluate.disputes import native_comparisons
from kope.evaluate.null_candidates import passing_null_candidates, strictly
from kope.evaluate.plan import by_size
from kope.evaluate.prepared import CaseLibrary, PreparedCase
from kope.model import Task, TensorFile, TensorSpec


@dataclass(frozen=True, slots=True)
class CaseCheck:
    """One case that ran. null_candidates: which trivial outputs it accepts; () is as it should be.

    native_error: how far the reference is off in the precision a kernel has, as a multiple of the tolerance; None when
    it does not run so. Above 1 the case is disputed.
    """

    case_id: str
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec, ...]
    null_candidates: tuple[str, ...]
    native_error: float | None = None


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """A task whose reference ran on every case. reference_s: wall time of the reference, 0.0 when all was cached."""

    task: Task
    cases: tuple[CaseCheck, ...]
    reference_s: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each case that tells little, and for a task that leaves much untested."""
        lines = [
            f"case {case.case_id} accepts {', '.join(case.null_candidates)}: it cannot tell a kernel from that; "
            "change its range or shape"
            for case in self.cases
            if case.null_candidates
        ]
        lines += [
            f"case {case.case_id} is disputed: {_off(case.native_error)}; "
            "raise atol, name its `reduction`, or change its range"
            for case in self.cases
            if case.native_error is not None and case.native_error > 1
        ]
        sizes = [spec.numel for case in self.cases for spec in case.inputs if spec is not None and spec.shape]
        if sizes and not any(size % 16 for size in sizes):
            lines.append("every tensor has a multiple of 16 elements: kernels with a wrong tail pass; add an odd size")
        return tuple(lines)


def _off(native_error: float) -> str:
    if native_error < MISMATCH:
        return f"computed in the kernel's precision, the reference itself misses the tolerance {native_error:.3g} times"
    return "computed in the kernel's precision, the reference itself has NaN or inf in other places"


def check_task(task: Task, library: CaseLibrary, *, progress: Callable[[str], None] = lambda text: None) -> TaskCheck:
    """Run the reference on all cases, the smallest twice, and try null candidates on each.

    Raises ReferenceError_ when the reference cannot be used or returns other values the second time.
    """
    progress(f"running the reference on {len(task.cases)} cases")
    before = len(library.runner.steps)
    prepared = library.prepare(task, task.cases)
    seconds = [step["wall_s"] for step in library.runner.steps[before:]]
    with tempfile.TemporaryDirectory(prefix="kope-check-") as folder:
        progress("running it again on the smallest case")
        _require_repeatable(task, prepared, CaseLibrary(Path(folder) / "again", library.runner))
        progress("running it in the precision of a kernel")
        natives = library.natives(task, prepared)
        cases = []
        for item, native in zip(prepared, natives, strict=True):
            progress(f"trying null candidates on case {item.case.id}")
            cases.append(_check_case(task, item, native, Path(folder)))
    return TaskCheck(task, tuple(cases), sum(float(str(value)) for value in seconds))


def _check_case(task: Task, item: PreparedCase, native: Sequence[TensorFile], folder: Path) -> CaseCheck:
    specs = tuple(None if given is None else given.spec for given in item.inputs)
    nulls = passing_null_candidates(item, strictly(task), folder)
    errors = [comparison.violation for comparison in native_comparisons(task, item, native)] if native else []
    return CaseCheck(item.case.id, specs, tuple(want.spec for want in item.wants), nulls, max(errors, default=None))


def _require_repeatable(task: Task, prepared: list[PreparedCase], fresh: CaseLibrary) -> None:
    smallest = by_size(task.cases)[0]
    first = next(item for item in prepared if item.case.id == smallest.id)
    if fresh.prepare(task, [smallest])[0].want_hash != first.want_hash:
        source = task.folder / "reference.py" if task.folder else task.name
        raise ReferenceError_(f"{source}: case {smallest.id} gives other values each time; remove what is random")
