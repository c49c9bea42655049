"""States to make prompts of: a task half way, with a recalled lineage from another operator."""

from __future__ import annotations

from collections.abc import Sequence

from kope.context import Briefing, Change, Sources
from kope.model import (
    Attempt,
    Candidate,
    Case,
    CaseInput,
    CaseResult,
    Diagnostic,
    Edge,
    Experience,
    Fingerprint,
    Outcome,
    OutputDecl,
    Passage,
    Proposal,
    Recall,
    Recalled,
    Stage,
    State,
    Task,
    TensorSpec,
    Tolerance,
    Values,
    Verdict,
)

FINGERPRINT = Fingerprint("twin", "twin:910b2:1", "g++ 12", "rules-1")
BRIEFING = Briefing("twin (twin:910b2:1), times are modelled", "48 vector cores\nunified buffer 196608 bytes per core")


def task() -> Task:
    cases = (
        Case("c1", (CaseInput(TensorSpec("x", (8, 1024), "float16")), CaseInput(TensorSpec("w", (1024,), "float16")))),
        Case(
            "c2",
            (CaseInput(TensorSpec("x", (3, 77), "float32"), Values(special="nan")), None),
            {"eps": 1e-5, "mode": "fast"},
        ),
    )
    return Task(
        name="scale_norm",
        text="Scales each row to unit length.\n",
        inputs=("x", "w"),
        outputs=(OutputDecl("y", "same:x"),),
        attrs={"eps": 1e-6},
        reference="def reference(x, w, *, eps):\n    return x\n",
        symbol="reference",
        framework="numpy",
        cases=cases,
        tolerance={"float32": Tolerance(1e-5, 1e-6), "float16": Tolerance(1e-3, 1e-3)},
        digest="d" * 64,
    )


def attempt(
    iteration: int, outcome: Outcome, *, move: str = "edit", source: str = "// kernel\n", **more: object
) -> Attempt:
    return Attempt(
        id=f"attempt{iteration:02d}",
        session_id="s1",
        iteration=iteration,
        task_name="scale_norm",
        task_digest="d" * 64,
        candidate=Candidate.of(source),
        proposal=Proposal(source, move, thought="because"),
        outcome=outcome,
        fingerprint=FINGERPRINT,
        proposer="ask",
        **more,  # type: ignore[arg-type]
    )


def verified() -> Outcome:
    counters = {"aiv_time(us)": 9.0, "aiv_mte2_time(us)": 7.5, "aiv_vec_time(us)": 3.25, "aiv_scalar_time(us)": 0.0}
    return Outcome(
        Stage.PROFILE,
        Verdict.VERIFIED,
        cases=(
            CaseResult("c1", True, (12.0,), 6.0, 0.2, counters),
            CaseResult("c2", True, (4.0,), 1.0, 0.1),
        ),
    )


def compile_failure() -> Outcome:
    return Outcome(
        Stage.COMPILE,
        Verdict.FAILED,
        diagnostics=(
            Diagnostic("compile-error", "'Foo' was not declared", remedy="declare it", file="candidate.asc", line=7),
        ),
        log="candidate.asc:7:3: error: 'Foo' was not declared\n",
    )


def experience(name: str, move: str, **more: object) -> Experience:
    values: dict[str, object] = {
        "id": name,
        "kind": "attempt",
        "task_name": "rms_norm",
        "title": f"rms_norm {move}",
        "text": f"rms_norm: {move}; because\nwhat {move} taught",
        "move": move,
        "traits": ("row-reduction",),
        "stage": Stage.PROFILE,
        "works": True,
        "label": "effective",
        "speedup": 1.0,
        "step_ratio": 1.0,
        "downstream": 1.0,
        "confidence": 1.0,
        "hardware": "twin:910b2:1",
        "bottleneck": "mte2",
        "attempt_id": f"a-{name}",
        "created_at": "",
    }
    return Experience(**(values | more))  # type: ignore[arg-type]


