"""The method: state <- task, recall, assemble, propose, evaluate, learn and record; again until a limit is reached.

What each step does is behind a protocol; this module decides in which order, when to stop, and what an outcome means
for the incumbent.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from kope.context import Assembled
from kope.model import (
    Attempt,
    Candidate,
    Converged,
    CostSpent,
    Diagnostic,
    Evaluator,
    Fingerprint,
    Outcome,
    Proposal,
    Proposer,
    Recall,
    SeveralProposer,
    Stage,
    State,
    Task,
    TimeSpent,
    TokensSpent,
    Verdict,
)
from kope.objective import is_better, may_be_better, speedup_over


class Stop(StrEnum):
    """Why work on a task ended."""

    ITERATIONS = "iterations"
    CONVERGED = "converged"
    PATIENCE = "patience"
    TOKENS = "tokens"
    COST = "cost"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop. iterations and patience count attempts on one task, tokens and time_s the whole session.

    patience: attempts in a row that did not become the incumbent; None: go on. None elsewhere: no limit.
    """

    iterations: int | None = 24
    patience: int | None = None
    tokens: int | None = None
    time_s: float | None = None


class Watcher(Protocol):
    """Told what happens while it happens; has no say in it."""

    def begin(self, task: Task, session_id: str, earlier: Sequence[Attempt]) -> None:
        """Work on a task starts; `earlier` are this session's attempts from before an interruption."""

    def trying(self, task: Task, iteration: int, move: str) -> None:
        """A proposal is about to be evaluated."""

    def attempt(self, task: Task, attempt: Attempt) -> None:
        """An attempt is recorded: it survives whatever comes next."""

    def end(self, result: TaskResult) -> None:
        """Work on a task ended."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a task stands. baseline: what speedups are against; incumbent: the best verified attempt; history: this
    session's attempts on the task, oldest first."""

    baseline: Attempt | None = None
    incumbent: Attempt | None = None
    history: tuple[Attempt, ...] = ()

    def after(self, attempt: Attempt) -> Standing:
        """Return the standing once `attempt` is recorded."""
        verified = attempt.outcome.verdict is Verdict.VERIFIED and bool(attempt.outcome.times_us)
        return Standing(
            baseline=attempt if self.baseline is None and verified else self.baseline,
            incumbent=attempt if attempt.promoted else self.incumbent,
            history=(*self.history, attempt),
        )


class Memory(Protocol):
    """What one session of the loop asks of the experience database."""

    session_id: str

    def standing(self, task: Task) -> Standing:
        """Return where a task stands on this session's hardware."""

    def recall(self, state: State) -> Recall:
        """Return the experiences that fit a state whose `recall` is still empty."""

    def find_outcome(self, task: Task, candidate: Candidate) -> Outcome | None:
        """Return the outcome of the same candidate under the same task, rules and hardware, if there is one."""

    def prompt_of(self, attempt: Attempt) -> Assembled | None:
        """Return the prompt an attempt answers as far as it is kept, None when there was none."""

    def record(self, attempt: Attempt, prompt: Assembled | None) -> None:
        """Learn from a finished attempt and write everything about it in one transaction."""


class Comparison(Protocol):
    """What timing two kernels in turns has shown."""

    @property
    def faster(self) -> bool:
        """Whether the first is proven faster than the second."""

    @property
    def summary(self) -> str:
        """Return it in one line."""

    @property
    def record(self) -> Mapping[str, Any]:
        """Return every raw sample, in a form that JSON can hold."""


