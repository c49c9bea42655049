"""How the compiler is called, per generation and chip; and that the host program needs nothing but CANN and its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope import process
from kope.errors import ToolError
from kope.target.ascend import chip as chips
from kope.target.ascend.compile import Calls, harness_files, include_folders
from kope.target.ascend.host import LocalHost
from kope.target.ascend.toolkit import Toolkit
from kope.target.twin.compiler import find_compiler

HERE = Path(__file__).parent
HOSTS = " ".join(map(str, harness_files()))
INCLUDES = " ".join(f"-I{folder}" for folder in include_folders())
BACK_END = (
    "-mllvm -cce-aicore-stack-size=0x8000 -mllvm -cce-aicore-function-stack-size=0x8000 -mllvm"
    " -cce-aicore-record-overflow=true -mllvm -cce-aicore-addr-transform -mllvm"
    " -cce-aicore-dcci-insert-for-scalar=false"
)


def calls(version: str, soc: str) -> Calls:
    programs = {"bisheng": Path("/cann/bisheng"), "ccec": Path("/cann/ccec")}
    toolkit = Toolkit(Path("/cann"), "test", version, programs=programs, processor="aarch64")
    return Calls(toolkit, chips.describe(soc), LocalHost())


def joined(argvs: list[list[str]]) -> list[str]:
    return [" ".join(argv) for argv in argvs]


@pytest.mark.parametrize(
    ("soc", "arch"), [("Ascend910B2", "dav-2201"), ("Ascend910_9391", "dav-2201"), ("Ascend950PR_9589", "dav-3510")]
)
def test_a_new_toolkit_makes_the_candidates_object_and_then_the_program(soc: str, arch: str) -> None:
    flags = f"-std=c++17 -O2 --npu-arch={arch}"
    assert joined(calls("9.1.0", soc).executable("candidate")) == [
        f"/cann/bisheng -c candidate.asc -o candidate.o {flags} {INCLUDES}",
        f"/cann/bisheng {HOSTS} candidate.o -o candidate {flags} {INCLUDES} -I/cann/include",
    ]
    for argv in joined(calls("9.1.0", soc).executable("candidate", simulated=True)):
        assert f" --npu-arch={arch} --run-mode=sim " in argv
    assert joined(calls("9.1.0", soc).library("lib.so")) == [
        f"/cann/bisheng -shared candidate.asc -o lib.so -std=c++17 -O2 -fPIC --npu-arch={arch} {INCLUDES}"
    ]


@pytest.mark.parametrize(
    ("soc", "arch", "macro"),
    [("Ascend910B4", "dav-c220-vec", "MEMORY_BASE"), ("Ascend950PR_9589", "dav-c310-vec", "REGISTER_BASE")],
)
def test_an_older_toolkit_makes_objects_and_links_them(soc: str, arch: str, macro: str) -> None:
    device, *hosts, link = joined(calls("8.3.RC2", soc).executable("candidate"))
    folders = [f"/cann/{place}/tikcpp/tikcfw" for place in ("aarch64-linux", "compiler")]
    toolkit = " ".join(f"-I{folder}{part}" for folder in folders for part in ("", "/interface", "/impl"))
    start = f"/cann/bisheng -xcce --cce-aicore-arch={arch} -std=c++17 -O2 -D__vector__=__aicore__ {BACK_END} -D{macro}"
    assert device == f"{start} {toolkit} {INCLUDES} -c candidate.asc -o candidate.o"
    assert hosts == [
        f"/cann/bisheng -std=c++17 -O2 {INCLUDES} -I/cann/include -c {path} -o {path.stem}.o"
        for path in harness_files()
    ]
    assert link == (
        "/cann/bisheng --cce-fatobj-link candidate.o main.o device.o launch.o -o candidate -L/cann/lib64"
        " -lascendcl -lruntime -lstdc++"
    )


def test_a_chip_the_older_form_does_not_know_is_one_line() -> None:
    chip = chips.Chip("Ascend310B1", "dav-3002", 1, 1, 188160, 0.0, 0.0, 0.0, 0, "test")
    toolkit = Toolkit(Path("/cann"), "test", "8.2", programs={"ccec": Path("/cann/ccec")})
    with pytest.raises(ToolError, match="CANN 8.2 cannot compile for Ascend310B1; install CANN 8.5 or newer"):
        Calls(toolkit, chip, LocalHost()).executable("candidate")


def test_the_host_program_includes_nothing_of_the_twins_runtime(tmp_path: Path) -> None:
    compiler = find_compiler()
    folders = [*include_folders(), HERE / "standins"]
    for path in harness_files():
        argv = [*compiler.argv, "-std=c++17", "-Wall", "-Werror", *(f"-I{folder}" for folder in folders)]
        done = process.run([*argv, "-c", str(path), "-o", str(tmp_path / "host.o")], timeout_s=120.0)
        assert done.returncode == 0, done.stderr
