"""A reference is foreign code: whatever it does wrong is one clear ReferenceError_ in time, with nothing left over."""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kope import resources
from kope.errors import ReferenceError_
from kope.evaluate import CaseLibrary, ReferenceRunner
from kope.evaluate.dtypes import file_dtype
from kope.model import Task

MakeTask = Callable[..., Task]
TORCH = ("inputs =", 'framework = "torch"\ninputs =')


def outputs(library: CaseLibrary, task: Task) -> list[np.ndarray]:  # type: ignore[type-arg]
    stored = {"float32": np.float64, "float16": np.float32, "bfloat16": np.float32}
    return [
        np.fromfile(want.path, stored.get(want.spec.dtype, want.spec.dtype)).reshape(want.spec.shape)
        for prepared in library.prepare(task, task.cases)
        for want in prepared.wants
    ]


def test_floats_come_as_float64_and_are_stored_wide(make_task: MakeTask, library: CaseLibrary) -> None:
    source = "def reference(x):\n    assert x.dtype == 'float64'\n    return x / 3\n"
    results = outputs(library, make_task(reference=source))
    assert [array.shape for array in results] == [(40, 100), (64,), (33,), (17, 5), (3000,)]
    assert [str(array.dtype) for array in results] == ["float64", "float64", "float32", "float32", "float32"]
    assert not np.array_equal(results[0], results[0].astype(np.float32))


def test_integers_bools_attributes_and_omitted_inputs_reach_the_reference(
    make_task: MakeTask, library: CaseLibrary
) -> None:
    toml = """
text = "many kinds"
inputs = { x = {}, i = { dtype = "int8", range = [-100, 100] }, flag = { dtype = "bool" }, bias = { optional = true } }
outputs = { y = "float32", j = "int32", k = "bool" }
attrs = { mode = "up", n = 3, on = true, f = 0.5 }
cases = [{ dtype = "bfloat16", shape = { x = [50], i = [50], flag = [50] } }]
"""
    source = """
import numpy as np

def reference(x, i, flag, bias, mode, n, on, f):
    assert (str(x.dtype), str(i.dtype), str(flag.dtype), bias) == ("float64", "int8", "bool", None)
    assert (mode, n, on, f) == ("up", 3, True, 0.5)
    return x.astype(np.float32) * np.float32(f), i.astype(np.int64) * n, flag
"""
    y, j, k = outputs(library, make_task(toml=toml, reference=source))
    assert (str(y.dtype), str(j.dtype), str(k.dtype)) == ("float64", "int32", "bool")
    assert j.min() < -128 and set(np.unique(j % 3)) == {0}
    assert 0 < k.sum() < 50


