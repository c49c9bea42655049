"""Runs in the sandboxed child of a capture: loads the reference, captures case by case, writes one line for each.

How one case is captured is torch_child.py's and numpy_child.py's business.
"""

from __future__ import annotations

import io
import json
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from kope.derive.tape import REFERENCE_FILE
from kope.errors import DeriveError

CaptureCase = Callable[[Any, Any, dict[str, Any]], dict[str, Any]]
"""(reference, the same for inputs in their own dtypes, case of the request) -> {"graph", "dtypes", "native"}."""


def capture_cases(request: Path, reply: Path, capture: CaptureCase) -> None:
    """Capture every case; one line per case: {"case", "graph", "dtypes", "native"} or {"case", "error"}."""
    asked = json.loads(request.read_text(encoding="utf-8"))
    with open(reply, "a", encoding="utf-8", buffering=1) as out, redirect_stdout(io.StringIO()):
        try:
            function = load_function(asked["reference"], asked["symbol"])
            native = load_function(asked["reference"], asked["native"])
        except Exception as error:  # noqa: BLE001 - whatever foreign code raises is its failure
            out.write(json.dumps({"case": "", "error": f"the reference cannot be loaded: {one_line(error)}"}) + "\n")
            return
        for case in asked["cases"]:
            out.write(json.dumps({"case": case["id"], **answer(capture, function, native, case)}) + "\n")


def answer(capture: CaptureCase, function: Any, native: Any, case: dict[str, Any]) -> dict[str, Any]:
    """What a capture gives for one case, or {"error"}."""
    try:
        return capture(function, native, case)
    except DeriveError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - as above
        return {"error": one_line(error)}


def load_function(source: str, symbol: str) -> Any:
    """Execute the reference as a module of its own."""
    module = types.ModuleType("kope_reference")
    module.__file__ = REFERENCE_FILE
    sys.modules["kope_reference"] = module
    exec(compile(source, REFERENCE_FILE, "exec"), module.__dict__)
    return module.__dict__[symbol]


def one_line(error: BaseException) -> str:
    """What an exception says, short, with the line of the reference."""
    frames, line = error.__traceback__, 0
    while frames is not None:
        if frames.tb_frame.f_code.co_filename == REFERENCE_FILE:
            line = frames.tb_lineno
        frames = frames.tb_next
    text = " ".join(str(error).split())[:240] or "no message"
    return f"{f'reference line {line}: ' if line else ''}{type(error).__name__}: {text}"


def arguments_of(case: dict[str, Any], tensors: Sequence[Any]) -> dict[str, Any]:
    """The call's arguments by name: tensors, lists of them, attributes."""
    rest = iter(tensors)
    by_place = [next(rest) if item else None for item in case["inputs"]]
    given = dict(case["attrs"])
    for parameter in case["parameters"]:
        held = [by_place[place] for place in parameter["places"]]
        if parameter["kind"] == "list":
            given[parameter["name"]] = [tensor for tensor in held if tensor is not None]
        else:
            given[parameter["name"]] = held[0]
    return given
