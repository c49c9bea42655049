"""The verdict of KernelBench and MultiKernelBench on a case: every element close to what the model gives.

|want - got| <= tolerance + tolerance * |got|, as torch.allclose(want, got) has it; NaN never passes, equal infinities
do. It serves comparison only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kope.evaluate.dtypes import file_dtype, size_bytes
from kope.evaluate.prepared import PreparedCase
from kope.model import Task

TOLERANCES = {
    "kernelbench": {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2},
    "multikernelbench": {"float32": 1e-4, "float16": 1e-4, "bfloat16": 1e-4},
}
_BLOCK = 1 << 18


def judge(task: Task, item: PreparedCase, files: Sequence[Path]) -> bool:
    """Return whether the suite counts the case as passed. files: one per expected output, in its dtype."""
    assert task.origin is not None
    tolerances = TOLERANCES[task.origin.suite]
    for native, got in zip(item.natives, files, strict=True):
        assert native.path is not None
        spec = native.spec
        if not got.is_file() or got.stat().st_size != size_bytes(spec):
            return False
        if not _close(got, native.path, spec.dtype, tolerances.get(spec.dtype, 1e-4)):
            return False
    return True


def _close(got: Path, want: Path, dtype: str, tolerance: float) -> bool:
    with np.errstate(all="ignore"), got.open("rb") as mine, want.open("rb") as right:
        while (wanted := np.fromfile(right, file_dtype(dtype), _BLOCK)).size:
            given = np.fromfile(mine, file_dtype(dtype), wanted.size)
            if dtype == "bool":
                if not np.array_equal(given, wanted):
                    return False
                continue
            a, b = wanted.astype(np.float64), given.astype(np.float64)
            near = (np.abs(a - b) <= tolerance + tolerance * np.abs(b)) & np.isfinite(b)
            if not (near | (a == b)).all():
                return False
    return True
