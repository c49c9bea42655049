"""In which order and in which groups cases run: small ones first, because a wrong kernel mostly fails there.

Pure functions over a task's cases.
"""

from __future__ import annotations

from collections.abc import Sequence

from kope.evaluate.capacity import case_bytes
from kope.evaluate.prepared import PreparedCase
from kope.model import Case

SMALL_CASES = 3
_GROUP_BYTES = 8 << 20


def small_cases(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Return the cases that every attempt runs first: the smallest of each mix of dtypes, then the smallest of all."""
    ordered = by_size(cases)
    chosen: dict[str, Case] = {}
    seen: set[tuple[str, ...]] = set()
    for case in ordered:
        dtypes = tuple("" if given is None else given.spec.dtype for given in case.inputs)
        if dtypes not in seen and len(chosen) < SMALL_CASES:
            seen.add(dtypes)
            chosen[case.id] = case
    for case in ordered:
        if len(chosen) < SMALL_CASES:
            chosen.setdefault(case.id, case)
    return tuple(by_size(list(chosen.values())))


def by_size(cases: Sequence[Case]) -> list[Case]:
    """Return cases by bytes of input, ties in the task's order."""
    return sorted(cases, key=case_bytes)


def groups(prepared: Sequence[PreparedCase]) -> list[list[PreparedCase]]:
    """Cut cases, in order, into groups that one process runs: small cases share it, a large one has its own."""
    result: list[list[PreparedCase]] = []
    room = 0
    for item in prepared:
        size = case_bytes(item.case)
        if size > room or not result:
            result.append([])
            room = _GROUP_BYTES
        result[-1].append(item)
        room -= size
    return result


def time_limit_s(base_s: float, cases: Sequence[Case]) -> float:
    """Return what one run may take: the base and a second per 8 MiB of input, which every target manages."""
    return base_s + sum(map(case_bytes, cases)) / (8 << 20)
