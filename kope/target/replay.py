"""A target that answers from a table instead of compiling: the stand-in for a toolchain, and the tests' double.

A candidate is looked up by id; one that is not in the table is read for a marker line:

    // replay: time_us=12.5                     right, 12.5 us on every case
    // replay: time_us=12.5 wrong               launched, but every output byte is zero
    // replay: time_us=12.5 fail=compile-error  stops there; also run kinds such as ub-overflow, timeout, crash

What the right outputs are comes from a function the caller gives; nothing is judged here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kope.errors import ConfigError
from kope.model import (
    Built,
    Candidate,
    CaseRun,
    Diagnostic,
    Fingerprint,
    LaunchCase,
    Ran,
    RunMode,
    TimeKind,
)

Outputs = Callable[[LaunchCase], Sequence[bytes]]
"""The right content of each output file of a case, little-endian, C order."""

_MARKER = re.compile(r"^//\s*replay:\s*(?P<words>.*)$", re.MULTILINE)
_COMPILE_KINDS = ("compile-error", "link-error")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the target says about one candidate.

    time_us: for every case, or per case id. fail: "" or the kind of the diagnostic it stops with; compile-error and
    link-error stop the build, every other kind stops the run of each case. wrong: outputs are written as zeros.
    """

    time_us: float | Mapping[str, float] = 10.0
    fail: str = ""
    wrong: bool = False

    def case_us(self, case_id: str) -> float:
        """Return the time of one case in microseconds; one that is not in the table takes as long as the slowest."""
        if isinstance(self.time_us, float | int):
            return self.time_us
        return self.time_us.get(case_id, max(self.time_us.values()))


def read_marker(source: str) -> Answer | None:
    """Return the answer written in a source's marker line; None without one. Raises ConfigError when it is misspelt."""
    found = _MARKER.search(source)
    if found is None:
        return None
    answer = Answer()
    for word in found["words"].split():
        name, _, value = word.partition("=")
        if name == "time_us":
            answer = Answer(float(value), answer.fail, answer.wrong)
        elif name == "fail" and value:
            answer = Answer(answer.time_us, value, answer.wrong)
        elif word == "wrong":
            answer = Answer(answer.time_us, answer.fail, True)
        else:
            raise ConfigError(f"unknown word {word!r} in a replay marker; use time_us=, fail= or wrong")
    return answer


@dataclass(slots=True)
class ReplayTarget:
    """Deterministic answers, each after `delay_s` seconds of pretended work per step."""

    outputs: Outputs
    answers: Mapping[str, Answer] = field(default_factory=dict)
    delay_s: float = 0.0
    name: str = "replay"
    time_kind: TimeKind = TimeKind.MODELLED
    builds: int = 0

    def fingerprint(self) -> Fingerprint:
        """Return a fixed fingerprint: these times are evidence of nothing but themselves."""
        return Fingerprint(target=self.name, hardware="replay:table:1", toolchain="replay", evaluator="")

    def build(self, candidate: Candidate, workdir: Path) -> Built:
        """Look the candidate up. One without an answer is a compile error, as text no compiler knows would be."""
        self.builds += 1
        time.sleep(self.delay_s)
        answer = self._answer(candidate)
        if answer is None or answer.fail in _COMPILE_KINDS:
            kind = answer.fail if answer is not None else "compile-error"
            message = "no answer for this candidate" if answer is None else f"the table says {kind}"
            return Built(None, (_finding(kind, message),), f"replay: error: {message}\n")
        executable = workdir / "candidate.replay"
        executable.write_text(candidate.source, encoding="utf-8")
        return Built(executable, (), "")

    def run(
        self, built: Built, cases: Sequence[LaunchCase], mode: RunMode, workdir: Path, *, time_limit_s: float
    ) -> Ran:
        """Write the right outputs (or zeros) and give the table's times, up to the first case that fails."""
        assert built.executable is not None, "run needs a build that succeeded"
        time.sleep(self.delay_s)
        source = built.executable.read_text(encoding="utf-8")
        answer = self._answer(Candidate.of(source)) or Answer()
        runs: list[CaseRun] = []
        for case in cases:
            runs.append(self._run_case(answer, case, mode))
            if not runs[-1].ok:
                break
        return Ran(tuple(runs), "")

    def _run_case(self, answer: Answer, case: LaunchCase, mode: RunMode) -> CaseRun:
        if answer.fail:
            found = _finding(answer.fail, f"the table says {answer.fail}", case.case_id)
            return CaseRun(case.case_id, ok=False, diagnostics=(found,))
        if mode == "verify":
            for output, content in zip(case.outputs, self.outputs(case), strict=True):
                if output.path is not None:
                    output.path.write_bytes(bytes(len(content)) if answer.wrong else content)
        return CaseRun(
            case.case_id,
            ok=True,
            duration_us=(answer.case_us(case.case_id),),
            bound_us=self.bound_us(case),
            control_flow="replay",
        )

    def bound_us(self, case: LaunchCase) -> float | None:
        """Return one microsecond: a table has no bandwidth."""
        return 1.0

    def _answer(self, candidate: Candidate) -> Answer | None:
        return self.answers.get(candidate.id) or read_marker(candidate.source)


def _finding(kind: str, message: str, case_id: str = "") -> Diagnostic:
    return Diagnostic(kind=kind, message=message, case_id=case_id, remedy="look at the table the replay target reads")


def outputs_of(function: Callable[..., object], names: Sequence[str]) -> Outputs:
    """Return `Outputs` that call `function(**inputs, **attrs)` on float64 inputs and round to each output's dtype.

    names: of the inputs, in the order of the case; an omitted optional input is passed as None.
    """

    def compute(case: LaunchCase) -> list[bytes]:
        import ml_dtypes
        import numpy as np

        def dtype_of(name: str) -> np.dtype[np.generic]:
            return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)

        inputs: dict[str, object] = {}
        for name, tensor in zip(names, case.inputs, strict=True):
            inputs[name] = None
            if tensor is not None and tensor.path is not None:
                array = np.fromfile(tensor.path, dtype=dtype_of(tensor.spec.dtype)).reshape(tensor.spec.shape)
                is_float = tensor.spec.dtype.endswith(("float32", "float16"))
                inputs[name] = array.astype(np.float64) if is_float else array
        result = function(**inputs, **case.attrs)
        arrays = result if isinstance(result, tuple) else (result,)
        return [
            np.asarray(array).astype(dtype_of(output.spec.dtype)).tobytes()
            for array, output in zip(arrays, case.outputs, strict=True)
        ]

    return compute
