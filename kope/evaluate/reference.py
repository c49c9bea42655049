"""Runs a task's reference in its own sandboxed process and checks that what it returned can be judged against.

References are other people's Python: they may hang, crash, fork, print or read. Any of it is one ReferenceError_.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kope import resources, sandbox
from kope.errors import ReferenceError_
from kope.evaluate.capacity import reference_bytes
from kope.evaluate.dtypes import FLOATS, want_dtype
from kope.model import Case, OutputDecl, Task, TensorFile, TensorSpec

_CHILD = Path(__file__).with_name("reference_child.py")
_INTEGER_RANGE = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}

_MEMORY_BYTES = 1 << 30
_DISK_BYTES = 1 << 30
"""What a reference may use besides twice what its inputs suggest: interpreter, libraries, outputs larger than those."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Sums come out in the same order everywhere, and the other processors stay free."""

CaseFiles = tuple[Case, tuple[TensorFile | None, ...]]


class ReferenceRunner:
    """Starts the reference's process. time_limit_s: wall time for all cases of one call together.

    steps: argv, exit status and wall time of every program started.
    """

    def __init__(self, *, time_limit_s: float = 120.0) -> None:
        self.time_limit_s = time_limit_s
        self.steps: list[dict[str, object]] = []

    def run(
        self, task: Task, cases: Sequence[CaseFiles], folder: Path, *, native: bool = False, keep_going: bool = False
    ) -> Iterator[tuple[Case, tuple[TensorFile, ...]]]:
        """Run the reference on cases whose input files exist, then yield each case with its outputs.

        Output files lie in `folder`/case-<id>/, in the dtype of dtypes.want_dtype; their specs carry the expected shape
        and dtype. What finished is yielded before ReferenceError_ is raised for the first case that did not; with
        keep_going, cases that fail are left out. native: run it in the precision a kernel has, and the task's
        function for that where it has one.
        """
        _require_framework(task)
        reference = folder / "reference.py"
        reference.write_text(task.reference, encoding="utf-8")
        result = folder / "result.jsonl"
        request = {
            "reference": str(reference),
            "symbol": task.native or task.symbol if native else task.symbol,
            "framework": task.framework,
            "native": native,
            "keep_going": keep_going,
            "result": str(result),
            "cases": [_case_request(task, case, files, folder) for case, files in cases],
        }
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        done = self._start(folder, cases)
        self.steps.append({"step": "reference", **done.step})
        events = _events(result)
        for case, _ in cases:
            try:
                event = events.get(case.id, {})
                if event.get("event") != "done":
                    raise ReferenceError_(_failure(task, case, events, done, self.time_limit_s))
                outputs = _outputs(task, case, event["outputs"], folder)
            except ReferenceError_:
                if not keep_going:
                    raise
            else:
                yield case, outputs

    def _start(self, folder: Path, cases: Sequence[CaseFiles]) -> sandbox.Finished:
        disk_bytes = _DISK_BYTES + 2 * sum(reference_bytes(case) for case, _ in cases)
        limits = sandbox.Limits(
            wall_s=self.time_limit_s,
            memory_bytes=_MEMORY_BYTES + 2 * max(reference_bytes(case) for case, _ in cases),
            file_bytes=disk_bytes,
            disk_bytes=disk_bytes,
        )
        inputs = {file.path.parent for _, files in cases for file in files if file is not None and file.path}
        return sandbox.run(
            [sys.executable, "-I", "-B", str(_CHILD), "request.json"],
            workdir=folder,
            limits=limits,
            readable=[*sandbox.python_paths(), _CHILD, *sorted(inputs)],
            env=_ONE_THREAD,
        )


_STOPPED = {
    "timeout": "not finished after {limit_s:g} s for all cases; use NumPy over whole arrays, no loops",
    "cpu": "used up its processor time; use NumPy over whole arrays, no loops",
    "memory": "used more memory than its inputs suggest; avoid large temporaries, or make the case smaller",
    "output": "prints without end; remove the output",
    "file-size": "wrote a file larger than any output; the reference must not touch files",
    "disk": "wrote more than its outputs; the reference must not touch files",
    "processes": "starts processes or threads without end; a reference computes in one",
}


def _require_framework(task: Task) -> None:
    if task.framework == "torch" and importlib.util.find_spec("torch") is None:
        raise ReferenceError_(
            f"the reference of {task.name} needs PyTorch, which is not installed; {resources.install('torch')}"
        )


