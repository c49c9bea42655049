"""Capture a task's reference as a graph. References are foreign Python, so tracing runs in the sandbox."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from kope import sandbox
from kope.derive.graph import Graph
from kope.derive.tracing import request_for
from kope.errors import DeriveError
from kope.model import Task

Answer = tuple[str, sandbox.Finished]
_CHILD = Path(__file__).with_name("child.py")
_PACKAGE = Path(__file__).resolve().parents[1]
_LIMITS = sandbox.Limits(wall_s=60.0, memory_bytes=1 << 30, file_bytes=1 << 24)
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_captured: dict[str, Graph | DeriveError] = {}


def capture_graph(task: Task) -> Graph:
    """Return the graph of a task, captured once per process and task.

    Raises DeriveError when the reference cannot be followed, names what stopped it and the line of the reference.
    """
    request = json.dumps(request_for(task), sort_keys=True)
    if request not in _captured:
        try:
            _captured[request] = _capture(task, request)
        except DeriveError as error:
            _captured[request] = error
    found = _captured[request]
    if isinstance(found, DeriveError):
        raise found
    return found


def run_child(module: str, request: str, limits: sandbox.Limits) -> Answer:
    """Run a module's main(request, reply) on foreign code in the sandbox; what it replied, "" for nothing."""
    with tempfile.TemporaryDirectory(prefix="kope-derive-") as name:
        folder = Path(name)
        (folder / "request.json").write_text(request, encoding="utf-8")
        done = sandbox.run(
            [sys.executable, "-I", "-B", str(_CHILD), module, "request.json", "reply.jsonl"],
            workdir=folder,
            limits=limits,
            readable=[*sandbox.python_paths(), _PACKAGE],
            env=_ONE_THREAD,
        )
        reply = folder / "reply.jsonl"
        return reply.read_text(encoding="utf-8") if reply.is_file() else "", done


def _capture(task: Task, request: str) -> Graph:
    reply, done = run_child("kope.derive.tracing", request, _LIMITS)
    try:
        answer = json.loads(reply)
    except ValueError as error:
        raise DeriveError(_ended(task, done)) from error
    if not isinstance(answer, dict) or "graph" not in answer:
        reason = answer.get("error") if isinstance(answer, dict) else None
        raise DeriveError(f"{task.name}: {reason or 'tracing gave no graph'}")
    return Graph.from_json(str(answer["graph"]))


def _ended(task: Task, done: sandbox.Finished) -> str:
    """One line on a child that gave no answer."""
    if done.stopped:
        return f"{task.name}: tracing the reference was stopped ({done.stopped}); it must not loop or wait"
    tail = done.output.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    return f"{task.name}: tracing the reference failed: {tail[0][:200]}; fix reference.py"
