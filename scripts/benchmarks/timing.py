"""How far are modelled times from times measured on a card? Fits what nobody has published, and says what is left.

    scripts/bench timing --corpus DIR [--chip 910b2:2] [--fit] [--cases]

DIR is a checkout of CANN Bench, whose metadata hold times of the vendor's library on a 910B2. Used are cases that were
measured (not those at the cap of ten times the ideal time or 10 us, which the file's own description names) and in
which the library ran a single kernel, as the note of the case says. STANDS_FOR names the kernel of ours that stands for
each operator: derived from the shipped task, with one schedule for all sizes. Operators are split before anything is
fitted: the five with the smallest sha256 of their name are held out. --fit searches the FITTED parameters on the others
and judges what it finds; without it the set as it is shipped is judged.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median

import yaml

from kope import config
from kope.derive import Schedule, capture_graph, emit
from kope.derive.budget import fits
from kope.model import Built, Candidate, Case, LaunchCase, Task, TensorFile, TensorSpec
from kope.target.twin import TwinTarget
from kope.task.imported import read_suite
from kope.task.lookup import find_task, shipped_folder

HELD_OUT = 5
CAP = 10.0
"""Published times are cut off at this many ideal times, or microseconds; missing ones were filled in with it."""

FLAT = Schedule(tile=16384, buffers=2, copy="aligned", reuse=True)
ROWS = FLAT.with_(rows=128, columns="resident", reduction="strips", spread="block")


@dataclass(frozen=True)
class Stand:
    """A kernel of ours for one of the library's. why: where the two are known to differ."""

    task: str
    schedule: Schedule
    why: str = "the same operator"


STANDS_FOR = {
    "apply_adam_w": Stand("apply_adam_w", FLAT),
    "dynamic_quant": Stand("dynamic_quant", ROWS),
    "exp": Stand("exp", FLAT, "the library's fused kernel also scales and shifts"),
    "gelu": Stand("gelu", FLAT),
    "maximum": Stand("add", FLAT, "one instruction of the same throughput; equal shapes only"),
    "mish": Stand("mish", FLAT),
    "rms_norm": Stand("rms_norm", ROWS),
    "sigmoid": Stand("sigmoid", FLAT),
    "softmax": Stand("softmax", ROWS, "last axis only"),
    "swi_glu": Stand("swi_glu", FLAT, "last axis only"),
}

FITTED: Mapping[str, tuple[float, ...]] = {
    "launch_us": (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0),
    "gm_bandwidth_gbps": (1100.0, 1200.0, 1300.0, 1400.0, 1500.0, 1600.0, 1750.0),
    "l2_write_back_bytes": (0.0, 16e6, 32e6, 48e6, 64e6, 96e6, 128e6),
    "vector_head_cycles": (4.0, 8.0, 16.0, 24.0, 32.0, 48.0),
}
"""What is searched, by coordinates over these values. Published numbers are kept, except the bandwidth of device
memory, of which the vendor prints the peak and measured kernels reach less."""


@dataclass(frozen=True)
class Measured:
    """A case of the suite, with the time it took on the card."""

    operator: str
    case: Case
    measured_us: float