def recall() -> Recall:
    """draft -> double-buffer -> (longer tiles: failed), recalled: the last two; and a fact without lineage."""
    draft = experience("e1draft", "draft", label="partial")
    buffered = experience("e2buffer", "double-buffer", speedup=1.5, step_ratio=1.5)
    failed = experience(
        "e3tiles", "tile-length", works=False, label="negative", speedup=0.0, step_ratio=0.0, stage=Stage.RUN
    )
    fact = experience(
        "e4fact", "", kind="fact", attempt_id=None, speedup=None, title="UB", text="UB is 192 KB", label=""
    )
    return Recall(
        items=(
            Recalled(buffered, 0.9, "same traits, mte2-bound"),
            Recalled(failed, 0.8, "failure of the same move"),
            Recalled(fact, 0.5, "text match"),
        ),
        neighbours=(draft,),
        edges=(
            Edge("1", "e1draft", "e2buffer", "led_to", "queue depth 2, copies overlap"),
            Edge("2", "e2buffer", "e3tiles", "led_to", "tiles of 16384, UB overflow"),
            Edge("3", "e1draft", "e3tiles", "used", "not lineage"),
        ),
    )


def state(**more: object) -> State:
    values: dict[str, object] = {
        "task": task(),
        "fingerprint": FINGERPRINT,
        "seed": 0,
        "iteration": 1,
        "incumbent": None,
        "baseline": None,
        "last": None,
        "history": (),
        "recall": Recall(),
    }
    return State(**(values | more))  # type: ignore[arg-type]


def run_failure() -> Outcome:
    found = Diagnostic(
        "missing-sync", "V and MTE3 touch y", remedy="set V_MTE3", file="candidate.asc", line=9, count=48
    )
    return Outcome(Stage.RUN, Verdict.FAILED, diagnostics=(found,))


def wrong_value() -> Outcome:
    found = Diagnostic("wrong-value", "7 of 231 elements differ, the first at 224", case_id="c2")
    return Outcome(Stage.RUN, Verdict.FAILED, diagnostics=(found,))


def passages(question: str, limit: int) -> Sequence[Passage]:
    return (Passage("p1", "guide/copies", "DataCopyPad", "`blockLen` is bytes.", 2.0),)[:limit]


def change_of(experience: Experience) -> Change | None:
    if experience.id != "e2buffer":
        return None
    return Change("int depth = 1;\nint same;\n", "int depth = 2;\nint same;\n")


def bound_by(attempt: Attempt | None) -> str:
    return "mte2" if attempt is not None and attempt.outcome.ok else ""


SOURCES = Sources(passages=passages, change_of=change_of, bound_by=bound_by)


def draft_state() -> State:
    return state(recall=recall())


def repair_state() -> State:
    failed = attempt(1, compile_failure(), move="draft", source="int Foo;\n", step_ratio=0.0, speedup=0.0)
    return state(iteration=2, last=failed, history=(failed,), recall=recall())


def repair_run_state() -> State:
    failed = attempt(1, run_failure(), move="draft", source="int unsynced;\n", step_ratio=0.0, speedup=0.0)
    return state(iteration=2, last=failed, history=(failed,), recall=recall())


def repair_wrong_state() -> State:
    failed = attempt(1, wrong_value(), move="draft", source="int tail;\n", step_ratio=0.0, speedup=0.0)
    return state(iteration=2, last=failed, history=(failed,), recall=recall())


def explore_state() -> State:
    """A first kernel, a better one, and four tries that led nowhere, one of which works."""
    first = attempt(1, verified(), move="draft", source="// first\n", speedup=1.0, step_ratio=1.0, promoted=True)
    best = attempt(2, verified(), move="double-buffer", source="// best\n", speedup=1.6, step_ratio=1.6, promoted=True)
    other = attempt(3, verified(), move="row-tiles", source="// rows\n", speedup=1.5, step_ratio=0.94)
    failed = [attempt(k, compile_failure(), speedup=0.0) for k in (4, 5)]
    last = attempt(6, verified(), move="unroll", source="// unrolled\n", speedup=1.2, step_ratio=0.75)
    history = (first, best, other, *failed, last)
    return state(iteration=7, incumbent=best, baseline=first, last=last, history=history, recall=recall())


def refine_state() -> State:
    best = attempt(1, verified(), move="draft", source="// best\n", speedup=1.0, step_ratio=1.0, promoted=True)
    return state(iteration=2, incumbent=best, baseline=best, last=best, history=(best,), recall=recall())
