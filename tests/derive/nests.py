"""Graphs of tensors for tests: kernels derived from them, run on the twin and held against NumPy in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kope.derive.derivation import NEST_SCHEDULE, form_of, limits_of
from kope.derive.nest.emit import emit_nests
from kope.derive.nest.meaning import run_tensors
from kope.derive.nest.planner import plan_phases
from kope.derive.nest.tensors import TensorGraph
from kope.derive.schedule import Schedule
from kope.model import Candidate, Case, CaseInput, LaunchCase, OutputDecl, Task, TensorFile, TensorSpec
from kope.target.twin import TwinTarget

KINDS = {"float32": "float", "float16": "float", "bfloat16": "float", "bool": "bool", "int32": "int", "int64": "int"}
KINDS |= {"int8": "int", "uint8": "int"}
ROUNDING = {"float32": 2e-4, "float16": 2e-3, "bfloat16": 1.6e-2}


@dataclass(frozen=True)
class Sample:
    """A graph, the dtypes of its inputs and outputs, and values for the inputs."""

    name: str
    graph: TensorGraph
    arrays: Sequence[Any]
    dtypes: Sequence[str]
    outputs: Sequence[str]


def storage(dtype: str) -> Any:
    """The NumPy dtype of a stored tensor."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, low: float = -2.0, high: float = 2.0) -> Any:
    """Random values as they are stored."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if "int" in dtype:
        return rng.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
    return rng.uniform(low, high, shape).astype(storage(dtype))


def task_of(samples: Sequence[Sample]) -> Task:
    """A task whose cases are the samples: one kernel for all of them, told apart by shapes."""
    inputs = max(len(sample.arrays) for sample in samples)
    outputs = max(len(sample.outputs) for sample in samples)
    names = tuple(f"x{at}" for at in range(inputs))
    cases = []
    for at, sample in enumerate(samples):
        given: list[CaseInput | None] = [
            CaseInput(TensorSpec(name, array.shape, dtype))
            for name, array, dtype in zip(names, sample.arrays, sample.dtypes, strict=False)
        ]
        cases.append(Case(f"c{at}", (*given, *[None] * (inputs - len(given))), {"number": at}))
    declared = tuple(OutputDecl(f"y{at}", "float32") for at in range(outputs))
    reference = "def reference(*x):\n    return x\n"
    return Task("nests", "", names, declared, {"number": 0}, reference, "reference", "numpy", tuple(cases), {}, "")


def source_of(samples: Sequence[Sample], schedule: Schedule = NEST_SCHEDULE) -> str:
    """The kernel for all samples."""
    task = task_of(samples)
    plans = [
        (case, plan_phases(sample.graph, [*sample.dtypes, *[""] * 8], sample.outputs, form_of(schedule)))
        for case, sample in zip(task.cases, samples, strict=True)
    ]
    return emit_nests(task, plans, limits_of(schedule), schedule.spread == "block")


def wrong(target: TwinTarget, samples: Sequence[Sample], folder: Path, schedule: Schedule = NEST_SCHEDULE) -> list[str]:
    """What is wrong with the derived kernel: twin diagnostics, and outputs that are not NumPy's."""
    built = target.build(Candidate.of(source_of(samples, schedule)), folder)
    if built.executable is None:
        return [built.log]
    cases = [_launch(sample, len(case.inputs), case.attrs, folder / f"c{at}") for at, (sample, case) in _pairs(samples)]
    ran = target.run(built, cases, "verify", folder, time_limit_s=60.0)
    found = [
        f"{samples[int(run.case_id[1:])].name}: {item.kind} line {item.line}: {item.message}"
        for run in ran.cases
        for item in run.diagnostics
        if item.severity == "error"
    ]
    if len(ran.cases) < len(cases):
        found.append(f"stopped after {len(ran.cases)} of {len(cases)} cases: {ran.log[-500:]}")
    for sample, launch, run in zip(samples, cases, ran.cases, strict=False):
        if run.ok:
            found += _differences(sample, launch)
    return found


def _pairs(samples: Sequence[Sample]) -> Any:
    return enumerate(zip(samples, task_of(samples).cases, strict=True))


def _launch(sample: Sample, count: int, attrs: Mapping[str, Any], folder: Path) -> LaunchCase:
    folder.mkdir()
    inputs: list[TensorFile] = []
    for at, (array, dtype) in enumerate(zip(sample.arrays, sample.dtypes, strict=True)):
        path = folder / f"in{at}.bin"
        path.write_bytes(np.ascontiguousarray(array).tobytes())
        inputs.append(TensorFile(TensorSpec(f"x{at}", array.shape, dtype), path))
    left_out = [TensorFile(TensorSpec(f"x{at}", (), "float32"), None) for at in range(len(inputs), count)]
    return LaunchCase(folder.name, (*inputs, *left_out), tuple(_outputs(sample, folder)), attrs)


def _outputs(sample: Sample, folder: Path) -> list[TensorFile]:
    nodes = sample.graph.nodes
    return [
        TensorFile(TensorSpec(f"y{at}", nodes[index].shape, dtype), folder / f"out{at}.bin")
        for at, (index, dtype) in enumerate(zip(sample.graph.outputs, sample.outputs, strict=True))
    ]


def _differences(sample: Sample, launch: LaunchCase) -> list[str]:
    wide = {at: _widened(array) for at, array in enumerate(sample.arrays)}
    found = []
    for want, file in zip(run_tensors(sample.graph, wide), launch.outputs, strict=True):
        assert file.path is not None
        got = np.fromfile(file.path, storage(file.spec.dtype)).reshape(file.spec.shape)
        got, want = got.astype(np.float64), np.asarray(want, np.float64)
        slack = ROUNDING.get(file.spec.dtype, 0.0)
        near = np.isclose(got, want, rtol=slack, atol=slack * 0.5, equal_nan=True)
        if not near.all():
            at = tuple(int(axis[0]) for axis in np.nonzero(~near)) if want.ndim else ()
            found.append(f"{sample.name}: {file.spec.name}{list(at)} is {got[at]}, not {want[at]}")
    return found


def _widened(array: Any) -> Any:
    if array.dtype.kind in "iub":
        return array
    return array.astype(np.float64)
