"""States and kernels for the tests of proposers that send a prompt."""

from __future__ import annotations

from kope.model import (
    Attempt,
    Candidate,
    Case,
    CaseInput,
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

FINGERPRINT = Fingerprint("replay", "replay:table:1", "replay", "rules-1")
TASK = Task(
    name="double",
    text="Twice the input.",
    inputs=("x",),
    outputs=(OutputDecl("y", "same:x"),),
    attrs={},
    reference="def reference(x):\n    return 2 * x\n",
    symbol="reference",
    framework="numpy",
    cases=(Case("c1", (CaseInput(TensorSpec("x", (8,), "float32")),)),),
    tolerance={"float32": Tolerance(1e-6, 1e-6)},
    digest="d" * 64,
)


def kernel(tile: int = 1024, marker: str = "time_us=10") -> str:
    """A whole candidate in one file; the marker is what the replay target answers for it."""
    return f"""// replay: {marker}
#include "kernel_operator.h"
#include "kope_candidate.h"

constexpr int TILE = {tile};

extern "C" __global__ __aicore__ void twice(GM_ADDR x, GM_ADDR y)
{{
}}

extern "C" int kope_entry(const KopeCall* call)
{{
    twice<<<call->vector_core_count, nullptr, call->stream>>>(call->inputs[0].data, call->outputs[0].data);
    return 0;
}}
"""


def fenced(source: str) -> str:
    return f"Twice as fast.\n\n```cpp\n{source}```\n"


def attempt(source: str, outcome: Outcome, number: int = 1) -> Attempt:
    return Attempt(
        id=f"a{number}",
        session_id="s1",
        iteration=number,
        task_name=TASK.name,
        task_digest=TASK.digest,
        candidate=Candidate.of(source),
        proposal=Proposal(source, "draft"),
        outcome=outcome,
        fingerprint=FINGERPRINT,
        proposer="test",
    )


VERIFIED = Outcome(Stage.PROFILE, Verdict.VERIFIED)
BROKEN = Outcome(Stage.COMPILE, Verdict.FAILED)


def state(prompt: str | None = "Write it.", *, incumbent: Attempt | None = None, last: Attempt | None = None) -> State:
    history = tuple(each for each in (incumbent, last) if each is not None)
    return State(
        task=TASK,
        fingerprint=FINGERPRINT,
        seed=0,
        iteration=len(history) + 1,
        incumbent=incumbent,
        baseline=incumbent,
        last=last or incumbent,
        history=history,
        recall=Recall(),
        prompt=prompt,
    )


def showing(source: str, words: str = "Make it faster.") -> str:
    return f"{words}\n\n```cpp\n{source}```\n"
