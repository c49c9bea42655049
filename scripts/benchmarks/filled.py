"""A database of any size for speed benchmarks: made-up attempts that look like real ones to every table and index.

Made in one transaction and kept in a folder, since making 100,000 takes longer than measuring them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kope.memory import Store
from kope.memory.encode import vector_bytes
from kope.memory.learn import learn
from kope.memory.record import Vector, read_parent, write_attempt
from kope.memory.rows import to_rows
from kope.model import (
    Attempt,
    Candidate,
    Case,
    CaseInput,
    CaseResult,
    Diagnostic,
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

HERE = Fingerprint("twin", "twin:910b2:1", "g++ 12", "rules-1")
MOVES = ("double-buffer", "larger-tile", "reuse-buffers", "aligned-copy", "more-rows", "native-half")
_SUBJECT_WORDS = """
normalization softmax reduction activation quantization optimizer gather scatter transpose matmul
"""
_VERB_WORDS = """
overlap fold split hoist fuse pad align stage unroll broadcast accumulate recompute vectorize
"""
_NOUN_WORDS = """
tiles queues rows columns barriers buffers strides masks repeats blocks lanes scalars tails cores
"""
_KINDS = ("ub-overflow", "missing-sync", "wrong-value", "compile-error", "misaligned-copy")
_SUBJECTS = _SUBJECT_WORDS.split()
_VERBS = _VERB_WORDS.split()
_NOUNS = _NOUN_WORDS.split()
TASKS = 200


class Quick:
    """model.Embedder of no meaning: a vector of 384 dimensions drawn from a hash of the text, in microseconds."""

    name = "quick:384"
    dim = 384

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a float32 array of shape (len(texts), 384), rows of unit length."""
        rows = [np.random.default_rng(hash_of(text)).standard_normal(self.dim, np.float32) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], np.float32).reshape(len(texts), self.dim)


def hash_of(text: str) -> int:
    """Return a number that depends on the text alone."""
    import zlib

    return zlib.crc32(text.encode())


def task_number(number: int) -> Task:
    """Return a made-up task."""
    rng = random.Random(f"task {number}")
    subject = _SUBJECTS[number % len(_SUBJECTS)]
    tags = (subject, rng.choice(("flat", "rows")), *rng.sample(("exp", "sqrt", "sum", "amax", "tanh", "rsqrt"), 2))
    case = Case("c1", (CaseInput(TensorSpec("x", (64, 128), "float32")),))
    return Task(
        f"{subject}_{number}", f"Computes {subject} number {number} over the last axis.", ("x",),
        (OutputDecl("y", "same:x"),), {}, "def reference(x):\n    return x\n", "reference", "numpy", (case,),
        {"float32": Tolerance(1e-6, 1e-6)}, f"digest-{number}", tags,
    )  # fmt: skip


def sentence(rng: random.Random) -> str:
    """Return a made-up reason for a change."""
    return " ".join(f"{rng.choice(_VERBS)} the {rng.choice(_NOUNS)}{rng.randint(1, 40)}" for _ in range(4))


def attempts(count: int, session_id: str, seed: int = 0) -> Iterator[Attempt]:
    """Yield made-up attempts, parents before children: a third fails, lineages are random and up to dozens deep."""
    rng = random.Random(seed)
    alive: dict[int, list[Attempt]] = {}
    for number in range(count):
        task = task_number(rng.randrange(TASKS))
        known = alive.setdefault(hash_of(task.name), [])
        parent = rng.choice(known[-20:]) if known else None
        good = parent is None or rng.random() > 0.33
        speedup = (parent.speedup if parent is not None and parent.speedup else 1.0) * rng.uniform(0.9, 1.12)
        made = attempt(session_id, number, task, parent, speedup if good else 0.0, rng)
        if good:
            known.append(made)
        yield made


def attempt(
    session_id: str, number: int, task: Task, parent: Attempt | None, speedup: float, rng: random.Random
) -> Attempt:
    """Return a made-up attempt; a speedup of 0 is a failure."""
    source = "".join(
        f"    {rng.choice(_VERBS)}{rng.choice(_NOUNS).title()}{rng.randint(0, 99)}(x, y);\n" for _ in range(40)
    )
    source = f"// {session_id} {number}\n__aicore__ void kernel() {{\n{source}}}\n"
    plan = {"tile": rng.choice((1024, 2048, 4096)), "buffers": rng.choice((1, 2)), "rows": rng.choice((1, 8, 64))}
    cases = tuple(
        CaseResult(f"c{n}", True, (10.0 / (speedup or 1.0),), 1.0, 0.5, {"aiv_vec_time(us)": 1.5}) for n in range(20)
    )
    ratio = speedup / parent.speedup if parent is not None and parent.speedup else 1.0
    kind = rng.choice(_KINDS)
    outcome = (
        Outcome(Stage.PROFILE, Verdict.VERIFIED if ratio > 1.0 else Verdict.SCREENED, cases=cases)
        if speedup
        else Outcome(
            Stage.RUN, Verdict.FAILED, diagnostics=(Diagnostic(kind, f"{sentence(rng)} failed"),), log=sentence(rng) * 5
        )
    )
    return Attempt(
        f"{session_id}-{number}", session_id, number, task.name, task.digest, Candidate.of(source),
        Proposal(source, "draft" if parent is None else rng.choice(MOVES), sentence(rng),
                 parent.id if parent is not None else None, plan, (), task.tags),
        outcome, HERE, "search", speedup, ratio if speedup else 0.0, False, False, "2026-12-01T00:00:00.000+00:00",
    )  # fmt: skip


def filled(path: Path, count: int) -> Path:
    """Return a database of `count` made-up attempts, made now when it is not there."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    scratch.unlink(missing_ok=True)
    embedder = Quick()
    with Store.open(scratch, embedder=embedder) as store:
        for number in range(TASKS):
            store.add_task(task_number(number))
        session_id = store.begin_session("filled", session_id="filled").id
        origin = store.info().origin
        with store._database.write() as connection:
            for made in attempts(count, session_id):
                rows = to_rows(made, ledger=())
                parent = read_parent(connection, made.proposal.parent_id)
                learned = learn(made, parent, bottleneck="mte2")
                node, edge = embedder.embed([learned.node_meaning, learned.edge_text or "-"])
                vectors = Vector(vector_bytes(node), embedder.name), Vector(vector_bytes(edge), embedder.name)
                write_attempt(
                    connection, origin, made, rows, learned, parent, None, vectors, bottleneck="mte2", propensities={}
                )
    scratch.rename(path)
    return path
