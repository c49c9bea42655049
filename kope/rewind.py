"""Lessons from a good kernel: one optimization after another is taken back, and what that costs is what it was worth.

An empty memory learns from this what a search would have had to find out. Works on kernels of KOPE's own generator,
whose optimizations are fields of a schedule. Judging kernels and keeping experience is done by those the loop uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kope.derive import Graph, Schedule, capture_graph, emit, first_schedule
from kope.derive.budget import fits
from kope.derive.graph import traits
from kope.derive.moves import MOVES
from kope.derive.recognise import recognise
from kope.errors import DeriveError
from kope.loop import Parts, state_of, try_proposal
from kope.memory import REWIND
from kope.model import Attempt, Candidate, Outcome, Proposal, State, Task, Verdict
from kope.propose.search import dtypes

SLOWDOWN = 1.05
"""A step is kept when the lower 95% bound of its slowdown is above this."""
_RESAMPLES = 2_000
Judge = Callable[[Candidate], Outcome]


@dataclass(frozen=True, slots=True)
class Taken:
    """A kernel of the chain, the move that leads from it to the next faster one, and by how much that is slower.

    move: "" for the good kernel itself. slowdown: of this kernel over the next faster one, lower 95% bound; 1 for the
    good one.
    """

    schedule: Schedule
    candidate: Candidate
    outcome: Outcome
    move: str = ""
    slowdown: float = 1.0


@dataclass(frozen=True, slots=True)
class Chain:
    """What was taken back from a good kernel, the good one first. dropped: moves that made no difference, or whose
    absence made no kernel."""

    kernels: tuple[Taken, ...]
    words: tuple[str, ...]
    dropped: tuple[str, ...]


class Rewinder:
    """The proposer that rewound attempts name; it proposes nothing by itself."""

    name = REWIND

    def propose(self, state: State) -> Proposal:
        """Return no candidate."""
        raise NotImplementedError("rewound attempts are recorded, not proposed")


def rewind(task: Task, source: str, judge: Judge, tell: Callable[[str], None] = lambda text: None) -> Chain:
    """Take back one optimization of a kernel after another, the least usual ones first.

    A step is kept only when both kernels are right on all cases and the lower 95% bound of the slowdown is above 1.05;
    what makes no difference stays in. Raises DeriveError for a kernel that is not of KOPE's generator, or not right.
    """
    graph = capture_graph(task)
    schedule, lines = recognise(task, graph, source)
    if schedule is None:
        raise DeriveError(
            f"the kernel is none that KOPE made for {task.name} (the nearest differs in {lines} lines); "
            f"give one from kope best {task.name}"
        )
    tell("judging the kernel itself")
    candidate = Candidate.of(emit(task, graph, schedule))
    at = Taken(schedule, candidate, judge(candidate))
    if not _is_right(at.outcome):
        raise DeriveError(f"the kernel is not right on all cases of {task.name}; see kope eval")
    kernels, dropped = [at], []
    for move, slower in _undone(task, graph, schedule):
        tell(f"without {move}")
        taken = _without(task, graph, at, move, slower(at.schedule), judge)
        if taken is None:
            dropped.append(move)
        else:
            kernels.append(taken)
            at = taken
    return Chain(tuple(kernels), traits(graph, dtypes(task)), tuple(dropped))


def _without(task: Task, graph: Graph, at: Taken, move: str, schedule: Schedule, judge: Judge) -> Taken | None:
    """Return the kernel without a move, None when it cannot be made, is not right, or is not clearly slower."""
    try:
        if schedule == at.schedule or not fits(task, graph, schedule):
            return None
        candidate = Candidate.of(emit(task, graph, schedule))
    except DeriveError:
        return None
    if candidate == at.candidate:
        return None
    outcome = judge(candidate)
    if not _is_right(outcome):
        return None
    slowdown = least_slowdown(at.outcome.times_us, outcome.times_us)
    return Taken(schedule, candidate, outcome, move, slowdown) if slowdown > SLOWDOWN else None


def _is_right(outcome: Outcome) -> bool:
    return outcome.verdict is Verdict.VERIFIED and bool(outcome.times_us)


def least_slowdown(fast_us: Mapping[str, float], slow_us: Mapping[str, float], resamples: int = _RESAMPLES) -> float:
    """Return the lower end of the 95% interval of the geometric mean of slow / fast over cases (paired bootstrap)."""
    import numpy as np

    shared = [case for case in fast_us if case in slow_us]
    if not shared:
        return 0.0
    logs = np.log([slow_us[case] / fast_us[case] for case in shared])
    drawn = np.random.default_rng(0).choice(logs, (resamples, len(logs))).mean(axis=1)
    return float(np.exp(np.percentile(drawn, 2.5)))


# --- what can be taken back -----------------------------------------------------------------------------------------

Undo = Callable[[Schedule], Schedule]


def _undone(task: Task, graph: Graph, schedule: Schedule) -> Iterator[tuple[str, Undo]]:
    """Yield every optimization of a schedule as a move, and how to take it back; the least usual ones first."""
    first = first_schedule(task, graph)
    found: dict[str, Undo] = {}
    for name in ("rewrites", "choices"):
        for item in getattr(schedule, name):
            if item not in getattr(first, name):
                found[item] = _less(name, item)
    for name in (field for field in first.to_plan() if field not in ("rewrites", "choices")):
        if getattr(schedule, name) != getattr(first, name):
            found[_move_to(task, graph, schedule, first, name)] = _back(name, getattr(first, name))
    places = {move.name: place for place, move in enumerate(MOVES)}
    yield from sorted(found.items(), key=lambda item: -places.get(item[0], len(MOVES)))


def _less(name: str, item: str) -> Undo:
    return lambda schedule: schedule.with_(**{name: tuple(each for each in getattr(schedule, name) if each != item)})


def _back(name: str, value: object) -> Undo:
    return lambda schedule: schedule.with_(**{name: value})


def _move_to(task: Task, graph: Graph, schedule: Schedule, first: Schedule, name: str) -> str:
    """Return the name of the move that goes from the first value of a field towards the one the schedule has."""
    value, start = getattr(schedule, name), getattr(first, name)
    for move in MOVES:
        made = move.change(task, graph, schedule.with_(**{name: start})) if name in move.fields else None
        got = getattr(made, name) if made is not None else start
        if got == value or (isinstance(value, int) and got != start and (got > start) == (value > start)):
            return move.name
    return name


# --- remembering it -------------------------------------------------------------------------------------------------


class _Known:
    """Outcomes that are known already, for recording what was judged."""

    def __init__(self, chain: Chain) -> None:
        self._outcomes = {taken.candidate.id: taken.outcome for taken in chain.kernels}

    def evaluate(self, task: Task, candidate: Candidate, workdir: Path, *, promote: object) -> Outcome:
        return self._outcomes[candidate.id]


def remember(task: Task, chain: Chain, parts: Parts) -> list[Attempt]:
    """Record a chain in the order a search would have gone: from the slowest kernel, move by move, to the good one."""
    parts = replace(parts, proposer=Rewinder(), evaluator=_Known(chain), compare=None)
    standing = parts.memory.standing(task)
    made: list[Attempt] = []
    for taken, move in zip(
        reversed(chain.kernels), ["draft", *(t.move for t in reversed(chain.kernels[1:]))], strict=True
    ):
        parent = made[-1] if made else None
        proposal = Proposal(
            taken.candidate.source,
            move,
            _thought(move, made, chain),
            parent.id if parent is not None else None,
            taken.schedule.to_plan(),
            (),
            chain.words,
        )
        attempt = try_proposal(state_of(task, standing, parts), proposal, parts, parent=parent)
        parts.memory.record(attempt, None)
        standing = standing.after(attempt)
        made.append(attempt)
    return made


def _thought(move: str, made: list[Attempt], chain: Chain) -> str:
    if not made:
        return "A good kernel without the optimizations that were taken back from it."
    why = next((each.why for each in MOVES if each.name == move), "")
    cost = next(taken.slowdown for taken in chain.kernels if taken.move == move)
    return f"{why + '; ' if why else ''}without it the kernel is at least {cost:.2f}x slower"
