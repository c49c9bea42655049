"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DbOption = Annotated[Path | None, typer.Option("--db", help="The experience database [KOPE_DB, else kope.db].")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text; schema/ describes it.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="What kernels run on: twin or ascend.")]
ChipOption = Annotated[str | None, typer.Option("--chip", help="The chip the twin models.")]
CompilerOption = Annotated[str | None, typer.Option("--compiler", help="C++ compiler of the twin: auto, zig, a path.")]
ContextOption = Annotated[
    str, typer.Option("--context", help="What a prompt holds besides the task: active, passive (ask for more) or none.")
]
MemoryOption = Annotated[
    str,
    typer.Option("--memory", help="What may be recalled: on, off, placebo, only:FILE, starter (docs/memory.md)."),
]
WindowOption = Annotated[int | None, typer.Option("--window", min=1, help="Tokens of the model's window.")]
JobsOption = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Programs run at once.")]


def check_context(context: str) -> None:
    """Raise BadParameter for a context that does not exist."""
    from kope.wiring import CONTEXTS

    if context not in CONTEXTS:
        raise typer.BadParameter(f"--context {context!r} is none of {', '.join(CONTEXTS)}")
