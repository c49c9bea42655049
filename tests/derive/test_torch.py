"""PyTorch references: captured case by case in the sandbox, derived to right kernels, or refused with node and line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope import resources
from kope.derive.derivation import derive
from kope.derive.nest.derivation import plan_nests
from kope.derive.nest.meaning import run_tensors
from kope.derive.nest.tensors import TensorGraph
from kope.errors import DeriveError
from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.model import Candidate, Case, CaseInput, OutputDecl, Task, TensorSpec, Tolerance, Values, Verdict
from kope.target.twin import TwinTarget
from tests.derive.nests import Sample, draw, wrong

pytestmark = pytest.mark.torch

TOLERANCE = {"float32": Tolerance(2e-4, 2e-5), "float16": Tolerance(4e-3, 2e-3), "int64": Tolerance(0.0, 0.0)}
Shapes = Mapping[str, tuple[tuple[int, ...], str]]


def torch_task(
    body: str,
    cases: Sequence[Shapes],
    outputs: Sequence[tuple[str, str]] = (("y", "same:x"),),
    attrs: Mapping[str, Any] | None = None,
) -> Task:
    """A task whose PyTorch reference has this body."""
    names = tuple(cases[0])
    header = (
        f"import torch\nimport torch.nn.functional as F\n\n\ndef reference({', '.join([*names, *(attrs or {})])}):\n"
    )
    reference = header + "".join(f"    {line}\n" for line in body.splitlines())
    made = tuple(
        Case(
            f"c{at}",
            tuple(
                CaseInput(TensorSpec(name, *shapes[name]), Values(0, 3) if "int" in shapes[name][1] else Values(-2, 2))
                for name in names
            ),
        )
        for at, shapes in enumerate(cases)
    )
    return Task(
        "small_torch", "", names, tuple(OutputDecl(*output) for output in outputs), attrs or {}, reference, "reference",
        "torch", made, TOLERANCE, f"torch {body} {cases}", fixed_shapes=True,
    )  # fmt: skip


F = "float32"
RIGHT: dict[str, tuple[str, Shapes, Mapping[str, Any]]] = {
    "attention": (
        "s = torch.softmax(x @ k.transpose(-1, -2) / k.shape[-1] ** 0.5, dim=-1)\nreturn s @ v",
        {"x": ((2, 3, 9, 16), F), "k": ((2, 3, 17, 16), F), "v": ((2, 3, 17, 16), F)},
        {},
    ),
    "group norm and gelu": ("return F.gelu(F.group_norm(x, 4))", {"x": ((2, 8, 5, 7), F)}, {}),
    "convolution": (
        "return torch.relu(F.conv2d(x, w, stride=2, padding=1))",
        {"x": ((2, 3, 11, 9), F), "w": ((5, 3, 3, 3), F)},
        {},
    ),
    "transposed convolution": (
        "return F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)",
        {"x": ((2, 4, 5, 6), F), "w": ((4, 3, 3, 3), F)},
        {},
    ),
    "pooling": ("return F.max_pool2d(x, 3, 2, 1) + F.avg_pool2d(x, 3, 2, 1)", {"x": ((2, 3, 9, 9), F)}, {}),
    "uneven pooling": ("return F.adaptive_avg_pool2d(x, (3, 4))", {"x": ((2, 3, 7, 9), F)}, {}),
    "resizing": (
        "return F.interpolate(x, (11, 19), mode='bilinear') + F.interpolate(x, scale_factor=2.2, mode='bilinear')",
        {"x": ((2, 3, 5, 9), F)},
        {},
    ),
    "resizing with corners": (
        "return F.interpolate(x, (4, 20), mode='bilinear', align_corners=True)",
        {"x": ((2, 3, 7, 9), F)},
        {},
    ),
    "sampling": (
        "return F.grid_sample(x, g, align_corners=False)",
        {"x": ((2, 3, 5, 6), F), "g": ((2, 4, 7, 2), F)},
        {},
    ),
    "a module made inside": (
        "m = torch.nn.GRU(6, 5, batch_first=True).to(x.dtype).eval()\n"
        "m.weight_ih_l0, m.weight_hh_l0 = torch.nn.Parameter(w), torch.nn.Parameter(u)\n"
        "m.bias_ih_l0 = torch.nn.Parameter(torch.ones(15, dtype=x.dtype))\n"
        "m.bias_hh_l0 = torch.nn.Parameter(torch.zeros(15, dtype=x.dtype))\n"
        "return m(x)[0]",
        {"x": ((2, 4, 6), F), "w": ((15, 6), F), "u": ((15, 5), F)},
        {},
    ),
    "a module filled inside": (
        "m = torch.nn.Linear(6, 5, bias=False).float()\n"
        "with torch.no_grad():\n"
        "    m.weight.copy_(w.float())\n"
        "return m(x.float()).to(x.dtype)",
        {"x": ((4, 6), F), "w": ((5, 6), F)},
        {},
    ),
    "lookup": ("return F.embedding(i, x) + 1.0", {"x": ((4, 20), F), "i": ((3, 5), "int64")}, {}),
    "in place": ("y = x.clone()\ny[:, 1:3] = 0.0\ny[:, 0] *= 2.0\nreturn y", {"x": ((6, 9), F)}, {}),
    "top k": ("v, i = x.topk(3, dim=1)\nreturn v + 0.0 * i", {"x": ((5, 20), F)}, {}),
    "in place by a mask": (
        "y = x.clone()\ny[i > 1] = 0.0\ny[:, m > 0.5] = x[0, :1]\ny[y > 1.0] = 2.0\ny[i == 0] = m\nreturn y",
        {"x": ((6, 9), F), "i": ((6,), "int64"), "m": ((9,), F)},
        {},
    ),
    "a few of many": (
        "v, i = x.topk(3, dim=1, largest=False)\nw, j = x.topk(2, dim=0)\nreturn v + w.sum() + 0.5 * i + j.sum()",
        {"x": ((30, 40), F)},
        {},
    ),
    "branch on an attribute": ("return x.cumsum(1) if flag else x.exp()", {"x": ((6, 10), F)}, {"flag": True}),
}


def in_process(body: str, shapes: Shapes, attrs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The reference as a function, and what the child says of one case of it."""
    from kope.derive.nest.cases import answer, load_function
    from kope.derive.nest.torch_child import captured

    task = torch_task(body, [shapes], attrs=attrs)
    function = load_function(task.reference, "reference")
    inputs = [{"shape": list(shape), "dtype": dtype} for shape, dtype in shapes.values()]
    places = [{"name": name, "kind": "tensor", "places": [at]} for at, name in enumerate(shapes)]
    case = {"inputs": inputs, "attrs": dict(attrs), "parameters": places}
    return function, answer(captured, function, function, case)


