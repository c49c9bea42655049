"""Loops that capturing unrolled, rolled up again: stretches of phases that repeat, only further on in their buffers.

Steps of a recurrence, iterations and items of a list come out of a capture one after the other. Phases of later rounds
equal those of the first but for offsets, and where these grow by the same amount every round, one loop says it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kope.derive.nest.nests import Operand, Phase

LONGEST_ROUND = 64
"""Phases of one round."""
FEWEST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Loop:
    """A stretch of phases that runs several times. first: its place among the phases. length: phases of a round."""

    first: int
    length: int
    rounds: int


def rolled(phases: Sequence[Phase]) -> tuple[tuple[Phase, ...], tuple[Loop, ...]]:
    """The phases with every repeated stretch once, and where these are."""
    plain = [_without_offsets(phase) for phase in phases]
    numbers: dict[Phase, int] = {}
    names = [numbers.setdefault(phase, len(numbers)) for phase in plain]
    runs = _runs(names)
    made: list[Phase] = []
    loops: list[Loop] = []
    at = 0
    while at < len(phases):
        length, rounds = _best(phases, runs, at)
        if rounds < FEWEST_ROUNDS:
            made.append(phases[at])
            at += 1
            continue
        loops.append(Loop(len(made), length, rounds))
        made += [_stepping(phases[k], phases[k + length]) for k in range(at, at + length)]
        at += length * rounds
    return tuple(made), tuple(loops)


def _operands(phase: Phase) -> tuple[Operand, ...]:
    return (*phase.operands, phase.result)


def _without_offsets(phase: Phase) -> Phase:
    operands = tuple(replace(item, offset=0) for item in phase.operands)
    return replace(phase, operands=operands, result=replace(phase.result, offset=0), line=0)


def _stepping(phase: Phase, following: Phase) -> Phase:
    """The phase of the first round, with how far its operands move every round."""
    made = [
        replace(item, step=later.offset - item.offset)
        for item, later in zip(_operands(phase), _operands(following), strict=True)
    ]
    return replace(phase, operands=tuple(made[:-1]), result=made[-1])


def _runs(names: Sequence[int]) -> list[list[int]]:
    """Per length of a round and place: for how many phases each equals the one a round later."""
    count = len(names)
    runs = []
    for length in range(1, min(LONGEST_ROUND, count // FEWEST_ROUNDS) + 1):
        run = [0] * (count + 1)
        for at in range(count - length - 1, -1, -1):
            run[at] = run[at + 1] + 1 if names[at] == names[at + length] else 0
        runs.append(run)
    return runs


def _best(phases: Sequence[Phase], runs: Sequence[Sequence[int]], at: int) -> tuple[int, int]:
    """Length and number of the rounds from a place on that save most phases."""
    best = (1, 1)
    for length, run in enumerate(runs, start=1):
        rounds = run[at] // length + 1
        if (rounds - 1) * length > (best[1] - 1) * best[0]:
            rounds = _steady(phases, at, length, rounds)
            if (rounds - 1) * length > (best[1] - 1) * best[0]:
                best = (length, rounds)
    return best


def _steady(phases: Sequence[Phase], at: int, length: int, rounds: int) -> int:
    """For how many rounds all offsets grow by the same amounts."""
    for number in range(2, rounds):
        for place in range(at, at + length):
            before, now = phases[place + (number - 1) * length], phases[place + number * length]
            first, second = phases[place], phases[place + length]
            for a, b, c, d in zip(*map(_operands, (first, second, before, now)), strict=True):
                if b.offset - a.offset != d.offset - c.offset:
                    return number
    return rounds
