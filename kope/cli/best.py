"""`kope best`: the source of the best kernel of a task."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from kope.cli import options
from kope.cli.output import print_json, say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("best", epilog="Example: kope best rms_norm -o rms_norm.asc")(best)


def best(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Name of a task in the database.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the source here.")] = None,
    hardware: Annotated[str | None, typer.Option(help="Chip and parameter set; default: the one tried last.")] = None,
    db: options.DbOption = None,
    json: options.JsonOption = False,
) -> None:
    """Print or write the fastest kernel that is right on all cases."""
    from kope import config
    from kope.objective import typical_us
    from kope.report.document import attempt_document, time_label
    from kope.report.table import duration
    from kope.wiring import open_existing

    settings = config.load({"db": db})
    with open_existing(settings) as store:
        attempt = store.best(Path(task).name, hardware=hardware)
    assert attempt.candidate is not None, "an incumbent has a source"
    if output is not None:
        write(output, attempt.candidate.source)
    if json:
        print_json({"attempt": attempt_document(attempt), "source": attempt.candidate.source})
    elif output is None:
        typer.echo(attempt.candidate.source, nl=False)
    else:
        label = time_label(attempt.outcome.time_kind, attempt.fingerprint.hardware)
        time = duration(typical_us(attempt.outcome))
        say(f"{output}: {attempt.task_name}, attempt {attempt.iteration} ({attempt.proposal.move}), {time} {label}")
        say(f"Next: kope eval {shlex.quote(task)} {shlex.quote(str(output))}")


def write(path: Path, text: str) -> None:
    """Write a file a user asked for. Raises ConfigError when the place cannot be written."""
    import errno

    from kope.errors import ConfigError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ConfigError(f"{path}: {error.strerror}; give a place that can be written") from error
