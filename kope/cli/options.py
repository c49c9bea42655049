"""Options that several commands share, so that they read the same everywhere, and how commands print JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

DbOption = Annotated[Path | None, typer.Option("--db", help="The experience database [KOPE_DB, else kope.db].")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text; schema/ describes it.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="What kernels run on: twin or ascend.")]
ChipOption = Annotated[str | None, typer.Option("--chip", help="The chip the twin models.")]
CompilerOption = Annotated[str | None, typer.Option("--compiler", help="C++ compiler of the twin: auto, zig, a path.")]
JobsOption = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Programs run at once.")]


def print_json(value: Any) -> None:
    """Print one JSON document. Numbers that are not finite become null, as JSON has none."""
    typer.echo(json.dumps(_finite(value), indent=2, ensure_ascii=False, default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
