"""What a case accepts that no kernel should be praised for: zeros, ones, NaN, the input as it is, a constant.

A case that a null candidate passes tells little about a kernel. `kope task check` marks it; verdicts are not changed.
Which rule accepts is the caller's choice, so that the same list can be made for a suite's own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from kope.evaluate.compare import compare_output
from kope.evaluate.dtypes import FLOATS, file_dtype, size_bytes, want_dtype
from kope.evaluate.prepared import PreparedCase
from kope.evaluate.rules import case_tolerance
from kope.model import Task, TensorFile, TensorSpec

_BLOCK = 1 << 18
Accepts = Callable[[PreparedCase, Sequence[Path]], bool]
"""Whether a rule accepts these output files for a case."""
_Fill = Callable[[PreparedCase, TensorFile, Path], bool]
"""Writes a null output to a file; False when it does not apply to this output."""


def passing_null_candidates(prepared: PreparedCase, accepts: Accepts, folder: Path) -> tuple[str, ...]:
    """Return the null candidates that pass a case on all of its outputs. `folder` takes temporary files."""
    return tuple(name for name, fill in _FILLS.items() if _passes(prepared, accepts, folder, fill))


def strictly(task: Task) -> Accepts:
    """Return the strict rule."""

    def accepts(prepared: PreparedCase, outputs: Sequence[Path]) -> bool:
        for got, want in zip(outputs, prepared.wants, strict=True):
            assert want.path is not None
            rule = case_tolerance(task, prepared.case, want.spec.dtype)
            if not compare_output(got, want.path, want.spec, rule, first_wrong_block=True).passed:
                return False
        return True

    return accepts


def has_a_constant_output(task: Task, prepared: PreparedCase, folder: Path) -> bool:
    """Whether some output of a case looks like one constant, as far as the tolerance can tell.

    Only its first values are looked at, so that asking costs little; `folder` takes a temporary file.
    """
    return any(
        _is_constant(task, prepared, want, folder / "constant.bin") for want in prepared.wants if want.spec.numel
    )


def _is_constant(task: Task, prepared: PreparedCase, want: TensorFile, got: Path) -> bool:
    assert want.path is not None
    block = np.fromfile(want.path, want_dtype(want.spec.dtype), min(want.spec.numel, _BLOCK))
    finite = block[np.isfinite(block)]
    head = TensorFile(TensorSpec(want.spec.name, (block.size,), want.spec.dtype), want.path)
    try:
        _constant(head, got, float(finite.mean(dtype=np.float64)) if finite.size else 0.0)
        rule = case_tolerance(task, prepared.case, want.spec.dtype)
        return compare_output(got, want.path, head.spec, rule, first_wrong_block=True).passed
    finally:
        got.unlink(missing_ok=True)


def _passes(prepared: PreparedCase, accepts: Accepts, folder: Path, fill: _Fill) -> bool:
    outputs = [folder / f"null-{number}.bin" for number in range(len(prepared.wants))]
    try:
        filled = all(fill(prepared, want, got) for want, got in zip(prepared.wants, outputs, strict=True))
        return filled and accepts(prepared, outputs)
    finally:
        for got in outputs:
            got.unlink(missing_ok=True)


def _zeros(_: PreparedCase, want: TensorFile, got: Path) -> bool:
    with got.open("wb") as file:
        file.truncate(size_bytes(want.spec))
    return True


def _ones(_: PreparedCase, want: TensorFile, got: Path) -> bool:
    return _constant(want, got, 1.0)


def _nans(_: PreparedCase, want: TensorFile, got: Path) -> bool:
    return want.spec.dtype in FLOATS and _constant(want, got, float("nan"))


def _mean(_: PreparedCase, want: TensorFile, got: Path) -> bool:
    """The mean of the finite expected values: the best constant there is. Of one element it would be the answer."""
    if want.spec.numel == 1:
        return False
    total, count = 0.0, 0
    assert want.path is not None
    with want.path.open("rb") as file:
        while (block := np.fromfile(file, want_dtype(want.spec.dtype), _BLOCK)).size:
            finite = block[np.isfinite(block)]
            total += float(finite.sum(dtype=np.float64))
            count += finite.size
    return _constant(want, got, total / count if count else 0.0)


def _copy(prepared: PreparedCase, want: TensorFile, got: Path) -> bool:
    """The first input of the output's shape and dtype."""
    for given in prepared.inputs:
        if (
            given is not None
            and given.path
            and (given.spec.shape, given.spec.dtype) == (want.spec.shape, want.spec.dtype)
        ):
            shutil.copyfile(given.path, got)
            return True
    return False


def _constant(want: TensorFile, got: Path, value: float) -> bool:
    dtype = file_dtype(want.spec.dtype)
    with np.errstate(all="ignore"), got.open("wb") as file:
        block = np.full(_BLOCK, round(value) if dtype.kind in "iu" else value).astype(dtype)
        for start in range(0, want.spec.numel, _BLOCK):
            block[: want.spec.numel - start].tofile(file)
    return True


_FILLS: dict[str, _Fill] = {"zeros": _zeros, "ones": _ones, "nans": _nans, "copy": _copy, "mean": _mean}
