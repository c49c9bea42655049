"""What judging costs: comparing an output, per element; and what an evaluation takes besides the programs it runs.

    scripts/bench judging [--elements N] [--tasks NAME,NAME]

The first table compares files on disk, as verification does, with a right output and with one that is wrong everywhere.
The second judges the first kernel derived for shipped tasks twice, first with empty caches (but for the build). It
counts processor seconds, which other work on the machine does not change much; those of references and kernels hold
what confining them costs.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kope import config
from kope.derive import first_kernel
from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.evaluate.compare import compare_output
from kope.evaluate.dtypes import file_dtype, want_dtype
from kope.model import Candidate, Outcome, Task, TensorSpec, Verdict
from kope.target.twin.target import TwinTarget
from kope.task import find_task, shipped_folder
from kope.task.native import DEFAULT_TOLERANCE

TASKS = ("exp", "add", "softmax", "rms_norm", "dynamic_quant")
REPEATS = 5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=1 << 24, help="of the outputs compared")
    parser.add_argument("--tasks", default=",".join(TASKS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        _comparison(Path(name), arguments.elements)
        print()
        _evaluation(Path(name), arguments.tasks.split(","))


def _comparison(folder: Path, elements: int) -> None:
    print(f"comparing {elements} elements  processor ns per element   bytes of memory per element")
    for dtype in ("float32", "float16", "bfloat16", "int8"):
        want = np.random.default_rng(0).uniform(-100, 100, elements).astype(want_dtype(dtype))
        want.tofile(folder / "want")
        for words, got in (("right", want), ("wrong everywhere", want + 9)):
            got.astype(file_dtype(dtype)).tofile(folder / "got")
            spec = TensorSpec("y", (elements,), dtype)
            best, peak = 1e9, 0
            for traced in (*[False] * REPEATS, True):
                if traced:
                    tracemalloc.start()
                began = time.process_time()
                compare_output(folder / "got", folder / "want", spec, DEFAULT_TOLERANCE[dtype])
                seconds = time.process_time() - began
                if traced:
                    peak = tracemalloc.get_traced_memory()[1]
                    tracemalloc.stop()
                else:
                    best = min(best, seconds)
            print(f"  {dtype:<10}{words:<24}{best / elements * 1e9:8.2f}{peak / elements:16.2f}")


def _evaluation(folder: Path, names: list[str]) -> None:
    settings = config.load()
    target = TwinTarget(settings.cache / "twin", jobs=1)
    print("processor seconds of one verdict    reference + kernel  evaluator  share   second time: kernel  evaluator")
    for name in names:
        task = find_task(name, (shipped_folder(),))
        candidate = Candidate.of(first_kernel(task)[2])
        target.build(candidate, folder / "build")
        evaluator = TaskEvaluator(target, CaseLibrary(folder / f"cases-{name}", ReferenceRunner()))

        def judge(evaluator: TaskEvaluator = evaluator, task: Task = task, one: Candidate = candidate) -> Outcome:
            return evaluator.evaluate(task, one, folder / "work", promote=lambda times_us: True)

        programs, own = _spent(judge)
        programs_again, own_again = _spent(judge)
        print(f"  {name:<34}{programs:18.2f}{own:11.2f}{own / programs:7.0%}{programs_again:22.2f}{own_again:11.2f}")


def _spent(work: Callable[[], Outcome]) -> tuple[float, float]:
    """Return processor seconds of the programs that were started, and of this process."""

    def children() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    programs, own = children(), time.process_time()
    assert work().verdict is Verdict.VERIFIED
    return children() - programs, time.process_time() - own


if __name__ == "__main__":
    main()
