"""`kope twin check` and `kope twin run`: Ascend C that was not written for KOPE, compiled and run on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kope.cli.options import ChipOption, CompilerOption, JsonOption
from kope.cli.output import print_json, print_rich, progress, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from kope.target.twin.foreign import Foreign, ForeignRun

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A .asc, .cpp or .h with kernels.")]
LaunchOption = Annotated[Path | None, typer.Option("--launch", "-l", help="A launch description, see docs/twin.md.")]
RootOption = Annotated[
    Path | None, typer.Option("--root", help="Folder below which the project's headers are. [found by itself]")
]
IncludeOption = Annotated[list[Path] | None, typer.Option("--include", "-I", help="A folder with headers; repeatable.")]
DefineOption = Annotated[list[str] | None, typer.Option("--define", "-D", help="NAME or NAME=VALUE; repeatable.")]
ModeOption = Annotated[str, typer.Option("--checks", help="normal, strict, adversarial or off.")]
SanitizeOption = Annotated[
    str | None, typer.Option("--sanitize", help="address: find errors in host and scalar code (programs).")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    twin = typer.Typer(help="Run Ascend C kernels of others on this machine.", no_args_is_help=True)
    twin.command("check", epilog="Example: kope twin check op_kernel/gelu.cpp")(check)
    twin.command("run", epilog="Example: kope twin run op_kernel/gelu.cpp --launch gelu.json")(run)
    app.add_typer(twin, name="twin")


def check(
    file: FileArgument,
    launch: LaunchOption = None,
    root: RootOption = None,
    include: IncludeOption = None,
    define: DefineOption = None,
    chip: ChipOption = None,
    compiler: CompilerOption = None,
    json: JsonOption = False,
) -> None:
    """Compile a kernel, a program or a candidate without running it. Exits with 1 unless it compiles."""
    from kope.target.twin.foreign import description

    with progress() as tell:
        foreign = _foreign(chip, compiler, root, include, define, None, tell)
        done = foreign.check(file, description.read(launch) if launch else None)
    _show(done, foreign, json)


def run(
    file: FileArgument,
    launch: LaunchOption = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENT]...", help="For a program's main.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder a program runs in and may write. [the current one]")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for outputs, as .npy.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="File for a timeline; open it at ui.perfetto.dev.")
    ] = None,
    checks: ModeOption = "normal",
    sanitize: SanitizeOption = None,
    root: RootOption = None,
    include: IncludeOption = None,
    define: DefineOption = None,
    time_limit: Annotated[float, typer.Option(min=1.0, help="Seconds a run may take.")] = 120.0,
    chip: ChipOption = None,
    compiler: CompilerOption = None,
    json: JsonOption = False,
) -> None:
    """Run any kernel or program, look for defects, model its time. Exits with 1 unless all is well."""
    from kope.cli.best import write
    from kope.target.twin import timeline
    from kope.target.twin.foreign import description

    _one_of(checks, ("normal", "strict", "adversarial", "off"), "--checks")
    with progress() as tell:
        foreign = _foreign(chip, compiler, root, include, define, sanitize, tell)
        done = foreign.run(
            file,
            description.read(launch) if launch else None,
            folder=folder,
            arguments=arguments or (),
            checks=checks,  # type: ignore[arg-type]
            output=output,
            trace=trace is not None,
            time_limit_s=time_limit,
        )
    if trace is not None and done.launches:
        write(trace, timeline.as_text(timeline.chrome_trace(done.launches, foreign.target.parameters)))
        say(f"timeline: {trace}{_left_out(done)}; open it at ui.perfetto.dev", to_stderr=True)
    elif trace is not None:
        say("no timeline: no launch came to its end", to_stderr=True)
    _show(done, foreign, json)


def _left_out(done: ForeignRun) -> str:
    count = sum(int(launch.get("spans_left_out", 0)) for launch in done.launches)
    return f", its beginning ({count} entries more)" if count else ""


def _foreign(
    chip: str | None,
    compiler: str | None,
    root: Path | None,
    include: list[Path] | None,
    define: list[str] | None,
    sanitize: str | None,
    tell: Callable[[str], None],
) -> Foreign:
    from kope import config, wiring
    from kope.target.twin.foreign import Foreign
    from kope.target.twin.target import TwinTarget

    settings = config.load({"target": "twin", "chip": chip, "compiler": compiler})
    target = wiring.target(settings, progress=tell)
    assert isinstance(target, TwinTarget)
    if sanitize is not None:
        _one_of(sanitize, ("address",), "--sanitize")
    folders = tuple(path.resolve() for path in include or ())
    return Foreign(target, root, folders, tuple(define or ()), sanitize == "address")


def _one_of(value: str, known: tuple[str, ...], option: str) -> None:
    from kope.errors import LaunchError

    if value not in known:
        raise LaunchError(f"{option} is {value!r}; choose one of {', '.join(known)}")


def _show(done: ForeignRun, foreign: Foreign, json: bool) -> None:
    from kope.report import twin as report
    from kope.report import verdict

    if json:
        print_json(report.run_document(done, foreign.target.parameters))
    else:
        if done.kind == "program" and done.log:
            say(done.log.rstrip())
        if done.launches:
            print_rich(report.launch_table(done, foreign.target.parameters))
        for line in [*report.comparison_lines(done), *verdict.finding_lines(done.diagnostics)]:
            say(line)
        say(
            report.result_line(done)
            if done.launches or not done.compiled or done.returncode is not None
            else "compiles"
        )
    raise typer.Exit(0 if done.ok else 1)