def test_captured_references_give_right_kernels(twin_cache: Path, tmp_path: Path) -> None:
    import torch

    rng = np.random.default_rng(3)
    samples = []
    for name, (body, shapes, attrs) in RIGHT.items():
        function, answer = in_process(body, shapes, attrs)
        assert "graph" in answer, f"{name}: {answer}"
        graph = TensorGraph.from_json(answer["graph"])
        arrays = [draw(rng, *given, high=3.0) if "int" in given[1] else draw(rng, *given) for given in shapes.values()]
        arrays = [abs(array) if array.dtype.kind == "i" else array for array in arrays]
        wide = [array if array.dtype.kind == "i" else array.astype(np.float64) for array in arrays]
        wanted = function(**dict(zip(shapes, map(torch.from_numpy, wide), strict=True)), **attrs).detach()
        (got,) = run_tensors(graph, dict(enumerate(wide)))
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
        samples.append(Sample(name, graph, arrays, [dtype for _, dtype in shapes.values()], ["float32"]))
    assert wrong(TwinTarget(twin_cache), samples, tmp_path) == []


def test_a_module_made_inside_returns_what_it_does_in_the_inputs_own_precision() -> None:
    body, shapes, attrs = RIGHT["a module made inside"]
    _, answer = in_process(body, {name: (shape, "float16") for name, (shape, _) in shapes.items()}, attrs)
    assert (answer["dtypes"], answer["native"]) == (["float64"], ["float16"])