Compare = Callable[[Task, Candidate, Candidate], Comparison]
"""Times a candidate against the incumbent, both verified, on all cases of a task."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The concrete things a session works with. assemble: None for proposers that read the state itself.

    folder: where each evaluation gets an empty folder of its own, removed afterwards. compare: times a verified
    candidate against the incumbent in turns; None where times are the same in every run. proposals: how many are asked
    for at once, of a proposer that can answer several times.
    """

    memory: Memory
    proposer: Proposer
    evaluator: Evaluator
    fingerprint: Fingerprint
    folder: Path
    seed: int = 0
    assemble: Callable[[State], Assembled] | None = None
    compare: Compare | None = None
    proposals: int = 1


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a session did on one task, and why it stopped."""

    task: Task
    standing: Standing
    stop: Stop


# --- the method -----------------------------------------------------------------------------------------------------


def iterate(task: Task, standing: Standing, parts: Parts, watcher: Watcher, *, most: int | None = None) -> Standing:
    """Run one step of the method: propose from one prompt, judge and record each proposal; return the new standing.

    most: no more attempts than this. Raises Converged when the proposer has nothing left to try.
    """
    state, prompt, done, count = _start(task, standing, parts, most)
    for proposal in _proposals(state, prompt, count, parts)[done:]:
        now = state_of(task, standing, parts)
        watcher.trying(task, now.iteration, proposal.move)
        attempt = try_proposal(now, proposal, parts)
        parts.memory.record(attempt, prompt)
        watcher.attempt(task, attempt)
        standing = standing.after(attempt)
    return standing


def _start(task: Task, standing: Standing, parts: Parts, most: int | None) -> tuple[State, Assembled | None, int, int]:
    """Return the state to propose from, its prompt, how many of the proposals are judged already, and of how many.

    A step that was interrupted between its proposals is taken up from the state and with the prompt it began with.
    """
    last = standing.history[-1] if standing.history else None
    index, count = last.proposal.plan.get("batch", (0, 0)) if last is not None else (0, 0)
    prompt = parts.memory.prompt_of(last) if last is not None and index + 1 < count else None
    if prompt is not None:
        before = replace(standing, history=standing.history[: -(index + 1)])
        return state_of(task, before, parts), prompt, index + 1, count
    state = state_of(task, standing, parts)
    state = replace(state, recall=parts.memory.recall(state))
    prompt = parts.assemble(state) if parts.assemble is not None else None
    return state, prompt, 0, min(parts.proposals, most or parts.proposals)


def _proposals(state: State, prompt: Assembled | None, count: int, parts: Parts) -> tuple[Proposal, ...]:
    if prompt is not None:
        state = replace(state, prompt=prompt.text, role=prompt.template.rpartition("/")[2])
    if count > 1 and isinstance(parts.proposer, SeveralProposer):
        made = parts.proposer.propose_several(state, count)
    else:
        made = (parts.proposer.propose(state),)
    if len(made) > 1:
        made = tuple(replace(each, plan={**each.plan, "batch": [k, len(made)]}) for k, each in enumerate(made))
    used = prompt.used if prompt is not None else ()
    return tuple(replace(each, used=tuple(dict.fromkeys((*used, *each.used)))) for each in made)


def try_proposal(state: State, proposal: Proposal, parts: Parts, *, parent: Attempt | None = None) -> Attempt:
    """Judge a proposal and say what its outcome means; nothing is recorded.

    parent: the attempt it starts from, for one that the state does not hold. Where the proposer names no traits, the
    task's tags stand for them, so that experience is found by them whoever wrote the candidate.
    """
    proposal = replace(proposal, traits=proposal.traits or state.task.tags)
    candidate = Candidate.of(proposal.source) if proposal.source is not None else None
    outcome, repeated = _outcome(state, proposal, candidate, parts)
    parent = parent or _parent(state, proposal.parent_id)
    speedup, step_ratio, promoted = appraise(state, outcome, parent)
    if candidate is not None and parts.compare is not None and outcome.verdict is Verdict.VERIFIED:
        outcome, promoted = _compared(state, candidate, outcome, parts.compare)
    session_id = parts.memory.session_id
    return Attempt(
        id=attempt_id(session_id, state.task.name, state.iteration),
        session_id=session_id,
        iteration=state.iteration,
        task_name=state.task.name,
        task_digest=state.task.digest,
        candidate=candidate,
        proposal=proposal,
        outcome=outcome,
        fingerprint=parts.fingerprint,
        proposer=parts.proposer.name,
        speedup=speedup,
        step_ratio=step_ratio,
        promoted=promoted,
        repeated=repeated,
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )


def _compared(state: State, candidate: Candidate, outcome: Outcome, compare: Compare) -> tuple[Outcome, bool]:
    """Return the outcome with what a comparison in turns has shown, and whether the candidate is the new incumbent."""
    rival = state.incumbent.candidate if state.incumbent is not None else None
    if rival is None or rival.id == candidate.id:
        return outcome, rival is None and bool(outcome.times_us)
    if not may_be_better(outcome.times_us, _times(state.incumbent)):
        return outcome, False
    found = compare(state.task, candidate, rival)
    note = Diagnostic("comparison", found.summary, "note")
    others = tuple(one for one in outcome.diagnostics if one.kind != note.kind)
    evidence = {**outcome.evidence, "comparison": json.dumps(found.record)}
    return replace(outcome, diagnostics=(*others, note), evidence=evidence), found.faster


def state_of(task: Task, standing: Standing, parts: Parts) -> State:
    """Return the state the next step starts from, nothing recalled yet."""
    history = standing.history
    return State(
        task=task,
        fingerprint=parts.fingerprint,
        seed=parts.seed,
        iteration=len(history) + 1,
        incumbent=standing.incumbent,
        baseline=standing.baseline,
        last=history[-1] if history else None,
        history=history,
        recall=Recall(),
    )


def _outcome(state: State, proposal: Proposal, candidate: Candidate | None, parts: Parts) -> tuple[Outcome, bool]:
    """Return the outcome and whether it was known already.

    An earlier outcome that stopped at the small cases is not enough once its times would make it the incumbent.
    """
    if candidate is None:
        return nothing_proposed(state.task, proposal), False

    def promote(times_us: Mapping[str, float]) -> bool:
        better = is_better if parts.compare is None else may_be_better
        return state.baseline is None or better(times_us, _times(state.incumbent))

    known = parts.memory.find_outcome(state.task, candidate)
    if known is not None and not (known.verdict is Verdict.SCREENED and promote(known.times_us)):
        return known, True
    return parts.evaluator.evaluate(state.task, candidate, parts.folder, promote=promote), False


def attempt_id(session_id: str, task_name: str, iteration: int) -> str:
    """Return the id of an attempt, made from its place so that a resumed run gives the same ids."""
    return hashlib.sha256(f"{session_id}\0{task_name}\0{iteration}".encode()).hexdigest()[:24]


def optimize(tasks: Sequence[Task], parts: Parts, limits: Limits, watcher: Watcher) -> Iterator[TaskResult]:
    """Work on the tasks in order, each until a limit is reached, and yield what came of each.

    Whatever interrupts it loses the attempt in flight only: called again with the same session, it goes on after the
    last recorded attempt. Limits on tokens count the whole session, the one on time counts from this call.
    """
    started = time.monotonic()
    tokens = 0
    for task in tasks:
        standing = parts.memory.standing(task)
        watcher.begin(task, parts.memory.session_id, standing.history)
        tokens += sum(attempt.proposal.tokens for attempt in standing.history)
        stop = _reached(limits, standing, tokens, started)
        while stop is None:
            try:
                after = iterate(task, standing, parts, watcher, most=_left(limits, standing))
            except TokensSpent as spent:
                stop = _SPENT.get(type(spent), Stop.TOKENS)
                break
            except Converged:
                stop = Stop.CONVERGED
                break
            tokens += sum(attempt.proposal.tokens for attempt in after.history[len(standing.history) :])
            standing = after
            stop = _reached(limits, standing, tokens, started)
        result = TaskResult(task, standing, stop)
        watcher.end(result)
        yield result


_SPENT = {CostSpent: Stop.COST, TimeSpent: Stop.TIME}


def _left(limits: Limits, standing: Standing) -> int | None:
    return limits.iterations - len(standing.history) if limits.iterations is not None else None


def _reached(limits: Limits, standing: Standing, tokens: int, started: float) -> Stop | None:
    history = standing.history
    if limits.iterations is not None and len(history) >= limits.iterations:
        return Stop.ITERATIONS
    if limits.tokens is not None and tokens >= limits.tokens:
        return Stop.TOKENS
    if limits.patience is not None and since_promotion(history) >= limits.patience:
        return Stop.PATIENCE
    if limits.time_s is not None and time.monotonic() - started >= limits.time_s:
        return Stop.TIME
    return None


def since_promotion(history: Sequence[Attempt]) -> int:
    """Return how many attempts ended without a new incumbent since the last that made one."""
    count = 0
    for attempt in reversed(history):
        if attempt.promoted:
            break
        count += 1
    return count


# --- what an outcome means ------------------------------------------------------------------------------------------


def appraise(state: State, outcome: Outcome, parent: Attempt | None) -> tuple[float | None, float, bool]:
    """Return (speedup, step ratio, promoted) of an outcome; see Attempt for their meaning.

    The first verified attempt is its own baseline. Only a verified one can be promoted.
    """
    if not outcome.ok:
        return 0.0, 0.0, False
    verified = outcome.verdict is Verdict.VERIFIED
    times = outcome.times_us
    if state.baseline is not None:
        speedup = speedup_over(state.baseline.outcome.times_us, times)
    else:
        speedup = 1.0 if verified and times else None
    promoted = verified and is_better(times, _times(state.incumbent))
    return speedup, _step_ratio(speedup, parent), promoted


def _step_ratio(speedup: float | None, parent: Attempt | None) -> float:
    if speedup is None or parent is None or not parent.speedup:
        return 1.0
    return speedup / parent.speedup


def _parent(state: State, parent_id: str | None) -> Attempt | None:
    known = (*state.history, *(attempt for attempt in (state.incumbent, state.baseline) if attempt is not None))
    return next((attempt for attempt in known if attempt.id == parent_id), None)


def _times(attempt: Attempt | None) -> Mapping[str, float] | None:
    return attempt.outcome.times_us if attempt is not None else None


def nothing_proposed(task: Task, proposal: Proposal) -> Outcome:
    """Return the outcome of a proposal without a source: it failed at stage propose, for the proposer's reason."""
    message = proposal.reason or "the proposer gave no source"
    remedy = f"one complete source file is needed; where the proposer has none: kope ask {task.name}"
    found = Diagnostic("no-candidate", message, remedy=remedy)
    return Outcome(Stage.PROPOSE, Verdict.FAILED, diagnostics=(found,))
