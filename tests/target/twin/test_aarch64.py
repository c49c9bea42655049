"""The twin on aarch64, the usual host beside NPUs: cross-compiled and run under qemu, it shows what it shows here.

Needs the packaged compiler (extra `compiler`), qemu-aarch64 and the C library for aarch64 (Debian, Ubuntu: apt install
qemu-user libc6-arm64-cross). Compiling the runtime once takes minutes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kope.errors import ToolMissing
from kope.target.twin.build import TwinBuilder
from kope.target.twin.cache import BuildCache
from kope.target.twin.compiler import Compiler, find_compiler

from .programs import Bench, Program
from .test_runtime_timing import KERNELS

ZIG_TARGET = "aarch64-linux-gnu.2.31"
LIBRARIES = Path("/usr/aarch64-linux-gnu")
"""Where Debian and Ubuntu put them."""
COUNT = 50_001


class CrossBuilder(TwinBuilder):
    """Builds for aarch64: tuned for no machine, and quickly."""

    def runtime_argv(self) -> list[str]:
        """Return the call that compiles a file of the runtime."""
        return [flag.replace("-O3", "-O1") for flag in super().runtime_argv() if flag != "-march=native"]


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as made:
        yield made


@pytest.fixture(scope="module")
def emulated(twin_cache: Path, tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> Program:
    """The kernels of the timing tests as a program for aarch64, started through qemu."""
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if qemu is None or not LIBRARIES.is_dir():
        pytest.skip("needs qemu-aarch64 and the C library for aarch64: apt install qemu-user libc6-arm64-cross")
    try:
        zig = find_compiler("zig")
    except ToolMissing as missing:
        pytest.skip(str(missing))
    cache = BuildCache(twin_cache)
    cross = CrossBuilder(Compiler((*zig.argv, "-target", ZIG_TARGET), "clang", zig.version, packaged=True), cache)
    for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        patch.setenv(name, str(cross.zig_cache))
    built = Bench(cross, tmp_path_factory.mktemp("aarch64")).program(KERNELS)
    started = built.folder / "emulated"
    started.write_text(f'#!/bin/sh\nexec {qemu} -L {LIBRARIES} {built.executable} "$@"\n')
    started.chmod(0o755)
    return Program(started, built.folder)


@pytest.mark.slow(minutes=15)
@pytest.mark.extra("ziglang")
@pytest.mark.parametrize(
    ("attrs", "within"), [({}, 0.05), ({"tile": 100, "buffers": 1}, 0.05), ({"kernel": 1, "blocks": 2}, 0.5)]
)
def test_values_times_and_findings_are_those_of_this_machine(
    bench: Bench, emulated: Program, attrs: dict[str, int], within: float
) -> None:
    """Times of scalar code differ as far as the two compilers cut it into basic blocks differently."""
    x = np.linspace(-1, 1, COUNT, dtype=np.float32)
    here, there = (
        program.run([x], [x.nbytes], mode="verify", attrs=attrs) for program in (bench.program(KERNELS), emulated)
    )
    assert here.errors == there.errors == []
    np.testing.assert_allclose(
        np.frombuffer(there.outputs[0], np.float32), np.frombuffer(here.outputs[0], np.float32), rtol=3e-7
    )
    assert there.duration_us == pytest.approx(here.duration_us, rel=within)
    for name in ("read", "written"):
        assert there.result[name] == here.result[name]


@pytest.mark.slow(minutes=15)
@pytest.mark.extra("ziglang")
def test_a_defect_is_found_there_too(bench: Bench, emulated: Program) -> None:
    x = np.zeros(COUNT, np.float32)
    shown = [
        program.run([x], [4096], mode="verify", attrs={"blocks": 1}) for program in (bench.program(KERNELS), emulated)
    ]
    assert [one.errors for one in shown] == [["gm-oob"], ["gm-oob"]]
