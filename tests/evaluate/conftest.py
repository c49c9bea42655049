"""A target that runs Python instead of kernels, and small tasks, for tests of what the evaluator does with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.evaluate import CaseLibrary, ReferenceRunner
from kope.evaluate.dtypes import file_dtype
from kope.model import Built, Candidate, CaseRun, Diagnostic, Fingerprint, LaunchCase, Ran, RunMode, Task, TimeKind
from kope.task import load_task

TOML = """
text = "y = 2 * x"
inputs = { x = { range = [1, 2] } }
outputs = { y = "same:x" }
cases = [
  { dtype = "float32", shape = [40, 100] },
  { dtype = "float32", shape = [64] },
  { dtype = "float16", shape = [33] },
  { dtype = "bfloat16", shape = [17, 5] },
  { dtype = "float16", shape = [3000] },
]
"""
REFERENCE = "def reference(x):\n    return 2 * x\n"


def read(file: Any) -> Any:
    return np.fromfile(file.path, file_dtype(file.spec.dtype)).reshape(file.spec.shape)


def right_kernel(case: LaunchCase) -> list[Any]:
    """What the task above asks for."""
    assert case.inputs[0] is not None
    return [2 * read(case.inputs[0])]


@dataclass
class ScriptedTarget:
    """kernel: inputs to outputs. duration_us and path say what each (case id, mode) reports."""

    kernel: Callable[[LaunchCase], Sequence[Any]] = right_kernel
    duration_us: Callable[[str, str], float] = lambda case_id, mode: 10.0 + len(case_id)
    path: Callable[[str, str], str] = lambda case_id, mode: "straight"
    compile_error: Diagnostic | None = None
    findings: Callable[[str, str], Sequence[Diagnostic]] = lambda case_id, mode: ()
    bound: float = 5.0
    stops_at: str = ""
    name: str = "scripted"
    time_kind: TimeKind = TimeKind.MODELLED
    runs: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def fingerprint(self) -> Fingerprint:
        return Fingerprint("scripted", "scripted:chip:1", "python", "7")

    def build(self, candidate: Candidate, workdir: Path) -> Built:
        step = {"argv": ["cc"], "returncode": int(self.compile_error is not None), "wall_s": 0.1}
        if self.compile_error:
            return Built(None, (self.compile_error,), "error: expected ;\n", (step,))
        return Built(workdir / "candidate", (), "", (step,))

    def run(
        self, built: Built, cases: Sequence[LaunchCase], mode: RunMode, workdir: Path, *, time_limit_s: float
    ) -> Ran:
        self.runs.append((mode, tuple(case.case_id for case in cases)))
        done = []
        for case in cases:
            if case.case_id == self.stops_at:
                break
            findings = tuple(self.findings(case.case_id, mode))
            ok = not any(finding.severity == "error" for finding in findings)
            if ok and (mode == "verify" or self.time_kind is TimeKind.MEASURED):
                for output, value in zip(case.outputs, self.kernel(case), strict=True):
                    assert output.path is not None
                    np.asarray(value).tofile(output.path)
            times = (self.duration_us(case.case_id, mode),) if ok else ()
            path = self.path(case.case_id, mode)
            done.append(CaseRun(case.case_id, ok, findings, times, self.bound, {"aiv_vec_time(us)": 1.5}, path))
        return Ran(tuple(done), f"ran {mode}\n", ({"argv": ["candidate", mode], "returncode": 0, "wall_s": 0.2},))

    def bound_us(self, case: LaunchCase) -> float | None:
        return self.bound


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[..., Task]:
    """Writes a task folder: `toml` and `reference` whole, or the ones above with pairs of old and new text."""

    def make(*change: tuple[str, str], toml: str = TOML, reference: str = REFERENCE, name: str = "double") -> Task:
        for old, new in change:
            assert old in toml + reference
            toml, reference = toml.replace(old, new), reference.replace(old, new)
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "task.toml").write_text(toml)
        (folder / "reference.py").write_text(reference)
        return load_task(folder)

    return make


@pytest.fixture
def task(make_task: Callable[..., Task]) -> Task:
    return make_task()


@pytest.fixture
def scripted() -> type[ScriptedTarget]:
    return ScriptedTarget


@pytest.fixture
def library(tmp_path: Path) -> CaseLibrary:
    return CaseLibrary(tmp_path / "cache", ReferenceRunner(time_limit_s=20.0))


@pytest.fixture
def double() -> Callable[[LaunchCase], list[Any]]:
    return right_kernel
