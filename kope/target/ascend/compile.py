"""Compiles a candidate with the toolkit: source text, argv per toolkit generation, one call, diagnostics.

Reading the compiler's output is `compilelog`'s, finding the toolkit `toolkit`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from kope import sandbox
from kope.errors import ToolError
from kope.model import Built, Diagnostic
from kope.target.ascend import compilelog, vendor
from kope.target.ascend.chip import Chip
from kope.target.ascend.host import Host, Job
from kope.target.ascend.toolkit import Toolkit
from kope.target.twin import refusals, source, symbols
from kope.target.twin.compilelog import shortened
from kope.target.twin.source import SOURCE_NAME

COMPILE_LIMIT_S = 300.0
OBJECT = "candidate.o"


def harness_files() -> tuple[Path, ...]:
    """Return the host program's sources. The reader of the launch description is the twin's."""
    own, twin = Path(str(files("kope.target.ascend"))), Path(str(files("kope.target.twin")))
    return own / "harness" / "main.cpp", own / "harness" / "device.cpp", twin / "harness" / "launch.cpp"


def include_folders() -> tuple[Path, ...]:
    """Return where the host program and the candidate find KOPE's own headers."""
    own, twin = Path(str(files("kope.target.ascend"))), Path(str(files("kope.target.twin")))
    return Path(str(files("kope.target"))) / "include", own / "harness", twin / "harness"


@dataclass(frozen=True, slots=True)
class Calls:
    """Makes the calls of a toolkit's compiler. on: where it runs, for what KOPE's own files are called there."""

    toolkit: Toolkit
    chip: Chip
    on: Host

    def executable(self, output: str, *, simulated: bool = False) -> list[list[str]]:
        """Return the calls that make one executable of host program and candidate, to be run in its folder.

        The first makes the candidate's object, OBJECT. asc: one more compiles the host program and links both. cce: the
        host program becomes objects first.
        """
        home, compiler = self.toolkit.home, str(self.toolkit.compiler)
        hosts = [str(self.on.place(path)) for path in harness_files()]
        if self.toolkit.form == "asc":
            arch = [f"--npu-arch={self.chip.arch}", *(["--run-mode=sim"] if simulated else [])]
            flags = [*vendor.ASC_FLAGS, *arch, *self._includes()]
            return [
                [compiler, "-c", SOURCE_NAME, "-o", OBJECT, *flags],
                [compiler, *hosts, OBJECT, "-o", output, *flags, f"-I{home}/include"],
            ]
        objects = [OBJECT, *(f"{path.stem}.o" for path in map(Path, hosts))]
        device = [compiler, *self._cce_flags(), *self._includes(), "-c", SOURCE_NAME, "-o", objects[0]]
        host = [
            [compiler, "-std=c++17", "-O2", *self._includes(), f"-I{home}/include", "-c", path, "-o", name]
            for path, name in zip(hosts, objects[1:], strict=True)
        ]
        link = [compiler, "--cce-fatobj-link", *objects, "-o", output, f"-L{home}/lib64", *vendor.CCE_LIBRARIES]
        return [device, *host, link]

    def library(self, output: str) -> list[list[str]]:
        """Return the calls that make a shared library of a candidate alone: kope_entry for another host program."""
        compiler = str(self.toolkit.compiler)
        if self.toolkit.form == "asc":
            flags = [*vendor.ASC_FLAGS, "-fPIC", f"--npu-arch={self.chip.arch}", *self._includes()]
            return [[compiler, "-shared", SOURCE_NAME, "-o", output, *flags]]
        device = [compiler, *self._cce_flags(), "-fPIC", *self._includes(), "-c", SOURCE_NAME, "-o", OBJECT]
        linked = ["-shared", "-fPIC", "--cce-fatobj-link", OBJECT, "-o", output]
        return [device, [compiler, *linked, f"-L{self.toolkit.home}/lib64", "-lruntime"]]

    def _includes(self) -> list[str]:
        return [f"-I{self.on.place(folder)}" for folder in include_folders()]

    def _cce_flags(self) -> list[str]:
        """Return the flags of the older form for device code. Raises ToolError for a chip it does not know."""
        arch = self.chip.arch
        if arch not in vendor.CCE_ARCH:
            raise ToolError(f"{self.toolkit.label} cannot compile for {self.chip.soc}; install CANN 8.5 or newer")
        folders = [self.toolkit.home / place.format(arch=self.toolkit.processor) for place in vendor.CCE_INCLUDES]
        includes = [f"-I{folder / part}" for folder in folders for part in vendor.CCE_INCLUDE_PARTS]
        macro = [f"-D{vendor.CCE_MACRO[arch]}"] if arch in vendor.CCE_MACRO else []
        return ["-xcce", f"--cce-aicore-arch={vendor.CCE_ARCH[arch]}", *vendor.CCE_FLAGS, *macro, *includes]


def build(
    text: str, workdir: Path, calls: Calls, *, simulated: bool = False, known_good: frozenset[str] | None = None
) -> Built:
    """Compile a candidate in workdir; what is wrong with it is data.

    known_good: the symbols that the object of the built-in kernel asks for; None: a candidate's are not looked at.
    Raises ToolError when the installation is at fault: a missing header or library, an option the compiler refuses.
    """
    argvs = calls.executable("candidate", simulated=simulated)
    return _compile(text, workdir, "candidate", calls, argvs, known_good)


def build_library(text: str, workdir: Path, calls: Calls) -> Built:
    """Compile a candidate into a shared library in workdir. Raises as `build` does."""
    return _compile(text, workdir, "libcandidate.so", calls, calls.library("libcandidate.so"), None)


def _compile(
    text: str,
    workdir: Path,
    product: str,
    calls: Calls,
    argvs: Sequence[Sequence[str]],
    known_good: frozenset[str] | None,
) -> Built:
    refused = _refused(text)
    if refused:
        return Built(None, refused, "")
    workdir.mkdir(parents=True, exist_ok=True)
    (workdir / SOURCE_NAME).write_text(text, "utf-8")
    toolkit, inputs = calls.toolkit, [*include_folders(), *harness_files()]
    log, steps = "", []
    for argv in argvs:
        done = calls.on.run(Job(argv, workdir, toolkit, COMPILE_LIMIT_S, inputs=inputs))
        log += done.output
        steps.append(done.step)
        found = _problems(done, argv, toolkit)
        if not found and known_good is not None and argv is argvs[0]:
            found = symbols.denied(symbols.read(workdir / OBJECT), known_good)
        if found:
            return Built(None, found, shortened(log), tuple(steps))
    return Built(workdir / product, (), shortened(log), tuple(steps))


def _problems(done: sandbox.Finished, argv: Sequence[str], toolkit: Toolkit) -> tuple[Diagnostic, ...]:
    """Return what a call of the compiler found wrong. Raises ToolError when the installation is."""
    problem = compilelog.environment_problem(done.output)
    if problem:
        raise ToolError(f"{Path(argv[0]).name} of {toolkit.label}: {problem}; see `kope doctor`", argv)
    if done.returncode == 0 and not done.stopped:
        return ()
    return compilelog.diagnostics(done.output) or (_unexplained(done.returncode, done.stopped),)


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