def main() -> None:
    """Read, split, fit when asked, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--chip", default="910b2:2")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--cases", action="store_true", help="print every case")
    asked = parser.parse_args()
    target = TwinTarget(config.load({}).cache / "twin", chip=asked.chip, jobs=1)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(target, Path(name), read_cases(asked.corpus))
        held_out = set(sorted(bench.cases, key=lambda name: hashlib.sha256(name.encode()).hexdigest())[:HELD_OUT])
        fitting = sorted(set(bench.cases) - held_out)
        if asked.fit:
            search(bench, fitting)
        print(f"parameter set {target.parameters.label}, fitted on {', '.join(fitting)}")
        for title, names in (("fitted on", fitting), ("held out", sorted(held_out))):
            report(title, bench.run(names), asked.cases)


def read_cases(corpus: Path) -> dict[str, list[Measured]]:
    """Return, by operator, the cases that are comparable. Raises KeyError when the corpus lacks an operator."""
    tasks = {task.folder.name: task for task in read_suite(corpus)[1] if task.folder is not None}
    return {name: usable(name, tasks[name]) for name in STANDS_FOR}


def usable(name: str, task: Task) -> list[Measured]:
    """Return the measured single-kernel cases of an operator that the kernel of ours takes."""
    assert task.origin is not None and task.folder is not None
    notes = {
        str(entry["case_id"]): str(entry.get("note", ""))
        for entry in yaml.safe_load((task.folder / "cases.yaml").read_text("utf-8"))["cases"]
    }
    own = find_task(STANDS_FOR[name].task, (shipped_folder(),))
    dtypes = {item.spec.dtype for case in own.cases for item in case.inputs if item is not None}
    found = []
    for case in task.cases:
        anchor = task.origin.anchors["910b2"][case.id]
        shapes = {item.spec.shape for item in case.inputs if item is not None}
        if (
            measured(anchor.baseline_us, anchor.limit_us)
            and re.search(r"baseline_kernels: \w+×1$", notes[case.id])
            and {item.spec.dtype for item in case.inputs if item is not None} <= dtypes
            and case.attrs.get("dim", -1) in (-1, len(case.inputs[0].spec.shape) - 1)
            and (len(shapes) == 1 or name == "rms_norm")
        ):
            found.append(Measured(name, case, float(anchor.baseline_us or 0.0)))
    return found


def measured(baseline_us: float | None, limit_us: float | None) -> bool:
    """Whether a published time is a measurement, and neither the cap nor a stand-in for one that is missing."""
    return bool(baseline_us and limit_us and baseline_us != CAP and abs(baseline_us / limit_us - CAP) > 0.06)


class Bench:
    """Kernels, built once, and the times the model gives them."""

    def __init__(self, target: TwinTarget, folder: Path, cases: dict[str, list[Measured]]) -> None:
        self.target, self.folder, self.cases = target, folder, cases
        self.built = {name: self.build(name) for name in cases}

    def build(self, name: str) -> tuple[Task, Built]:
        stand = STANDS_FOR[name]
        task = find_task(stand.task, (shipped_folder(),))
        graph, schedule = capture_graph(task), stand.schedule
        while not fits(task, graph, schedule):
            schedule = schedule.with_(tile=schedule.tile // 2)
        work = self.folder / name
        work.mkdir()
        built = self.target.build(Candidate.of(emit(task, graph, schedule)), work)
        assert built.executable is not None, built.log
        return task, built

    def run(self, names: Sequence[str], values: Mapping[str, float] = {}) -> list[tuple[Measured, float]]:
        """Return every case of some operators with its modelled time."""
        shipped = self.target.parameters
        self.target.parameters = replace(shipped, values={**shipped.values, **values})
        try:
            return [pair for name in names for pair in self._times(name)]
        finally:
            self.target.parameters = shipped

    def _times(self, name: str) -> list[tuple[Measured, float]]:
        task, built = self.built[name]
        work = self.folder / name
        cases = [launch_case(task, one.case, work) for one in self.cases[name]]
        ran = self.target.run(built, cases, "time", work, time_limit_s=600.0)
        wrong = [run for run in ran.cases if not run.ok]
        assert not wrong, wrong[0].diagnostics
        return [(one, run.duration_us[0]) for one, run in zip(self.cases[name], ran.cases, strict=True)]


def launch_case(task: Task, case: Case, folder: Path) -> LaunchCase:
    """Return a case of the suite as a call of our kernel, with files of the right size and nothing in them."""
    given = [item.spec for item in case.inputs if item is not None]
    specs = [TensorSpec(own, spec.shape, spec.dtype) for own, spec in zip(task.inputs, given, strict=True)]
    outputs = [TensorSpec(out.name, *shape_of(task, out.name, given[0])) for out in task.outputs]
    inputs = tuple(TensorFile(spec, empty_file(spec, folder)) for spec in specs)
    return LaunchCase(case.id, inputs, tuple(TensorFile(spec, folder / spec.name) for spec in outputs), task.attrs)


def shape_of(task: Task, output: str, first: TensorSpec) -> tuple[tuple[int, ...], str]:
    """Return shape and dtype of an output of one of the shipped tasks, by its first input."""
    declared = next(out.dtype for out in task.outputs if out.name == output)
    dtype = first.dtype if declared.startswith("same:") else declared
    if task.name == "swi_glu":
        return (*first.shape[:-1], first.shape[-1] // 2), dtype
    return ((*first.shape[:-1], 1), dtype) if output == "scale" else (first.shape, dtype)


def empty_file(spec: TensorSpec, folder: Path) -> Path:
    """Return a file as long as a tensor; it takes no room on the disk."""
    size_bytes = spec.numel * {"float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int8": 1}[spec.dtype]
    path = folder / f"{size_bytes}.bin"
    with path.open("ab") as file:
        file.truncate(size_bytes)
    return path


def search(bench: Bench, names: Sequence[str]) -> None:
    """Improve one parameter after the other until none gets better, and keep the best in the target's set."""
    shipped = bench.target.parameters
    best = {name: shipped.values[name] for name in FITTED}
    least = loss(bench.run(names, best))
    improved = True
    while improved:
        improved = False
        for name, values in FITTED.items():
            for value in values:
                tried = {**best, name: value}
                found = loss(bench.run(names, tried)) if value != best[name] else least
                if found < least - 1e-4:
                    best, least, improved = tried, found, True
            print(f"{name} = {best[name]:g}: loss {least:.4f}", flush=True)
    bench.target.parameters = replace(shipped, values={**shipped.values, **best})


def loss(pairs: Sequence[tuple[Measured, float]]) -> float:
    """Mean absolute logarithm of modelled / measured, every operator counting the same."""
    by_operator: dict[str, list[float]] = {}
    for one, modelled_us in pairs:
        by_operator.setdefault(one.operator, []).append(abs(math.log(modelled_us / one.measured_us)))
    return sum(sum(found) / len(found) for found in by_operator.values()) / len(by_operator)


def report(title: str, pairs: Sequence[tuple[Measured, float]], cases: bool) -> None:
    """Print error and bias per operator and of all; the error is |modelled - measured| / measured."""
    print(f"\n{title}\n{'operator':<16} {'cases':>5} {'median':>7} {'p90':>7}   modelled / measured, geometric mean")
    for name in [*dict.fromkeys(one.operator for one, _ in pairs), "all"]:
        some = [(one.measured_us, us) for one, us in pairs if name in (one.operator, "all")]
        errors = sorted(abs(us / measured_us - 1.0) for measured_us, us in some)
        p90 = errors[math.ceil(0.9 * len(errors)) - 1]
        bias = geometric_mean(us / measured_us for measured_us, us in some)
        print(f"{name:<16} {len(some):>5} {median(errors):>7.0%} {p90:>7.0%}   {bias:.2f}")
    for one, us in pairs if cases else ():
        specs = " ".join(f"{item.spec.dtype}{list(item.spec.shape)}" for item in one.case.inputs if item is not None)
        print(f"{one.operator} {one.case.id}: measured {one.measured_us:g} us, modelled {us:.2f} us  {specs}")


if __name__ == "__main__":
    main()
