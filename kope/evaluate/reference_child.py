"""Runs a task's reference on raw input files. Started as a program of its own, sandboxed, with nothing but NumPy.

argv: request.json. The request names the reference's file, its symbol, and for each case the inputs, attributes and
the output files to write; whether floats come as float64 or in the precision a kernel has (`native`: float32 arrays,
or tensors of the case's dtype); and whether to keep going after a case that fails. One JSON line per event goes to the
request's result file: {"case", "event": "start"}, then "done" with the shapes and kinds returned, or "error". What is
acceptable is decided by the caller, reference.py.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np


def main(request_file: str) -> None:
    """Run every case of the request in order, up to the first that fails unless it says to keep going."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    with open(request["result"], "a", encoding="utf-8", buffering=1) as report:

        def say(**event: Any) -> None:
            report.write(json.dumps(event) + "\n")

        try:
            function = _load(request["reference"], request["symbol"])
        except BaseException as error:  # noqa: BLE001 - as below
            say(case="", event="error", message=_describe(error, request["reference"]))
            return
        for case in request["cases"]:
            say(case=case["id"], event="start")
            try:
                outputs = _run(function, case, request["framework"], request["native"])
            except BaseException as error:  # noqa: BLE001 - whatever foreign code raises is its failure
                say(case=case["id"], event="error", message=_describe(error, request["reference"]))
                if not request["keep_going"]:
                    return
            else:
                say(case=case["id"], event="done", outputs=outputs)


def _load(file: str, symbol: str) -> Any:
    namespace: dict[str, Any] = {"__name__": "reference", "__file__": file}
    exec(compile(Path(file).read_text(encoding="utf-8"), file, "exec"), namespace)
    return namespace[symbol]


def _run(function: Any, case: dict[str, Any], framework: str, native: bool) -> list[dict[str, Any]]:
    read = _read_tensor if framework == "torch" else _read
    given: dict[str, Any] = {entry["name"]: read(entry, native) if entry["path"] else None for entry in case["inputs"]}
    with np.errstate(all="ignore"):
        returned = function(**given, **case["attrs"])
    del given
    values = list(returned) if isinstance(returned, tuple | list) else [returned]
    described = []
    for k, value in enumerate(values):
        array = _as_array(value, framework)
        declared = case["outputs"][k] if k < len(case["outputs"]) else None
        described.append({"shape": list(array.shape), "kind": array.dtype.kind, "dtype": str(array.dtype)})
        if declared is not None:
            described[-1] |= _write(array, declared)
    return described


def _read(entry: dict[str, Any], native: bool) -> Any:
    """Read one input: floats as float64 (native: float32), integers as they are, a bool as bool."""
    dtype = entry["dtype"]
    if dtype == "bfloat16":
        bits = np.fromfile(entry["path"], "<u2").astype(np.uint32)
        array: Any = (bits << np.uint32(16)).view(np.float32)
    elif dtype == "bool":
        array = np.fromfile(entry["path"], np.uint8).astype(np.bool_)
    else:
        array = np.fromfile(entry["path"], np.dtype(dtype).newbyteorder("<"))
    if array.dtype.kind == "f":
        array = array.astype(np.float32 if native else np.float64)
    return array.reshape(entry["shape"])


def _read_tensor(entry: dict[str, Any], native: bool) -> Any:
    """Read one input as a tensor: floats as float64 (native: in their own dtype)."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    tensor = torch.from_numpy(_read(entry, native))
    return tensor.to(getattr(torch, entry["dtype"])) if native and tensor.is_floating_point() else tensor


def _as_array(value: Any, framework: str) -> Any:
    if framework == "torch" and hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value if str(value.dtype) != "torch.bfloat16" else value.float()).numpy()
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(f"returned {type(value).__name__}, not a NumPy array")
    return np.asarray(value)


def _write(array: Any, declared: dict[str, Any]) -> dict[str, Any]:
    """Store an output wide; for integers say which range the values span, so that the caller sees what does not fit."""
    facts: dict[str, Any] = {}
    if array.dtype.kind in "iu" and array.size:
        facts = {"lowest": int(array.min()), "highest": int(array.max())}
    with np.errstate(all="ignore"):
        np.ascontiguousarray(array).astype(declared["store"], copy=False).tofile(declared["path"])
    return facts


def _describe(error: BaseException, file: str) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f" (line {lines[-1]})" if lines else ""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text[:300]}{where}"


if __name__ == "__main__":
    main(sys.argv[1])
