"""The strict verdict on one output file: every element against the reference, in blocks.

An element passes when |got - want| <= atol + rtol * |want|, with the tolerance of the *expected* dtype. `want` is
wider than that dtype and is not rounded to it first. NaN must stand where NaN is expected, inf likewise and with its
sign; a finite `want` accepts inf only when a value within tolerance of it rounds to inf in the expected dtype. The mean
over all elements of |got - want| / tolerance has a limit of its own. Saying it to a person is explain.py's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kope.evaluate.dtypes import FLOATS, file_dtype, overflow_limit, size_bytes, want_dtype
from kope.model import TensorSpec, Tolerance

MEAN_SHARE = 0.5
"""The mean of |got - want| / tolerance that a float output may reach. Correct rounding of evenly spread
values comes to 0.1 for float16 and 0.2 for bfloat16, so an honest kernel stays well below."""
INTEGER_MEAN_SHARE = 0.1
"""The same for integers with a tolerance: a few values rounded the other way pass, cutting off instead does not."""
MISMATCH = 1e30
"""The error where no tolerance could help: NaN or inf in the wrong place. Finite, so that it fits into JSON."""

_BLOCK = 1 << 16
_KEPT = 1 << 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing one output showed.

    error: largest |got - want| / tolerance, capped at MISMATCH. mean: its mean over all elements (nan when some fail).
    wrong: elements above tolerance. positions, got, want: the first up to 1 M of them (flat index and both values).
    written_bytes, expected_bytes: the file's size and what it should be; when they differ nothing else was compared.
    """

    spec: TensorSpec
    error: float
    mean: float
    wrong: int
    positions: NDArray[np.int64]
    got: NDArray[np.float64]
    want: NDArray[np.float64]
    written_bytes: int
    expected_bytes: int

    @property
    def passed(self) -> bool:
        """Whether the output is right."""
        return self.written_bytes == self.expected_bytes and self.wrong == 0 and self.mean <= self.mean_share

    @property
    def mean_share(self) -> float:
        """The limit of the mean for this output's dtype."""
        return MEAN_SHARE if self.spec.dtype in FLOATS else INTEGER_MEAN_SHARE

    @property
    def violation(self) -> float:
        """The larger of both rules as a multiple of what is allowed: at most 1 exactly when the values pass."""
        return self.error if self.wrong else max(self.error, self.mean / self.mean_share)


def compare_output(
    got: Path, want: Path, spec: TensorSpec, rule: Tolerance, *, first_wrong_block: bool = False
) -> Comparison:
    """Compare the raw file a candidate wrote with the reference's stored output. Needs a few MB whatever the size.

    A missing file counts as one of 0 bytes. first_wrong_block: stop there, when only pass or fail matters.
    """
    expected = size_bytes(spec)
    written = got.stat().st_size if got.is_file() else 0
    nothing = np.empty(0, np.int64), np.empty(0), np.empty(0)
    if not expected and not written:
        return Comparison(spec, 0.0, 0.0, 0, *nothing, written, expected)
    if written != expected:
        return Comparison(spec, MISMATCH, float("nan"), spec.numel, *nothing, written, expected)
    found = _Findings()
    judge = _FloatJudge(spec.dtype, rule) if spec.dtype in FLOATS else _IntegerJudge(rule)
    with np.errstate(all="ignore"), got.open("rb") as got_file, want.open("rb") as want_file:
        for start, got_block, want_block in _blocks(got_file, want_file, spec):
            worst, total, ratios = judge.ratios(got_block, want_block)
            found.add(start, got_block, want_block, worst, total, ratios)
            if first_wrong_block and found.wrong:
                break
    return found.result(spec, expected)


def _blocks(got: Any, want: Any, spec: TensorSpec) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
    for start in range(0, spec.numel, _BLOCK):
        count = min(_BLOCK, spec.numel - start)
        yield (
            start,
            np.fromfile(got, file_dtype(spec.dtype), count),
            np.fromfile(want, want_dtype(spec.dtype), count),
        )