FAILURES = {
    "raises": (
        "    raise ValueError('no\\nway')",
        r"double/reference.py: case 1: ValueError: no way \(line 2\); correct",
    ),
    "exits": ("    raise SystemExit(3)", r"case 1: SystemExit: 3 \(line 2\); correct"),
    "dies": ("    import os; os._exit(7)", r"case 1: its process ended with status 7"),
    "crashes": ("    import ctypes; ctypes.string_at(1)", r"case 1: its process ended with status "),
    "returns a list of numbers": ("    return [1.0, 2.0]", r"case 1: TypeError: returned float, not a NumPy array"),
    "returns nothing": ("    return None", r"case 1: TypeError: returned NoneType, not a NumPy array"),
    "too many outputs": (
        "    return x, x",
        r"case 1: returned 2 values, task.toml declares 1 outputs; make them agree",
    ),
    "wrong kind": ("    return (x > 0)", r"case 1: output y is bool, declared float32; return a float array"),
    "empty": ("    return x[:0]", r"case 1: output y is empty"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failing_reference_is_named_with_its_line(make_task: MakeTask, library: CaseLibrary, name: str) -> None:
    body, message = FAILURES[name]
    with pytest.raises(ReferenceError_, match=message) as caught:
        outputs(library, make_task(reference=f"def reference(x):\n{body}\n"))
    assert "\n" not in str(caught.value)
    assert list(library.wants.folder.iterdir()) == []


def test_a_reference_that_cannot_be_loaded_is_told_apart(make_task: MakeTask, library: CaseLibrary) -> None:
    with pytest.raises(
        ReferenceError_, match=r"cannot be loaded: ModuleNotFoundError: No module named 'nowhere' \(line 1\)"
    ):
        outputs(library, make_task(reference="import nowhere\n\ndef reference(x):\n    return x\n"))


@pytest.mark.parametrize("value", ["x * 1000", "-x - 200"])
def test_integers_that_do_not_fit_are_refused(make_task: MakeTask, library: CaseLibrary, value: str) -> None:
    source = f"import numpy as np\n\ndef reference(x):\n    return ({value}).astype(np.int64)\n"
    with pytest.raises(ReferenceError_, match=r"output y spans \[-?\d+, -?\d+\], which does not fit int8; clip it"):
        outputs(library, make_task(('"same:x"', '"int8"'), reference=source))


def test_what_finished_before_a_failure_is_kept(make_task: MakeTask, library: CaseLibrary) -> None:
    source = "def reference(x):\n    assert x.size != 33\n    return x\n"
    with pytest.raises(ReferenceError_, match=r"case 3: AssertionError: no message \(line 2\)"):
        outputs(library, make_task(reference=source))
    assert len(list(library.wants.folder.iterdir())) == 2


def test_a_reference_that_hangs_ends_at_its_limit(make_task: MakeTask, tmp_path: Path) -> None:
    library = CaseLibrary(tmp_path / "cache", ReferenceRunner(time_limit_s=1.0))
    started = time.monotonic()
    with pytest.raises(ReferenceError_, match=r"case 1: not finished after 1 s for all cases"):
        outputs(library, make_task(reference="def reference(x):\n    while True:\n        pass\n"))
    assert time.monotonic() - started < 4


def test_a_reference_reads_nothing_but_its_inputs(make_task: MakeTask, library: CaseLibrary, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("key")
    with pytest.raises(ReferenceError_, match=r"case 1: (FileNotFound|Permission)Error: .*secret.txt"):
        outputs(library, make_task(reference=f"def reference(x):\n    return open({str(secret)!r}).read()\n"))


def test_a_reference_writes_nowhere_else(make_task: MakeTask, library: CaseLibrary, tmp_path: Path) -> None:
    target = tmp_path / "written.txt"
    with pytest.raises(ReferenceError_, match=r"case 1: (FileNotFound|Permission|OS)Error: .*written.txt"):
        outputs(library, make_task(reference=f"def reference(x):\n    open({str(target)!r}, 'w').write('x')\n"))
    assert not target.exists()


def test_a_reference_has_no_network(make_task: MakeTask, library: CaseLibrary) -> None:
    source = """
import socket

def reference(x):
    socket.create_connection(("127.0.0.1", 9), timeout=1)
"""
    with pytest.raises(ReferenceError_, match=r"case 1: (Permission|OS|ConnectionRefused)Error: .*line 5"):
        outputs(library, make_task(reference=source))


def test_a_fork_bomb_ends_and_leaves_nothing(make_task: MakeTask, tmp_path: Path) -> None:
    library = CaseLibrary(tmp_path / "cache", ReferenceRunner(time_limit_s=5.0))
    source = """
import os
import time

def reference(x):
    while True:
        if os.fork() == 0:
            time.sleep(977)
"""
    started = time.monotonic()
    with pytest.raises(ReferenceError_, match=r"case 1: (BlockingIOError|starts processes|not finished)"):
        outputs(library, make_task(reference=source))
    assert time.monotonic() - started < 8
    assert not [file for file in Path("/proc").glob("[0-9]*/environ") if str(tmp_path).encode() in _read(file)]


def _read(path: Path) -> bytes:
    """A process of this test has its work folder for a home; other tests' processes have others."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_an_allocation_without_end_is_stopped(make_task: MakeTask, library: CaseLibrary) -> None:
    source = "import numpy as np\n\ndef reference(x):\n    return [np.ones(10**8) for _ in range(100)][0]\n"
    with pytest.raises(ReferenceError_, match=r"case 1: (\w*MemoryError|used more memory)"):
        outputs(library, make_task(reference=source))


def test_a_torch_reference_without_torch_says_how_to_get_it(
    make_task: MakeTask, library: CaseLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    wanted = f"needs PyTorch, which is not installed; {resources.install('torch')}"
    with pytest.raises(ReferenceError_, match=re.escape(wanted)):
        outputs(library, make_task(TORCH))


@pytest.mark.torch
def test_a_torch_reference_gets_float64_tensors(make_task: MakeTask, library: CaseLibrary) -> None:
    source = """
import torch

def reference(x):
    assert x.dtype == torch.float64
    return torch.sigmoid(x)
"""
    task = make_task(TORCH, reference=source)
    for prepared, y in zip(library.prepare(task, task.cases), outputs(library, task), strict=True):
        x = np.fromfile(prepared.inputs[0].path, file_dtype(prepared.inputs[0].spec.dtype))  # type: ignore[union-attr]
        np.testing.assert_allclose(y.reshape(-1), 1 / (1 + np.exp(-x.astype(np.float64))), rtol=1e-6)
