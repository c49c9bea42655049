"""The nouns of KOPE and the protocols its parts meet through. Standard library only, no I/O.

Dtypes are NumPy names: float32, float16, bfloat16, int8, uint8, int16, int32, int64, bool. Shapes are elements per
axis, outermost first. Times are device microseconds and always carry where they come from (`TimeKind`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol

AttrValue = bool | int | float | str | tuple[int | float, ...]
Plan = Mapping[str, Any]
"""A proposer's own JSON-able description of how a candidate is built (search: its schedule). {} when it has none."""


# --- tasks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor: name, shape (() is a scalar), dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclass(frozen=True, slots=True)
class Values:
    """How an input is filled: uniform in [low, high] (integers: high inclusive), then `special` on top.

    special: "" | "nan" | "inf" | "zeros" | "denormal"; what share of elements is documented in docs/tasks.md.
    """

    low: float = -1.0
    high: float = 1.0
    special: str = ""


@dataclass(frozen=True, slots=True)
class CaseInput:
    """One input of a case: its tensor and how it is filled."""

    spec: TensorSpec
    values: Values = Values()


@dataclass(frozen=True, slots=True)
class Case:
    """One concrete point of a task: shapes, dtypes, attributes, values. `None` is an omitted optional input."""

    id: str
    inputs: tuple[CaseInput | None, ...]
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutputDecl:
    """One declared output.

    dtype: a dtype name, "same:<input>", or (imported tasks only) "reference": as the reference returns it.
    check: "value": against the reference. "index": right when it points into input `points_into`, along the axis that
        the integer or attribute `axis` names, to an element equal to the one the reference points to.
    many: a list whose length the reference decides; its tensors are called name_0, name_1, ...
    """

    name: str
    dtype: str
    check: str = "value"
    points_into: str = ""
    axis: int | str = -1
    many: bool = False


