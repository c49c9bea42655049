"""The challenge before promotion: cases that nobody was shown, made from a task's own small cases.

Fresh values come from one half of each input's range, other shapes from extents grown by one. Pure functions: they say
what to ask; whether the reference accepts it, and what the candidate answers, is found out by others.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kope.evaluate.capacity import case_bytes
from kope.evaluate.dtypes import FLOATS
from kope.evaluate.plan import small_cases
from kope.model import Candidate, Case, CaseInput, Task, TensorSpec, Values

CHALLENGE_RULES = 2
_BYTES_SHARE = 4
"""The cases asked about may hold one part in so many of all input bytes, so that the challenge stays cheap."""
_WEAK_BYTES = 64 << 20
"""The same for cases whose outputs look constant: they are asked about because a constant could answer them."""
_NARROWEST_SPAN = 4
"""Integers that span less (masks, flags) keep their range."""


@dataclass(frozen=True, slots=True)
class Question:
    """One case that is not in the task. kind: of the finding when the answer is wrong. of: the case it is made from."""

    kind: str
    case: Case
    of: str


FRESH_VALUES, OTHER_SHAPE = "fresh-values", "other-shape"


def challenge_seed(task: Task, candidate: Candidate) -> int:
    """Return the seed of a candidate's challenge: it cannot be known while the text is still being written."""
    digest = hashlib.sha256(f"{task.digest}\0{candidate.id}".encode()).digest()
    return int.from_bytes(digest[:7], "little") + 1


def fresh_values(task: Task, seed: int, weak: Sequence[Case] = ()) -> list[Question]:
    """Return the questions with fresh values in the shapes of the task, two at least: each half of a range comes up.

    weak: cases whose outputs look constant.
    """
    cases = asked_about(task.cases)
    cases = [*(cases if len(cases) > 1 else 2 * cases), *_weak(cases, weak, seed)]
    return [
        Question(
            FRESH_VALUES, replace(case, id=f"{case.id}-fresh{number}", inputs=_narrowed(case, seed, number)), case.id
        )
        for number, case in enumerate(cases)
    ]


def _weak(asked: Sequence[Case], weak: Sequence[Case], seed: int) -> list[Case]:
    """Return the weak cases that are not asked about anyway, in an order nobody can know, as far as they fit."""
    others = [case for case in weak if case.id not in {known.id for known in asked}]
    room, chosen = _WEAK_BYTES, []
    for case in sorted(others, key=lambda case: hashlib.sha256(f"{seed}\0{case.id}".encode()).digest()):
        if case_bytes(case) <= room:
            room -= case_bytes(case)
            chosen.append(case)
    return chosen


def other_shapes(task: Task) -> list[list[Question]]:
    """Return, per case asked about, questions in other shapes, the best first: one is enough. A reference may not
    accept all of them, and a task of fixed shapes has none.
    """
    if task.fixed_shapes:
        return []
    return [
        [
            Question(OTHER_SHAPE, replace(case, id=f"{case.id}-grown{number}", inputs=inputs), case.id)
            for number, inputs in enumerate(_grown(case))
        ]
        for case in asked_about(task.cases)
    ]


def asked_about(cases: Sequence[Case]) -> list[Case]:
    """Return the small cases that together hold a small share of the task's bytes; the smallest in any event."""
    room = sum(map(case_bytes, cases)) // _BYTES_SHARE
    chosen: list[Case] = []
    for case in small_cases(cases):
        room -= case_bytes(case)
        if room >= 0 or not chosen:
            chosen.append(case)
    return chosen


def _narrowed(case: Case, seed: int, number: int) -> tuple[CaseInput | None, ...]:
    return tuple(given and replace(given, values=_half(given, seed + number)) for given in case.inputs)


def _half(given: CaseInput, turn: int) -> Values:
    """Return the lower or upper half of an input's range: constants that fit the whole range do not fit both.

    Inputs do not all change halves together, since their names decide which comes first.
    """
    values = given.values
    upper = (turn + zlib.crc32(given.spec.name.encode())) & 1
    if given.spec.dtype in FLOATS:
        middle = values.low / 2 + values.high / 2
        return replace(values, low=middle) if upper else replace(values, high=middle)
    low, high = int(values.low), int(values.high)
    if given.spec.dtype == "bool" or high - low < _NARROWEST_SPAN:
        return values
    middle = low + (high - low) // 2
    return replace(values, low=float(middle)) if upper else replace(values, high=float(middle))


def _grown(case: Case) -> Iterator[tuple[CaseInput | None, ...]]:
    """Yield the inputs with all extents, those like the first axis, those like the last, grown by one.

    Extents of equal size grow together, in all inputs, since they are mostly one and the same dimension. Those of 1
    stay: they are broadcast. Nothing shrinks, so that indices stay in range.
    """
    shapes = [given.spec.shape for given in case.inputs if given is not None]
    extents = {extent for shape in shapes for extent in shape if extent > 1}
    ends = [{shape[end]} & extents for end in (0, -1) for shape in shapes[:1] if shape]
    seen: list[set[int]] = []
    for chosen in (extents, *ends):
        if chosen and chosen not in seen:
            seen.append(chosen)
            yield tuple(given and _resized(given, chosen) for given in case.inputs)


def _resized(given: CaseInput, chosen: set[int]) -> CaseInput:
    spec = given.spec
    shape = tuple(extent + 1 if extent in chosen else extent for extent in spec.shape)
    return replace(given, spec=TensorSpec(spec.name, shape, spec.dtype))
