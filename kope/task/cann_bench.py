"""Reads one operator folder of CANN Bench, unmodified: proto.yaml, cases.yaml, golden.py, desc.md, published times.

Nothing of the folder is executed and nothing is written to it. How values are drawn and references are run is
kope/evaluate/origin.py; which folders make up the suite is kope/task/imported.py.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kope import resources
from kope.errors import TaskError
from kope.model import Anchor, Case, Origin, OutputDecl, Parameter, Task, Tolerance
from kope.task.cann_case import ROW_KEYS, case_number, normal_row, parameters_of, read_case, tensors_of
from kope.task.cases import DTYPES, FLOATS
from kope.task.digest import task_digest
from kope.task.fields import Fields
from kope.task.golden import Signature, read_signature
from kope.task.native import DEFAULT_TOLERANCE
from kope.task.text_file import read_text

SUITE = "cann-bench"
PROTO, CASES, GOLDEN, TEXT = "proto.yaml", "cases.yaml", "golden.py", "desc.md"
PREFIX = "cann_"
THRESHOLDS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-13}
"""The suite's own threshold per dtype; a task's precision_thresholds override it."""
_INDEX_OUTPUTS = {("MoeGatingTopKSoftmax", "expert_idx"): ("x", -1)}
"""Outputs the suite leaves unchecked (compare: false without a rule) that point into an input."""


def is_operator(folder: Path) -> bool:
    """Whether a folder is an operator of this suite."""
    return (folder / PROTO).is_file() and (folder / CASES).is_file() and (folder / GOLDEN).is_file()


def operators(folder: Path) -> tuple[Path, ...]:
    """Return the operator folders of a checkout, of its `tasks` folder, or of any folder below that, sorted by path."""
    tasks = folder / "tasks"
    root = tasks if (tasks / "metadata").is_dir() else folder
    for pattern in (f"*/*/{PROTO}", f"*/{PROTO}", PROTO):
        found = sorted(file.parent for file in root.glob(pattern) if is_operator(file.parent))
        if found:
            return tuple(found)
    return ()


def task_name(folder: Path) -> str:
    """Return the name under which KOPE knows an operator folder."""
    return PREFIX + re.sub(r"[^a-z0-9_]", "_", folder.name.lower())[: 64 - len(PREFIX)]


def load_operator(folder: Path) -> Task:
    """Read an operator folder into a Task. Raises TaskError: one line with file, place and problem."""
    folder = folder.resolve()
    proto = _operator(folder / PROTO)
    operator = proto.text("name")
    symbol = _symbol(proto)
    reference = read_text(folder / GOLDEN)
    signature = read_signature(reference, folder / GOLDEN, symbol)
    rows = [(entry, case_number(entry), normal_row(entry)) for entry in _case_entries(folder / CASES)]
    tensors = [tensors_of(entry, row) for entry, _, row in rows]
    parameters = parameters_of(signature, tensors)
    cases = tuple(
        read_case(entry, number, row, given, parameters, signature.defaults)
        for (entry, number, row), given in zip(rows, tensors, strict=True)
    )
    outputs = _outputs(proto, parameters)
    inputs = tuple(name for parameter in parameters for name in parameter.inputs)
    root, unit = _suite_place(folder)
    origin = Origin(
        suite=SUITE,
        version=_version(folder),
        unit=unit,
        level=str(proto.table.get("difficulty", "")),
        operator=operator,
        root=root,
        files={f"{unit}/{name}": _sha256(folder / name) for name in (PROTO, CASES, GOLDEN)},
        parameters=tuple(parameters),
        recipe=_recipe(proto, unit, signature, {number: row for _, number, row in rows}),
        anchors=_anchors(folder, unit),
    )
    parts: dict[str, Any] = {
        "name": task_name(folder),
        "inputs": inputs,
        "outputs": outputs,
        "attrs": _common_attrs(cases),
        "reference": reference,
        "symbol": symbol,
        "framework": "torch",
        "cases": cases,
        "tolerance": _tolerance(origin.recipe["thresholds"]),
        "fixed_shapes": True,
        "origin": origin,
    }
    text = read_text(folder / TEXT) if (folder / TEXT).is_file() else str(proto.table.get("description", operator))
    tags = tuple(word.lower() for word in (str(proto.table.get("category", "")), origin.level) if word)
    return Task(**parts, text=text, tags=tags, digest=task_digest(**parts), folder=folder)


def _operator(file: Path) -> Fields:
    table = _yaml(file)
    fields = Fields(table, file).child("operator")
    if fields is None:
        raise TaskError(f"{file}: no `operator`; it is no proto.yaml of CANN Bench")
    return fields


def _symbol(proto: Fields) -> str:
    """Return the reference's function: the word before the schema's bracket, else the operator's name in lower case."""
    match = re.match(r"^(\w+)\s*\(", str(proto.table.get("schema", "")).strip())
    return match.group(1) if match else proto.text("name").lower()


