"""Are CANN Bench's inputs, references and verdicts here those of its own code? And what does its verdict cost?

    scripts/bench cann_bench --corpus DIR [--largest 1] [--only exp,softmax] [--inputs-only | --no-verdicts]

DIR is a checkout of the benchmark; it needs PyTorch (scripts/install torch). Of every case with at most so many MiB of
input, the inputs and the outputs in the case's own dtypes are compared, bit by bit, with what the benchmark's own data
generator, hooks and golden loader make; then its own checker and KOPE's copy of its rule judge the same outputs: right
ones, zeros, ones, and right ones with small, large, few and many mistakes. The benchmark's modules are imported as
they are.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kope import config, wiring
from kope.errors import KopeError
from kope.evaluate.capacity import case_bytes
from kope.evaluate.dtypes import file_dtype
from kope.evaluate.official import official_verdict
from kope.evaluate.origin import OriginRunner
from kope.evaluate.prepared import CaseLibrary, PreparedCase
from kope.model import Case, Task, TensorFile
from kope.task.imported import read_suite


class Own:
    """The benchmark's own code, used as its evaluator uses it."""

    def __init__(self, checkout: Path) -> None:
        sys.path.insert(0, str(checkout / "src"))
        import kernel_eval.benches  # noqa: F401  registers loaders and checkers
        import torch
        from kernel_eval.benches.cann_loader import CannCaseLoader, CannTaskLoader, GoldenLoader
        from kernel_eval.data.data_generator import DataGenerator
        from kernel_eval.utils.compare import compare_tensors
        from kernel_eval.utils.param_builder import ParamBuilder
        from kernel_eval.utils.tensor_utils import tensors_to_fp64_cpu

        torch.set_num_threads(1)
        root = str(checkout / "tasks")
        self.torch = torch
        self.cases = {case.get_case_id_str(): case for case in CannCaseLoader(bench_root=root).scan_all()}
        self.tasks, self.goldens = CannTaskLoader(bench_root=root), GoldenLoader(bench_root=root)
        self.generator, self.compare, self.widened = DataGenerator(), compare_tensors, tensors_to_fp64_cpu
        self.builder = ParamBuilder(self.goldens)

    def inputs(self, case: Any) -> tuple[list[Any], Any]:
        """Return a case's tensors and the hook that made them, if any."""
        digest = hashlib.sha256(case.get_case_id_str().encode()).digest()
        tensors = self.generator.generate_input_tensors_from_case(
            input_shapes=case.input_shapes,
            dtypes=case.dtypes,
            value_ranges=case.value_ranges,
            seed=int.from_bytes(digest[:8], "big") % 2**31,
        )
        hook = self.goldens.get_input_function(case.rel_path)
        if hook is None:
            return tensors, None
        names = [one.name for one in self.tasks.get_operator(case.rel_path).inputs]
        given = {name: tensors[k] if k < len(tensors) else None for k, name in enumerate(names)}
        given |= {name: value for name, value in case.attrs.items() if name not in given}
        given.setdefault("skip2_exist", case.attrs.get("skip2_exist", True))
        return list(hook(**given)), hook

    def outputs(self, case: Any, tensors: list[Any], hook: Any) -> tuple[list[Any], list[Any]]:
        """Return what its references give: the golden it compares with, and the one in the case's own dtypes."""
        golden = self.goldens.get_golden_function(case.rel_path)
        oracle = self.goldens.get_oracle_function(case.rel_path) or golden
        native = self.goldens.get_bench_function(case.rel_path) or golden
        if hook is not None:
            call = self._bound(golden, case, tensors)
            return _flat(oracle(**call)), _flat(native(**call))
        exact = oracle(**self.builder.build_call_params(oracle, case, self.widened(tensors)))
        return _flat(exact), _flat(native(**self.builder.build_call_params(native, case, tensors)))

    def _bound(self, golden: Any, case: Any, tensors: list[Any]) -> dict[str, Any]:
        position, call = iter(tensors), {}
        for name, parameter in inspect.signature(golden).parameters.items():
            if "Tensor" in str(parameter.annotation):
                call[name] = next(position, None)
            elif name in case.attrs:
                call[name] = case.attrs[name]
            elif parameter.default is not inspect.Parameter.empty:
                call[name] = parameter.default
        return call

    def passes(self, case: Any, outputs: list[Any], golden: list[Any], native: list[Any]) -> bool:
        """Return the verdict of its checker on values; its check of indices is not asked here."""
        operator = self.tasks.get_operator(case.rel_path)
        skipped = [k for k, one in enumerate(operator.outputs) if not one.compare]
        found = self.compare(
            outputs,
            golden,
            dtype=str(outputs[0].dtype).removeprefix("torch."),
            native_output=native,
            ignore_output_indices=skipped,
            custom_thresholds={str(k).lower(): v for k, v in (operator.precision_thresholds or {}).items()},
        )
        return bool(found.passed)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [one for item in value for one in _flat(item)]
    return [value.detach() if hasattr(value, "detach") else value]


