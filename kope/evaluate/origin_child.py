"""Makes the inputs of imported cases, or runs the suite's references on them. A program of its own, sandboxed.

argv: request.json. It names the suite's source file, what is wanted ("inputs" or "references"), and for each case its
row, its input files and the folder to write to. One JSON line per event goes to the request's result file: {"case",
"event": "start"}, then "done" with every tensor written, or "error". What is acceptable is the caller's business.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_INTEGER_VIEWS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.bool: torch.uint8}
_WIDE = {torch.float32: torch.float64, torch.float16: torch.float32, torch.bfloat16: torch.float32}
"""How an oracle's output is stored for the strict verdict: wider than the dtype expected, integers as they are."""


def main(request_file: str) -> None:
    """Do what the request asks for, case by case, stopping at the first that fails."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    with open(request["result"], "a", encoding="utf-8", buffering=1) as report:

        def say(**event: Any) -> None:
            report.write(json.dumps(event) + "\n")

        try:
            rules = _sibling(request["rules"])
            suite = rules.Suite(request, _load(request["source"], request["module"]))
        except BaseException as error:  # noqa: BLE001 - as below
            say(case="", event="error", message=_describe(error, request["source"]))
            return
        for case in request["cases"]:
            say(case=case["id"], event="start")
            try:
                written = _inputs(suite, case) if request["wanted"] == "inputs" else _references(suite, case)
            except BaseException as error:  # noqa: BLE001 - whatever foreign code raises is its failure
                say(case=case["id"], event="error", message=_describe(error, request["source"]))
                return
            say(case=case["id"], event="done", peak_bytes=_peak_bytes(), **written)


def _peak_bytes() -> int:
    """Return the most memory this process had; getrusage would count what its parent had when it began."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _sibling(name: str) -> ModuleType:
    """Load a module from beside this file, under a name that no suite's import can meet."""
    return _load(str(Path(__file__).with_name(f"{name}.py")), f"kope_{name}")


def _load(file: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _inputs(suite: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Write the input tensors of a case, flattened in the order of the task's inputs, as <number>.bin."""
    tensors = suite.inputs(case)
    files = []
    for number, tensor in enumerate(tensors):
        files.append(None if tensor is None else _write(tensor, Path(case["folder"]) / f"{number}.bin"))
    return {"tensors": files}


def _references(suite: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Write the outputs computed from float64 inputs, stored wide, and those computed in the case's own dtypes."""
    given = [None if entry is None else _read(entry) for entry in case["inputs"]]
    folder = Path(case["folder"])
    native = suite.native(case, given)
    names = suite.output_names(native)
    natives = [_write(tensor, folder / f"{name}.native") for name, tensor in zip(names, native, strict=True)]
    dtypes = [tensor.dtype for tensor in native]
    del native
    oracle = suite.oracle(case, given)
    if len(oracle) != len(names):
        raise ValueError(f"returned {len(oracle)} outputs in float64 and {len(names)} in its own precision")
    wants = [
        {"name": name, "expected": _name(dtype), **_write(tensor.to(_WIDE.get(dtype, dtype)), folder / f"{name}.bin")}
        for name, tensor, dtype in zip(names, oracle, dtypes, strict=True)
    ]
    return {"wants": wants, "natives": natives}


def _write(tensor: Any, path: Path) -> dict[str, Any]:
    """Write a tensor as raw little-endian bytes, C order, and describe it."""
    plain = tensor.detach().contiguous()
    view = _INTEGER_VIEWS.get(plain.dtype)
    data = plain if view is None else plain.view(view)
    data.numpy().tofile(path)
    return {"file": path.name, "shape": list(plain.shape), "dtype": _name(plain.dtype)}


def _read(entry: dict[str, Any]) -> Any:
    dtype = getattr(torch, entry["dtype"])
    view = _INTEGER_VIEWS.get(dtype, dtype)
    count = 1
    for extent in entry["shape"]:
        count *= extent
    if not count:
        return torch.empty(entry["shape"], dtype=dtype)
    # A private mapping: a reference that writes to its inputs changes its own copy only.
    data = torch.from_file(entry["path"], shared=False, size=count, dtype=view)
    return (data.view(dtype) if view is not dtype else data).reshape(entry["shape"])


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _describe(error: BaseException, file: str) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f" (line {lines[-1]})" if lines else ""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text[:300]}{where}"


if __name__ == "__main__":
    main(sys.argv[1])
