"""Turns a failed comparison into one diagnostic that says which elements are wrong and where to look in the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kope.evaluate.challenge import FRESH_VALUES, Question
from kope.evaluate.compare import Comparison
from kope.model import Diagnostic

_SHOWN = 3


def wrong_value(case_id: str, comparison: Comparison) -> Diagnostic:
    """Describe a comparison that did not pass. kind is "wrong-value"; `count` is the number of wrong elements."""
    spec = comparison.spec
    subject = f"output {spec.name} in case {case_id}"
    if comparison.written_bytes != comparison.expected_bytes:
        return Diagnostic(
            kind="wrong-size",
            message=f"{subject}: {comparison.written_bytes} bytes written, "
            f"{comparison.expected_bytes} expected for {list(spec.shape)} {spec.dtype}",
            remedy="write every output whole, in the dtype the call asks for",
            case_id=case_id,
            count=spec.numel,
        )
    if comparison.wrong == 0:
        return Diagnostic(
            kind="wrong-value",
            message=f"{subject}: every element is within tolerance, but the mean error is {comparison.mean:.2f} of it; "
            f"at most {comparison.mean_share} is accepted",
            remedy="the result is biased: keep intermediates in float32, check constants and rounding",
            case_id=case_id,
            count=spec.numel,
        )
    pattern, remedy = _pattern(comparison)
    return Diagnostic(
        kind="wrong-value",
        message=f"{pattern} of {subject}: {_examples(comparison)}",
        remedy=remedy,
        case_id=case_id,
        count=comparison.wrong,
    )


def learned_by_heart(question: Question, found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Describe a failed challenge: what was asked, and below it what went wrong there."""
    shapes = ", ".join(f"{one.spec.name} {list(one.spec.shape)}" for one in question.case.inputs if one is not None)
    if question.kind == FRESH_VALUES:
        message = f"right on the values of case {question.of}, wrong on fresh ones of the same shapes ({shapes})"
        remedy = "compute every output from the inputs; use no constant that holds for the values of the cases only"
    else:
        message = f"right on the shapes of the task, wrong on others: case {question.of} with {shapes}"
        remedy = (
            "compute tiling from the shapes of the call and handle any length; a task whose shapes never change says"
            " fixed_shapes = true"
        )
    return (Diagnostic(question.kind, message, remedy=remedy, case_id=question.of), *found)


def wrong_when_timed(found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Describe a kernel that was right when it was verified, and wrong in one of the calls that were timed."""
    message = "right in a run of its own, wrong in one of the timed calls of the same case"
    remedy = "do the same work in every call: keep nothing from one call to the next"
    return (Diagnostic("timed-call-wrong", message, remedy=remedy, case_id=found[0].case_id if found else ""), *found)


def _examples(comparison: Comparison) -> str:
    shape = comparison.spec.shape
    texts = []
    for k in range(min(_SHOWN, comparison.positions.size)):
        index = [int(i) for i in np.unravel_index(int(comparison.positions[k]), shape)] if shape else []
        texts.append(f"{index} got {comparison.got[k]:.6g} want {comparison.want[k]:.6g}")
    return "; ".join(texts)


def _pattern(comparison: Comparison) -> tuple[str, str]:
    """Name the region that is wrong, and what usually causes that."""
    numel, wrong, positions = comparison.spec.numel, comparison.wrong, comparison.positions
    total = f"{wrong} of {numel} elements wrong"
    if wrong > positions.size:  # only a prefix was kept; regions cannot be told from it
        return total, _value_remedy(comparison)
    first, last = int(positions[0]), int(positions[-1])
    if wrong == numel:
        return f"all {numel} elements wrong", _value_remedy(comparison)
    if last - first + 1 == wrong:
        if last == numel - 1:
            return f"last {wrong} of {numel} elements wrong", "check the tail: the last tile, its length, its copy out"
        if first == 0:
            return f"first {wrong} of {numel} elements wrong", "check the first tile and its offset"
        return f"elements {first} to {last} of {numel} wrong", "check the tile or core that covers this range"
    return _row_pattern(comparison) or (total, _value_remedy(comparison))


def _row_pattern(comparison: Comparison) -> tuple[str, str] | None:
    shape = comparison.spec.shape
    if len(shape) < 2 or shape[-1] == 1:
        return None
    columns = shape[-1]
    rows = comparison.spec.numel // columns
    row, column = np.divmod(comparison.positions, columns)
    bad_rows, bad_columns = np.unique(row), np.unique(column)
    if comparison.wrong == bad_rows.size * columns:
        return (
            f"{bad_rows.size} of {rows} rows wrong as a whole (first: {int(bad_rows[0])})",
            "check which core takes these rows and the reduction of a row",
        )
    if bad_rows.size == rows and comparison.wrong == rows * bad_columns.size:
        low, high = int(bad_columns[0]), int(bad_columns[-1])
        where = f"columns {low} to {high} of {columns} wrong in every row"
        remedy = "check the tail of a row: length that is no multiple of 32 bytes" if high == columns - 1 else ""
        return where, remedy or "check the tile that covers these columns"
    return None


def _value_remedy(comparison: Comparison) -> str:
    got, want = comparison.got, comparison.want
    if np.isnan(got).any() and not np.isnan(want).all():
        return "NaN where a number is expected: read before written, 0/0, inf - inf, or a wrong mask"
    if not got.any():
        return "only zeros there: never written, or copied out before it was computed"
    finite = np.isfinite(got) & np.isfinite(want) & (want != 0)
    if finite.any():
        ratio = got[finite] / want[finite]
        middle = float(np.median(ratio))
        if math.isfinite(middle) and middle != 0 and np.abs(ratio / middle - 1).max() < 1e-2 and abs(middle - 1) > 1e-2:
            return f"all are {middle:.4g} times the expected value: check a constant or divisor"
    return "check formula, dtype casts and synchronisation"