class _FloatJudge:
    """Ratios |got - want| / tolerance of a float block; the common case costs one pass without any mask."""

    def __init__(self, dtype: str, rule: Tolerance) -> None:
        self.rule = rule
        self.limit = overflow_limit(dtype)
        wide = want_dtype(dtype)
        self.difference = np.empty(_BLOCK, wide)
        self.allowed = np.empty(_BLOCK, wide)

    def ratios(self, got: NDArray[Any], want: NDArray[Any]) -> tuple[float, float, NDArray[Any]]:
        ratio, allowed = self.difference[: want.size], self.allowed[: want.size]
        np.subtract(got.astype(want.dtype), want, out=ratio)
        np.abs(ratio, out=ratio)
        np.abs(want, out=allowed)
        allowed *= self.rule.rtol
        allowed += self.rule.atol
        ratio /= allowed
        worst = float(ratio.max())
        if not worst <= 1.0:  # NaN included
            ratio = self._exactly(got.astype(np.float64), want.astype(np.float64))
            worst = float(ratio.max())
        return worst, float(ratio.sum(dtype=np.float64)), ratio

    def _exactly(self, got: NDArray[np.float64], want: NDArray[np.float64]) -> NDArray[np.float64]:
        allowed = self.rule.atol + self.rule.rtol * np.abs(want)
        ratio = np.minimum(np.abs(got - want) / allowed, MISMATCH)
        ratio[np.isnan(ratio) | np.isinf(got) | np.isinf(want)] = MISMATCH
        may_overflow = np.isinf(got) & (np.abs(want) + allowed >= self.limit) & (np.sign(got) == np.sign(want))
        ratio[may_overflow & np.isfinite(want)] = 0.0
        ratio[(got == want) | (np.isnan(got) & np.isnan(want))] = 0.0
        return ratio


class _IntegerJudge:
    """Ratios of an integer block: |got - want| / atol, or 1 + |got - want| where nothing but equality passes."""

    def __init__(self, rule: Tolerance) -> None:
        self.atol = rule.atol

    def ratios(self, got: NDArray[Any], want: NDArray[Any]) -> tuple[float, float, NDArray[Any]]:
        equal = got == want
        if equal.all():
            return 0.0, 0.0, np.zeros(0)
        distance = np.abs(got.astype(np.float64) - want.astype(np.float64))
        distance = np.maximum(distance, 1.0)  # int64 values that differ may coincide in float64
        ratio = distance / self.atol if self.atol >= 1.0 else 1.0 + distance
        ratio[equal] = 0.0
        return float(ratio.max()), float(ratio.sum()), ratio


class _Findings:
    """Adds up blocks."""

    def __init__(self) -> None:
        self.worst = self.total = 0.0
        self.wrong = 0
        self.kept: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self.kept_count = 0

    def add(
        self, start: int, got: NDArray[Any], want: NDArray[Any], worst: float, total: float, ratios: NDArray[Any]
    ) -> None:
        self.worst = max(self.worst, worst)
        self.total += total
        if worst <= 1.0:
            return
        places = np.flatnonzero(ratios > 1.0)
        self.wrong += places.size
        if self.kept_count < _KEPT:
            self.kept.append((places + start, got[places].astype(np.float64), want[places].astype(np.float64)))
            self.kept_count += places.size

    def result(self, spec: TensorSpec, size: int) -> Comparison:
        mean = float("nan") if self.wrong else self.total / spec.numel
        columns: list[Any] = [np.concatenate(parts) for parts in zip(*self.kept, strict=True)]
        positions, got, want = columns or (np.empty(0, np.int64), np.empty(0), np.empty(0))
        return Comparison(spec, min(self.worst, MISMATCH), mean, self.wrong, positions, got, want, size, size)
