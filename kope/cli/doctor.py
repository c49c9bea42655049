"""`kope doctor`: what is installed, what it resolves to, what is missing and how to get it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kope.cli import options
from kope.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from kope.config import Settings
    from kope.doctor import Finding


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", epilog="Example: kope doctor --json")(doctor)


def doctor(
    db: options.DbOption = None,
    target: options.TargetOption = None,
    compiler: options.CompilerOption = None,
    evaluator: Annotated[
        bool, typer.Option("--evaluator", help="Show the checks that a candidate has to pass.")
    ] = False,
    selftest: Annotated[
        bool, typer.Option("--selftest", help="Compile, run and time a built-in kernel step by step.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="With --selftest: write a report to hand on, without names.")
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Show what is installed, set and missing, and how to get it."""
    if output is not None and not selftest:
        raise typer.BadParameter("--output is for the report of --selftest")
    if evaluator:
        _checks(json)
        return
    from kope import config
    from kope.doctor import examine

    settings = config.load({"db": db, "target": target, "compiler": compiler})
    if selftest:
        _selftest(settings, output, json)
    found = examine(settings)
    if json:
        print_json(found.document())
    else:
        _findings("versions", found.versions)
        print_table("settings", ("setting", "value", "from"), [(s.name, s.value, s.origin) for s in found.settings])
        _findings("compilers", found.compilers)
        _findings("sandbox", found.sandbox)
        _findings("embedder", [found.embedder])
        _findings("extras", found.extras)
        _findings("target ascend", found.ascend)
        for note in found.notes:
            say(f"note: {note}")
        say("This machine can optimize kernels." if found.usable else "Something that is needed is missing; see above.")
    raise typer.Exit(0 if found.usable else 1)


def _selftest(settings: Settings, output: Path | None, json: bool) -> NoReturn:
    """Go through the self-test, a line per step; exit with 0 when every step was right."""
    from kope.cli.best import write
    from kope.selftest import report
    from kope.wiring import self_test, work_folder

    marks = {True: "ok    ", False: "FAILED", None: "-     "}
    parent = work_folder(settings)
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="attempt-selftest-", dir=parent, ignore_cleanup_errors=True) as folder:
        test = self_test(settings, Path(folder))
        for step in test.run():
            say(f"{marks[step.ok]} {step.name}: {step.detail}", to_stderr=json)
    document = test.document()
    if json:
        print_json(document)
    if output is not None:
        write(output, report(document))
        say(f"The report is in {output}; it holds no user, host or folder names.", to_stderr=json)
    raise typer.Exit(0 if test.passed else 1)


def _checks(json: bool) -> None:
    """Print the table of checks: what each looks at, what it reports, and whether it applies to a target."""
    from kope.evaluate import checks, evaluator_fingerprint

    if json:
        print_json({"evaluator": evaluator_fingerprint(), "checks": checks.table()})
        return
    rows = [
        (check.name, check.what, ", ".join(check.kinds) or "-", *(check.status(target) for target in checks.TARGETS))
        for check in checks.CHECKS
    ]
    print_table(f"evaluator {evaluator_fingerprint()}", ("check", "what it holds", "reports", *checks.TARGETS), rows)


def _findings(title: str, findings: Sequence[Finding]) -> None:
    rows = [("yes" if finding.ok else "no", finding.name, finding.value, finding.remedy) for finding in findings]
    print_table(title, ("", "what", "found", "to get it"), rows)
