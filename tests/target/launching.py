"""Builds cases on disk, runs candidates on a twin, reads outputs back. For tests only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kope.model import AttrValue, Built, Candidate, CaseRun, LaunchCase, RunMode, TensorFile, TensorSpec
from kope.target.twin import TwinTarget

KERNELS = Path(__file__).parent / "kernels"
DTYPES: Mapping[str, Any] = {"bfloat16": ml_dtypes.bfloat16}


def kernel(name: str) -> str:
    """Source of a kernel in tests/target/kernels."""
    return (KERNELS / f"{name}.asc").read_text("utf-8")


def changed(source: str, old: str, new: str) -> str:
    """Replace one place of a source; fails when it is not there exactly once."""
    assert source.count(old) == 1, (source.count(old), old)
    return source.replace(old, new)


def line_of(source: str, text: str) -> int:
    """Number of the first line that holds a text."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


def dtype_name(array: np.ndarray[Any, Any]) -> str:
    return array.dtype.name


@dataclass(frozen=True)
class Call:
    """One case: inputs as arrays, outputs as shape and dtype."""

    inputs: Sequence[np.ndarray[Any, Any]]
    outputs: Sequence[tuple[tuple[int, ...], str]]
    attrs: Mapping[str, AttrValue] | None = None


def launch_case(call: Call, folder: Path, case_id: str) -> LaunchCase:
    """Write a call's inputs below folder."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs = []
    for index, array in enumerate(call.inputs):
        path = folder / f"{case_id}.in{index}"
        array.tofile(path)
        inputs.append(TensorFile(TensorSpec(f"x{index}", array.shape, dtype_name(array)), path))
    outputs = [
        TensorFile(TensorSpec(f"y{index}", shape, dtype), folder / f"{case_id}.out{index}")
        for index, (shape, dtype) in enumerate(call.outputs)
    ]
    return LaunchCase(case_id, tuple(inputs), tuple(outputs), call.attrs or {})


def read_output(case: LaunchCase, index: int = 0) -> np.ndarray[Any, Any]:
    """Read an output back."""
    tensor = case.outputs[index]
    assert tensor.path is not None
    return np.fromfile(tensor.path, DTYPES.get(tensor.spec.dtype, tensor.spec.dtype)).reshape(tensor.spec.shape)


def build(twin: TwinTarget, source: str, folder: Path) -> Built:
    """Build a source that is expected to compile."""
    built = twin.build(Candidate.of(source), folder / "build")
    assert built.executable, (built.diagnostics, built.log)
    return built


def run(
    twin: TwinTarget,
    source: str,
    calls: Sequence[Call],
    folder: Path,
    mode: RunMode = "verify",
    *,
    time_limit_s: float = 60.0,
) -> tuple[list[LaunchCase], tuple[CaseRun, ...]]:
    """Build and run a source that is expected to compile."""
    cases = [launch_case(call, folder / "data", f"c{index}") for index, call in enumerate(calls)]
    ran = twin.run(build(twin, source, folder), cases, mode, folder / "run", time_limit_s=time_limit_s)
    return cases, ran.cases