def _case_request(task: Task, case: Case, files: Sequence[TensorFile | None], folder: Path) -> dict[str, Any]:
    (folder / f"case-{case.id}").mkdir()
    inputs = [
        {"name": name, "path": None}
        if file is None
        else {"name": name, "path": str(file.path), "shape": list(file.spec.shape), "dtype": file.spec.dtype}
        for name, file in zip(task.inputs, files, strict=True)
    ]
    outputs = [
        {"path": str(_output_file(folder, case, output)), "store": want_dtype(_expected_dtype(output, files)).str}
        for output in task.outputs
    ]
    return {"id": case.id, "inputs": inputs, "outputs": outputs, "attrs": dict(case.attrs)}


def _output_file(folder: Path, case: Case, output: OutputDecl) -> Path:
    return folder / f"case-{case.id}" / f"{output.name}.bin"


def _expected_dtype(output: OutputDecl, files: Sequence[TensorFile | None]) -> str:
    if not output.dtype.startswith("same:"):
        return output.dtype
    source = output.dtype.removeprefix("same:")
    return next(file.spec.dtype for file in files if file is not None and file.spec.name == source)


def _events(result: Path) -> dict[str, dict[str, Any]]:
    """Return the last event of each case. A torn last line is what a killed child leaves."""
    events: dict[str, dict[str, Any]] = {}
    for line in result.read_text(encoding="utf-8", errors="replace").splitlines() if result.is_file() else ():
        try:
            event = json.loads(line)
            events[str(event["case"])] = event
        except (ValueError, KeyError, TypeError):
            continue
    return events


def _failure(
    task: Task, case: Case, events: Mapping[str, Mapping[str, Any]], done: sandbox.Finished, limit_s: float
) -> str:
    source = task.folder / "reference.py" if task.folder else f"reference of {task.name}"
    load_error = events.get("", {}).get("message")
    if load_error:
        return f"{source}: cannot be loaded: {load_error}; correct it"
    place = f"{source}: case {case.id}"
    message = events.get(case.id, {}).get("message")
    if message:
        return f"{place}: {message}; correct the reference or the case"
    if done.stopped in _STOPPED:
        return f"{place}: {_STOPPED[done.stopped].format(limit_s=limit_s)}"
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1][:200]
    return f"{place}: its process ended with status {done.returncode} ({last}); correct it (kope task check)"


def _outputs(task: Task, case: Case, returned: Sequence[Mapping[str, Any]], folder: Path) -> tuple[TensorFile, ...]:
    place = f"reference of {task.name}, case {case.id}"
    if len(returned) != len(task.outputs):
        raise ReferenceError_(
            f"{place}: returned {len(returned)} values, task.toml declares {len(task.outputs)} outputs; make them agree"
        )
    dtypes = {given.spec.name: given.spec.dtype for given in case.inputs if given is not None}
    files = []
    for output, value in zip(task.outputs, returned, strict=True):
        dtype = dtypes[output.dtype.removeprefix("same:")] if output.dtype.startswith("same:") else output.dtype
        problem = _problem(dtype, value)
        if problem:
            raise ReferenceError_(f"{place}: output {output.name} {problem}")
        spec = TensorSpec(output.name, tuple(int(extent) for extent in value["shape"]), dtype)
        path = _output_file(folder, case, output)
        if path.is_symlink() or not path.is_file() or path.stat().st_size != spec.numel * want_dtype(dtype).itemsize:
            raise ReferenceError_(
                f"{place}: output {output.name} was not written whole; the reference must not touch files"
            )
        files.append(TensorFile(spec, path))
    return tuple(files)


def _problem(dtype: str, value: Mapping[str, Any]) -> str:
    """Say what makes a returned array unfit to judge a declared output, "" when nothing does."""
    kind = "f" if dtype in FLOATS else "b" if dtype == "bool" else "iu"
    if value["kind"] not in kind:
        wanted = {"f": "a float array", "b": "a bool array", "iu": f"an integer array, e.g. .astype(np.{dtype})"}[kind]
        return f"is {value['dtype']}, declared {dtype}; return {wanted}"
    if 0 in value["shape"]:
        return f"is empty, shape {value['shape']}; give the case a shape that yields elements"
    if kind == "iu":
        low, high = _INTEGER_RANGE[dtype]
        if value["lowest"] < low or value["highest"] > high:
            return f"spans [{value['lowest']}, {value['highest']}], which does not fit {dtype}; clip it"
    return ""
