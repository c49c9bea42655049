"""The proposer that needs no model: derive a first kernel, then one named move after another, the most promising next.

Which move is promising is decided from evidence (evidence.py, transfer.py); without any, in the default order of
derive.moves. Same state and seed, same answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kope.derive import Graph, Schedule, emit
from kope.derive.derivation import Derivation, derive
from kope.derive.moves import MOVES, Move
from kope.derive.nest_moves import NEST_MOVES, NestMove
from kope.errors import DeriveError
from kope.model import Attempt, Candidate, Converged, MoveEvidence, Proposal, State, Task, Verdict
from kope.propose import evidence as learned
from kope.propose.transfer import PREFIX, Transfer, explain, fitted, helpful_names, paths, transfer
from kope.target.profile import bound_by

DRAFT = "draft"
Beliefs = dict[str, learned.Belief]
Describe = Callable[[], tuple[str, tuple[str, ...]]]
"""Gives the thought of an option and the experiences it rests on."""


@dataclass(frozen=True, slots=True)
class Option:
    """A kernel that could be tried next."""

    move: str
    schedule: Schedule
    source: str
    thought: str
    used: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Promise:
    """A move before it is made. expected: expected log gain, by which promises are ranked.

    keep: makes the kernel, which takes longer than all else here; None when the move does not apply or was tried.
    """

    move: str
    expected: float
    keep: Callable[[], Option | None]


class SearchProposer:
    """model.Proposer over the schedule space of the derived kernel. folder: where captures of PyTorch are kept."""

    name = "search"

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def propose(self, state: State) -> Proposal:
        """Return the first kernel, or the most promising change to the best one so far.

        A reference that cannot be derived from is a proposal without source, with the reason; the second time, and when
        every move from here has been tried, raises Converged.
        """
        drafted = any(attempt.proposal.move == DRAFT for attempt in state.history)
        try:
            made = derive(state.task, self.folder)
            if made.caveat:
                raise DeriveError(made.caveat)
            words = made.traits(dtypes(state.task))
            parent, base = standing(state, made)
            if parent is None and not drafted:
                return self._draft(state, made, base, words)
            promises = self._promises(state, made, words, parent, base)
            promises.sort(key=lambda made: (made.expected, tie_break(state.seed, made.move)), reverse=True)
            chosen = next((option for promise in promises if (option := promise.keep()) is not None), None)
        except DeriveError as error:
            if drafted:
                raise Converged from error
            return Proposal(None, DRAFT, reason=str(error))
        if chosen is None:
            raise Converged
        return Proposal(
            chosen.source,
            chosen.move,
            chosen.thought,
            parent.id if parent is not None else None,
            chosen.schedule.to_plan(),
            chosen.used,
            words,
        )

    def _draft(self, state: State, made: Derivation, base: Schedule, words: tuple[str, ...]) -> Proposal:
        thought = "The kernel derived from the reference: float32 throughout, all cores, one tile at a time."
        return Proposal(made.source(base), DRAFT, thought, None, base.to_plan(), (), words)

    def _promises(
        self, state: State, made: Derivation, words: tuple[str, ...], parent: Attempt | None, base: Schedule
    ) -> list[Promise]:
        situation = learned.Situation(state.task.name, words, bound_by(parent), base.to_plan())
        observed = [*own_evidence(state, words), *foreign_evidence(state)]
        moves: tuple[Move | NestMove, ...] = NEST_MOVES if made.graph is None else MOVES
        fields = {move.name: move.fields for move in moves}
        beliefs = learned.beliefs(tuple(fields), fields, observed, situation)
        tried = {attempt.candidate.id for attempt in state.history if attempt.candidate is not None}
        tried.add(Candidate.of(made.source(base)).id)
        graph = made.graph
        if graph is None:
            return nest_promises(state, made, words, base, beliefs, tried)
        singles = [
            Promise(
                move.name,
                beliefs[move.name].expected_gain,
                partial(single, state.task, graph, base, move, beliefs[move.name], tried),
            )
            for move in MOVES
        ]
        return singles + transfers(state, graph, words, base, beliefs, tried)


def nest_promises(
    state: State, made: Derivation, words: tuple[str, ...], base: Schedule, beliefs: Beliefs, tried: set[str]
) -> list[Promise]:
    """Moves on a kernel of loop nests, and what led to the best kernels of others."""

    def keep(schedule: Schedule | None, describe: Describe, move: str) -> Option | None:
        if schedule is None:
            return None
        source = made.source(schedule)
        if Candidate.of(source).id in tried:
            return None
        return Option(move, schedule, source, *describe())

    singles = [
        Promise(
            move.name,
            beliefs[move.name].expected_gain,
            partial(keep, move.change(base), partial(told, move.name, move.why, beliefs[move.name]), move.name),
        )
        for move in NEST_MOVES
    ]
    return singles + [
        Promise(
            PREFIX + found.path.task_name,
            expected,
            partial(keep, found.schedule, partial(explained, found), PREFIX + found.path.task_name),
        )
        for found, expected in promised(state, nests_evidence(state), None, words, base, beliefs)
    ]


def explained(made: Transfer) -> tuple[str, tuple[str, ...]]:
    """What the option of a compound move says."""
    return explain(made), made.used


def nests_evidence(state: State) -> list[MoveEvidence]:
    """What was recalled of kernels of loop nests: fields mean something else to kernels of one tile."""
    return [item for item in foreign_evidence(state) if "nests" in item.traits]


def transfers(
    state: State, graph: Graph, words: tuple[str, ...], base: Schedule, beliefs: Beliefs, tried: set[str]
) -> list[Promise]:
    """Compound moves. Each that was tried here and gained nothing makes the next one less promising."""
    recalled = [item for item in foreign_evidence(state) if "nests" not in item.traits]
    return [
        Promise(PREFIX + made.path.task_name, expected, partial(compound, state.task, graph, base, made, tried))
        for made, expected in promised(state, recalled, graph, words, base, beliefs)
    ]


def promised(
    state: State,
    recalled: list[MoveEvidence],
    graph: Graph | None,
    words: tuple[str, ...],
    base: Schedule,
    beliefs: Beliefs,
) -> list[tuple[Transfer, float]]:
    """Transfers from the paths of other operators, each with its expected gain."""
    idle = {attempt.proposal.move for attempt in state.history if not attempt.promoted}
    gains = {name: b.total_gain - learned.NO_GAIN * b.weight for name, b in beliefs.items() if name not in idle}
    disappointed = sum(move.startswith(PREFIX) for move in idle)
    helpful = helpful_names(gains) if graph is not None else []
    found = [transfer(graph, base, path, helpful) for path in paths(recalled, state.task, words)]
    return [(made, made.expected * 0.5**disappointed) for made in found if made is not None]


def compound(task: Task, graph: Graph, base: Schedule, made: Transfer, tried: set[str]) -> Option | None:
    """The option of one compound move, None when it cannot be made to fit, changes nothing, or was tried."""
    fitting = fitted(task, graph, base, made)
    if fitting is None or fitting.schedule == base:
        return None
    source = emit(task, graph, fitting.schedule)
    if Candidate.of(source).id in tried:
        return None
    return Option(PREFIX + made.path.task_name, fitting.schedule, source, explain(fitting), fitting.used)


def standing(state: State, made: Derivation) -> tuple[Attempt | None, Schedule]:
    """The attempt to go on from and its schedule: the incumbent if it is ours, else our best, else the first kernel."""
    first = made.first()
    ours = [attempt for attempt in (state.incumbent, *state.history) if attempt is not None and attempt.proposal.plan]
    right = [attempt for attempt in ours if attempt.outcome.verdict is Verdict.VERIFIED]
    if not right:
        return (ours[0], first) if ours else (None, first)
    best = state.incumbent if state.incumbent in right else max(right, key=lambda attempt: attempt.speedup or 0.0)
    assert best is not None
    try:
        return best, Schedule.from_plan(best.proposal.plan)
    except ValueError:
        return best, first


def single(
    task: Task, graph: Graph, base: Schedule, move: Move, belief: learned.Belief, tried: set[str]
) -> Option | None:
    """The option of one move, None when it does not apply or was tried."""
    schedule = move.apply(task, graph, base)
    if schedule is None:
        return None
    source = emit(task, graph, schedule)
    if Candidate.of(source).id in tried:
        return None
    return Option(move.name, schedule, source, *told(move.name, move.why, belief))


def told(move: str, why: str, belief: learned.Belief) -> tuple[str, tuple[str, ...]]:
    """What an option says: why one would try it, what was learned, and the experiences that decided."""
    sentence = learned.sentence(belief)
    thought = f"{move}: {why}." + (f" It {sentence}." if sentence else "")
    used = tuple(item.experience_id for item in belief.deciding() if item.experience_id and learned.gain(item) > 0.0)
    return thought, used


def own_evidence(state: State, words: tuple[str, ...]) -> list[MoveEvidence]:
    """This session's attempts on this task as evidence; it has no experience ids, because it needs none."""
    known = {attempt.id: attempt for attempt in state.history}
    found = []
    for attempt in state.history:
        parent = known.get(attempt.proposal.parent_id or "") or state.incumbent
        found.append(
            MoveEvidence(
                experience_id="",
                parent_experience_id=None,
                task_name=state.task.name,
                traits=words,
                move=attempt.proposal.move,
                parent_plan=parent.proposal.plan if parent is not None else {},
                plan=attempt.proposal.plan,
                works=attempt.outcome.ok,
                fast=True,
                step_ratio=attempt.step_ratio,
                speedup=attempt.speedup,
                downstream=attempt.step_ratio,
                bottleneck=bound_by(parent),
                promoted=attempt.promoted,
            )
        )
    return found


def foreign_evidence(state: State) -> list[MoveEvidence]:
    """What was recalled, without what this session's own attempts already say."""
    own = [(a.proposal.move, a.proposal.plan) for a in state.history]
    return [
        item
        for item in learned.believed(state.recall.moves)
        if item.task_name != state.task.name or (item.move, item.plan) not in own
    ]


def dtypes(task: Task) -> tuple[str, ...]:
    """Dtypes of the task's inputs."""
    return tuple(sorted({item.spec.dtype for case in task.cases for item in case.inputs if item is not None}))


def tie_break(seed: int, move: str) -> str:
    """An order among equals that depends on the seed alone."""
    return hashlib.sha256(f"{seed}:{move}".encode()).hexdigest()
