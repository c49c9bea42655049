"""Runs built candidates on the twin: cases spread over processes, each death told apart and explained.

The harness finds defects; here only what killed or stopped a process is judged. Output values are compared by others.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kope import sandbox
from kope.errors import MachineError, ToolError
from kope.model import Diagnostic, LaunchCase, RunMode
from kope.target.twin.launch import Answer, case_bytes, describe, read_answers

Numbered = tuple[int, LaunchCase]
_CASE_COST_BYTES = 1 << 20
"""What a case costs besides its data when work is spread, expressed in bytes."""
_MAX_RESTARTS = 32
_ADDRESS_ROOM_BYTES = 8 << 30
"""Address space beyond memory: files of tensors are mapped, libraries reserve."""
_HARNESS_REFUSED, _DIED_UNTOLD, _ANSWER_LOST = 64, 70, 71
"""Exit states of the harness: it cannot use what it was given; a fault after which nothing more was possible; it cannot
write what it found."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one process may use."""

    memory_bytes: int = 2 << 30
    jobs: int = 2


@dataclass(slots=True)
class CaseReport:
    """What is known about one case after its process ended."""

    answer: Answer
    death: Diagnostic | None = None


@dataclass(frozen=True, slots=True)
class Reports:
    """All cases by number, the candidate's own output, and the programs that ran."""

    cases: Mapping[int, CaseReport]
    log: str
    steps: tuple[Mapping[str, Any], ...]


def spread(cases: Sequence[Numbered], groups: int) -> list[list[Numbered]]:
    """Split cases into at most `groups` lists of about equal work, each in the original order."""
    lists: list[list[Numbered]] = [[] for _ in range(max(1, min(groups, len(cases))))]
    loads = [0] * len(lists)
    for numbered in sorted(cases, key=lambda item: -case_bytes(item[1])):
        lightest = loads.index(min(loads))
        lists[lightest].append(numbered)
        loads[lightest] += case_bytes(numbered[1]) + _CASE_COST_BYTES
    return [sorted(group, key=lambda item: item[0]) for group in lists if group]


def run_cases(
    executable: Path,
    cases: Sequence[LaunchCase],
    mode: RunMode,
    workdir: Path,
    *,
    parameters: Mapping[str, float],
    limits: RunLimits,
    time_limit_s: float,
    words: Mapping[str, str] = {},
) -> Reports:
    """Run every case, a death stops its own case, a limit also those behind it.

    time_limit_s: processor time of all cases that share a process, and of the processes that follow it after a death.
    words: further statements of the launch description.
    """
    groups = spread(list(enumerate(cases)), limits.jobs)
    sessions = [
        _Session(executable, group, mode, workdir / f"run-{index}", parameters, limits, time_limit_s, words)
        for index, group in enumerate(groups)
    ]
    if len(sessions) == 1:
        sessions[0].run()
    elif sessions:
        with ThreadPoolExecutor(len(sessions)) as pool:
            for pending in [pool.submit(session.run) for session in sessions]:
                pending.result()
    reports = {number: report for session in sessions for number, report in session.reports.items()}
    log = "".join(session.log for session in sessions)
    return Reports(dict(sorted(reports.items())), log, tuple(step for session in sessions for step in session.steps))


class _Session:
    """One group of cases: one process, and a fresh one behind every case that killed it."""

    def __init__(
        self,
        executable: Path,
        group: list[Numbered],
        mode: RunMode,
        workdir: Path,
        parameters: Mapping[str, float],
        limits: RunLimits,
        time_limit_s: float,
        words: Mapping[str, str],
    ) -> None:
        self._executable = executable
        self._left = group
        self._mode = mode
        self._workdir = workdir
        self._parameters = parameters
        self._limits = limits
        self._limit_s = time_limit_s
        self._left_s = time_limit_s
        self._words = words
        self.reports = {number: CaseReport(Answer()) for number, _ in group}
        self.steps: list[Mapping[str, Any]] = []
        self.log = ""

    def run(self) -> None:
        for _ in range(_MAX_RESTARTS):
            if not self._left or not self._one_process():
                return

    def _one_process(self) -> bool:
        """Run what is left in a fresh process; return whether another one is worth starting."""
        nonce = secrets.token_hex(16)
        self._workdir.mkdir(parents=True, exist_ok=True)
        launch = self._workdir / "launch.txt"
        text = describe(self._left, mode=self._mode, nonce=nonce, parameters=self._parameters, words=self._words)
        launch.write_text(text, "utf-8")
        done, data = self._start(launch)
        answers = read_answers(data, nonce, [number for number, _ in self._left])
        for number, answer in answers.items():
            self.reports[number].answer = answer
        open_cases = [item for item in self._left if answers[item[0]].state != "ended"]
        if not open_cases:
            self._left = []
            return False
        culprit = open_cases[0][0]
        self.reports[culprit].death = self._explain(done, answers[culprit])
        self._left = open_cases[1:]
        self._left_s -= done.cpu_s
        return not done.stopped and self._left_s > 0.0

    def _start(self, launch: Path) -> tuple[sandbox.Finished, bytes]:
        answers = self._workdir / "answers.jsonl"
        handle = os.open(answers, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_APPEND, 0o600)
        try:
            done = sandbox.run(
                [str(self._executable), str(launch), str(handle)],
                workdir=self._workdir,
                limits=sandbox.Limits.of_work(
                    self._left_s,
                    memory_bytes=self._limits.memory_bytes,
                    address_bytes=self._limits.memory_bytes + _ADDRESS_ROOM_BYTES,
                    processes=8,
                    output_bytes=1 << 16,
                ),
                readable=[self._executable, *self._folders("inputs")],
                writable=self._folders("outputs"),
                pass_fds=(handle,),
                profile="candidate",
            )
            data = os.pread(handle, os.fstat(handle).st_size, 0)
        finally:
            os.close(handle)
        self.steps.append(done.step)
        self.log += done.output
        _check_harness(done)
        return done, data

    def _folders(self, role: Literal["inputs", "outputs"]) -> list[Path]:
        if self._mode == "time":
            return []
        tensors = [tensor for _, case in self._left for tensor in getattr(case, role)]
        return sorted({tensor.path.parent for tensor in tensors if tensor is not None and tensor.path is not None})

    def _explain(self, done: sandbox.Finished, answer: Answer) -> Diagnostic:
        return death(
            done.returncode,
            done.stopped,
            limit_s=self._limit_s,
            memory_bytes=self._limits.memory_bytes,
            begun=answer.state == "begun",
        )


