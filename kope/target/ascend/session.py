"""One process of a candidate's executable: the launch description it reads, what it answered, what stopped it.

Whether it is run again, on which card, and who is blamed is decided in `runner`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kope import sandbox
from kope.errors import ToolError
from kope.model import CaseRun, Diagnostic, LaunchCase, RunMode, TensorFile
from kope.target.ascend import faults
from kope.target.ascend.faults import Fault
from kope.target.twin.launch import Answer, describe, read_answers
from kope.target.twin.runner import death

HARNESS_REFUSED, NO_DEVICE, DEVICE_ERROR = 64, 65, 66
"""Exit states of the host program: it cannot use what it was given; there is no device; a kernel failed on it."""

_LOG_BYTES = 1 << 16

Call = tuple[int, int]
"""Start and end of one call, microseconds of Unix time."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What stopped a process, and the case it was in; index is into the cases of that process."""

    index: int
    fault: Fault
    found: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """What one process showed: a run per case that ended, the calls of each, and what stopped it, None for nothing.

    started: whether the host program said anything at all.
    """

    done: sandbox.Finished
    runs: tuple[CaseRun, ...]
    calls: Mapping[str, tuple[Call, ...]] = field(default_factory=dict)
    trouble: Trouble | None = None
    started: bool = True


Start = Callable[[Sequence[str], Path], sandbox.Finished]
"""Starts the executable with these arguments in a folder, alone or under a profiler."""


def run(
    start: Start,
    cases: Sequence[LaunchCase],
    mode: RunMode,
    folder: Path,
    parameters: Mapping[str, float],
    *,
    limit_s: float,
    place: Callable[[Path], Path],
) -> Session:
    """Run cases in one process. place: what a file is called where it runs.

    Raises ToolError when the host program cannot use its files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    nonce = secrets.token_hex(16)
    there = [_placed(case, place) for case in cases]
    text = describe(list(enumerate(there)), mode=mode, nonce=nonce, parameters=parameters)
    (folder / "launch.txt").write_text(text, "utf-8")
    answers_file = folder / "answers.jsonl"
    answers_file.write_bytes(b"")
    done = start(["launch.txt", "answers.jsonl"], folder)
    return _read(done, answers_file.read_bytes(), nonce, cases, limit_s, runtime_log(folder))


def runtime_log(folder: Path) -> str:
    """Return the end of what the runtime wrote into its own log files; what a candidate prints is not among it."""
    texts = []
    for path in sorted(folder.rglob("plog*.log")):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            texts.append(file.read().decode("utf-8", "replace"))
    return "\n".join(texts)


def _placed(case: LaunchCase, place: Callable[[Path], Path]) -> LaunchCase:
    """Return a case with its files as they are called where it runs."""

    def moved(tensor: TensorFile) -> TensorFile:
        return tensor if tensor.path is None else replace(tensor, path=place(tensor.path))

    inputs = tuple(None if tensor is None else moved(tensor) for tensor in case.inputs)
    return replace(case, inputs=inputs, outputs=tuple(map(moved, case.outputs)))


def _read(
    done: sandbox.Finished, data: bytes, nonce: str, cases: Sequence[LaunchCase], limit_s: float, log: str
) -> Session:
    _check_harness(done)
    answers = read_answers(data, nonce, [-1, *range(len(cases))])
    runs: list[CaseRun] = []
    calls: dict[str, tuple[Call, ...]] = {}
    for number, case in enumerate(cases):
        answer = answers[number]
        fault = _fault(answer, log)
        if answer.state != "ended" or fault is not None:
            fault = fault or _fault(answers[-1], log) or _died(done, answer, limit_s)
            started = any(one.state != "not-run" for one in answers.values())
            trouble = Trouble(number, fault, _findings(answer, case.case_id))
            return Session(done, tuple(runs), calls, trouble, started)
        found = _findings(answer, case.case_id)
        runs.append(CaseRun(case.case_id, not any(one.severity == "error" for one in found), found))
        calls[case.case_id] = tuple((int(start), int(end)) for start, end in answer.fields.get("calls", ()))
    return Session(done, tuple(runs), calls)


def _check_harness(done: sandbox.Finished) -> None:
    marker = "kope-harness: "
    if done.returncode == HARNESS_REFUSED and marker in done.stderr:
        problem = done.stderr.rsplit(marker, 1)[1].splitlines()[0]
        raise ToolError(f"the host program cannot start: {problem}; check the run folder and its free space", done.argv)


def _fault(answer: Answer, log: str) -> Fault | None:
    """Return the device error that a case, or the opening of the device, ended with."""
    code = int(answer.fields.get("code", 0))
    return faults.classify(code, f"{answer.fields.get('text', '')}\n{log}") if code else None


def _died(done: sandbox.Finished, answer: Answer, limit_s: float) -> Fault:
    """Explain a process that ended without a word on its case."""
    found = death(
        done.returncode,
        done.stopped,
        limit_s=limit_s,
        memory_bytes=max(done.peak_memory_bytes, 1 << 20),
        begun=answer.state == "begun",
    )
    return Fault(found.kind, "hang" if done.stopped in ("timeout", "cpu") else "kernel", found.message)


def _findings(answer: Answer, case_id: str) -> tuple[Diagnostic, ...]:
    """Return what the host program found by itself: guards, sentinels, a refusal of the entry."""
    return tuple(
        Diagnostic(str(found["kind"]), str(found["message"]), remedy=str(found["remedy"]), case_id=case_id)
        for found in answer.fields.get("findings", ())
    )