@dataclass(frozen=True, slots=True)
class Tolerance:
    """An element passes when |got - want| <= atol + rtol * |want|; integers: |got - want| <= atol."""

    rtol: float
    atol: float


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an imported reference. kind: "tensor", "list" (of tensors), or "attr".

    inputs: the task's inputs that fill it: one for a tensor, in order for a list (those a case omits are left out).
    """

    name: str
    kind: str
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Anchor:
    """What a suite publishes on a case for one chip: its baseline's time and the hardware's limit, microseconds."""

    baseline_us: float | None
    limit_us: float | None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an imported task comes from, and how its suite fills inputs and judges outputs.

    suite: "cann-bench", ... version: as the suite says. unit: its own name of the task, e.g. "level1/exp".
    level: its difficulty class. operator: its own name of the operator. files: sha256 by path below `root`.
    parameters: the reference's, in its own order. recipe: JSON-able, read by the suite's runner only; what decides
    values or verdicts is in it. anchors: by chip and case id.
    """

    suite: str
    version: str
    unit: str
    level: str
    operator: str
    root: Path
    files: Mapping[str, str]
    parameters: tuple[Parameter, ...]
    recipe: Mapping[str, Any]
    anchors: Mapping[str, Mapping[str, Anchor]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """An operator to write.

    text: what the operator computes, for people and prompts.
    reference: Python source; `symbol` in it is called with inputs and attributes by keyword and returns one array or
        a tuple, float inputs given as float64. framework is "numpy" or "torch".
    tolerance: per expected output dtype.
    digest: sha256 over everything that decides a verdict (reference, cases, tolerances).
    tags: structure words that help recall, e.g. "elementwise", "normalization".
    origin: where an imported task comes from, None for one of KOPE's own format. An input of an imported task that a
        case's tensor list is too short for is omitted in that case.
    native: symbol of a second reference that computes in the precision kernels have, "" for the same one; it flags cases,
        candidates are never judged by it.
    reduction: input name and axes whose elements a reduction adds up in each output element; atol then counts for one
        of them and grows with the square root of their number. None: atol as it stands.
    fixed_shapes: kernels need not be right on shapes beside those of the cases.
    """

    name: str
    text: str
    inputs: tuple[str, ...]
    outputs: tuple[OutputDecl, ...]
    attrs: Mapping[str, AttrValue]
    reference: str
    symbol: str
    framework: str
    cases: tuple[Case, ...]
    tolerance: Mapping[str, Tolerance]
    digest: str
    tags: tuple[str, ...] = ()
    folder: Path | None = None
    origin: Origin | None = None
    native: str = ""
    reduction: tuple[str, tuple[int, ...]] | None = None
    fixed_shapes: bool = False


# --- candidates and what becomes of them ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """Kernel source. Same text, same id (sha256 hex of its UTF-8 bytes); never edited."""

    id: str
    source: str

    @classmethod
    def of(cls, source: str) -> Candidate:
        """Return the candidate of a source text."""
        return cls(hashlib.sha256(source.encode("utf-8")).hexdigest(), source)


class Stage(str, Enum):
    """How far an attempt came, in order."""

    PROPOSE = "propose"
    COMPILE = "compile"
    RUN = "run"
    VERIFY = "verify"
    PROFILE = "profile"


class Verdict(str, Enum):
    """failed: stopped somewhere. screened: right on the small cases only. verified: right on all cases, in full."""

    FAILED = "failed"
    SCREENED = "screened"
    VERIFIED = "verified"


class TimeKind(str, Enum):
    """Where a time comes from. The two are never compared."""

    MODELLED = "modelled"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a candidate. kind is a stable slug ("ub-overflow", "missing-sync", "compile-error", "timeout",
    "wrong-value", ...); severity is error, warning or note; remedy says what to do; 0 means "no line known"."""

    kind: str
    message: str
    severity: str = "error"
    remedy: str = ""
    file: str = ""
    line: int = 0
    case_id: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one case showed.

    passed: None when its values were not compared (timing-only), or the case is disputed: its own reference misses the
        tolerance in the precision of the kernel.
    duration_us: one value per repeat, warm-up excluded; () when not timed.
    bound_us: the hardware bound for this case on this target (launch cost included), None when unknown.
    counters: under the profiler's own column names, e.g. "aiv_vec_time(us)".
    error: largest violation as a multiple of the tolerance (<= 1 passes), None when not compared.
    official: what the rule of the suite it comes from says, for comparison with published figures only; None: no such
        rule, or not compared.
    """

    case_id: str
    passed: bool | None = None
    duration_us: tuple[float, ...] = ()
    bound_us: float | None = None
    error: float | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    official: bool | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one candidate. Failure is data.

    stage: the last stage entered. log: the tools' own text, head and tail, never reworded.
    steps: every program started: argv, exit status, wall seconds.
    evidence: hashes and versions that make the verdict checkable.
    """

    stage: Stage
    verdict: Verdict
    diagnostics: tuple[Diagnostic, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    time_kind: TimeKind = TimeKind.MODELLED
    log: str = ""
    wall_s: float = 0.0
    steps: tuple[Mapping[str, Any], ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the candidate got as far as it was asked to."""
        return self.verdict is not Verdict.FAILED

    @property
    def times_us(self) -> dict[str, float]:
        """Median time per timed case."""
        from statistics import median

        return {case.case_id: median(case.duration_us) for case in self.cases if case.duration_us}

    @property
    def passed_count(self) -> int:
        """Number of cases compared and right."""
        return sum(case.passed is True for case in self.cases)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a time or a verdict depends on besides the candidate. Times under different `hardware` are never compared.

    target: "twin", "ascend". hardware: chip and parameter set, e.g. "twin:910b2:1". toolchain: compiler and driver
    versions. evaluator: version of the rules of judgement.
    """

    target: str
    hardware: str
    toolchain: str
    evaluator: str


# --- one step of the loop -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a proposer wants to try.

    move: the stable name of what was changed ("draft", "double-buffer", "edit"...); thought: why, in words.
    parent_id: the attempt it starts from, None for a root. used: experiences that were in its context.
    traits: structure words of the operator, for transfer between tasks.
    source: None when the proposer had nothing usable; `reason` then says why (an outcome at stage propose).
    reply: the text it came in, word for word, "" when there was none.
    calls: one JSON-able record for every request sent or program run, failed ones too; kept with the attempt.
    """

    source: str | None
    move: str
    thought: str = ""
    parent_id: str | None = None
    plan: Plan = field(default_factory=dict)
    used: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    tokens: int = 0
    reason: str = ""
    reply: str = ""
    calls: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate tried on one task in one session.

    speedup: geometric mean over cases of baseline time / this time; 0.0 when it failed, None when nothing was timed.
    step_ratio: speedup / parent's speedup; 1.0 for a root that works, 0.0 for a failure.
    promoted: it became the incumbent. repeated: outcome taken from an earlier run of the same candidate.
    """

    id: str
    session_id: str
    iteration: int
    task_name: str
    task_digest: str
    candidate: Candidate | None
    proposal: Proposal
    outcome: Outcome
    fingerprint: Fingerprint
    proposer: str
    speedup: float | None = None
    step_ratio: float = 0.0
    promoted: bool = False
    repeated: bool = False
    created_at: str = ""
    prompt_id: str | None = None


# --- memory ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Experience:
    """A node of the graph.

    kind: "attempt", "digest" or "fact". label: effective | partial | ineffective | negative | "" (nothing timed).
    works: verified right. confidence in [0, 1]. downstream: d(v) of the method, bounded form by default.
    hardware: where its times are evidence of speed. attempt_id: the evidence, None for digests and facts.
    A digest: evidence is the attempts it was distilled from, before and after the code that was changed.
    standing: own, trusted or quarantined (taken over, and nothing of it was measured here yet).
    origin: the label of the file it was taken over from, "" for what was tried here.
    """

    id: str
    kind: str
    task_name: str
    title: str
    text: str
    move: str
    traits: tuple[str, ...]
    stage: Stage
    works: bool
    label: str
    speedup: float | None
    step_ratio: float
    downstream: float
    confidence: float
    hardware: str
    bottleneck: str
    attempt_id: str | None
    created_at: str
    origin: str = ""
    standing: str = "own"
    before: str = ""
    after: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed link src -> dst. kind is a verb: "led_to" (lineage, parent to child), "used", "contrasts" (same start,
    ended worse than dst), "distilled_from" (digest to attempt), "contradicts", "rewound" (parent to child, found by taking
    the move back). text: for led_to the move: what was changed and why."""

    id: str
    src: str
    dst: str
    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class MoveEvidence:
    """A lineage edge read as evidence about a move, with the state it was made in.

    works: the child was not refused. step_ratio: child / parent speed, 0.0 on failure. downstream: what came of it.
    fast: whether its times count as speed here (same hardware). bottleneck: of the parent ("mte2", "vector", ...).
    value: learned from attempts that used it: above 1 they went better than those without it, below 1 worse, 0 when
    retired; 1 while nothing is known.
    """

    experience_id: str
    parent_experience_id: str | None
    task_name: str
    traits: tuple[str, ...]
    move: str
    parent_plan: Plan
    plan: Plan
    works: bool
    fast: bool
    step_ratio: float
    speedup: float | None
    downstream: float
    bottleneck: str
    promoted: bool
    value: float = 1.0


@dataclass(frozen=True, slots=True)
class Recalled:
    """An experience, its score, and the one-line reason it was chosen.

    propensity: the chance with which it was chosen, 1 without exploration.
    """

    experience: Experience
    score: float
    reason: str
    propensity: float = 1.0


@dataclass(frozen=True, slots=True)
class Recall:
    """What memory answers: items best first, edges between them and their lineage neighbours, and evidence on moves.

    degraded: why recall worked with less than everything ("no embedder"), "" otherwise.
    """

    items: tuple[Recalled, ...] = ()
    neighbours: tuple[Experience, ...] = ()
    edges: tuple[Edge, ...] = ()
    moves: tuple[MoveEvidence, ...] = ()
    degraded: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of documentation. source: the document it is from; heading: where in it; text: Markdown."""

    id: str
    source: str
    heading: str
    text: str
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class State:
    """Everything a proposer may decide on: state `s` of the method plus what was recalled for it.

    history: this session's attempts on this task, oldest first. baseline: the first verified attempt.
    prompt: the assembled context, None for proposers that read the state itself.
    """

    task: Task
    fingerprint: Fingerprint
    seed: int
    iteration: int
    incumbent: Attempt | None
    baseline: Attempt | None
    last: Attempt | None
    history: tuple[Attempt, ...]
    recall: Recall
    prompt: str | None = None


# --- protocols ------------------------------------------------------------------------------------------------------


class Proposer(Protocol):
    """Writes the next candidate. Same state, same seed, same answer (search, replay)."""

    name: str

    def propose(self, state: State) -> Proposal:
        """Return the next proposal. Raises ProposerError when its own machinery fails."""


class Converged(Exception):
    """A proposer has nothing left to try. Control flow for the loop, not an error."""


class TokensSpent(Converged):
    """A proposer makes no further call because it could go over the token limit, calls in flight counted."""


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A tensor in a raw little-endian file, C order, no header. path None: omitted optional input."""

    spec: TensorSpec
    path: Path | None


@dataclass(frozen=True, slots=True)
class LaunchCase:
    """One call of the candidate's entry: inputs to read, outputs to write, attributes."""

    case_id: str
    inputs: tuple[TensorFile | None, ...]
    outputs: tuple[TensorFile, ...]
    attrs: Mapping[str, AttrValue]


RunMode = Literal["verify", "time"]
"""verify: data is computed, outputs written, defects looked for. time: control flow and pipe timelines only."""


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled candidate: the executable, or the diagnostics why there is none."""

    executable: Path | None
    diagnostics: tuple[Diagnostic, ...]
    log: str
    steps: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class CaseRun:
    """What one case did on the target. ok: the entry returned, no error diagnostic.

    control_flow: a hash of the path taken by device and host code; equal for two runs that branched alike.
    """

    case_id: str
    ok: bool
    diagnostics: tuple[Diagnostic, ...] = ()
    duration_us: tuple[float, ...] = ()
    bound_us: float | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    control_flow: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """All cases asked for, in order, up to the first that stopped the program."""

    cases: tuple[CaseRun, ...]
    log: str
    steps: tuple[Mapping[str, Any], ...] = ()


class Target(Protocol):
    """A toolchain and its hardware. Every program it starts is sandboxed and bounded."""

    name: str

    @property
    def time_kind(self) -> TimeKind:
        """Return where its times come from."""

    def fingerprint(self) -> Fingerprint:
        """Return what times and verdicts depend on. Raises ToolMissing when the toolchain is not there."""

    def build(self, candidate: Candidate, workdir: Path) -> Built:
        """Compile. A compiler error is data in `Built`."""

    def run(
        self, built: Built, cases: Sequence[LaunchCase], mode: RunMode, workdir: Path, *, time_limit_s: float
    ) -> Ran:
        """Run cases. Crash, hang, limit and defect are data in `Ran`."""

    def bound_us(self, case: LaunchCase) -> float | None:
        """Return the hardware bound: launch cost + bytes of inputs and outputs / peak bandwidth. None when unknown."""


class Evaluator(Protocol):
    """Judges candidates. Reference and comparison stay on this side of the process boundary."""

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        workdir: Path,
        *,
        promote: Callable[[Mapping[str, float]], bool],
    ) -> Outcome:
        """Compile, run three small cases, time all cases, then verify all in full when `promote(times_us)` says so."""


class Embedder(Protocol):
    """Texts to unit vectors. `name` identifies weights, pooling and dtype; vectors of two names never meet."""

    name: str
    dim: int

    def embed(self, texts: Sequence[str]) -> Any:
        """Return a float32 array of shape (len(texts), dim), rows of unit length."""
