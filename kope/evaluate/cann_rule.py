"""The verdict of CANN Bench on a case, as its own checker decides (framework 1.0.0), bug for bug, in blocks of NumPy.

It serves comparison with published figures only. Where it accepts what is wrong (its three regions forgive elements,
its mean is not enforced, overflow passes), so does this module; kope/evaluate/compare.py is what KOPE believes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kope.evaluate.dtypes import FLOATS, file_dtype, size_bytes, want_dtype
from kope.evaluate.indices import axis_of, gathered
from kope.evaluate.prepared import PreparedCase
from kope.model import Case, Task, TensorFile, TensorSpec

_BLOCK = 1 << 16
_THRESHOLD = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-13}
_SMALL = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-14}
_SMALL_ERROR = {"float16": 2.0**-16, "bfloat16": 2.0**-16, "float32": 2.0**-30}
_CANCEL = {"float16": 2.0**-5, "bfloat16": 2.0**-3, "float32": 2.0**-8}
_FORGIVEN = 2
"""A region passes with up to this many times the native reference's wrong elements (counted as 1 when it has none)."""


@dataclass(frozen=True, slots=True)
class _Output:
    """One output: what it should be, what a candidate wrote, the float64 reference stored wide, the native one."""

    spec: TensorSpec
    got: Path
    want: Path
    native: Path


def judge(task: Task, item: PreparedCase, files: Sequence[Path]) -> bool:
    """Return whether the benchmark counts the case as passed. files: one per expected output, in its dtype."""
    assert task.origin is not None
    recipe = task.origin.recipe
    outputs = [
        _Output(want.spec, got, want.path, native.path)
        for want, native, got in zip(item.wants, item.natives, files, strict=True)
        if want.path is not None and native.path is not None
    ]
    if not all(output.got.is_file() and output.got.stat().st_size == size_bytes(output.spec) for output in outputs):
        return False
    skipped = set(recipe["skipped"])
    for number, output in enumerate(outputs):
        if number not in skipped and not _passes(output, recipe["thresholds"], golden_is_native=recipe["get_input"]):
            return False
    declared = [output.name for output in task.outputs]
    by_name = dict(zip(task.inputs, item.inputs, strict=True))
    return all(
        _indices_pass(rule, item.case, by_name, outputs, declared, int(number))
        for number, rule in recipe["index_rules"].items()
    )


def _passes(output: _Output, thresholds: Mapping[str, float], *, golden_is_native: bool) -> bool:
    dtype = output.spec.dtype
    integer = dtype not in FLOATS and dtype != "bool"
    threshold = thresholds.get(dtype, 0.0 if integer else _THRESHOLD.get(dtype, _THRESHOLD["float32"]))
    if integer:
        return all(_integers_pass(got, golden, threshold) for got, golden in _pairs(output, golden_is_native))
    if threshold == 0 and dtype in FLOATS:
        return all(got.tobytes() == golden.tobytes() for got, golden in _pairs(output, golden_is_native))
    with np.errstate(all="ignore"):
        errors = _Errors(dtype, threshold)
        for got, golden in _pairs(output, golden_is_native):
            if not errors.add(_wide(got), _wide(golden)):
                return False
        if errors.within:
            return True
        regions = _Regions(dtype, threshold)
        for got, golden, native in _with_native(output, golden_is_native):
            regions.add(_wide(got), _wide(golden), _wide(native))
    return regions.forgiven


def _pairs(output: _Output, golden_is_native: bool) -> Iterator[tuple[Any, Any]]:
    """Yield (got, golden) in the expected dtype. The golden is the float64 reference rounded to that dtype."""
    dtype = output.spec.dtype
    stored = file_dtype(dtype)
    source, held = (output.native, stored) if golden_is_native else (output.want, want_dtype(dtype))
    with output.got.open("rb") as got, source.open("rb") as golden, np.errstate(all="ignore"):
        for start in range(0, output.spec.numel, _BLOCK):
            count = min(_BLOCK, output.spec.numel - start)
            yield np.fromfile(got, stored, count), np.fromfile(golden, held, count).astype(stored, copy=False)


