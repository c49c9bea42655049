"""Doubles for the loop's seams: a memory in a list, an evaluator that answers from the source, a scripted proposer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kope.context import Assembled
from kope.loop import Parts, Standing
from kope.model import (
    Attempt,
    Candidate,
    Case,
    CaseInput,
    CaseResult,
    Converged,
    Diagnostic,
    Fingerprint,
    Outcome,
    OutputDecl,
    Proposal,
    Recall,
    Stage,
    State,
    Task,
    TensorSpec,
    Tolerance,
    Verdict,
)
from kope.target.replay import read_marker

FINGERPRINT = Fingerprint("replay", "replay:table:1", "replay", "rules-1")


def small_task(name: str = "double") -> Task:
    """A task of three cases, y = 2 x."""
    cases = tuple(Case(f"c{n}", (CaseInput(TensorSpec("x", (n * 8,), "float32")),)) for n in (1, 2, 3))
    return Task(
        name=name,
        text="Twice the input.",
        inputs=("x",),
        outputs=(OutputDecl("y", "same:x"),),
        attrs={},
        reference="def reference(x):\n    return 2 * x\n",
        symbol="reference",
        framework="numpy",
        cases=cases,
        tolerance={"float32": Tolerance(1e-6, 1e-6)},
        digest=f"digest-of-{name}",
    )


@dataclass
class ListMemory:
    """Remembers in a list. `store` may be shared between sessions, as a database is."""

    session_id: str = "s1"
    store: list[Attempt] = field(default_factory=list)
    recalled: Recall = Recall()
    prompts: list[Assembled | None] = field(default_factory=list)

    def standing(self, task: Task) -> Standing:
        standing = Standing()
        for attempt in self.store:
            if attempt.session_id == self.session_id and attempt.task_name == task.name:
                standing = standing.after(attempt)
        return standing

    def recall(self, state: State) -> Recall:
        return self.recalled

    def find_outcome(self, task: Task, candidate: Candidate) -> Outcome | None:
        for attempt in self.store:
            if attempt.candidate == candidate and attempt.task_digest == task.digest:
                return attempt.outcome
        return None

    def prompt_of(self, attempt: Attempt) -> Assembled | None:
        return next(
            (prompt for known, prompt in zip(self.store, self.prompts, strict=True) if known.id == attempt.id), None
        )

    def record(self, attempt: Attempt, prompt: Assembled | None) -> None:
        self.store.append(attempt)
        self.prompts.append(prompt)


class MarkerEvaluator:
    """Judges by the source's replay marker; verifies in full only when asked to promote."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def evaluate(
        self, task: Task, candidate: Candidate, workdir: Path, *, promote: Callable[[Mapping[str, float]], bool]
    ) -> Outcome:
        self.seen.append(candidate.source)
        answer = read_marker(candidate.source)
        assert answer is not None
        if answer.fail:
            return Outcome(Stage.RUN, Verdict.FAILED, diagnostics=(Diagnostic(answer.fail, "scripted"),))
        times = {case.id: answer.case_us(case.id) for case in task.cases}
        full = promote(times)
        if full and answer.wrong:
            return Outcome(Stage.VERIFY, Verdict.FAILED, diagnostics=(Diagnostic("wrong-value", "scripted"),))
        cases = tuple(
            CaseResult(name, passed=True if full else None, duration_us=(time,), bound_us=1.0)
            for name, time in times.items()
        )
        return Outcome(Stage.PROFILE, Verdict.VERIFIED if full else Verdict.SCREENED, cases=cases)


class Script:
    """Proposes the given sources in order, each starting from the incumbent, then has nothing left."""

    name = "script"

    def __init__(self, sources: Sequence[str | None]) -> None:
        self.sources = sources
        self.states: list[State] = []

    def propose(self, state: State) -> Proposal:
        self.states.append(state)
        if state.iteration > len(self.sources):
            raise Converged
        source = self.sources[state.iteration - 1]
        parent = state.incumbent.id if state.incumbent is not None else None
        return Proposal(
            source, f"move-{state.iteration}", parent_id=parent, tokens=100, reason="" if source else "mute"
        )


def marked(time_us: float, words: str = "", text: str = "") -> str:
    """A source that the doubles answer for."""
    return f"// replay: time_us={time_us} {words}\n{text}\n"


def parts_of(sources: Sequence[str | None], memory: ListMemory | None = None, folder: Path = Path("/tmp")) -> Parts:
    """Parts made of doubles."""
    return Parts(memory or ListMemory(), Script(sources), MarkerEvaluator(), FINGERPRINT, folder)
