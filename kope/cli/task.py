"""`kope task`: list, show, check, create and import operators to write."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kope.cli.options import JsonOption
from kope.cli.output import print_json, print_table, progress, say
from kope.cli.setup import task_folders, the_task

if TYPE_CHECKING:
    from kope.evaluate.check import TaskCheck
    from kope.model import Case, Task
    from kope.suite.intake import Intake

group = typer.Typer(help="Operators to write: list, show, check, create and import them.", no_args_is_help=True)

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A folder, or a name on the task path.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group, name="task")


@group.command("new", epilog="Example: kope task new leaky_relu")
def new(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and _.")],
    folder: Annotated[Path, typer.Option("--in", help="The folder to create it in.")] = Path(),
) -> None:
    """Create the folder of a new task, complete and commented."""
    from kope.task import new_task

    created = new_task(name, folder)
    place = str(created) if "/" in str(created) else f"./{created}"
    say(f"{created}: edit task.toml and reference.py, then run kope task check {place}")


@group.command("list", epilog="Example: kope task list --json")
def list_tasks(json: JsonOption = False) -> None:
    """Show every task on the task path. A malformed one is named and does not hide the others."""
    from kope import config
    from kope.task import read_tasks
    from kope.task.document import summary

    tasks, errors = read_tasks(task_folders(config.load()))
    rows = [summary(task) for task in tasks]
    for error in errors:
        say(f"error: {error}", to_stderr=True)
    if json:
        print_json({"tasks": rows, "errors": [str(error) for error in errors]})
    else:
        print_table(
            "tasks",
            ("task", "what it computes", "cases", "elements", "dtypes"),
            [(row["task"], row["text"], row["case_count"], _span(row), " ".join(row["dtypes"])) for row in rows],
        )
    if errors:
        raise typer.Exit(1)


def _span(row: dict[str, Any]) -> str:
    return f"{_count(row['smallest'])} - {_count(row['largest'])}"


def _count(elements: int) -> str:
    for unit, size in (("M", 1 << 20), ("K", 1 << 10)):
        if elements >= size:
            return f"{elements / size:.3g} {unit}"
    return str(elements)


@group.command("show", epilog="Example: kope task show rms_norm")
def show(task: TaskName, json: JsonOption = False) -> None:
    """Show a task: text, tensors, attributes, tolerances and cases."""
    from kope import config
    from kope.task.document import task_document

    found = the_task(config.load(), task)
    if json:
        print_json(task_document(found))
        return
    outputs = ", ".join(f"{output.name} ({output.dtype})" for output in found.outputs)
    attrs = ", ".join(f"{name} = {value}" for name, value in found.attrs.items()) or "none"
    say(f"{found.name}  {found.folder}\n\n{found.text}\n")
    say(f"inputs: {', '.join(found.inputs)}   outputs: {outputs}   attributes: {attrs}")
    say(f"tags: {' '.join(found.tags) or 'none'}   digest: {found.digest[:16]}\n")
    print_table("cases", ("case", "inputs", "values", "attributes"), [_case_row(found, case) for case in found.cases])


def _case_row(task: Task, case: Case) -> tuple[str, str, str, str]:
    from kope.report.verdict import describe_inputs

    values = []
    for given in case.inputs:
        if given is not None:
            special = f" {given.values.special}" if given.values.special else ""
            values.append(f"{given.spec.name} [{given.values.low:g}, {given.values.high:g}]{special}")
    changed = [f"{name} = {value}" for name, value in case.attrs.items() if value != task.attrs[name]]
    return case.id, describe_inputs(task, case.id), ", ".join(values), ", ".join(changed)


@group.command("check", epilog="Example: kope task check ./leaky_relu")
def check(task: TaskName, json: JsonOption = False) -> None:
    """Run a task's reference on all cases and say what is wrong or weak. Exits with 1 when it cannot be used."""
    from kope import config, wiring
    from kope.evaluate.check import check_task

    settings = config.load()
    found = the_task(settings, task)
    with progress() as tell:
        result = check_task(found, wiring.case_library(settings), progress=tell)
        tell("deriving a first kernel from the reference")
        problem = _derive_problem(found)
    if json:
        print_json(_check_document(result) | {"derive_problem": problem})
        return
    rows = [
        (case.case_id, _specs(case.inputs), _specs(case.outputs), ", ".join(case.null_candidates) or "nothing")
        for case in result.cases
    ]
    print_table(found.name, ("case", "inputs", "expected outputs", "accepts besides the right values"), rows)
    for warning in result.warnings:
        say(f"warning: {warning}")
    if problem:
        say(f"note: the search cannot start from this reference: {problem}")
    else:
        say("the search can derive a first kernel from the reference")
    seconds = f"in {result.reference_s:.1f} s" if result.reference_s else "before, its outputs are cached"
    say(f"{found.name} can be used: {len(result.cases)} cases, the reference ran {seconds}")