def raw(tensor: Any) -> bytes:
    """Return a tensor's bytes."""
    import torch

    plain = tensor.contiguous().reshape(-1)
    return bytes(plain.view(torch.uint8).numpy().tobytes()) if plain.numel() else b""


def spoilt(right: Sequence[np.ndarray]) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield outputs to be judged: right, null, and wrong in ways that lie near every limit of the rule."""
    draw = np.random.default_rng(20)
    yield "right", [one.copy() for one in right]
    yield "zeros", [np.zeros_like(one) for one in right]
    yield "ones", [np.ones_like(one) for one in right]
    for scale in (1e-5, 1e-4, 1e-3, 5e-3, 2e-2, 8e-2):
        yield f"biased {scale:g}", [_each(one, lambda wide, s=scale: wide * (1 + s)) for one in right]
        yield (
            f"noisy {scale:g}",
            [_each(one, lambda wide, s=scale: wide * (1 + s * draw.standard_normal(wide.shape))) for one in right],
        )
    for count in (1, 2, 3, 10):
        yield f"{count} wrong", [_some(one, count, draw) for one in right]


def _each(one: np.ndarray, change: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(change(one.astype(np.float64)).astype(one.dtype))


def _some(one: np.ndarray, count: int, draw: Any) -> np.ndarray:
    changed = one.copy().reshape(-1)
    at = draw.integers(0, changed.size, count)
    changed[at] = changed[at] + np.ones(1, changed.dtype)
    return changed.reshape(one.shape)


def array_of(file: TensorFile) -> np.ndarray:
    """Return a file's values."""
    assert file.path is not None
    return np.fromfile(file.path, file_dtype(file.spec.dtype)).reshape(file.spec.shape)


def tensor_of(own: Own, array: np.ndarray, like: Any) -> Any:
    """Return an array as a tensor of the dtype of another."""
    data = np.ascontiguousarray(array).reshape(-1)
    flat = own.torch.from_numpy(data.view(np.uint8).copy())
    return flat.view(like.dtype).reshape(like.shape) if data.size else own.torch.empty(like.shape, dtype=like.dtype)


class Tally:
    """What was compared, and what differed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.elements: Counter[str] = Counter()
        self.different: list[str] = []

    def same(self, what: str, equal: bool, where: str) -> None:
        """Count a comparison."""
        self.counts[what] += 1
        if not equal:
            self.different.append(f"{what}: {where}")


def compare_inputs(own: Own, case: Any, files: Sequence[TensorFile | None], tally: Tally) -> tuple[list[Any], Any]:
    """Compare a case's inputs with those its own generator makes, and return those with the hook that made them."""
    tensors, hook = own.inputs(case)
    theirs = [hashlib.sha256(raw(tensor)).digest() for tensor in _flat(tensors) if tensor is not None]
    ours = [hashlib.sha256(file.path.read_bytes()).digest() for file in files if file is not None and file.path]
    tally.same("inputs", theirs == ours, case.get_case_id_str())
    return tensors, hook


