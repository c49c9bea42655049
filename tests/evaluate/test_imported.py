"""Imported cases: inputs and outputs are those of the suite's own code, whose Python runs in the sandbox."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kope.errors import ReferenceError_
from kope.evaluate import CaseLibrary, ReferenceRunner
from kope.evaluate.dtypes import file_dtype
from kope.evaluate.null_candidates import has_a_constant_output
from kope.evaluate.official import official_verdict
from kope.evaluate.prepared import PreparedCase
from kope.model import Task, TensorFile
from kope.task.cann_bench import load_operator

SUITE = Path(__file__).parents[1] / "task" / "cann_suite" / "tasks"
pytestmark = pytest.mark.torch

MADE_BY_THE_SUITE = {
    "level1/list_mean_1": (
        ["07d32c0befb6", "6692e1137794", "d504d61a7ab0", "7832d6e0331e"],
        ["7b739ff0f35b", "6059c313a658"],
    ),
    "level1/list_mean_2": (
        ["1420d8c3898a", "15c7e80ce594", "cae1a46ed70e", "04511933c919", "80dd74184171", "07ac98ad95e9"],
        ["2565d63fd6c7", "c8e0eecda02a", "7ec0bd5fd51d"],
    ),
    "level1/scaled_add_1": (["ceaff550e4cc", "7e7d498535d1"], ["8c676f421ed1"]),
    "level1/scaled_add_2": (["7fc631db6f00"], ["a6b54707d991"]),
    "level1/scaled_add_3": (["4867fa51b1d3", "86a0708426a4"], ["2830ba80e29f"]),
    "level1/scaled_add_4": (["d406ebea20e9", "bd916cfba929"], ["b2336e673fca"]),
    "level1/scaled_add_5": (["0679246d6c42", "4bcab672638b"], ["c515e57c411f"]),
    "level2/peak_1": (["0b6fd1ddfa1c"], ["df4933fcc93c", "d6409ed41393"]),
    "level2/peak_2": (["78bfd13e216f"], ["85a878b4b4b3", "9d908ecfb6b2"]),
    "level2/pick_rows_1": (["da5b99bf6c6d", "873a5bb5a5d7"], ["cb515e403b5e"]),
    "level2/pick_rows_2": (["112497a02b65", "e000e1c28fbd"], ["ccd033d85e4c"]),
}
"""First 12 digits of the sha256 of inputs and of outputs in the case's own dtypes, as CANN Bench's own code makes them:
its data generator, hooks and golden loader at framework 1.0.0, with PyTorch 2.13 and one thread."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> CaseLibrary:
    return CaseLibrary(tmp_path_factory.mktemp("cases"), ReferenceRunner())


def digest(file: TensorFile | None) -> str | None:
    if file is None or file.path is None:
        return None
    return hashlib.sha256(file.path.read_bytes()).hexdigest()[:12]


def values(file: TensorFile) -> np.ndarray:
    assert file.path is not None
    return np.fromfile(file.path, file_dtype(file.spec.dtype)).reshape(file.spec.shape)


def prepared(cache: CaseLibrary, unit: str, seed: int = 0) -> tuple[Task, list[PreparedCase]]:
    task = load_operator(SUITE / unit)
    return task, cache.prepare(task, task.cases, seed)


@pytest.mark.parametrize("unit", ["level1/scaled_add", "level1/list_mean", "level2/pick_rows", "level2/peak"])
def test_inputs_and_outputs_are_the_suites_own_to_the_bit(cache: CaseLibrary, unit: str) -> None:
    _, cases = prepared(cache, unit)
    found = {
        f"{unit}_{item.case.id}": (
            [digest(file) for file in item.inputs if file],
            [digest(file) for file in item.natives],
        )
        for item in cases
    }
    assert found == {key: value for key, value in MADE_BY_THE_SUITE.items() if key.startswith(f"{unit}_")}


def test_expected_outputs_are_computed_from_float64_inputs(cache: CaseLibrary) -> None:
    _, cases = prepared(cache, "level1/scaled_add")
    item = cases[0]
    x, y = (values(file) for file in item.inputs if file is not None)
    (want,), (native,) = item.wants, item.natives
    assert (want.spec.dtype, want.spec.shape) == ("float32", (6, 10))
    assert want.path is not None
    assert np.array_equal(np.fromfile(want.path, "<f8").reshape(6, 10), x.astype(np.float64) * 0.5 + y)
    assert np.array_equal(values(native), x * np.float32(0.5) + y)
    assert cases[1].inputs[1] is None
    assert [np.isnan(values(cases[2].natives[0]).astype(np.float32)).any(), cases[4].wants[0].spec.dtype] == [
        True,
        "float16",
    ]


def test_lists_are_filled_and_returned_member_by_member(cache: CaseLibrary) -> None:
    _, (first, second) = prepared(cache, "level1/list_mean")
    assert [file and file.spec.shape for file in first.inputs] == [(4, 8), (12,), None, (4, 8), (12,), None]
    assert [want.spec.name for want in first.wants] == ["y_0", "y_1"]
    assert [(want.spec.name, want.spec.dtype, want.spec.shape) for want in second.wants] == [
        (f"y_{k}", "float16", ()) for k in range(3)
    ]