KEEPING_INFINITIES = {
    "uneven pooling": ("return F.adaptive_avg_pool2d(x, (3, 4))", {"x": ((2, 3, 7, 9), F)}),
    "resizing": ("return F.interpolate(x, (11, 20), mode='bilinear')", {"x": ((2, 3, 5, 9), F)}),
    "sampling": ("return F.grid_sample(x, g, align_corners=False)", {"x": ((2, 3, 5, 6), F), "g": ((2, 4, 7, 2), F)}),
}


@pytest.mark.parametrize("name", KEEPING_INFINITIES)
def test_what_is_averaged_or_interpolated_is_infinite_where_pytorch_says_so(name: str) -> None:
    import torch

    body, shapes = KEEPING_INFINITIES[name]
    function, answer = in_process(body, shapes, {})
    rng = np.random.default_rng(4)
    arrays = [rng.uniform(-1.2, 1.2, shape) for shape, _ in shapes.values()]
    arrays[0][0, 0, 2, 3] = arrays[0][1, 2, 0, 0] = -np.inf
    wanted = function(**dict(zip(shapes, map(torch.from_numpy, arrays), strict=True)))
    (got,) = run_tensors(TensorGraph.from_json(answer["graph"]), dict(enumerate(arrays)))
    assert np.isinf(wanted.numpy()).any()
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_places_far_out_are_resized_as_exactly_as_near_ones() -> None:
    import torch

    shapes = {"x": ((1, 1, 1, 1023), F)}
    body = "return F.interpolate(x, (1, 1531), mode='bilinear')"
    function, answer = in_process(body, shapes, {})
    x = np.where(np.arange(1023) % 2, 1.0, -1.0).reshape(1, 1, 1, -1)
    wanted = function(torch.from_numpy(x)).numpy()
    (got,) = run_tensors(TensorGraph.from_json(answer["graph"]), {0: x.astype(np.float32)})
    np.testing.assert_allclose(got, wanted, rtol=0, atol=4e-7)


def test_a_task_is_captured_in_the_sandbox_and_its_kernel_verified(twin_cache: Path, tmp_path: Path) -> None:
    task = torch_task("return torch.softmax(x, 0).to(x.dtype)", [{"x": ((5, 9), F)}, {"x": ((3, 7, 11), "float16")}])
    made = derive(task)
    evaluator = TaskEvaluator(TwinTarget(twin_cache), CaseLibrary(twin_cache / "cases", ReferenceRunner()))
    candidate = Candidate.of(made.source(made.first()))
    outcome = evaluator.evaluate(task, candidate, tmp_path, promote=lambda times: True)
    assert [f"{d.case_id} {d.kind}: {d.message}" for d in outcome.diagnostics if d.severity == "error"] == []
    assert outcome.verdict is Verdict.VERIFIED


REFUSED = {
    "a branch on data": ("if x.sum() > 0:\n    return x\nreturn -x", "reference line 6"),
    "a shape from data": ("return x[x > 0]", "depends on data|no lowering|Dim|data"),
    "randomness": ("return x + torch.rand_like(x)", "rand"),
    "a write into an input": ("x += 1.0\nreturn x", "writes into its inputs"),
    "a loop over elements": ("return torch.stack([r * float(r[0]) for r in x])", "reference line 6"),
    "an operator without lowering": ("return torch.linalg.inv(x)", "has no lowering"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_captured_is_refused_with_the_reason(name: str) -> None:
    body, reason = REFUSED[name]
    _, answer = in_process(body, {"x": ((4, 4), F)}, {})
    assert re.search(reason, answer["error"])


def test_captures_are_kept_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kope.derive.nest import tensor_capture

    task = torch_task("return torch.exp(x) * 0.25", [{"x": ((3, 7), F)}])
    first = plan_nests(task, tmp_path)
    monkeypatch.setattr(tensor_capture, "_captured", {})
    monkeypatch.setattr(tensor_capture, "_run", lambda *_: pytest.fail("it was captured before"))
    assert plan_nests(task, tmp_path) == first


def test_without_pytorch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DeriveError, match=re.escape(resources.install("torch"))):
        derive(torch_task("return torch.exp(x) * 0.125", [{"x": ((3, 7), F)}]))
