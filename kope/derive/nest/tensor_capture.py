"""Capture a reference case by case as graphs of tensors. References are foreign Python: it runs in the sandbox.

What was captured once is kept in a folder, by the content of the request, when one is given.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kope import resources, sandbox
from kope.derive.capture import run_child
from kope.derive.nest.tensors import TensorGraph
from kope.errors import DeriveError
from kope.model import Case, Task

_MODULES = {"torch": "kope.derive.nest.torch_child", "numpy": "kope.derive.nest.numpy_child"}
_WALL_S = 120.0
_WALL_PER_CASE_S = 20.0
_MEMORY_BYTES = 4 << 30
_ADDRESS_BYTES = 64 << 30
"""Fake tensors take no memory, but PyTorch reserves address space."""

_captured: dict[str, dict[str, Captured]] = {}


@dataclass(frozen=True, slots=True)
class Captured:
    """One case: its graph, or why there is none.

    dtypes, native: of what the reference returned for floats as float64, and for the case's own dtypes (() when that
    could not be told without data).
    """

    graph: TensorGraph | None
    dtypes: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    error: str = ""


def capture_tensors(task: Task, folder: Path | None = None) -> Mapping[str, Captured]:
    """Return what was captured, by case id. folder: where captured graphs are kept.

    Raises DeriveError when the reference cannot be run at all, or PyTorch is not installed.
    """
    request = json.dumps(request_for(task), sort_keys=True)
    key = hashlib.sha256(f"{_rules()} {task.framework} {request}".encode()).hexdigest()
    if key not in _captured:
        kept = folder / f"{key}.jsonl" if folder is not None else None
        lines = _lines(kept.read_text(encoding="utf-8")) if kept is not None and kept.is_file() else _run(task, request)
        _captured[key] = dict(_parsed(task, lines))
        if kept is not None and not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.with_suffix(".part")
            part.write_text("\n".join(lines), encoding="utf-8")
            part.replace(kept)
    return _captured[key]


@functools.cache
def _rules() -> str:
    """A digest of everything that decides how a reference is captured, so that no older capture is taken for it."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def request_for(task: Task) -> dict[str, Any]:
    """What the child reads."""
    symbol = str(task.origin.recipe.get("oracle") or task.symbol) if task.origin else task.symbol
    return {
        "reference": task.reference,
        "symbol": symbol,
        "native": str(task.origin.recipe.get("same_precision") or task.symbol) if task.origin else task.symbol,
        "cases": [
            {
                "id": case.id,
                "inputs": [
                    None
                    if item is None
                    else {
                        "shape": list(item.spec.shape),
                        "dtype": item.spec.dtype,
                        "range": [item.values.low, item.values.high],
                    }
                    for item in case.inputs
                ],
                "attrs": _attrs(task, case),
                "parameters": _parameters(task),
            }
            for case in task.cases
        ],
    }


def _parameters(task: Task) -> list[dict[str, Any]]:
    places = {name: at for at, name in enumerate(task.inputs)}
    if task.origin is None:
        return [{"name": name, "kind": "tensor", "places": [at]} for name, at in places.items()]
    return [
        {"name": item.name, "kind": item.kind, "places": [places[name] for name in item.inputs]}
        for item in task.origin.parameters
        if item.kind != "attr" and item.inputs
    ]


def _attrs(task: Task, case: Case) -> dict[str, Any]:
    """Attributes of a call: of an imported task as its suite wrote them."""
    if task.origin is None:
        return {name: _plain(case.attrs.get(name, default)) for name, default in task.attrs.items()}
    rows = task.origin.recipe.get("rows", {})
    named = {item.name for item in task.origin.parameters if item.kind == "attr"}
    given = rows[case.id]["attrs"] if case.id in rows else case.attrs
    return {name: _plain(value) for name, value in (given or {}).items() if name in named}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _run(task: Task, request: str) -> list[str]:
    if task.framework == "torch" and importlib.util.find_spec("torch") is None:
        raise DeriveError(f"{task.name} has a PyTorch reference; deriving needs it: {resources.install('torch')}")
    limits = sandbox.Limits(
        wall_s=_WALL_S + _WALL_PER_CASE_S * len(task.cases),
        memory_bytes=_MEMORY_BYTES,
        address_bytes=_ADDRESS_BYTES,
        file_bytes=1 << 28,
    )
    reply, done = run_child(_MODULES[task.framework], request, limits)
    if not reply:
        tail = done.output.strip().splitlines()[-1:] or [done.stopped or f"exit status {done.returncode}"]
        raise DeriveError(f"{task.name}: capturing the reference failed: {tail[0][:200]}; fix the reference")
    return _lines(reply)


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def _parsed(task: Task, lines: Iterable[str]) -> Iterable[tuple[str, Captured]]:
    answers: dict[str, dict[str, Any]] = {}
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the child was stopped while writing it
        if row["case"] == "":
            raise DeriveError(f"{task.name}: {row['error']}; fix the reference")
        answers[row["case"]] = row
    for case in task.cases:
        row = answers.get(case.id, {"error": "capturing was stopped before this case"})
        if "graph" in row:
            yield case.id, Captured(TensorGraph.from_json(row["graph"]), tuple(row["dtypes"]), tuple(row["native"]))
        else:
            yield case.id, Captured(None, error=str(row["error"]))
