"""Reads tasks that are one Python file with a `Model`, as KernelBench and MultiKernelBench have them, unmodified.

What a file's inputs look like is known only to its Python, so it runs in the sandbox, without data. The model's weights
become inputs, after those of `forward`: a kernel gets everything it needs through its call.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kope import resources, sandbox
from kope.errors import TaskError
from kope.model import Case, CaseInput, Origin, OutputDecl, Parameter, Task, TensorSpec, Values
from kope.task.cann_case import attr_value
from kope.task.cases import DTYPES
from kope.task.digest import task_digest
from kope.task.fields import Fields
from kope.task.native import DEFAULT_TOLERANCE
from kope.task.text_file import read_text

KERNEL_BENCH, MULTI_KERNEL_BENCH = "kernelbench", "multikernelbench"
SEEDS = {KERNEL_BENCH: 42, MULTI_KERNEL_BENCH: 1024}
"""The seed of weights and inputs in each suite's own evaluation."""
_PREFIX = {KERNEL_BENCH: "kb", MULTI_KERNEL_BENCH: "mkb"}
_CHILD = Path(__file__).with_name("describe_child.py")
_FILE_S, _BASE_S = 5.0, 60.0
_WEIGHT = "w_"
_NAME_LENGTH = 64


def is_kernel_bench(path: Path) -> bool:
    """Whether a path is a task of KernelBench: level1/23_Softmax.py with a Model and its inputs."""
    return re.fullmatch(r"level\d+", path.parent.name) is not None and _is_model_file(path)


def is_multi_kernel_bench(path: Path) -> bool:
    """Whether a path is a task of MultiKernelBench: reference/<category>/<operator>.py."""
    return len(path.parents) > 1 and path.parents[1].name == "reference" and _is_model_file(path)


def kernel_bench_files(folder: Path) -> tuple[Path, ...]:
    """Return the tasks of a checkout, of its KernelBench folder, or of one level, by level and number."""
    inner = folder / "KernelBench"
    root = inner if inner.is_dir() else folder
    found = [path for pattern in ("level*/*.py", "*.py") for path in root.glob(pattern) if is_kernel_bench(path)]
    return tuple(sorted(found, key=lambda path: (path.parent.name, _number(path.stem), path.name)))


def multi_kernel_bench_files(folder: Path) -> tuple[Path, ...]:
    """Return the tasks of a checkout, of its reference folder, or of one category, sorted by path."""
    inner = folder / "reference"
    root = inner if inner.is_dir() else folder
    return tuple(
        sorted(path for pattern in ("*/*.py", "*.py") for path in root.glob(pattern) if is_multi_kernel_bench(path))
    )


def task_name(path: Path) -> str:
    """Return the name under which KOPE knows a model file; a long one is cut and told apart by a hash."""
    prefix = _PREFIX[_suite(path)]
    words = f"{prefix}_{path.parent.name.replace('level', 'l')}_{path.stem}".lower()
    name = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]", "_", words)).strip("_")
    if len(name) <= _NAME_LENGTH:
        return name
    return f"{name[: _NAME_LENGTH - 7]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def load_file(path: Path) -> Task:
    """Read one model file. Raises TaskError."""
    (task,) = load_files([path])
    if isinstance(task, TaskError):
        raise task
    return task


def load_files(paths: Sequence[Path]) -> list[Task | TaskError]:
    """Read model files, all described by one process; one that cannot be read is its error."""
    paths = [path.resolve() for path in paths]
    described = _described(paths)
    tasks: list[Task | TaskError] = []
    for path in paths:
        try:
            tasks.append(_task(path, described.get(str(path), {"error": "it ended the process that describes it"})))
        except TaskError as error:
            tasks.append(error)
    return tasks


def _is_model_file(path: Path) -> bool:
    if path.suffix != ".py" or not path.is_file():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    return re.search(r"^class Model\b", text, re.MULTILINE) is not None and "def get_in" in text


def _suite(path: Path) -> str:
    return MULTI_KERNEL_BENCH if len(path.parents) > 1 and path.parents[1].name == "reference" else KERNEL_BENCH


def _number(stem: str) -> int:
    found = re.match(r"\d+", stem)
    return int(found[0]) if found else 0


