"""The nouns of KOPE and the protocols its parts meet through. Standard library only, no I/O.

Dtypes are NumPy names: float32, float16, bfloat16, int8, uint8, int16, int32, int64, bool. Shapes are elements per
axis, outermost first. Times are device microseconds and always carry where they come from (`TimeKind`).
"""

from kope.model.attempt import Attempt, Plan, Proposal
from kope.model.experience import Edge, Embedder, Experience, MoveEvidence, Passage, Recall, Recalled
from kope.model.outcome import Candidate, CaseResult, Diagnostic, Fingerprint, Outcome, Stage, TimeKind, Verdict
from kope.model.state import Converged, CostSpent, Proposer, SeveralProposer, State, TimeSpent, TokensSpent
from kope.model.target import Built, CaseRun, Evaluator, LaunchCase, Ran, RunMode, Target, TensorFile
from kope.model.task import (
    Anchor,
    AttrValue,
    Case,
    CaseInput,
    Origin,
    OutputDecl,
    Parameter,
    Task,
    TensorSpec,
    Tolerance,
    Values,
)

__all__ = [
    "Anchor",
    "Attempt",
    "AttrValue",
    "Built",
    "Candidate",
    "Case",
    "CaseInput",
    "CaseResult",
    "CaseRun",
    "Converged",
    "CostSpent",
    "Diagnostic",
    "Edge",
    "Embedder",
    "Evaluator",
    "Experience",
    "Fingerprint",
    "LaunchCase",
    "MoveEvidence",
    "Origin",
    "Outcome",
    "OutputDecl",
    "Parameter",
    "Passage",
    "Plan",
    "Proposal",
    "Proposer",
    "Ran",
    "Recall",
    "Recalled",
    "RunMode",
    "SeveralProposer",
    "Stage",
    "State",
    "Target",
    "Task",
    "TensorFile",
    "TensorSpec",
    "TimeKind",
    "TimeSpent",
    "TokensSpent",
    "Tolerance",
    "Values",
    "Verdict",
]
