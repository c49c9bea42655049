"""The 14 tasks that come along: complete, varied, and right by formulas written another way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

from kope.evaluate import CaseLibrary, ReferenceRunner
from kope.evaluate.check import check_task
from kope.evaluate.compare import compare_output
from kope.evaluate.dtypes import file_dtype, want_dtype
from kope.evaluate.null_candidates import passing_null_candidates, strictly
from kope.evaluate.plan import by_size
from kope.model import Task
from kope.task import list_folders, load_task, shipped_folder

SHIPPED = shipped_folder()
ROW_OPERATORS = ["add_rms_norm", "dynamic_quant", "layer_norm", "reduce_sum", "rms_norm", "softmax"]
ELEMENTWISE = ["add", "apply_adam_w", "exp", "gelu", "masked_scale", "mish", "sigmoid", "swi_glu"]
NAMES = sorted(ELEMENTWISE + ROW_OPERATORS)
MILLION = 1 << 20


def test_fourteen_tasks_are_shipped() -> None:
    assert list(list_folders([SHIPPED])) == NAMES


@pytest.fixture(params=NAMES)
def task(request: pytest.FixtureRequest) -> Task:
    return load_task(SHIPPED / request.param)


def sizes(task: Task) -> list[int]:
    """Elements of the largest input of each case; of the halves that swi_glu cuts its input into."""
    share = 2 if task.name == "swi_glu" else 1
    return [max(given.spec.numel for given in case.inputs if given is not None) // share for case in task.cases]


def test_cases_cover_dtypes_sizes_and_special_values(task: Task) -> None:
    assert len(task.cases) == 20
    dtypes = [case.inputs[0].spec.dtype for case in task.cases if case.inputs[0]]
    assert min(dtypes.count(dtype) for dtype in ("float32", "float16", "bfloat16")) >= 6
    assert min(sizes(task)) <= 2048
    assert any(size % 16 for size in sizes(task)) and any(size % 1024 == 0 for size in sizes(task))
    assert {given.values.special for case in task.cases for given in case.inputs if given} >= {"", "zeros"} - (
        {"zeros"} if task.name == "sigmoid" else set()
    )
    assert len({given.values for case in task.cases for given in case.inputs if given}) >= 4


def test_sizes_fit_the_purpose(task: Task) -> None:
    largest, total = max(sizes(task)), sum(sizes(task))
    if task.name in ELEMENTWISE:
        assert sum(size >= 4_000_000 for size in sizes(task)) >= 2
        assert largest <= 16 * MILLION and total <= 45 * MILLION
    else:
        assert largest <= 4 * MILLION + 8192 and total <= 21 * MILLION
        rows = [case.inputs[0].spec.shape[-1] for case in task.cases if case.inputs[0]]
        assert min(rows) <= 100 and max(rows) >= 16_384
        assert any(row > 10_000 and row % 16 for row in rows) and any(row < 10 for row in rows)


def test_the_two_of_quickstart_stay_small() -> None:
    for name in ("rms_norm", "layer_norm"):
        task = load_task(SHIPPED / name)
        assert max(sizes(task)) <= 4 * MILLION
        assert sum(sizes(task)) <= 16_000_000


def test_some_task_reaches_sixteen_million_elements() -> None:
    assert max(max(sizes(load_task(SHIPPED / name))) for name in NAMES) == 16 * MILLION


# --- the same operators, written another way -----------------------------------------------------------------------


def _adam(var: Any, m: Any, v: Any, grad: Any, **a: float) -> tuple[Any, Any, Any]:
    m = m + (1 - a["beta1"]) * (grad - m)
    v = v + (1 - a["beta2"]) * (grad**2 - v)
    step = (m / (1 - a["beta1_power"])) / ((v / (1 - a["beta2_power"])) ** 0.5 + a["epsilon"])
    return var - a["lr"] * (step + a["weight_decay"] * var), m, v


def _quant(x: Any) -> tuple[Any, Any]:
    rows = x.reshape(-1, x.shape[-1])
    scales = np.array([np.abs(row).max() / 127 for row in rows])
    values = [np.rint(row / s) if s else 0 * row for row, s in zip(rows, scales, strict=True)]
    return np.array(values).reshape(x.shape), scales.reshape(*x.shape[:-1], 1)


def _rms(x: Any, gamma: Any, eps: float) -> Any:
    return x * gamma / np.hypot(np.linalg.norm(x, axis=-1, keepdims=True) / np.sqrt(x.shape[-1]), np.sqrt(eps))


ANOTHER_WAY: dict[str, Callable[..., Any]] = {
    "add": lambda x1, x2, alpha: x1 - x2 * -alpha,
    "add_rms_norm": lambda x1, x2, gamma, eps: (_rms(x1 + x2, gamma, eps), x1 + x2),
    "apply_adam_w": _adam,
    "dynamic_quant": _quant,
    "exp": lambda x: np.expm1(x) + 1,
    "gelu": lambda x: x * special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
    "layer_norm": lambda x, gamma, beta, eps: (
        (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + eps) ** 0.5 * gamma + beta
    ),
    "masked_scale": lambda x, mask, scale: (x * scale) * mask,
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "reduce_sum": lambda x: x.mean(-1) * x.shape[-1],
    "rms_norm": _rms,
    "sigmoid": lambda x: special.expit(x),
    "softmax": lambda x: special.softmax(x, axis=-1),
    "swi_glu": lambda x: np.prod(np.split(x, 2, -1), axis=0) * special.expit(np.split(x, 2, -1)[0]),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CaseLibrary:
    return CaseLibrary(tmp_path_factory.mktemp("cases"), ReferenceRunner())


def test_references_agree_with_another_way_of_writing_them(task: Task, library: CaseLibrary) -> None:
    cases = by_size(task.cases)[:9]
    for prepared in library.prepare(task, cases):
        given = {}
        for name, tensor in zip(task.inputs, prepared.inputs, strict=True):
            assert tensor is not None and tensor.path is not None
            given[name] = (
                np.fromfile(tensor.path, file_dtype(tensor.spec.dtype)).astype(float).reshape(tensor.spec.shape)
            )
        with np.errstate(all="ignore"):
            expected = ANOTHER_WAY[task.name](**given, **prepared.case.attrs)
        for want, value in zip(prepared.wants, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert want.spec.shape == value.shape
            stored = np.fromfile(want.path, want_dtype(want.spec.dtype)).reshape(want.spec.shape)  # type: ignore[arg-type]
            np.testing.assert_allclose(stored, value, rtol=1e-6, atol=1e-9, err_msg=f"case {prepared.case.id}")


def test_the_expected_dtype_is_the_inputs_unless_declared(task: Task, library: CaseLibrary) -> None:
    for prepared in library.prepare(task, by_size(task.cases)[:3]):
        own = prepared.case.inputs[0].spec.dtype  # type: ignore[union-attr]
        dtypes = ["int8", "float32"] if task.name == "dynamic_quant" else [own] * len(task.outputs)
        assert [want.spec.dtype for want in prepared.wants] == dtypes


def test_small_cases_refuse_null_candidates(task: Task, library: CaseLibrary, tmp_path: Path) -> None:
    for prepared in library.prepare(task, by_size(task.cases)[:9]):
        assert passing_null_candidates(prepared, strictly(task), tmp_path) == (), prepared.case.id


def test_correctly_rounded_results_pass_every_small_case(task: Task, library: CaseLibrary, tmp_path: Path) -> None:
    """The tolerances leave room for the best result there can be."""
    for prepared in library.prepare(task, by_size(task.cases)[:9]):
        for want in prepared.wants:
            assert want.path is not None
            stored = np.fromfile(want.path, want_dtype(want.spec.dtype))
            with np.errstate(over="ignore"):
                stored.astype(file_dtype(want.spec.dtype)).tofile(tmp_path / "got.bin")
            found = compare_output(tmp_path / "got.bin", want.path, want.spec, task.tolerance[want.spec.dtype])
            assert found.passed, (prepared.case.id, found.error, found.mean)


@pytest.mark.slow
def test_every_case_passes_its_check(task: Task, tmp_path: Path) -> None:
    check = check_task(task, CaseLibrary(tmp_path / "cases", ReferenceRunner()))
    assert check.warnings == ()