def _described(paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Run the child on all files. One that kills it costs the files behind it their turn, so they run again."""
    answers: dict[str, dict[str, Any]] = {}
    waiting = [str(path) for path in paths]
    while waiting:
        found = _run(waiting)
        answers |= found
        left = [path for path in waiting if path not in found]
        if left and len(left) == len(waiting):
            answers[left[0]] = {"error": "it ends the process that describes it"}
            left = left[1:]
        waiting = left
    return answers


def _run(paths: Sequence[str]) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="kope-describe-") as name:
        folder = Path(name)
        (folder / "request.json").write_text(json.dumps({"files": paths, "result": str(folder / "result.jsonl")}))
        limits = sandbox.Limits(wall_s=_BASE_S + _FILE_S * len(paths), memory_bytes=4 << 30, address_bytes=16 << 30)
        shown = sorted({Path(path).parent for path in paths})
        done = sandbox.run(
            [sys.executable, "-I", "-B", str(_CHILD), "request.json"],
            workdir=folder,
            limits=limits,
            readable=[*sandbox.python_paths(), _CHILD, *shown],
        )
        result = folder / "result.jsonl"
        if not result.is_file():
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1][:200]
            missing = "No module named 'torch'" in done.stderr
            why = f"PyTorch is not installed; {resources.install('torch')}" if missing else last
            raise TaskError(f"{paths[0]}: model files cannot be described: {why}")
        lines = [json.loads(line) for line in result.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        return {line["path"]: line for line in lines}


def _task(path: Path, described: Mapping[str, Any]) -> Task:
    if "error" in described:
        raise TaskError(f"{path}: {described['error']}; a task is described without data, by its own Python")
    reference = read_text(path)
    names, init_names = _signatures(reference, path)
    fields = Fields({}, path)
    weights = {_weight_name(key): key for key, *_ in described["weights"]}
    groups = described["cases"]
    parameters = _parameters(fields, names, groups, weights)
    init = dict(zip(init_names, described["init"], strict=False))
    fixed = {name: given["value"] for name, given in init.items() if given.get("value") is not None}
    cases = tuple(
        _case(fields, str(k), group, names, parameters, described["weights"], fixed)
        for k, group in enumerate(groups, 1)
    )
    suite = _suite(path)
    data = {file.name: read_text(file) for file in sorted(path.parent.glob(f"{path.stem}*.json"))}
    unit = f"{path.parent.name}/{path.stem}"
    origin = Origin(
        suite=suite,
        version="",
        unit=unit,
        level=path.parent.name.replace("level", "L"),
        operator=path.stem,
        root=path.parent.parent,
        files={unit + path.suffix: hashlib.sha256(path.read_bytes()).hexdigest()},
        parameters=tuple(parameters),
        recipe={
            "module": "reference",
            "seed": SEEDS[suite],
            "weights": weights,
            "forward": names[: len(groups[0])],
            "data": data,
            "rows": {case.id: {"group": k} for k, case in enumerate(cases)},
        },
    )
    parts: dict[str, Any] = {
        "name": task_name(path),
        "inputs": tuple(name for parameter in parameters for name in parameter.inputs),
        "outputs": (OutputDecl("y", "reference"),),
        "attrs": dict(cases[0].attrs),
        "reference": reference,
        "symbol": "Model",
        "framework": "torch",
        "cases": cases,
        "tolerance": dict(DEFAULT_TOLERANCE),
        "fixed_shapes": True,
        "origin": origin,
    }
    text = ast.get_docstring(_class(ast.parse(reference))) or path.stem
    return Task(**parts, text=text, tags=(path.parent.name,), digest=task_digest(**parts), folder=path)


def _class(tree: ast.Module) -> ast.ClassDef:
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model")


def _signatures(source: str, path: Path) -> tuple[list[str], list[str]]:
    """Return the parameters of forward and of the constructor, without self."""
    methods = {node.name: node for node in _class(ast.parse(source)).body if isinstance(node, ast.FunctionDef)}
    if "forward" not in methods:
        raise TaskError(f"{path}: Model has no forward; the suite itself cannot load this task")
    init = methods.get("__init__")
    return _names(methods["forward"]), _names(init) if init is not None else []


def _names(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)][1:]


def _weight_name(key: str) -> str:
    return _WEIGHT + re.sub(r"\W", "_", key)


def _parameters(
    fields: Fields, names: Sequence[str], groups: Sequence[Sequence[Any]], weights: Mapping[str, str]
) -> list[Parameter]:
    longest = max(len(group) for group in groups)
    if longest > len(names):
        fields.fail("get_inputs", f"gives {longest} inputs, forward takes {len(names)}")
    parameters = []
    for at, name in enumerate(names[:longest]):
        given = [group[at] for group in groups if at < len(group)]
        lists = [len(value["list"]) for value in given if "list" in value]
        if lists:
            parameters.append(Parameter(name, "list", tuple(f"{name}_{k}" for k in range(max(lists)))))
        elif any("shape" in value for value in given):
            parameters.append(Parameter(name, "tensor", (name,)))
        else:
            parameters.append(Parameter(name, "attr"))
    return [*parameters, *(Parameter(name, "tensor", (name,)) for name in weights)]


def _case(
    fields: Fields,
    case_id: str,
    group: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    parameters: Sequence[Parameter],
    weights: Sequence[Sequence[Any]],
    fixed: Mapping[str, Any],
) -> Case:
    inputs: list[CaseInput | None] = []
    attrs = {name: attr_value(fields, name, value) for name, value in fixed.items()}
    by_name = dict(zip(names, group, strict=False))
    for parameter in parameters[: len(parameters) - len(weights)]:
        value = by_name.get(parameter.name, {"value": None})
        members = value.get("list", [value] if "shape" in value else [])
        for k, name in enumerate(parameter.inputs):
            inputs.append(_input(fields, name, members[k]) if k < len(members) else None)
        if parameter.kind == "attr" and value.get("value") is not None:
            attrs[parameter.name] = attr_value(fields, parameter.name, value["value"])
    for key, shape, dtype in weights:
        inputs.append(_input(fields, _weight_name(key), {"shape": shape, "dtype": dtype}))
    return Case(case_id, tuple(inputs), attrs)


def _input(fields: Fields, name: str, given: Mapping[str, Any]) -> CaseInput:
    if given["dtype"] not in DTYPES:
        fields.fail("get_inputs", f"{name} is {given['dtype']}, which KOPE does not know")
    return CaseInput(TensorSpec(name, tuple(given["shape"]), given["dtype"]), Values(0.0, 1.0))
