"""Runs the Python of imported suites in the sandbox: makes inputs as the suite itself does, and runs its references.

A suite's Python is other people's: it may hang, crash, fork, print or read. Any of it is one ReferenceError_. What its
rules are is the business of the module the task's suite names (cann_child.py, ...), which runs in the child.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kope import resources, sandbox
from kope.errors import CaseTooLarge, ReferenceError_
from kope.evaluate.capacity import available_memory_bytes, case_bytes
from kope.evaluate.dtypes import want_dtype
from kope.model import Case, Origin, Task, TensorFile, TensorSpec
from kope.task.cases import DTYPES

ORIGIN_RULES = 1
"""Raised by hand whenever a suite's inputs or outputs could come out differently; it renews every cached case."""
RULES = {"cann-bench": "cann_child", "kernelbench": "model_child", "multikernelbench": "model_child"}
"""Suite -> the module beside origin_child.py that knows its rules."""
_CHILD = Path(__file__).with_name("origin_child.py")
_BASE_BYTES = 2 << 30
_ADDRESS_BYTES = 8 << 30
"""Address space that PyTorch's libraries reserve besides what they use."""
_ROOM = 40
"""A reference may take this many times the bytes of its inputs: float64 copies, score matrices of attention."""
_CASE_S, _MIB_S = 60.0, 2.0
"""Wall limit: seconds for a case and for each MiB of its inputs; slow references of suites need most of it."""
_THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class OriginOutputs:
    """Reference outputs of a case, in the order returned.

    wants: from float64 inputs, stored as dtypes.want_dtype says. natives: computed in the case's own dtypes, which are
    the expected ones. peak_bytes: resident memory of the process so far.
    """

    wants: tuple[TensorFile, ...]
    natives: tuple[TensorFile, ...]
    peak_bytes: int


def origin_key(task: Task, case: Case, seed: int) -> list[object]:
    """Return what decides the inputs and outputs of an imported case, JSON-able."""
    assert task.origin is not None
    recipe = {key: value for key, value in task.origin.recipe.items() if key != "rows"}
    row = _row(task.origin, case)
    return [ORIGIN_RULES, task.origin.suite, task.origin.unit, case.id, recipe, row, task.reference, seed, _versions()]


def _row(origin: Origin, case: Case) -> Any:
    """Return the suite's row of a case; one made of it to challenge a candidate is called <its id>-<what>."""
    return origin.recipe["rows"][case.id.partition("-")[0]]