def test_a_hook_makes_the_inputs_and_another_seed_makes_others(cache: CaseLibrary) -> None:
    task, (first, _) = prepared(cache, "level2/pick_rows")
    index = values(first.inputs[1])  # type: ignore[arg-type]
    assert (index.dtype, sorted(set(index)), index.size) == (np.int32, sorted(index), 4)
    (other,) = cache.prepare(task, task.cases[:1], seed=7)
    assert digest(other.inputs[0]) != digest(first.inputs[0])
    assert digest(other.inputs[1]) == digest(first.inputs[1])  # the hook draws from a seed of its own


def test_what_is_cached_is_not_made_again(cache: CaseLibrary) -> None:
    prepared(cache, "level2/peak")
    before = len(cache.runner.steps)
    _, again = prepared(cache, "level2/peak")
    assert len(cache.runner.steps) == before
    assert [file.spec.name for file in again[0].natives] == ["values", "indices"]
    task, _ = prepared(cache, "level2/peak")
    assert cache.natives(task, again) == [item.natives for item in again]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no such thing')", r"golden.py: case 1: ValueError: no such thing \(line 3\)"),
        ("return None", "returned NoneType where a tensor is declared"),
        ("open('/etc/hostname').read()", r"case 1: (FileNotFound|Permission)Error"),
        ("import os; os._exit(3)", r"its process ended with status 3 \(it printed nothing\)"),
        ("return x[:0], x[:0, :0]", "every output is empty"),
        ("return x, x, x", "returned 3 values, 2 are declared"),
    ],
)
def test_a_suites_python_cannot_do_harm(tmp_path: Path, body: str, said: str) -> None:
    shutil.copytree(SUITE, tmp_path / "tasks")
    golden = tmp_path / "tasks" / "level2" / "peak" / "golden.py"
    golden.write_text(f"import torch\ndef peak(x: torch.Tensor, dim: int):\n    {body}\n")
    task = load_operator(golden.parent)
    library = CaseLibrary(tmp_path / "cases", ReferenceRunner())
    with pytest.raises(ReferenceError_, match=said) as caught:
        library.prepare(task, task.cases[:1])
    assert "\n" not in str(caught.value)


def test_one_output_of_several_may_be_empty(tmp_path: Path) -> None:
    shutil.copytree(SUITE, tmp_path / "tasks")
    golden = tmp_path / "tasks" / "level2" / "peak" / "golden.py"
    golden.write_text("import torch\ndef peak(x: torch.Tensor, dim: int):\n    return x, x[:0]\n")
    task = load_operator(golden.parent)
    (item,) = CaseLibrary(tmp_path / "cases", ReferenceRunner()).prepare(task, task.cases[:1])
    assert [want.spec.numel > 0 for want in item.wants] == [True, False]
    assert not has_a_constant_output(task, item, tmp_path)


def test_a_file_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    task = load_operator(SUITE / "level2" / "peak")
    broken = replace(task, reference="import nothing_like_it\n" + task.reference)
    with pytest.raises(ReferenceError_, match="golden.py: cannot be loaded: ModuleNotFoundError"):
        CaseLibrary(tmp_path, ReferenceRunner()).prepare(broken, broken.cases[:1])


# --- the suite's own verdict ----------------------------------------------------------------------------------------


def official(task: Task, item: PreparedCase, folder: Path, *outputs: np.ndarray) -> bool | None:
    files = []
    for number, array in enumerate(outputs):
        files.append(folder / f"{number}.bin")
        array.tofile(files[-1])
    return official_verdict(task, item, files)


def test_the_suites_rule_accepts_its_own_reference_and_refuses_another(cache: CaseLibrary, tmp_path: Path) -> None:
    task, cases = prepared(cache, "level1/scaled_add")
    for item in cases:
        right = values(item.natives[0])
        assert official(task, item, tmp_path, right) is True
        assert official(task, item, tmp_path, np.zeros_like(right)) is False
        assert official(task, item, tmp_path, right.reshape(-1)[:-1]) is False
        assert official_verdict(task, item, ()) is False
    assert official_verdict(replace(task, origin=None), cases[0], ()) is None


def test_the_suites_rule_forgives_what_it_is_known_to_forgive(cache: CaseLibrary, tmp_path: Path) -> None:
    task, cases = prepared(cache, "level1/list_mean")
    _, second = cases
    right = [values(file) for file in second.natives]
    biased = [one * np.float16(1.007) for one in right]  # every element off by 7 times the threshold on the mean
    assert official(task, second, tmp_path, *biased) is True
    assert official(task, second, tmp_path, *[one * np.float16(1.02) for one in right]) is False


def test_an_index_passes_by_what_it_points_to(cache: CaseLibrary, tmp_path: Path) -> None:
    task, (first, second) = prepared(cache, "level2/peak")
    peaks, at = (values(file) for file in first.natives)
    assert official(task, first, tmp_path, peaks, at) is True
    assert official(task, first, tmp_path, peaks, (at + 1) % 6) is False
    assert official(task, first, tmp_path, peaks, at + 6) is False
    peaks, at = (values(file) for file in second.natives)  # all elements are equal: any row will do
    assert official(task, second, tmp_path, peaks, np.full_like(at, 5)) is True


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "bool", "int64"])
def test_a_result_without_elements_is_written_like_any_other(dtype: str, tmp_path: Path) -> None:
    import torch

    from kope.evaluate.origin_child import _read, _write

    entry = _write(torch.empty((0, 5), dtype=getattr(torch, dtype)), tmp_path / "y.bin")
    assert entry == {"file": "y.bin", "shape": [0, 5], "dtype": dtype}
    assert (tmp_path / "y.bin").stat().st_size == 0
    assert _read({**entry, "path": str(tmp_path / "y.bin")}).shape == (0, 5)
