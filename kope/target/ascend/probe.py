"""Whether a card works: the built-in add kernel, compiled once, run and compared. Also the kernel of the self-test.

What follows from its answer is decided in `runner`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from array import array
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from kope import sandbox
from kope.errors import ToolError
from kope.model import LaunchCase, TensorFile, TensorSpec
from kope.target.ascend import compile as compiling
from kope.target.ascend import session
from kope.target.ascend.compile import Calls
from kope.target.ascend.host import Job
from kope.target.twin import symbols

COUNT = 100_003
"""Elements of the case: every core has work, and the last share is uneven."""
LIMIT_S = 60.0


def source() -> str:
    """Return the source of the built-in kernel, z = x + y."""
    return (Path(str(files("kope.target.ascend"))) / "selftest" / "add.asc").read_text("utf-8")


def make_case(folder: Path) -> LaunchCase:
    """Write inputs whose sums are exact and return the call."""
    inputs = []
    for name, values in (("x", array("f", range(COUNT))), ("y", array("f", (2.0 * (k % 1000) for k in range(COUNT))))):
        path = folder / f"{name}.bin"
        path.write_bytes(values.tobytes())
        inputs.append(TensorFile(TensorSpec(name, (COUNT,), "float32"), path))
    output = TensorFile(TensorSpec("z", (COUNT,), "float32"), folder / "z" / "z.bin")
    (folder / "z").mkdir(exist_ok=True)
    return LaunchCase("selftest", tuple(inputs), (output,), {})


def wrong_elements(case: LaunchCase) -> int:
    """Return how many elements of the output are not what they must be; all of them when there is no output."""
    path = case.outputs[0].path
    assert path is not None
    got = array("f")
    try:
        got.frombytes(path.read_bytes())
    except (OSError, ValueError):
        return COUNT
    if len(got) != COUNT:
        return COUNT
    return sum(value != k + 2.0 * (k % 1000) for k, value in enumerate(got))


class Probe:
    """Callable: whether the built-in kernel works on a card. Compiles it on first use; cache: where it is kept."""

    def __init__(self, cache: Path, calls: Calls, *, limit_s: float = LIMIT_S) -> None:
        self._cache = cache
        self._calls = calls
        self._limit_s = limit_s

    def __call__(self, card: int) -> bool:
        """Run the kernel in a process of its own. Raises ToolError when it cannot be compiled."""
        with tempfile.TemporaryDirectory(prefix="probe-", dir=self._made(), ignore_cleanup_errors=True) as name:
            folder = Path(name)
            shutil.copy2(self._executable(), folder / "candidate")
            case = make_case(folder)

            def start(arguments: Sequence[str], where: Path) -> sandbox.Finished:
                log = {"ASCEND_PROCESS_LOG_PATH": str(self._calls.on.place(where))}
                argv = ["./candidate", *arguments]
                return self._calls.on.run(Job(argv, where, self._calls.toolkit, self._limit_s, log, card=card))

            chip = self._calls.chip
            told = {"vector_core_count": chip.vector_cores, "ub_kernel_bytes": chip.ub_kernel_bytes}
            done = session.run(start, [case], "verify", folder, told, limit_s=self._limit_s, place=self._calls.on.place)
            return done.trouble is None and all(run.ok for run in done.runs) and wrong_elements(case) == 0

    def _made(self) -> Path:
        self._cache.mkdir(parents=True, exist_ok=True)
        return self._cache

    def known_good(self) -> frozenset[str]:
        """Return the symbols that the kernel's object asks for: the compiler's own. Raises as calling it does."""
        return frozenset(json.loads(self._executable().with_suffix(".json").read_text("utf-8")))

    def _executable(self) -> Path:
        toolkit, chip = self._calls.toolkit, self._calls.chip
        named = f"{toolkit.home}\0{toolkit.version}\0{toolkit.processor}\0{chip.arch}\0{source()}"
        kept = self._cache / hashlib.sha256(named.encode()).hexdigest()[:24]
        if not kept.exists():
            with tempfile.TemporaryDirectory(prefix="build-", dir=self._made(), ignore_cleanup_errors=True) as name:
                built = compiling.build(source(), Path(name), self._calls)
                if built.executable is None:
                    said = built.diagnostics[0].message if built.diagnostics else "no message"
                    raise ToolError(f"the built-in kernel does not compile ({said}); see `kope doctor --selftest`")
                asked = sorted(symbols.read(Path(name) / compiling.OBJECT).undefined)
                kept.with_suffix(".json").write_text(json.dumps(asked), "utf-8")
                fresh = kept.with_suffix(f".{os.getpid()}")
                shutil.copy2(built.executable, fresh)
                fresh.replace(kept)
        return kept
