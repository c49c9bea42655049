"""What `kope task import` finds in a suite's folder: its tasks, what cannot be read, and with --check what runs.

Reading a folder is the task package's business; this only asks and counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kope.errors import CaseTooLarge, ReferenceError_
from kope.evaluate.capacity import case_bytes
from kope.evaluate.null_candidates import passing_null_candidates, strictly
from kope.evaluate.official import official_verdict
from kope.evaluate.prepared import CaseLibrary, PreparedCase
from kope.model import Case, Task


@dataclass(slots=True)
class Intake:
    """One task. checked: cases whose inputs were made and references run. problems: what did not run.

    nulls: case -> outputs that need no kernel and pass by the suite's own rule, or KOPE's where it has none;
    strict_nulls: by KOPE's.
    """

    task: Task
    checked: int = 0
    nulls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    strict_nulls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return it as JSON; schema/task_import.json describes it."""
        origin = self.task.origin
        assert origin is not None
        sizes = [case_bytes(case) for case in self.task.cases]
        return {
            "task": self.task.name,
            "unit": origin.unit,
            "level": origin.level,
            "operator": origin.operator,
            "folder": str(self.task.folder),
            "digest": self.task.digest,
            "cases": len(self.task.cases),
            "smallest_bytes": min(sizes),
            "largest_bytes": max(sizes),
            "files": dict(origin.files),
            "chips": sorted(origin.anchors),
            "checked": self.checked,
            "null_candidates": {case: list(names) for case, names in self.nulls.items()},
            "strict_null_candidates": {case: list(names) for case, names in self.strict_nulls.items()},
            "problems": self.problems,
        }


def check(task: Task, library: CaseLibrary, largest_bytes: int, progress: Callable[[str], None]) -> Intake:
    """Make inputs and run references of the cases that are small enough, and try outputs that need no kernel."""
    found = Intake(task)
    started = time.monotonic()
    cases = [case for case in task.cases if case_bytes(case) <= largest_bytes]
    progress(f"{task.name}: running its references on {len(cases)} cases")
    with tempfile.TemporaryDirectory(prefix="kope-import-") as folder:
        for item in _prepared(found, library, cases):
            found.checked += 1
            _try_nulls(found, item, Path(folder))
    found.wall_s = time.monotonic() - started
    return found


def _prepared(found: Intake, library: CaseLibrary, cases: Sequence[Case]) -> list[PreparedCase]:
    """Prepare all cases at once; where one cannot be, each by itself, so that the others are checked all the same."""
    if not cases:
        return []
    try:
        return library.prepare(found.task, cases)
    except (ReferenceError_, CaseTooLarge) as error:
        if len(cases) == 1:
            found.problems.append(str(error))
            return []
        return [item for case in cases for item in _prepared(found, library, [case])]


def _try_nulls(found: Intake, item: PreparedCase, folder: Path) -> None:
    task = found.task
    strict = passing_null_candidates(item, strictly(task), folder)
    own = strict
    if official_verdict(task, item, ()) is not None:
        own = passing_null_candidates(item, lambda one, files: official_verdict(task, one, files) is True, folder)
    if own:
        found.nulls[item.case.id] = own
    if strict:
        found.strict_nulls[item.case.id] = strict