class OriginRunner:
    """Starts the processes. steps: argv, exit status and wall time of every program started."""

    def __init__(self, steps: list[dict[str, object]]) -> None:
        self.steps = steps

    def make_inputs(
        self, task: Task, cases: Sequence[Case], folder: Path, seed: int
    ) -> Iterator[tuple[Case, tuple[TensorFile | None, ...]]]:
        """Fill the inputs of cases and yield each with its files, in `folder`/case-<id>/, in order.

        What finished is yielded before ReferenceError_ is raised for the first case that did not.
        """
        request, done = self._run(task, [(case, ()) for case in cases], folder, "inputs", seed)
        events = _events(folder / "result.jsonl")
        for case in cases:
            event = _done(task, case, events, done)
            yield case, tuple(_input_files(task, case, event["tensors"], request[case.id]))

    def references(
        self, task: Task, cases: Sequence[tuple[Case, tuple[TensorFile | None, ...]]], folder: Path
    ) -> Iterator[tuple[Case, OriginOutputs]]:
        """Run the suite's references on cases whose input files exist; as `make_inputs`."""
        request, done = self._run(task, cases, folder, "references", 0)
        events = _events(folder / "result.jsonl")
        for case, _ in cases:
            event = _done(task, case, events, done)
            yield case, _outputs(task, case, event, request[case.id])

    def _run(
        self,
        task: Task,
        cases: Sequence[tuple[Case, tuple[TensorFile | None, ...]]],
        folder: Path,
        wanted: str,
        seed: int,
    ) -> tuple[dict[str, Path], sandbox.Finished]:
        """Start the child on all cases; return each case's folder and how the child ended."""
        origin = _origin(task)
        source = folder / "suite.py"
        source.write_text(task.reference, encoding="utf-8")
        for name, text in origin.recipe.get("data", {}).items():  # files that the suite's Python reads beside itself
            (folder / name).write_text(text, encoding="utf-8")
        folders = {}
        for case, _ in cases:
            folders[case.id] = folder / f"case-{case.id}"
            folders[case.id].mkdir()
        request = {
            "rules": RULES[origin.suite],
            "source": str(source),
            "module": origin.recipe["module"],
            "wanted": wanted,
            "unit": origin.unit,
            "seed": seed,
            "recipe": {key: value for key, value in origin.recipe.items() if key != "rows"},
            "parameters": [asdict(parameter) for parameter in origin.parameters],
            "outputs": [asdict(output) for output in task.outputs],
            "result": str(folder / "result.jsonl"),
            "cases": [_case_request(origin, case, files, folders[case.id]) for case, files in cases],
        }
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        done = self._start(task, cases, folder)
        self.steps.append({"step": wanted, **done.step})
        return folders, done

    def _start(
        self, task: Task, cases: Sequence[tuple[Case, tuple[TensorFile | None, ...]]], folder: Path
    ) -> sandbox.Finished:
        largest = max(case_bytes(case) for case, _ in cases)
        total = sum(case_bytes(case) for case, _ in cases)
        available = available_memory_bytes()  # half of it, since another reference may run beside this one
        memory = min(max(_BASE_BYTES + _ROOM * largest, available // 2), max(available, _BASE_BYTES))
        disk_bytes = (1 << 30) + 24 * total
        limits = sandbox.Limits(
            wall_s=len(cases) * _CASE_S + _MIB_S * (total >> 20),
            memory_bytes=memory,
            address_bytes=memory + _ADDRESS_BYTES,
            file_bytes=disk_bytes,
            disk_bytes=disk_bytes,
        )
        shown = {file.path.parent for _, files in cases for file in files if file is not None and file.path}
        rules = _CHILD.with_name(f"{RULES[_origin(task).suite]}.py")
        return sandbox.run(
            [sys.executable, "-I", "-B", str(_CHILD), "request.json"],
            workdir=folder,
            limits=limits,
            readable=[*sandbox.python_paths(), _CHILD, rules, *sorted(shown)],
            env=_THREADS,
        )


def _origin(task: Task) -> Origin:
    assert task.origin is not None
    if importlib.util.find_spec("torch") is None:
        raise ReferenceError_(f"{task.name} needs PyTorch, which is not installed; {resources.install('torch')}")
    return task.origin


def _versions() -> list[str]:
    try:
        return [importlib.metadata.version("torch"), platform.machine()]
    except importlib.metadata.PackageNotFoundError:
        return []


def _case_request(origin: Origin, case: Case, files: Sequence[TensorFile | None], folder: Path) -> dict[str, Any]:
    inputs = [
        None if file is None else {"path": str(file.path), "shape": list(file.spec.shape), "dtype": file.spec.dtype}
        for file in files
    ]
    return {"id": case.id, "row": _row(origin, case), "inputs": inputs, "folder": str(folder)}


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


_STOPPED = {
    "timeout": "was not finished in time; leave the case out (`--cases`), or run it on a faster machine",
    "cpu": "used up its processor time; leave the case out, or run it on a faster machine",
    "memory": "needs more memory than is available; free some, or leave the case out",
}


def _done(task: Task, case: Case, events: Mapping[str, dict[str, Any]], done: sandbox.Finished) -> dict[str, Any]:
    """Return a case's last event when it is the one hoped for. Raises ReferenceError_ or CaseTooLarge."""
    event = events.get(case.id, {})
    if event.get("event") == "done":
        return event
    source = _source(task)
    if "" in events:
        raise ReferenceError_(f"{source}: cannot be loaded: {events['']['message']}")
    place = f"{source}: case {case.id}"
    if event.get("message"):
        raise ReferenceError_(f"{place}: {event['message']}; the suite itself cannot run this case")
    if done.stopped == "memory":
        raise CaseTooLarge(f"{place}: {_STOPPED['memory']} (inputs {case_bytes(case) >> 20} MiB)")
    if done.stopped:
        raise ReferenceError_(f"{place}: {_STOPPED.get(done.stopped, f'was stopped ({done.stopped})')}")
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1][:200]
    raise ReferenceError_(f"{place}: its process ended with status {done.returncode} ({last})")


def _source(task: Task) -> str:
    """Return the file a task's reference is in, for messages."""
    if task.folder is None:
        return task.name
    return str(task.folder / "golden.py" if task.folder.is_dir() else task.folder)


def _input_files(
    task: Task, case: Case, tensors: Sequence[Mapping[str, Any] | None], folder: Path
) -> Iterator[TensorFile | None]:
    if len(tensors) != len(task.inputs):
        raise ReferenceError_(f"{task.name}: case {case.id}: {len(tensors)} tensors made for {len(task.inputs)} inputs")
    for name, tensor in zip(task.inputs, tensors, strict=True):
        yield None if tensor is None else _file(task, case, name, tensor, folder, "")


def _outputs(task: Task, case: Case, event: Mapping[str, Any], folder: Path) -> OriginOutputs:
    wants = tuple(_file(task, case, item["name"], item, folder, item["expected"]) for item in event["wants"])
    natives = tuple(
        _file(task, case, want.spec.name, item, folder, "") for want, item in zip(wants, event["natives"], strict=True)
    )
    if not any(want.spec.numel for want in wants):
        raise ReferenceError_(f"{task.name}: case {case.id}: every output is empty; leave the case out")
    for want, native in zip(wants, natives, strict=True):
        if want.spec != native.spec:
            raise ReferenceError_(f"{task.name}: case {case.id}: output {want.spec.name} has another shape in float64")
    return OriginOutputs(wants, natives, int(event["peak_bytes"]))


def _file(task: Task, case: Case, name: str, item: Mapping[str, Any], folder: Path, expected: str) -> TensorFile:
    """Return a file the child says it wrote. expected: the dtype of a stored reference output; "": as it stands."""
    dtype = expected or item["dtype"]
    if dtype not in DTYPES:
        raise ReferenceError_(f"{task.name}: case {case.id}: {name} is {dtype}, which KOPE does not know")
    spec = TensorSpec(name, tuple(int(extent) for extent in item["shape"]), dtype)
    path = folder / str(item["file"])
    stored = want_dtype(dtype).itemsize if expected else _itemsize(dtype)
    if path.parent != folder or path.is_symlink() or not path.is_file() or path.stat().st_size != spec.numel * stored:
        raise ReferenceError_(f"{task.name}: case {case.id}: {name} was not written whole; the suite's Python cheats")
    return TensorFile(spec, path)


def _itemsize(dtype: str) -> int:
    from kope.evaluate.dtypes import file_dtype

    return file_dtype(dtype).itemsize
