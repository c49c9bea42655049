"""Writes the best kernels of a run as a submission that CANN Bench accepts, with a CPU build that runs on the twin.

build.sh, setup.py, README.md
cann_bench/          one function per operator; allocates outputs, fills a KopeCall, launches
csrc/NAME.asc        the kernels, unchanged; csrc/kope_candidate.h
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from kope import __version__, render
from kope.errors import ConfigError, TaskError
from kope.evaluate.prepared import CaseLibrary
from kope.model import Case, Parameter, Task, TensorSpec
from kope.suite import shapes
from kope.suite.record import RunFolder, TaskRecord

SUITE = "cann-bench"
_HEADER = "kope_candidate.h"


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator handed in, as the templates need it. inputs: the list of the call's inputs, as Python text."""

    symbol: str
    operator: str
    candidate: str
    source: str
    signature: str
    inputs: str
    attrs: tuple[str, ...]
    rules: tuple[shapes.OutputRule, ...]
    passed: int
    official: int
    cases: int

    @property
    def many(self) -> bool:
        """Whether it returns a list."""
        return self.rules[0].many


@dataclass(frozen=True, slots=True)
class Submission:
    """What was written: operators in order, and why others were left out, by task."""

    folder: Path
    operators: tuple[Operator, ...]
    refused: Mapping[str, str]


def export(
    run: RunFolder, tasks: Sequence[Task], folder: Path, library: CaseLibrary, facts: Mapping[str, float]
) -> Submission:
    """Write a submission of every operator with a kernel that passes a case. facts: of the chip, for the launches.

    Raises ConfigError when the run is of another suite, nothing can be handed in, or the folder is in use.
    """
    if run.info.suite != SUITE:
        raise ConfigError(
            f"{run.path}: a run of {run.info.suite or 'single tasks'}, not of {SUITE}; there is no format for it"
        )
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; give another folder")
    operators: list[Operator] = []
    refused: dict[str, str] = {}
    for task in tasks:
        record, source = run.records.get(task.name), run.kernel(task.name) if task.name in run.records else None
        if record is None or source is None or not any(case.passed or case.official for case in record.cases):
            continue
        try:
            operators.append(_operator(task, record, source, library))
        except TaskError as error:
            refused[task.name] = str(error).removeprefix(f"{task.name}: ")
    if not operators:
        why = "; ".join(refused.values()) or "no kernel of it passes a case"
        raise ConfigError(f"{run.path}: nothing to hand in: {why}")
    _write(folder, run, operators, refused, facts)
    return Submission(folder, tuple(operators), refused)


def _operator(task: Task, record: TaskRecord, source: str, library: CaseLibrary) -> Operator:
    assert task.origin is not None
    parameters = task.origin.parameters
    rules = shapes.output_rules(task, _known(task, library))
    return Operator(
        symbol=task.symbol,
        operator=record.operator,
        candidate=record.candidate,
        source=source,
        signature=", ".join(_parameter(parameter, task.origin.recipe["defaults"]) for parameter in parameters),
        inputs=", ".join(_input(parameter) for parameter in parameters if parameter.kind != "attr"),
        attrs=tuple(parameter.name for parameter in parameters if parameter.kind == "attr"),
        rules=tuple(rules),
        passed=record.passed_count,
        official=sum(case.official is True for case in record.cases),
        cases=len(record.cases),
    )


def _known(task: Task, library: CaseLibrary) -> list[tuple[Case, list[TensorSpec]]]:
    """Return the outputs' shapes and dtypes of every case of the run, as the reference returns them."""
    return [(item.case, [want.spec for want in item.wants]) for item in library.prepare(task, task.cases)]


def _parameter(parameter: Parameter, defaults: Mapping[str, Any]) -> str:
    return f"{parameter.name}={defaults[parameter.name]!r}" if parameter.name in defaults else parameter.name


def _input(parameter: Parameter) -> str:
    return f"*padded({parameter.name}, {len(parameter.inputs)})" if parameter.kind == "list" else parameter.name


def _write(
    folder: Path,
    run: RunFolder,
    operators: Sequence[Operator],
    refused: Mapping[str, str],
    facts: Mapping[str, float],
) -> None:
    values: dict[str, Any] = {
        "version": __version__,
        "origin": f"run {run.info.id} ({run.info.suite} {run.info.version})",
        "operators": operators,
        "refused": refused,
        "ub_bytes": int(facts["ub_kernel_bytes"]),
        "vector_cores": int(facts["vector_core_count"]),
    }
    package = folder / "cann_bench"
    (folder / "csrc").mkdir(parents=True)
    package.mkdir()
    for template, file in (
        ("init.py", package / "__init__.py"),
        ("launch.py", package / "_launch.py"),
        ("twin.py", package / "_twin.py"),
        ("setup.py", folder / "setup.py"),
        ("build.sh", folder / "build.sh"),
        ("readme.md", folder / "README.md"),
    ):
        text = render.render(f"submission/{template}", **values)
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    (package / "_shapes.py").write_text(_shape_functions(), encoding="utf-8")
    (folder / "build.sh").chmod(0o755)
    for operator in operators:
        (folder / "csrc" / f"{operator.symbol}.asc").write_text(operator.source, encoding="utf-8")
    header = Path(str(files("kope.target"))) / "include" / _HEADER
    (folder / "csrc" / _HEADER).write_text(header.read_text(encoding="utf-8"), encoding="utf-8")


def _shape_functions() -> str:
    """Return the source of what the shape expressions call, for Python from 3.8 on."""
    parts = ['"""Shapes of outputs from shapes of inputs."""\n\nimport itertools\n']
    for function in shapes.FUNCTIONS.values():
        parts.append("\n\n" + inspect.getsource(cast(FunctionType, function)))
    text = "".join(parts)
    for annotation in (": Sequence[int]", " -> Shape", ": int", ": bool"):
        text = text.replace(annotation, "")
    return text
