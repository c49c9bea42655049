"""`kope derive`: the first kernel of a task, derived from its reference without a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kope.cli.options import JsonOption
from kope.cli.output import print_json, progress, say
from kope.cli.setup import the_task

if TYPE_CHECKING:
    from kope.derive.derivation import Derivation


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("derive", epilog="Example: kope derive rms_norm -o rms_norm.asc")(derive)


def derive(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A folder, or a name on the task path.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the source here.")] = None,
    json: JsonOption = False,
) -> None:
    """Derive a kernel from a task's reference, without a model. The plan behind it is on standard error."""
    from kope import config
    from kope.cli.best import write
    from kope.derive.derivation import derive as derived

    settings = config.load()
    found = the_task(settings, task)
    with progress() as tell:
        tell(f"capturing the reference of {found.name}")
        made = derived(found, settings.cache / "captured")
    schedule = made.first()
    source = made.source(schedule)
    if output is not None:
        write(output, source)
    if json:
        print_json({"task": found.name, **made.document(), "plan": schedule.to_plan(), "source": source})
        return
    for line in plan_lines(made):
        say(line, to_stderr=output is None)
    if made.caveat:
        say(f"note: {made.caveat}", to_stderr=output is None)
    if output is None:
        typer.echo(source, nl=False)
    else:
        say(f"{output}: next, kope eval {task} {output}")


def plan_lines(made: Derivation) -> list[str]:
    """The plan for people: what is computed in which steps."""
    document = made.document()
    lines = [f"{made.task.name}: a kernel of the form {document['form']} for {len(made.task.cases)} cases"]
    if document["nodes"]:
        steps = [f"{node['op']} ({node['space']})" for node in document["nodes"]]
        return [*lines, "  " + ", ".join(steps)]
    for structure in document["structures"]:
        cases = structure["cases"]
        lines.append(f"  {len(cases)} cases ({cases[0]} first), {structure['workspace_bytes']} bytes of workspace:")
        lines += [f"    {_phase_line(at, phase)}" for at, phase in enumerate(structure["phases"])]
        lines += [
            f"    phases {loop['first']} to {loop['first'] + loop['phases'] - 1} run {loop['rounds']} times"
            for loop in structure["loops"]
        ]
    return lines


def _phase_line(at: int, phase: dict[str, Any]) -> str:
    work = ", ".join(f"{count} {op}" if count > 1 else op for op, count in phase["operations"].items())
    kind = f"{phase['kind']} {phase['op']}".strip()
    return f"{at}: {kind}" + (f" of {work}" if work else "") + (f", line {phase['line']}" if phase["line"] else "")