def compare_outputs(own: Own, item: PreparedCase, case: Any, tally: Tally) -> tuple[list[Any], list[Any]]:
    """Compare one case's inputs and outputs, and return its own outputs in float64 and in the case's dtypes."""
    tensors, hook = compare_inputs(own, case, item.inputs, tally)
    golden, native = own.outputs(case, tensors, hook)
    files = [file.path.read_bytes() for file in item.natives if file.path is not None]
    tally.same("outputs", [raw(tensor) for tensor in native] == files, case.get_case_id_str())
    return golden, native


def judge(
    own: Own,
    task: Task,
    item: PreparedCase,
    case: Any,
    expected: tuple[list[Any], list[Any]],
    tally: Tally,
    folder: Path,
) -> None:
    """Compare both verdicts on one case. expected: its outputs in float64 and in the case's dtypes."""
    where = case.get_case_id_str()
    golden, native = expected
    if task.origin is not None and task.origin.recipe["index_rules"]:
        return
    right = [array_of(file) for file in item.natives]
    for name, outputs in spoilt(right):
        places = [folder / f"{k}.bin" for k in range(len(outputs))]
        for array, place in zip(outputs, places, strict=True):
            array.tofile(place)
        given = [tensor_of(own, array, like) for array, like in zip(outputs, native, strict=True)]
        started = time.process_time()
        mine = official_verdict(task, item, places)
        middle = time.process_time()
        their = own.passes(case, given, golden, native)
        kind = "right" if name == "right" else "spoilt"
        tally.seconds[f"{kind}, ours"] += middle - started
        tally.seconds[f"{kind}, its own"] += time.process_time() - middle
        tally.elements[kind] += sum(array.size for array in outputs)
        tally.same("verdicts", mine == their, f"{where} {name}: its own {their}, ours {mine}")


def prepared(library: CaseLibrary, task: Task, cases: Sequence[Case]) -> Iterator[PreparedCase]:
    """Yield the cases whose references run here; one that does not is named and left out."""
    try:
        yield from library.prepare(task, cases) if cases else ()
        return
    except KopeError:
        pass
    for case in cases:
        try:
            yield from library.prepare(task, [case])
        except KopeError as error:
            print(f"left out: {error}", flush=True)


def main() -> None:
    """Compare and say what came of it, also as JSON on the last line."""
    parser = argparse.ArgumentParser(prog="scripts/bench cann_bench")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--largest", type=float, default=1.0, help="MiB of input")
    parser.add_argument("--only", default="")
    parser.add_argument("--inputs-only", action="store_true", help="leave out references and verdicts")
    parser.add_argument("--no-verdicts", action="store_true", help="compare inputs and references only")
    asked = parser.parse_args()
    own, library, tally = Own(asked.corpus), wiring.case_library(config.load()), Tally()
    for task in read_suite(asked.corpus)[1]:
        if asked.only and task.symbol not in asked.only.split(","):
            continue
        cases = [case for case in task.cases if case_bytes(case) <= asked.largest * 2**20]
        assert task.origin is not None
        with tempfile.TemporaryDirectory() as folder:
            if asked.inputs_only:
                for case, files in OriginRunner([]).make_inputs(task, cases, Path(folder), 0) if cases else ():
                    compare_inputs(own, own.cases[f"{task.origin.unit}_{case.id}"], files, tally)
                continue
            for item in prepared(library, task, cases):
                case = own.cases[f"{task.origin.unit}_{item.case.id}"]
                golden, native = compare_outputs(own, item, case, tally)
                if not asked.no_verdicts:
                    judge(own, task, item, case, (golden, native), tally, Path(folder))
        print(f"{task.origin.unit}: {len(cases)} cases, {len(tally.different)} different so far", flush=True)
    for line in tally.different:
        print("different", line)
    per_element = {
        name: 1e9 * seconds / max(tally.elements[name.split(",")[0]], 1) for name, seconds in tally.seconds.items()
    }
    print(
        json.dumps(
            {
                "compared": tally.counts,
                "different": len(tally.different),
                "ns per element": {name: round(value, 1) for name, value in per_element.items()},
                "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            }
        )
    )


if __name__ == "__main__":
    main()
