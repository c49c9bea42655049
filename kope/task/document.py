"""Tasks as JSON-able documents; schema/task_list.json and schema/task_show.json describe them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kope.model import AttrValue, CaseInput, Task


def summary(task: Task) -> dict[str, Any]:
    """Return a task in one row. smallest, largest: elements of the largest input of a case."""
    sizes = [max((given.spec.numel for given in case.inputs if given is not None), default=0) for case in task.cases]
    dtypes = {given.spec.dtype: None for case in task.cases for given in case.inputs if given is not None}
    return {
        "task": task.name,
        "text": _first_words(task.text),
        "tags": list(task.tags),
        "case_count": len(task.cases),
        "dtypes": list(dtypes),
        "smallest": min(sizes),
        "largest": max(sizes),
        "folder": str(task.folder or ""),
        "digest": task.digest,
    }


def _first_words(text: str) -> str:
    """Return a text up to its first full stop or colon."""
    line = " ".join(text.split())
    return line.split(". ")[0].split(": ")[0].rstrip(".")


def task_document(task: Task) -> dict[str, Any]:
    """Return a task whole, except the text of its reference."""
    return summary(task) | {
        "text": task.text,
        "inputs": list(task.inputs),
        "outputs": {output.name: output.dtype for output in task.outputs},
        "attrs": _attrs(task.attrs),
        "framework": task.framework,
        "tolerance": {dtype: {"rtol": rule.rtol, "atol": rule.atol} for dtype, rule in task.tolerance.items()},
        "reduction": {task.reduction[0]: list(task.reduction[1])} if task.reduction is not None else None,
        "native": task.native,
        "fixed_shapes": task.fixed_shapes,
        "cases": [
            {"case": case.id, "inputs": [_input(given) for given in case.inputs], "attrs": _attrs(case.attrs)}
            for case in task.cases
        ],
    }


def _attrs(attrs: Mapping[str, AttrValue]) -> dict[str, Any]:
    """Return attributes as JSON has them: lists for tuples, and text for infinities and NaN."""
    return {name: _plain(value) for name, value in attrs.items()}


def _plain(value: AttrValue) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _input(given: CaseInput | None) -> dict[str, Any] | None:
    if given is None:
        return None
    return {
        "name": given.spec.name,
        "shape": list(given.spec.shape),
        "dtype": given.spec.dtype,
        "range": [given.values.low, given.values.high],
        "special": given.values.special,
    }
