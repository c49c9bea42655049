"""Tasks for tests of derivation: the shipped ones, and small ones made from a reference's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kope.model import AttrValue, Case, CaseInput, OutputDecl, Task, TensorSpec, Values
from kope.task import load_task

SHIPPED = Path(__file__).resolve().parents[2] / "examples" / "tasks"
NAMES = tuple(sorted(folder.name for folder in SHIPPED.iterdir() if (folder / "task.toml").is_file()))


MODEST = Values(-2.0, 2.0)


def shipped(name: str) -> Task:
    """One of the tasks in examples/tasks."""
    return load_task(SHIPPED / name)


def small_task(
    body: str,
    shapes: Sequence[Mapping[str, tuple[int, ...]]],
    *,
    outputs: Sequence[tuple[str, str]] = (("y", "same:x"),),
    attrs: Mapping[str, AttrValue] | None = None,
    dtypes: Mapping[str, str] | None = None,
    values: Values = MODEST,
) -> Task:
    """A task whose reference has this body; its inputs are the keys of the shapes, one case per entry."""
    inputs = tuple(shapes[0])
    names = [*inputs, *(attrs or {})]
    reference = f"import numpy as np\n\n\ndef reference({', '.join(names)}):\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )
    cases = tuple(
        Case(
            f"case-{at}",
            tuple(
                CaseInput(TensorSpec(name, row[name], (dtypes or {}).get(name, "float32")), values) for name in inputs
            ),
        )
        for at, row in enumerate(shapes)
    )
    declared = tuple(OutputDecl(*output) for output in outputs)
    return Task("small", "", inputs, declared, attrs or {}, reference, "reference", "numpy", cases, {}, "digest")


PLAIN = ({"x": (4, 8)}, {"x": (2, 3, 17)})
"""Two cases of one input that tell rows from columns."""
