"""An operator to write: task, cases, tensors, tolerances, and where an imported one comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AttrValue = bool | int | float | str | tuple[int | float, ...]


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
    native: symbol of a second reference that computes in the precision kernels have, "" for the same one; it flags
        cases, candidates are never judged by it.
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