def _check_harness(done: sandbox.Finished) -> None:
    """Tell a fault of KOPE or the machine from one of the candidate."""
    marker = "kope-harness: "
    if done.returncode == _HARNESS_REFUSED and marker in done.stderr:
        problem = done.stderr.rsplit(marker, 1)[1].splitlines()[0]
        raise ToolError(
            f"the twin's harness cannot start: {problem}; check the run folder and its free space", done.argv
        )
    if done.returncode == _ANSWER_LOST:
        raise MachineError("the twin cannot write its answers; free disk space and run again")


_SIGNALS = {
    signal.SIGSEGV: (
        "crash",
        "touched memory that is not its own",
        "look for host arrays that are too small or null pointers",
    ),
    signal.SIGBUS: ("crash", "touched memory that is not there", "look for host arrays that are too small"),
    signal.SIGFPE: ("crash", "divided an integer by zero", "guard the division; look at tiling for small shapes"),
    signal.SIGILL: ("crash", "ran into an illegal instruction", "look for a function that ends without return"),
    signal.SIGABRT: ("crash", "called abort", "look for a failed assertion or an exception nobody catches"),
    signal.SIGSYS: (
        "forbidden-call",
        "made a system call a candidate must not make",
        "leave files, network and processes alone",
    ),
    signal.SIGXCPU: ("timeout", "used up its processor time", "look for a loop whose end condition cannot come true"),
    signal.SIGXFSZ: ("output-flood", "wrote more than a candidate may", "remove prints from the kernel"),
}


def death(returncode: int, stopped: str, *, limit_s: float, memory_bytes: int, begun: bool) -> Diagnostic:
    """Explain why a process ended before its case did. limit_s: of its processor time."""
    place = "" if begun else " before the first case (a static initialiser?)"
    if stopped == "cpu":
        return Diagnostic(
            "timeout",
            f"the candidate did not end within {limit_s:.0f} s of processor time{place}",
            remedy="look for a loop without end, or for a wait on a flag or queue that nothing sets",
        )
    if stopped == "timeout":
        return Diagnostic(
            "timeout",
            f"the candidate did not end within {sandbox.PATIENCE * limit_s:.0f} s by the clock{place}",
            remedy="look for host code that waits for something; on a machine under heavy load run it again",
        )
    if stopped == "memory":
        return Diagnostic(
            "memory-limit",
            f"the candidate asked for more than {memory_bytes >> 20} MiB{place}",
            remedy="size host buffers and workspace from the shapes; the device data is not counted",
        )
    if stopped in ("output", "file-size", "disk"):
        return Diagnostic(
            "output-flood", f"the candidate wrote without end{place}", remedy="remove prints from the kernel"
        )
    if stopped == "processes":
        return Diagnostic("fork-attempt", f"the candidate started processes{place}", remedy="do all work in the kernel")
    if returncode == _DIED_UNTOLD:
        words = f"the candidate died and its end could not be recorded{place}"
        return Diagnostic("crash", words, remedy="check pointers and array bounds in scalar code")
    if returncode < 0:
        name, kind, what, remedy = _signal(-returncode)
        return Diagnostic(kind, f"the candidate {what}{place} ({name})", remedy=remedy)
    return Diagnostic(
        "crash",
        f"the process ended with status {returncode} before the case was done{place}",
        remedy="return from kope_entry instead of ending the process",
    )


def _signal(number: int) -> tuple[str, str, str, str]:
    """Return name, kind, words and remedy for a signal that ended the candidate."""
    try:
        known = signal.Signals(number)
    except ValueError:
        return (f"signal {number}", "crash", "was ended by a signal", "run it again; if it repeats, look at host code")
    return (known.name, *_SIGNALS.get(known, ("crash", "was ended by a signal", "look at host code around the launch")))
