"""Says what model files of a suite look like: inputs, weights and constructor arguments, by running them without data.

argv: request.json {"files": [{"path", "folder"}], "result"}. A program of its own, sandboxed. Factory functions of
PyTorch make tensors without storage ("meta"), so that a file with gigabytes of input is described in milliseconds. One
JSON line per file: {"path", "cases", "weights", "init"} or {"path", "error"}.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from pathlib import Path
from typing import Any

import torch

_FILE_S = 20


def main(request_file: str) -> None:
    """Describe every file; one that fails does not stop the others."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    signal.signal(signal.SIGALRM, _too_slow)
    with open(request["result"], "a", encoding="utf-8", buffering=1) as report:
        for number, path in enumerate(request["files"]):
            signal.alarm(_FILE_S)  # a file may wait for the network, and there is none
            try:
                answer = _describe(path, f"described_{number}")
            except BaseException as error:  # noqa: BLE001 - whatever foreign code raises is its failure
                answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
            signal.alarm(0)
            report.write(json.dumps({"path": path, **answer}) + "\n")


def _too_slow(*_: Any) -> None:
    raise TimeoutError(f"not described after {_FILE_S} s")


def _describe(path: str, name: str) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with torch.device("meta"):
        spec.loader.exec_module(module)
        init = list(module.get_init_inputs())
        model = module.Model(*init)
        groups = module.get_input_groups() if hasattr(module, "get_input_groups") else [module.get_inputs()]
    return {
        "cases": [[_value(value) for value in group] for group in groups],
        "weights": [[key, *_tensor(value)] for key, value in model.state_dict().items()],
        "init": [_value(value) for value in init],
    }


def _value(value: Any) -> Any:
    """A tensor as {"shape", "dtype"}, a list of tensors as {"list"}, anything else as {"value"}."""
    if isinstance(value, torch.Tensor):
        shape, dtype = _tensor(value)
        return {"shape": shape, "dtype": dtype}
    if isinstance(value, list | tuple) and value and all(isinstance(item, torch.Tensor) for item in value):
        return {"list": [dict(zip(("shape", "dtype"), _tensor(item), strict=True)) for item in value]}
    if isinstance(value, list | tuple):
        return {"value": list(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"an input is {type(value).__name__}, neither a tensor nor a plain value")


def _tensor(value: Any) -> tuple[list[int], str]:
    return list(value.shape), str(value.dtype).removeprefix("torch.")


if __name__ == "__main__":
    main(sys.argv[1])
