"""Attempts to record: a task, outcomes that went well or badly, and a database full of them."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from kope.memory import Store
from kope.model import (
    Attempt,
    Candidate,
    Case,
    CaseInput,
    CaseResult,
    Diagnostic,
    Experience,
    Fingerprint,
    Outcome,
    OutputDecl,
    Proposal,
    Stage,
    Task,
    TensorSpec,
    Tolerance,
    Verdict,
)

TWIN = Fingerprint("twin", "twin:910b2:1", "g++ 12", "rules-1")
OTHER = Fingerprint("twin", "twin:310p:1", "g++ 12", "rules-1")


def task_of(name: str = "rms_norm", tags: tuple[str, ...] = ("normalization",)) -> Task:
    """A task of two cases."""
    cases = tuple(Case(f"c{n}", (CaseInput(TensorSpec("x", (n * 8,), "float32")), None)) for n in (1, 2))
    return Task(
        name=name,
        text=f"Computes {name} over the last axis.",
        inputs=("x", "gamma"),
        outputs=(OutputDecl("y", "same:x"),),
        attrs={"eps": 1e-6},
        reference="def reference(x):\n    return x\n",
        symbol="reference",
        framework="numpy",
        cases=cases,
        tolerance={"float32": Tolerance(1e-6, 1e-6)},
        digest=f"digest-of-{name}",
        tags=tags,
    )


def works(
    time_us: float = 10.0, verdict: Verdict = Verdict.VERIFIED, samples: Sequence[float] | None = None
) -> Outcome:
    """An outcome that got through; both cases take the same time."""
    durations = tuple(samples) if samples is not None else (time_us,)
    cases = tuple(
        CaseResult(f"c{n}", verdict is Verdict.VERIFIED or n == 1, durations, 1.0, 0.5, {"aiv_vec_time(us)": 1.5 * n})
        for n in (1, 2)
    )
    return Outcome(Stage.PROFILE, verdict, cases=cases, log="built", wall_s=1.5, evidence={"source": "abc"})


def fails(kind: str = "ub-overflow", message: str = "needs 245856 B of 196608 B", stage: Stage = Stage.RUN) -> Outcome:
    """An outcome that stopped with one error."""
    return Outcome(stage, Verdict.FAILED, diagnostics=(Diagnostic(kind, message, remedy="shorten the tile"),))


def attempt_of(
    session_id: str,
    number: int,
    outcome: Outcome,
    *,
    task: Task | None = None,
    parent: Attempt | None = None,
    move: str = "double-buffer",
    thought: str = "copies and arithmetic do not overlap",
    plan: Mapping[str, Any] | None = None,
    source: str | None = "",
    used: tuple[str, ...] = (),
    traits: tuple[str, ...] = ("elementwise", "reduce-row"),
    fingerprint: Fingerprint = TWIN,
    speedup: float | None = None,
    promoted: bool | None = None,
    **changes: Any,
) -> Attempt:
    """An attempt as the loop makes it: failures have speedup 0; the step ratio is against the parent's speedup."""
    task = task or task_of()
    if source == "":
        source = f"// {task.name} {number}\n__aicore__ void kernel() {{ DataCopyPad(x, y); }}\n"
    value = (0.0 if not outcome.ok else 1.0) if speedup is None else speedup
    ratio = value / parent.speedup if parent is not None and parent.speedup else (1.0 if outcome.ok else 0.0)
    given: dict[str, Any] = {
        "id": f"{session_id}-{task.name}-{number}",
        "session_id": session_id,
        "iteration": number,
        "task_name": task.name,
        "task_digest": task.digest,
        "candidate": Candidate.of(source) if source is not None else None,
        "proposal": Proposal(
            source,
            move,
            thought,
            parent.id if parent is not None else None,
            plan if plan is not None else {"tile": 1024 * number},
            used,
            traits,
        ),
        "outcome": outcome,
        "fingerprint": fingerprint,
        "proposer": "search",
        "speedup": value,
        "step_ratio": ratio,
        "promoted": outcome.verdict is Verdict.VERIFIED if promoted is None else promoted,
        "created_at": "2026-01-02T03:04:05.678+00:00",
    }
    return Attempt(**{**given, **changes})


def begin(store: Store, *tasks: Task, key: str = "key") -> str:
    """Begin a session in which the tasks are known; returns its id."""
    for task in tasks or (task_of(),):
        store.add_task(task)
    return store.begin_session(key, {"why": "test"}).id


MOVES = ("draft", "double-buffer", "longer-tile", "in-place", "half-precision", "vector-reduce")


def grow(
    store: Store,
    session_id: str,
    count: int,
    *,
    task: Task | None = None,
    seed: int = 0,
    fingerprint: Fingerprint = TWIN,
) -> list[Experience]:
    """Record a random lineage of `count` attempts: a third fails, the rest is a little faster or slower."""
    rng = random.Random(f"{seed}:{task.name if task else ''}")
    task = task or task_of()
    alive: list[Attempt] = []
    made = []
    for number in range(1, count + 1):
        parent = rng.choice(alive) if alive else None
        good = rng.random() > 0.33 or not alive
        speedup = (parent.speedup if parent and parent.speedup else 1.0) * rng.uniform(0.8, 1.3) if good else 0.0
        kind = rng.choice(("ub-overflow", "missing-sync", "wrong-value", "compile-error"))
        outcome = works(10.0 / speedup) if good else fails(kind, f"line {rng.randint(1, 99)} of the kernel")
        attempt = attempt_of(
            session_id,
            number,
            outcome,
            task=task,
            parent=parent,
            move=rng.choice(MOVES) if parent else "draft",
            thought=f"variant {rng.randint(1, 9)} of the loop over tiles",
            plan={"tile": rng.choice((1024, 2048, 4096)), "depth": rng.choice((1, 2))},
            speedup=speedup,
            promoted=False,
            fingerprint=fingerprint,
        )
        made.append(store.record(attempt, bottleneck=rng.choice(("mte2", "vector"))))
        if good:
            alive.append(attempt)
    return made


def rows(path: Path, sql: str) -> list[Any]:
    """What another program reads from a database."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def dump(path: Path) -> list[str]:
    """All of a database as text."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())
