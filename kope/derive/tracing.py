"""The tracing of rows and columns in the sandboxed child: reads a task, writes its graph or why there is none.

Started by capture.py.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from kope.derive.builder import canonical
from kope.derive.trace import capture
from kope.errors import DeriveError
from kope.model import Case, CaseInput, OutputDecl, Task, TensorSpec, Values


def main(request: Path, reply: Path) -> None:
    """Trace and write {"graph": ...} or {"error": ...}."""
    task = task_from(json.loads(request.read_text(encoding="utf-8")))
    answer: dict[str, str]
    with redirect_stdout(io.StringIO()):
        try:
            answer = {"graph": canonical(capture(task)).to_json()}
        except DeriveError as error:
            answer = {"error": str(error)}
    reply.write_text(json.dumps(answer), encoding="utf-8")


def task_from(data: dict[str, Any]) -> Task:
    """Rebuild what tracing needs of a task."""
    cases = tuple(
        Case(
            row["id"],
            tuple(
                None
                if item is None
                else CaseInput(TensorSpec(item[0], tuple(item[1]), item[2]), Values(item[3], item[4]))
                for item in row["inputs"]
            ),
            row["attrs"],
        )
        for row in data["cases"]
    )
    outputs = tuple(OutputDecl(*row) for row in data["outputs"])
    return Task(
        data["name"], "", tuple(data["inputs"]), outputs, data["attrs"], data["reference"], data["symbol"],
        data["framework"], cases, {}, "",
    )  # fmt: skip


def request_for(task: Task) -> dict[str, Any]:
    """What task_from reads."""
    return {
        "name": task.name,
        "inputs": list(task.inputs),
        "outputs": [[output.name, output.dtype] for output in task.outputs],
        "attrs": dict(task.attrs),
        "reference": task.reference,
        "symbol": task.symbol,
        "framework": task.framework,
        "cases": [
            {
                "id": case.id,
                "attrs": dict(case.attrs),
                "inputs": [
                    None
                    if item is None
                    else [item.spec.name, list(item.spec.shape), item.spec.dtype, item.values.low, item.values.high]
                    for item in case.inputs
                ],
            }
            for case in task.cases
        ],
    }
