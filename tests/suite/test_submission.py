"""A submission: outputs allocated by rules that hold for every case, kernels unchanged, and a CPU build on the twin."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope.cli import app
from kope.errors import TaskError
from kope.model import Case, CaseInput, Origin, OutputDecl, Parameter, Task, TensorSpec
from kope.suite import shapes
from kope.suite.record import CaseRecord, RunFolder, RunInfo, TaskRecord
from kope.suite.shapes import OutputRule, output_rules
from tests.documents import parsed

SUITE = Path(__file__).parents[1] / "task" / "cann_suite"
KERNEL = Path(__file__).parents[1] / "target" / "kernels" / "exp.asc"


def case(number: int, attrs: dict[str, Any], *inputs: tuple[str, tuple[int, ...], str]) -> Case:
    return Case(str(number), tuple(CaseInput(TensorSpec(*given)) for given in inputs), attrs)


def a_task(parameters: tuple[Parameter, ...], outputs: int, *, many: bool = False) -> Task:
    origin = Origin("cann-bench", "1", "level1/op", "L1", "Op", Path(), {}, parameters, {})
    names = tuple(name for parameter in parameters for name in parameter.inputs)
    declared = tuple(OutputDecl(f"y{k}", "reference", many=many) for k in range(outputs))
    return Task("cann_op", "", names, declared, {}, "", "op", "torch", (), {}, "", origin=origin)


def tensors(*names: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, "tensor", (name,)) for name in names)


def found(task: Task, *known: tuple[Case, tuple[tuple[int, ...], str]]) -> OutputRule:
    (rule,) = output_rules(task, [(one, [TensorSpec("y0", *output)]) for one, output in known])
    return rule


def test_the_simplest_rule_that_holds_in_every_case_is_taken() -> None:
    xy = a_task(tensors("x", "w"), 1)
    f32, f16 = "float32", "float16"
    assert found(xy, (case(1, {}, ("x", (4, 6), f32), ("w", (6,), f16)), ((4, 6), f32))) == OutputRule(
        "x.shape", "x.dtype"
    )
    wide = case(1, {}, ("x", (4, 1), f32), ("w", (4, 6), f16)), ((4, 6), f16)
    other = case(2, {}, ("x", (3, 6), f32), ("w", (1, 6), f32)), ((3, 6), f32)
    assert found(xy, wide, other) == OutputRule("broadcast(x.shape, w.shape)", "w.dtype")
    product = case(1, {}, ("x", (2, 4, 6), f32), ("w", (6, 5), f32)), ((2, 4, 5), f32)
    assert found(xy, product).shape == "(*x.shape[:-1], w.shape[-1])"


def test_attributes_decide_shapes_and_dtypes() -> None:
    attrs = (Parameter("dim", "attr"), Parameter("keepdim", "attr"), Parameter("k", "attr"), Parameter("to", "attr"))
    task = a_task((*tensors("x"), *attrs), 1)
    given = {"keepdim": True, "k": 3, "to": "float16"}
    kept = case(1, {**given, "dim": 1}, ("x", (4, 6, 7), "int8")), ((4, 1, 7), "float16")
    gone = case(2, {**given, "dim": -1, "keepdim": False}, ("x", (4, 6), "int8")), ((4,), "float16")
    assert found(task, kept, gone) == OutputRule("reduced(x.shape, dim, keepdim)", "'float16'")
    top = case(1, {**given, "dim": 0}, ("x", (4, 6), "int8")), ((3, 6), "int64")
    last = case(2, {**given, "dim": 1, "k": 2}, ("x", (4, 6), "int8")), ((4, 2), "int64")
    assert found(task, top, last) == OutputRule("resized(x.shape, dim, k)", "'int64'")
    one = case(1, {**given, "dim": 0}, ("x", (4, 6), "int8")), ((2, 6), "float16")
    two = case(2, {**given, "dim": 1, "to": "float32"}, ("x", (4, 6), "int8")), ((4, 3), "float32")
    assert found(task, one, two) == OutputRule("halved(x.shape, dim)", "to")


def test_a_shape_may_be_put_together_from_extents() -> None:
    task = a_task((*tensors("x", "w"), Parameter("size", "attr")), 1)
    first = case(1, {"size": (7, 9)}, ("x", (2, 3, 50, 60), "float32"), ("w", (8, 3, 1, 1), "float32"))
    second = case(2, {"size": (5, 4)}, ("x", (1, 3, 20, 60), "float32"), ("w", (6, 3, 1, 1), "float32"))
    rule = found(task, (first, ((2, 8, 7, 9), "float32")), (second, ((1, 6, 5, 4), "float32")))
    assert rule.shape == "(x.shape[0], w.shape[0], size[0], size[1])"
    assert shapes.evaluate(rule.shape, shapes.arguments(task, first)) == (2, 8, 7, 9)


def test_a_convolution_has_its_formula() -> None:
    lists = tuple(Parameter(name, "attr") for name in ("strides", "pads", "dilations"))
    task = a_task((*tensors("x", "w"), *lists), 1)
    f32 = "float32"
    one = case(
        1,
        {"strides": (1, 2), "pads": (1, 1, 0, 2), "dilations": (1, 1)},
        ("x", (2, 3, 9, 9), f32),
        ("w", (8, 3, 3, 3), f32),
    )
    two = case(
        2,
        {"strides": (2, 1), "pads": (0, 0, 1, 1), "dilations": (2, 3)},
        ("x", (1, 3, 12, 9), f32),
        ("w", (4, 3, 2, 3), f32),
    )
    rule = found(task, (one, ((2, 8, 9, 5), f32)), (two, ((1, 4, 5, 5), f32)))
    assert rule.shape == (
        "(x.shape[0], w.shape[0], window(x.shape[2], w.shape[2], strides[0], pads[0] + pads[1], dilations[0]), "
        "window(x.shape[3], w.shape[3], strides[1], pads[2] + pads[3], dilations[1]))"
    )


def test_lists_follow_lists() -> None:
    members = Parameter("x", "list", ("x_0", "x_1"))
    task = a_task((members,), 1, many=True)
    both = case(1, {}, ("x_0", (3,), "float16"), ("x_1", (4, 5), "float16"))
    specs = [TensorSpec("y_0", (3,), "float16"), TensorSpec("y_1", (4, 5), "float16")]
    same = OutputRule("[one.shape for one in x]", "[one.dtype for one in x]", many=True)
    assert output_rules(task, [(both, specs)]) == [same]
    scalars = [replace(spec, shape=()) for spec in specs]
    assert output_rules(task, [(both, scalars)])[0].shape == "[() for one in x]"


def test_what_no_rule_says_is_refused() -> None:
    task = a_task(tensors("x"), 1)
    odd = (
        (case(1, {}, ("x", (5,), "float32")), ((3,), "float32")),
        (case(2, {}, ("x", (9,), "float32")), ((4,), "float32")),
    )
    with pytest.raises(TaskError, match="cann_op: no rule found for the shape of an output"):
        found(task, *odd)
    one, two = case(1, {}, ("x", (5,), "float32")), case(2, {}, ("x", (5,), "float32"))
    y = TensorSpec("y", (5,), "float32")
    with pytest.raises(TaskError, match="more outputs in some cases than in others"):
        output_rules(task, [(one, [y]), (two, [y, y])])


# --- a whole submission ---------------------------------------------------------------------------------------------

PROTO = """
operator:
  name: PlainExp
  difficulty: L1
  description: exp, element by element
  schema: plain_exp(Tensor x, float unused=1.5) -> Tensor y
  inputs: [{name: x, dtype: [float32, float16, bfloat16]}]
  outputs: [{name: y, dtype: [float32, float16, bfloat16]}]
