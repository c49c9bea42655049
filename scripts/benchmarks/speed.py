"""What the twin costs: compiling a kernel, finding it in the cache, running it on 1 M and 16 M elements.

    scripts/bench speed [--repeats 5] [--task add]

Kernels are derived for shipped tasks; every compilation is of a source nobody has compiled. Runs are in verify mode:
data is computed, and with checks every access is looked at; one process, as a case is run by one. Processor seconds are
of all programs started, compiler or kernel, with what confining them costs; other work on the machine changes them
little, but it does change them.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kope import config, sandbox
from kope.derive import Schedule, capture_graph, emit
from kope.derive.budget import fits
from kope.model import Built, Candidate, LaunchCase, Task, TensorFile, TensorSpec
from kope.target.twin import TwinTarget, runner
from kope.target.twin.target import DEVICE_TIME_LIMIT_US
from kope.task import find_task, shipped_folder

COMPILED = ("add", "exp", "softmax")


PEAKS: list[int] = []
"""Bytes of memory of the programs that were confined, as the sandbox saw them."""


def watched(*argv: Any, **how: Any) -> sandbox.Finished:
    """Run a program in the sandbox and keep what memory it took."""
    done = confined(*argv, **how)
    PEAKS.append(done.peak_memory_bytes)
    return done


confined, sandbox.run = sandbox.run, watched


@dataclass
class Seconds:
    """Samples of one thing: by the clock, and of processors."""

    wall_s: list[float] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)

    @contextmanager
    def sample(self) -> Iterator[None]:
        """Time what is done inside."""
        began, used = time.perf_counter(), processor_s()
        yield
        self.wall_s.append(time.perf_counter() - began)
        self.processor_s.append(processor_s() - used)

    def __str__(self) -> str:
        parts = [
            f"{name} min {min(values) * 1e3:8.1f} median {median(values) * 1e3:8.1f} ms"
            for name, values in (("processor", self.processor_s), ("clock", self.wall_s))
        ]
        return "   ".join(parts)


def processor_s() -> float:
    """Processor seconds of this process and all that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--task", default="add", help="elementwise, for the runs")
    asked = parser.parse_args()
    target = TwinTarget(config.load({}).cache / "twin", jobs=1)
    target.prepare()
    with tempfile.TemporaryDirectory() as name:
        for task_name in COMPILED:
            compilation(target, load(task_name), Path(name), asked.repeats)
        running(target, load(asked.task), Path(name), asked.repeats)


def load(name: str) -> Task:
    """Return a shipped task."""
    return find_task(name, (shipped_folder(),))


def kernel(task: Task) -> str:
    """Return a kernel for a task: two buffers, the longest tile up to 4096 that fits."""
    graph = capture_graph(task)
    schedule = Schedule(tile=4096, buffers=2)
    while not fits(task, graph, schedule):
        schedule = schedule.with_(tile=schedule.tile // 2)
    return emit(task, graph, schedule)


def compilation(target: TwinTarget, task: Task, folder: Path, repeats: int) -> None:
    """Print what a fresh source takes to build, and the same one again."""
    text, fresh, again = kernel(task), Seconds(), Seconds()
    for number in range(repeats):
        candidate = Candidate.of(f"{text}// {time.time_ns()}\n")
        with fresh.sample():
            made(target, candidate, folder / f"{task.name}-{number}")
        with again.sample():
            made(target, candidate, folder / f"{task.name}-{number}-again")
    print(f"compile {task.name:<10} {fresh}")
    print(f"from the cache     {again}")


def made(target: TwinTarget, candidate: Candidate, folder: Path) -> Built:
    """Build a candidate that must build."""
    built = target.build(candidate, folder)
    assert built.executable is not None, built.log
    return built


def running(target: TwinTarget, task: Task, folder: Path, repeats: int) -> None:
    """Print what running a kernel takes, by size and by what is looked at, and the memory it needs."""
    built = made(target, Candidate.of(kernel(task)), folder / "run")
    for count in (1 << 20, 1 << 24):
        case = case_of(task, count, folder)
        for checks in ("normal", "off"):
            taken, peak = Seconds(), 0
            for _ in range(repeats):
                with taken.sample():
                    peak = max(peak, run(target, built, case, folder / "work", checks))
            tensors = 4 * count * (len(case.inputs) + len(case.outputs))
            words = f"{task.name} float32, {count >> 20:>2} M elements, checks {checks:<6}"
            print(f"{words} {taken}   peak {peak >> 20} MiB, tensors {tensors >> 20} MiB")


def case_of(task: Task, count: int, folder: Path) -> LaunchCase:
    """Return a case of so many float32 elements."""

    def tensor(name: str, write: Callable[[Path], object]) -> TensorFile:
        path = folder / f"{name}-{count}.bin"
        write(path)
        return TensorFile(TensorSpec(name, (count,), "float32"), path)

    values = np.random.default_rng(1).uniform(-1, 1, count).astype(np.float32)
    inputs = tuple(tensor(name, values.tofile) for name in task.inputs)
    outputs = tuple(tensor(output.name, lambda path: None) for output in task.outputs)
    return LaunchCase(str(count), inputs, outputs, task.attrs)


def run(target: TwinTarget, built: Built, case: LaunchCase, folder: Path, checks: str) -> int:
    """Run a case once and return the most memory the process had, in bytes."""
    assert built.executable is not None
    PEAKS.clear()
    reports = runner.run_cases(
        built.executable,
        [case],
        "verify",
        folder,
        parameters={**target.parameters.values, "device_time_limit_us": DEVICE_TIME_LIMIT_US},
        limits=target.limits,
        time_limit_s=60.0,
        words={"checks": checks},
    )
    answer = reports.cases[0].answer
    assert answer.state == "ended" and not answer.fields["findings"], answer.fields
    return max(PEAKS)


if __name__ == "__main__":
    main()
