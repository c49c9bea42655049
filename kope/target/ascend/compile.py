"""Compiles a candidate with the toolkit: source text, argv per toolkit generation, one call, diagnostics.

Reading the compiler's output is `compilelog`'s, finding the toolkit `toolkit`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from kope.errors import ToolError
from kope.model import Built, Diagnostic
from kope.target.ascend import compilelog, vendor
from kope.target.ascend.chip import Chip
from kope.target.ascend.host import Host
from kope.target.ascend.toolkit import Toolkit, processor
from kope.target.twin import refusals, source
from kope.target.twin.compilelog import shortened
from kope.target.twin.source import SOURCE_NAME

COMPILE_LIMIT_S = 300.0


def harness_files() -> tuple[Path, ...]:
    """Return the host program's sources. The reader of the launch description is the twin's."""
    own, twin = Path(str(files("kope.target.ascend"))), Path(str(files("kope.target.twin")))
    return own / "harness" / "main.cpp", own / "harness" / "device.cpp", twin / "harness" / "launch.cpp"


def include_folders() -> tuple[Path, ...]:
    """Return where the host program and the candidate find KOPE's own headers."""
    own, twin = Path(str(files("kope.target.ascend"))), Path(str(files("kope.target.twin")))
    return Path(str(files("kope.target"))) / "include", own / "harness", twin / "harness"


def executable_argvs(toolkit: Toolkit, chip: Chip, output: Path, *, simulated: bool = False) -> list[list[str]]:
    """Return the calls that make one executable of host program and candidate, to be run in the candidate's folder.

    asc: one call for all. cce: the candidate and the host program become objects first, then they are linked.
    """
    includes = [f"-I{folder}" for folder in include_folders()]
    hosts = [str(path) for path in harness_files()]
    compiler = str(toolkit.compiler)
    if toolkit.form == "asc":
        mode = ["--run-mode=sim"] if simulated else []
        flags = [*vendor.ASC_FLAGS, f"--npu-arch={chip.arch}", *mode, *includes, f"-I{toolkit.home}/include"]
        return [[compiler, *hosts, SOURCE_NAME, "-o", str(output), *flags]]
    objects = ["candidate.o", *(f"{path.stem}.o" for path in map(Path, hosts))]
    device = [compiler, *cce_flags(toolkit, chip), *includes, "-c", SOURCE_NAME, "-o", objects[0]]
    host = [
        [compiler, "-std=c++17", "-O2", *includes, f"-I{toolkit.home}/include", "-c", path, "-o", name]
        for path, name in zip(hosts, objects[1:], strict=True)
    ]
    library = f"-L{toolkit.home}/lib64"
    link = [compiler, "--cce-fatobj-link", *objects, "-o", str(output), library, *vendor.CCE_LIBRARIES]
    return [device, *host, link]


def library_argvs(toolkit: Toolkit, chip: Chip, output: Path) -> list[list[str]]:
    """Return the calls that make a shared library of a candidate alone: kope_entry for a host program of one's own."""
    includes = [f"-I{folder}" for folder in include_folders()[:1]]
    compiler = str(toolkit.compiler)
    if toolkit.form == "asc":
        flags = [*vendor.ASC_FLAGS, "-fPIC", f"--npu-arch={chip.arch}", *includes]
        return [[compiler, "-shared", SOURCE_NAME, "-o", str(output), *flags]]
    device = [compiler, *cce_flags(toolkit, chip), "-fPIC", *includes, "-c", SOURCE_NAME, "-o", "candidate.o"]
    library = f"-L{toolkit.home}/lib64"
    link = [compiler, "-shared", "-fPIC", "--cce-fatobj-link", "candidate.o", "-o", str(output), library, "-lruntime"]
    return [device, link]


def cce_flags(toolkit: Toolkit, chip: Chip) -> list[str]:
    """Return the flags of the older form for device code. Raises ToolError for a chip it does not know."""
    if chip.arch not in vendor.CCE_ARCH:
        raise ToolError(f"{toolkit.label} cannot compile for {chip.soc}; install CANN 8.5 or newer")
    folders = [toolkit.home / place.format(arch=processor()) for place in vendor.CCE_INCLUDES]
    includes = [f"-I{folder / part}" for folder in folders for part in vendor.CCE_INCLUDE_PARTS if folder.is_dir()]
    macro = [f"-D{vendor.CCE_MACRO[chip.arch]}"] if chip.arch in vendor.CCE_MACRO else []
    return ["-xcce", f"--cce-aicore-arch={vendor.CCE_ARCH[chip.arch]}", *vendor.CCE_FLAGS, *macro, *includes]


def build(text: str, workdir: Path, *, toolkit: Toolkit, chip: Chip, on: Host, simulated: bool = False) -> Built:
    """Compile a candidate in workdir; what is wrong with it is data.

    Raises ToolError when the installation is at fault: a missing header or library, an option the compiler refuses.
    """
    return _compile(
        text, workdir, "candidate", toolkit, on, executable_argvs(toolkit, chip, Path("candidate"), simulated=simulated)
    )


def build_library(text: str, workdir: Path, *, toolkit: Toolkit, chip: Chip, on: Host) -> Built:
    """Compile a candidate into a shared library in workdir. Raises as `build` does."""
    return _compile(
        text, workdir, "libcandidate.so", toolkit, on, library_argvs(toolkit, chip, Path("libcandidate.so"))
    )


def _compile(
    text: str, workdir: Path, product: str, toolkit: Toolkit, on: Host, argvs: Sequence[Sequence[str]]
) -> Built:
    refused = _refused(text)
    if refused:
        return Built(None, refused, "")
    workdir.mkdir(parents=True, exist_ok=True)
    (workdir / SOURCE_NAME).write_text(text, "utf-8")
    readable = [*include_folders(), *toolkit.folders]
    log, steps = "", []
    for argv in argvs:
        done = on.run(argv, workdir, environment=toolkit.environment, readable=readable, wall_s=COMPILE_LIMIT_S)
        log += done.output
        steps.append(done.step)
        problem = compilelog.environment_problem(done.output)
        if problem:
            raise ToolError(f"{Path(argv[0]).name} of {toolkit.label}: {problem}; see `kope doctor`", argv)
        if done.returncode != 0 or done.stopped:
            found = compilelog.diagnostics(done.output) or (_unexplained(done.returncode, done.stopped),)
            return Built(None, found, shortened(log), tuple(steps))
    return Built(workdir / product, (), shortened(log), tuple(steps))


def _refused(text: str) -> tuple[Diagnostic, ...]:
    """What no candidate may hold, whatever it is compiled for."""
    _, unusable = source.encode(text)
    return (unusable,) if unusable else refusals.findings(text)


def _unexplained(returncode: int, stopped: str) -> Diagnostic:
    if stopped:
        return Diagnostic(
            "compile-limit", f"the compiler was stopped: {stopped}", remedy="simplify templates and unrolling"
        )
    return Diagnostic(
        "compiler-crash", f"the compiler ended with status {returncode} and named no error", remedy="see its log"
    )