"""
CASES = """
cases:
- {operator: PlainExp, case_id: 1, input_shape: [[7, 9]], dtype: [float32], attrs: {}, value_range: [-1, 1]}
- {operator: PlainExp, case_id: 2, input_shape: [[33]], dtype: [bfloat16], attrs: {unused: 2.0}, value_range: [-1, 1]}
"""
GOLDEN = "import torch\n\n\ndef plain_exp(x: torch.Tensor, unused: float = 1.5):\n    return torch.exp(x)\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twin_cache: Path) -> Path:
    """A run of a suite of one operator, whose kernel is right on one case, and of one without a kernel."""
    from kope.task.cann_bench import load_operator

    monkeypatch.setenv("KOPE_CACHE", str(twin_cache))
    shutil.copytree(SUITE, tmp_path / "suite")
    folder = tmp_path / "suite" / "tasks" / "level1" / "plain_exp"
    folder.mkdir()
    for name, text in (("proto.yaml", PROTO), ("cases.yaml", CASES), ("golden.py", GOLDEN)):
        (folder / name).write_text(text)
    tasks = [load_operator(folder), load_operator(folder.parent / "scaled_add")]
    info = RunInfo(
        id="r1",
        system="KOPE",
        suite="cann-bench",
        version="0.1.0",
        time_kind="modelled",
        hardware="twin:910b2:1",
        facts={"tasks": {task.name: task.digest for task in tasks}},
        declared={task.name: [one.id for one in task.cases] for task in tasks},
        places={task.name: str(task.folder) for task in tasks},
    )
    place = RunFolder.create(tmp_path / "run", info)
    cases = (CaseRecord("1", passed=True, official=True), CaseRecord("2", official=True))
    exp = TaskRecord("cann_plain_exp", "level1/plain_exp", "L1", "PlainExp", tasks[0].digest, cases, candidate="c" * 64)
    place.add(exp, KERNEL.read_text())
    place.add(TaskRecord("cann_scaled_add", "level1/scaled_add", "L1", "ScaledAdd", tasks[1].digest, ()), None)
    return tmp_path / "run"


@pytest.mark.torch
def test_a_cpu_build_runs_the_same_kernel_on_the_twin(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    done = CliRunner().invoke(app, ["suite", "export", str(run), "-o", str(tmp_path / "out")])
    assert (done.exit_code, done.stdout) == (
        0,
        f"{tmp_path}/out: 1 operators; next: bash {tmp_path}/out/build.sh --cpu\n",
    ), done.output
    out = tmp_path / "out"
    assert (out / "csrc" / "plain_exp.asc").read_text() == KERNEL.read_text()
    assert "| PlainExp | `plain_exp` | 1/2 | 2/2 | cccccccccccccccc |" in (out / "README.md").read_text()
    shutil.copytree(out / "csrc", out / "cann_bench" / "kernels")  # what build.sh --cpu does before it packs
    monkeypatch.syspath_prepend(str(out))
    package = importlib.import_module("cann_bench")
    assert package.__all__ == ["plain_exp"]
    x = torch.linspace(-1, 1, 35).reshape(5, 7)
    for dtype in (torch.float32, torch.bfloat16):
        y = package.plain_exp(x=x.to(dtype), unused=2.0)
        assert (y.dtype, y.shape) == (dtype, x.shape)
        assert torch.allclose(y.float(), torch.exp(x.to(dtype).float()), rtol=1e-2)
    with pytest.raises(RuntimeError, match="plain_exp: entry-refused"):
        package.plain_exp(x=x.to(torch.int32))


@pytest.mark.torch
def test_the_build_script_makes_the_wheel_that_is_handed_in(run: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["suite", "export", str(run), "-o", str(tmp_path / "out"), "--json"])
    document = parsed(done.stdout, "suite_export")
    assert document["operators"] == {"plain_exp": {"passed": 1, "official": 2, "cases": 2}}
    script = ["bash", str(tmp_path / "out" / "build.sh")]
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    said = subprocess.run([*script, "--cpu"], env=environment, capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == "cann_bench-1.0.0-py3-none-any.whl"
    refused = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=60)
    assert (refused.returncode, "bisheng is not on the path" in refused.stderr) == (1, True)


@pytest.mark.torch
def test_a_task_that_has_changed_is_not_handed_in(run: Path, tmp_path: Path) -> None:
    cases = tmp_path / "suite" / "tasks" / "level1" / "plain_exp" / "cases.yaml"
    cases.write_text(cases.read_text().replace("[7, 9]", "[7, 8]"))
    done = CliRunner().invoke(app, ["suite", "export", str(run), "-o", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "cann_plain_exp has changed since the run" in done.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    cases.write_text(cases.read_text().replace("[7, 8]", "[7, 9]"))
    done = CliRunner().invoke(app, ["suite", "export", str(run), "-o", str(tmp_path / "full")])
    assert "full is not empty" in done.stderr
