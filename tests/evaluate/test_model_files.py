"""KernelBench and MultiKernelBench: model files read as they are, filled from their own seeds, judged by their rule."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.errors import TaskError
from kope.evaluate import CaseLibrary, ReferenceRunner
from kope.evaluate.official import official_verdict
from kope.model import Case, CaseInput, TensorSpec, Values
from kope.task import find_task
from kope.task.imported import read_suite
from kope.task.model_file import load_file, task_name

SUITES = Path(__file__).parents[1] / "task" / "model_suites"
LINEAR = SUITES / "KernelBench" / "level1" / "3_Small_linear.py"
PICK = SUITES / "reference" / "index" / "pick.py"
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> CaseLibrary:
    return CaseLibrary(tmp_path_factory.mktemp("cases"), ReferenceRunner())


def given(name: str, shape: tuple[int, ...], dtype: str = "float32") -> CaseInput:
    return CaseInput(TensorSpec(name, shape, dtype), Values(0.0, 1.0))


def test_weights_become_inputs_and_plain_values_attributes() -> None:
    task = load_file(LINEAR)
    assert (task.name, task.text, task.inputs) == (
        "kb_l1_3_small_linear",
        "A linear layer, scaled.",
        ("x", "w_linear_weight", "w_linear_bias"),
    )
    inputs = (given("x", (6, 5)), given("w_linear_weight", (4, 5)), given("w_linear_bias", (4,)))
    assert task.cases == (Case("1", inputs, {"in_features": 5, "out_features": 4, "scale": 0.5, "power": 2}),)
    assert task.origin is not None
    assert (task.origin.suite, task.origin.unit, task.origin.level) == ("kernelbench", "level1/3_Small_linear", "L1")
    assert find_task(str(LINEAR), []) == task


def test_input_groups_become_cases() -> None:
    task = load_file(PICK)
    assert task.origin is not None
    assert (task.name, task.origin.suite) == ("mkb_index_pick", "multikernelbench")
    assert [[one and (one.spec.shape, one.spec.dtype) for one in case.inputs] for case in task.cases] == [
        [((8, 4), "float32"), ((3,), "int64")],
        [((5, 7), "float16"), ((3,), "int64")],
    ]


def test_a_folder_says_which_suite_it_is_and_what_cannot_be_loaded() -> None:
    suite, tasks, errors = read_suite(SUITES / "KernelBench")
    assert (suite.name, [task.name for task in tasks]) == ("kernelbench", ["kb_l1_3_small_linear"])
    (error,) = errors
    assert "12_Broken.py: ModuleNotFoundError: No module named 'no_such_module'" in str(error)
    suite, tasks, errors = read_suite(SUITES / "reference")
    assert (suite.name, [task.name for task in tasks], errors) == ("multikernelbench", ["mkb_index_pick"], [])
    with pytest.raises(TaskError, match="12_Broken.py: "):
        load_file(LINEAR.with_name("12_Broken.py"))
    assert task_name(Path("KernelBench/level2/7_Conv3d__ReLU_(x).py")) == "kb_l2_7_conv3d_relu_x"
    long = [
        task_name(Path(f"reference/convolution/{'asymmetric_' * 6}{end}.py")) for end in ("kernel", "kernel_padded")
    ]
    assert [len(name) for name in long] == [64, 64] and long[0] != long[1]


def kernel_bench_trial(module: dict[str, Any]) -> tuple[list[Any], Any]:
    """What KernelBench's evaluation does before the first trial: seed 42, and a seed drawn from it for the inputs."""
    import torch

    torch.manual_seed(42)
    init = module["get_init_inputs"]()
    torch.manual_seed(42)
    model = module["Model"](*init)
    torch.manual_seed(42)
    torch.manual_seed(torch.randint(0, 2**32 - 1, (1,)).item())
    return module["get_inputs"](), model


def read(file: Any) -> Any:
    dtype = {"float32": "<f4", "float16": "<f2", "int64": "<i8"}[file.spec.dtype]
    return np.fromfile(file.path, dtype).reshape(file.spec.shape)


def test_values_are_those_of_kernel_bench(cache: CaseLibrary) -> None:
    import torch

    task = load_file(LINEAR)
    (item,) = cache.prepare(task, task.cases)
    inputs, model = kernel_bench_trial(runpy.run_path(str(LINEAR)))
    with torch.no_grad():
        expected = model(*inputs).numpy()
    x, weight, bias = (read(file) for file in item.inputs)
    assert np.array_equal(x, inputs[0].numpy())
    assert np.array_equal(weight, model.linear.weight.detach().numpy())
    assert np.array_equal(bias, model.linear.bias.detach().numpy())
    assert np.array_equal(read(item.natives[0]), expected)
    assert item.wants[0].path is not None
    exact = ((x.astype(np.float64) @ weight.astype(np.float64).T + bias) * 0.5) ** 2
    assert np.allclose(np.fromfile(item.wants[0].path, "<f8").reshape(6, 4), exact, rtol=1e-12)


def test_values_are_those_of_multi_kernel_bench(cache: CaseLibrary) -> None:
    import torch

    task = load_file(PICK)
    items = cache.prepare(task, task.cases)
    module = runpy.run_path(str(PICK))
    torch.manual_seed(1024)
    module["Model"]()
    for item, (x, rows) in zip(items, module["get_input_groups"](), strict=True):
        assert np.array_equal(read(item.inputs[0]), x.numpy())
        assert np.array_equal(read(item.inputs[1]), rows.numpy())
        assert [want.spec.name for want in item.wants] == ["y_0", "y_1"]
        assert np.array_equal(read(item.natives[0]), x[rows].numpy())


def test_the_suites_rule_is_its_own_allclose(cache: CaseLibrary, tmp_path: Path) -> None:
    task = load_file(LINEAR)
    (item,) = cache.prepare(task, task.cases)
    right = read(item.natives[0])
    got = tmp_path / "y.bin"

    def verdict(values: Any) -> bool | None:
        values.astype("<f4").tofile(got)
        return official_verdict(task, item, [got])

    assert verdict(right) is True
    assert verdict(right + 0.9e-4) is True
    assert verdict(right * 1.01 + 1e-3) is False
    assert verdict(np.full_like(right, np.nan)) is False
    assert verdict(right[:-1]) is False