@group.command("import", epilog="Example: kope task import cann-bench --check --largest 1")
def import_suite(
    folder: Annotated[Path, typer.Argument(help="The checkout of a suite; it is read and never written to.")],
    check_too: Annotated[
        bool, typer.Option("--check", help="Run generators and references, and try outputs that need no kernel.")
    ] = False,
    largest: Annotated[
        float, typer.Option(min=0.001, help="With --check, leave out cases with more than this many MiB of inputs.")
    ] = 4.0,
    json: JsonOption = False,
) -> None:
    """Read a benchmark's folder as tasks, as it is. Exits with 1 when a part of it cannot be used.

    Nothing is copied: the tasks are used by their folder, or by name with the suite on the task path.
    """
    from kope import config, wiring
    from kope.suite.intake import Intake, check
    from kope.task.imported import read_suite

    settings = config.load()
    suite, tasks, errors = read_suite(folder)
    rows = [Intake(task) for task in tasks]
    if check_too:
        library = wiring.case_library(settings)
        with progress() as tell:
            rows = [check(task, library, round(largest * 2**20), tell) for task in tasks]
    for error in errors:
        say(f"error: {error}", to_stderr=True)
    for problem in (problem for row in rows for problem in row.problems):
        say(f"error: {problem}", to_stderr=True)
    if json:
        documents = [row.document() for row in rows]
        print_json({"suite": suite.name, "tasks": documents, "errors": [str(error) for error in errors]})
    else:
        _print_suite(suite.name, rows, checked=check_too)
        say(f"Next: kope suite run {shlex.quote(str(folder))} --out RUN")
    raise typer.Exit(1 if errors or any(row.problems for row in rows) else 0)


def _print_suite(name: str, rows: list[Intake], *, checked: bool) -> None:
    headings = ("task", "level", "cases", "inputs, MiB", "dtypes")
    more = ("checked", "cases that accept an output without a kernel") if checked else ()
    lines = []
    for row in rows:
        document = row.document()
        span = f"{document['smallest_bytes'] / 2**20:.3g} - {document['largest_bytes'] / 2**20:.3g}"
        dtypes = {given.spec.dtype: None for case in row.task.cases for given in case.inputs if given is not None}
        nulls = ", ".join(f"{case} ({' '.join(names)})" for case, names in row.nulls.items())
        found = (f"{row.checked}/{document['cases']}", nulls or "none") if checked else ()
        lines.append((row.task.name, document["level"], document["cases"], span, " ".join(dtypes), *found))
    cases = sum(len(row.task.cases) for row in rows)
    print_table(f"{name}: {len(rows)} tasks, {cases} cases", (*headings, *more), lines)


def _derive_problem(task: Task) -> str | None:
    """Why no first kernel can be derived: then `kope optimize` needs a proposer that writes one, or `kope tell`."""
    from kope import config
    from kope.derive.derivation import derive
    from kope.errors import DeriveError

    try:
        made = derive(task, config.load().cache / "captured")
        made.source(made.first())
    except DeriveError as error:
        return str(error)
    return made.caveat or None


def _specs(specs: Any) -> str:
    return ", ".join("omitted" if spec is None else f"{spec.name} {list(spec.shape)} {spec.dtype}" for spec in specs)


def _check_document(result: TaskCheck) -> dict[str, Any]:
    def tensor(spec: Any) -> dict[str, Any] | None:
        return None if spec is None else {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype}

    return {
        "task": result.task.name,
        "digest": result.task.digest,
        "reference_s": result.reference_s,
        "warnings": list(result.warnings),
        "cases": [
            {
                "case": case.case_id,
                "inputs": [tensor(spec) for spec in case.inputs],
                "outputs": [tensor(spec) for spec in case.outputs],
                "null_candidates": list(case.null_candidates),
                "native_error": case.native_error,
            }
            for case in result.cases
        ],
    }