def _case_entries(file: Path) -> list[Fields]:
    entries = _yaml(file).get("cases")
    if not isinstance(entries, list) or not entries:
        raise TaskError(f"{file}: no `cases`; it is no cases.yaml of CANN Bench")
    wrong = next((number for number, entry in enumerate(entries, 1) if not isinstance(entry, Mapping)), None)
    if wrong is not None:
        raise TaskError(f"{file}: cases[{wrong}] is no table; restore the file as its suite published it")
    return [Fields(entry, file, f"cases[{number}]") for number, entry in enumerate(entries, 1)]


def _recipe(proto: Fields, unit: str, signature: Signature, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the runner of this suite needs besides the reference's source."""
    symbol = _symbol(proto)
    names = [str(entry.get("name", "")) for entry in proto.table.get("inputs") or []]
    outputs = proto.table.get("outputs") or []
    return {
        "module": f"tasks.{unit.replace('/', '.')}",
        "symbol": symbol,
        "oracle": f"{symbol}_oracle" if f"{symbol}_oracle" in signature.functions else symbol,
        "same_precision": f"{symbol}_bench" if f"{symbol}_bench" in signature.functions else symbol,
        "get_input": "get_input" in signature.functions,
        "get_output": "get_output" in signature.functions,
        "defaults": dict(signature.defaults),
        "proto_inputs": names,
        "proto_outputs": [str(entry.get("name", "")) for entry in outputs],
        "skipped": [k for k, entry in enumerate(outputs) if not entry.get("compare", True)],
        "index_rules": {str(k): entry["index_gather"] for k, entry in enumerate(outputs) if entry.get("index_gather")},
        "thresholds": {str(k).lower(): float(v) for k, v in (proto.table.get("precision_thresholds") or {}).items()},
        "rows": {number: {key: row[key] for key in ROW_KEYS} for number, row in rows.items()},
    }


def _outputs(proto: Fields, parameters: Sequence[Parameter]) -> tuple[OutputDecl, ...]:
    dtypes = {str(entry.get("name")): _dtypes(entry) for entry in proto.table.get("inputs") or []}
    many = re.search(r"->\s*Tensor\[\]", str(proto.table.get("schema", ""))) is not None
    declared: list[OutputDecl] = []
    for entry in proto.table.get("outputs") or []:
        name = str(entry.get("name", f"output{len(declared)}"))
        rule = entry.get("index_gather") or {}
        into, axis = _INDEX_OUTPUTS.get((proto.text("name"), name), ("", -1))
        if rule:
            into, axis = str(rule.get("input", "")), rule.get("dim_attr", -1)
        declared.append(
            OutputDecl(
                name=name,
                dtype=_output_dtype(_dtypes(entry), dtypes, parameters),
                check="index" if into else "value",
                points_into=into,
                axis=axis,
                many=many,
            )
        )
    if not declared:
        proto.fail("outputs", "missing")
    return tuple(declared)


def _dtypes(entry: Mapping[str, Any]) -> list[str]:
    given = entry.get("dtype") or []
    return [given] if isinstance(given, str) else [str(name) for name in given]


def _output_dtype(dtypes: list[str], of_inputs: Mapping[str, list[str]], parameters: Sequence[Parameter]) -> str:
    """Return the one dtype declared, or that of the first input where it is declared with the same ones."""
    if len(dtypes) == 1 and dtypes[0] in DTYPES:
        return dtypes[0]
    first = next((parameter for parameter in parameters if parameter.inputs), None)
    if first is not None and set(of_inputs.get(first.name, ())) == set(dtypes):
        return f"same:{first.inputs[0]}"
    return "reference"


def _common_attrs(cases: Sequence[Case]) -> dict[str, Any]:
    """Return every attribute of any case with the value of the first case that has it."""
    attrs: dict[str, Any] = {}
    for case in cases:
        for name, value in case.attrs.items():
            attrs.setdefault(name, value)
    return attrs


def _tolerance(thresholds: Mapping[str, float]) -> dict[str, Tolerance]:
    """Return KOPE's tolerance, scaled where the suite's own threshold of an operator differs from its usual one."""
    rules = dict(DEFAULT_TOLERANCE)
    for dtype, threshold in thresholds.items():
        if dtype not in rules:
            continue
        if dtype in FLOATS:
            usual = rules[dtype]
            factor = threshold / THRESHOLDS[dtype]
            rules[dtype] = Tolerance(usual.rtol * factor, usual.atol * factor)
        else:
            rules[dtype] = Tolerance(0.0, threshold)
    return rules


def _suite_place(folder: Path) -> tuple[Path, str]:
    """Return the suite's root and the operator's path below it, which the suite's seeds are made from.

    The root is the folder above that holds a `metadata` folder, as in a checkout; else the operator stands alone.
    """
    for root in folder.parents:
        if (root / "metadata").is_dir():
            return root, folder.relative_to(root).as_posix()
    return folder.parent, folder.name


def _version(folder: Path) -> str:
    for place in folder.parents:
        if (place / "VERSION").is_file():
            return read_text(place / "VERSION").split("\n")[0].strip()
    return ""


def _anchors(folder: Path, unit: str) -> dict[str, dict[str, Anchor]]:
    """Return the published times per chip and case: `metadata/<chip>.json`, {group: {operator: {case: {...}}}}."""
    root, _ = _suite_place(folder)
    group, _, name = unit.rpartition("/")
    found: dict[str, dict[str, Anchor]] = {}
    for file in sorted((root / "metadata").glob("*.json")) if (root / "metadata").is_dir() else ():
        entries = _json(file).get(group, {}).get(name, {})
        chip = {str(case): _anchor(entry, file.stem) for case, entry in entries.items()}
        if chip:
            found[file.stem] = chip
    return found


def _anchor(entry: Mapping[str, Any], chip: str) -> Anchor:
    def number(key: str) -> float | None:
        value = entry.get(key)
        value = value.get(chip) if isinstance(value, Mapping) else value
        return float(value) if isinstance(value, int | float) and value > 0 else None

    return Anchor(number("baseline_perf_us"), number("t_hw_us"))


def _json(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_text(file))
    except ValueError as error:
        raise TaskError(f"{file}: no JSON: {error}; restore the file as its suite published it") from error
    return document if isinstance(document, dict) else {}


def _yaml(file: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        need = f"{file}: reading YAML needs PyYAML, which is not installed"
        raise TaskError(f"{need}; {resources.install('torch')}") from None
    try:
        document = yaml.load(read_text(file), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        one_line = " ".join(str(error).split())
        raise TaskError(f"{file}: no YAML: {one_line}; restore the file as its suite published it") from error
    if not isinstance(document, dict):
        raise TaskError(f"{file}: holds no table; restore the file as its suite published it")
    return document


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