def _with_native(output: _Output, golden_is_native: bool) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (got, golden, native) in the expected dtype."""
    with output.native.open("rb") as native:
        for got, golden in _pairs(output, golden_is_native):
            yield got, golden, np.fromfile(native, file_dtype(output.spec.dtype), got.size)


def _integers_pass(got: NDArray[Any], golden: NDArray[Any], threshold: float) -> bool:
    if np.array_equal(got, golden):
        return True
    return bool((np.abs(got.astype(np.int64) - golden.astype(np.int64)) <= max(threshold, 0)).all())


def _wide(values: NDArray[Any]) -> NDArray[np.float64]:
    return values.astype(np.float64)


def _saturated(got: NDArray[np.float64], golden: NDArray[np.float64], largest: float) -> NDArray[np.bool_]:
    """Replace an infinity on one side alone by the largest number; return where both sides are infinite."""
    got_inf, golden_inf = np.isinf(got), np.isinf(golden)
    for values, alone in ((got, got_inf & ~golden_inf), (golden, golden_inf & ~got_inf)):
        values[alone] = np.sign(values[alone]) * largest
    return got_inf & golden_inf


class _Errors:
    """Relative errors over all elements that are finite in the end: their mean and the largest."""

    def __init__(self, dtype: str, threshold: float) -> None:
        self.threshold = threshold
        self.largest = _largest(dtype if dtype in FLOATS else "float32")
        self.count = 0
        self.total = self.worst = 0.0

    def add(self, got: NDArray[np.float64], golden: NDArray[np.float64]) -> bool:
        """Count a block; False where it decides already: NaN in other places, infinities of other signs."""
        relative = np.abs(got - golden)
        relative /= np.abs(golden) + 1e-7
        worst = float(relative.max())
        if not np.isfinite(worst):  # some element is NaN or infinite on some side
            if not np.array_equal(np.isnan(got), np.isnan(golden)):
                return False
            both = _saturated(got, golden, self.largest)
            if (np.sign(got[both]) != np.sign(golden[both])).any():
                return False
            relative = np.abs(got - golden) / (np.abs(golden) + 1e-7)
            relative = relative[np.isfinite(relative) & ~both]
            worst = float(relative.max(initial=0.0))
        self.count += relative.size
        self.total += float(relative.sum())
        self.worst = max(self.worst, worst)
        return True

    @property
    def within(self) -> bool:
        """Whether both limits hold; also where nothing finite is left, as the suite has it."""
        if self.count == 0:
            return True
        return self.total / self.count < self.threshold and self.worst < 10 * self.threshold


@dataclass(slots=True)
class _Region:
    """Elements beyond a region's limit: the candidate's and the native reference's."""

    wrong: int = 0
    native_wrong: int = 0

    def add(self, mask: NDArray[np.bool_], wrong: NDArray[np.bool_], native_wrong: NDArray[np.bool_]) -> None:
        """Count those of a block that lie in the region."""
        self.wrong += int(np.count_nonzero(mask & wrong))
        self.native_wrong += int(np.count_nonzero(mask & native_wrong))

    @property
    def ratio(self) -> float:
        """Wrong elements per wrong element of the native reference, which counts as one when it has none."""
        return self.wrong / max(self.native_wrong, 1)


class _Regions:
    """Small expected values, values that cancelled, and the rest: each forgives what the native reference needs."""

    def __init__(self, dtype: str, threshold: float) -> None:
        known = dtype if dtype in FLOATS else "float32"
        self.limit = 10 * threshold
        self.largest = _largest(known)
        self.small_limit, self.small_error = _SMALL[known], _SMALL_ERROR[known]
        self.cancel_limit = _CANCEL[known]
        self.small, self.cancel, self.normal = _Region(), _Region(), _Region()

    def add(self, got: NDArray[np.float64], golden: NDArray[np.float64], native: NDArray[np.float64]) -> None:
        """Count a block."""
        both = _saturated(got, golden, self.largest)
        size = np.abs(golden)
        off, native_off = np.abs(got - golden), np.abs(native - golden)
        relative, native_relative = off / (size + 1e-7), native_off / (size + 1e-7)
        valid = np.isfinite(relative) & ~both
        small = (size < self.small_limit) & valid
        near_zero = np.abs(got) < self.cancel_limit
        cancel = near_zero & (size < self.cancel_limit) & (size >= self.small_limit) & valid
        self.small.add(small, off > self.small_error, native_off > self.small_error)
        for region, mask in ((self.cancel, cancel), (self.normal, valid & ~small & ~cancel)):
            region.add(mask, relative > self.limit, native_relative > self.limit)

    @property
    def forgiven(self) -> bool:
        """Whether every region passes. In the last one nothing is free where the native reference is right."""
        if self.small.ratio > _FORGIVEN or self.cancel.ratio > _FORGIVEN:
            return False
        if self.normal.wrong == 0 or self.normal.native_wrong == 0:
            return self.normal.wrong == 0
        return self.normal.ratio <= _FORGIVEN


def _largest(dtype: str) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(file_dtype(dtype)).max)  # type: ignore[no-untyped-call]


def _indices_pass(
    rule: Mapping[str, Any],
    case: Case,
    inputs: Mapping[str, TensorFile | None],
    outputs: Sequence[_Output],
    declared: Sequence[str],
    number: int,
) -> bool:
    """The suite's own check of an index output: it points to what the candidate gives as values, or to the extremum."""
    source = inputs.get(str(rule["input"]))
    if source is None or source.path is None or number >= len(outputs):
        return False
    x = _array(source.path, source.spec.dtype, source.spec.shape)
    axis = axis_of(rule.get("dim_attr", -1), case)
    output = outputs[number]
    index = _array(output.got, output.spec.dtype, output.spec.shape).astype(np.int64)
    if "value_output" in rule:
        of_values = outputs[declared.index(str(rule["value_output"]))]
        values = _array(of_values.got, of_values.spec.dtype, of_values.spec.shape)
    else:
        values = (np.amax if rule["value_reduce"] == "amax" else np.amin)(x, axis=axis, keepdims=True)
        index = index if index.ndim == x.ndim else np.expand_dims(index, axis)
    if index.shape != values.shape or ((index < 0) | (index >= x.shape[axis])).any():
        return False
    found = gathered(x, index, axis)
    return bool(((found == values) | ((found != found) & (values != values))).all())


def _array(path: Path, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.fromfile(path, file_dtype(dtype)).reshape(shape)
