"""Runs foreign programs confined: compilers on foreign source, candidates, references.

How the confinement is built is `confine`'s business (it runs inside the child); what a stopped program means is the
caller's.
"""

from __future__ import annotations

import errno
import importlib.util
import marshal
import math
import os
import shutil
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from kope import process
from kope.errors import KopeError, MachineError, SandboxError, ToolMissing

Profile = Literal["tool", "candidate"]
"""tool: compilers and references; a forbidden system call fails with EPERM. candidate: network, new processes and
other forbidden calls raise SIGSYS (si_syscall says which), so that the deed is seen and named."""

Stop = Literal["", "timeout", "cpu", "memory", "output", "file-size", "disk", "processes"]
"""Which limit ended the program, "" for none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a confined program, with everything it starts, may use.

    wall_s, cpu_s: seconds; cpu_s None is wall_s times the processors of the machine.
        `of_work` makes limits that mean the same on a busy machine.
    memory_bytes: resident memory of the whole tree. address_bytes: address space of each process, None is
        memory_bytes + 1 GiB. file_bytes: one file. disk_bytes: growth of workdir, None is 4 x file_bytes.
    processes: processes and threads alive at once. output_bytes: kept of each stream.
    """

    wall_s: float
    cpu_s: float | None = None
    memory_bytes: int = 2 << 30
    address_bytes: int | None = None
    file_bytes: int = 1 << 30
    disk_bytes: int | None = None
    processes: int = 64
    output_bytes: int = process.OUTPUT_LIMIT_BYTES

    @classmethod
    def of_work(cls, cpu_s: float, **more: Any) -> Limits:
        """Return limits on processor time, and on the clock only for a program that waits instead of working."""
        return cls(wall_s=PATIENCE * cpu_s, cpu_s=cpu_s, **more)


PATIENCE = 8.0
"""How many times slower than on an idle machine work may go before it counts as waiting."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a confined program ended. returncode: negative is the signal. stopped: the limit that ended it, "" for none.
    cpu_s: processor time of the program itself, 0.0 when it had to be swept away.

    argv, stdout and stderr are the program's own; the launcher around it does not show.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    wall_s: float
    stopped: Stop = ""
    truncated: bool = False
    peak_memory_bytes: int = 0
    cpu_s: float = 0.0
    layers: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """Both streams, stdout first."""
        return self.stdout + self.stderr

    @property
    def step(self) -> dict[str, object]:
        """The record kept with an outcome: argv, exit status, wall seconds."""
        return {"argv": list(self.argv), "returncode": self.returncode, "wall_s": round(self.wall_s, 4)}


def run(
    argv: Sequence[str],
    *,
    workdir: Path,
    limits: Limits,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    devices: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    pass_fds: Sequence[int] = (),
    profile: Profile = "tool",
    without: Sequence[str] = (),
) -> Finished:
    """Run a program that may be hostile; every end it can come to is a value.

    It starts in workdir, the only folder it can write besides `writable`; it can read the system's programs and
    libraries, workdir and `readable` (files or folders, shown at their own paths), use `devices` as far as its user
    may, and nothing else. No network, no view of other processes; its environment is PATH, LANG, HOME and TMPDIR (both
    workdir) plus `env`. Nothing it started is alive when this returns, within limits.wall_s + 2 s. without: layers to
    leave out, for tests of others and for drivers that do not stand one.
    Raises ToolMissing when argv[0] is not there, SandboxError when the machine refuses a protection that is required,
    MachineError when it cannot start a process.
    """
    command = [_program(argv[0], workdir), *argv[1:]]
    home = str(workdir.absolute())
    environment = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": home, "TMPDIR": home, **(env or {})}
    skipped = list(without)
    while True:
        spec = _spec(command, home, limits, readable, writable, devices, profile, skipped)
        done, answer = _launch(spec, limits, environment, stdin, pass_fds)
        layer = _LAYER_OF_STEP.get(answer.failed_step)
        if layer is None or layer in skipped:
            break
        # Some containers allow namespaces and then not what is done in them; the other layers hold for this program.
        skipped.append(layer)
    if answer.failed_step:
        raise _failure(command, answer)
    stopped = "timeout" if done.timed_out else "output" if done.flooded else answer.stopped
    if not answer.ended and not stopped:
        last = done.stderr.strip()[-200:] or str(done.returncode)
        raise SandboxError(f"the sandbox ended early ({last}); see `kope doctor`")
    code = os.waitstatus_to_exitcode(answer.status) if answer.ended else -signal.SIGKILL
    return Finished(
        tuple(argv),
        code,
        done.stdout,
        done.stderr,
        done.wall_s,
        stopped or _guess(code, done.stderr),
        done.truncated,
        answer.peak_kb << 10,
        answer.cpu_s,
        answer.layers,
    )


_LAYER_OF_STEP = {"namespaces": "user", "filesystem": "mounts"}
_STOP_GRACE_S = 1.5
_PATH = "/usr/local/bin:/usr/bin:/bin"
_START = "import sys; sys.path.append(sys.argv[1]); from kope.confine.launch import main; main()"


@dataclass(slots=True)
class _Answer:
    """What the launcher reported."""

    layers: tuple[str, ...] = ()
    ended: bool = False
    status: int = 0
    peak_kb: int = 0
    cpu_s: float = 0.0
    stopped: Stop = ""
    failed_step: str = ""
    failed_errno: int = 0
    failed_text: str = ""


def _spec(
    command: Sequence[str],
    home: str,
    limits: Limits,
    readable: Sequence[Path],
    writable: Sequence[Path],
    devices: Sequence[Path],
    profile: Profile,
    without: Sequence[str],
) -> dict[str, object]:
    """Return what confine.spec.Spec holds, but for the report's file number."""
    cpu_s = limits.cpu_s if limits.cpu_s is not None else limits.wall_s * (os.cpu_count() or 1)
    return {
        "argv": list(command),
        "parent": os.getpid(),
        "workdir": home,
        "readable": [str(path.absolute()) for path in readable],
        "writable": [str(path.absolute()) for path in writable],
        "devices": [str(path.absolute()) for path in devices],
        "candidate": profile == "candidate",
        "cpu_s": max(1, math.ceil(cpu_s)),
        "memory_bytes": limits.memory_bytes,
        "address_bytes": limits.memory_bytes + (1 << 30) if limits.address_bytes is None else limits.address_bytes,
        "file_bytes": limits.file_bytes,
        "disk_bytes": 4 * limits.file_bytes if limits.disk_bytes is None else limits.disk_bytes,
        "processes": limits.processes,
        "without": list(without),
    }


def _launch(
    spec: Mapping[str, object],
    limits: Limits,
    environment: Mapping[str, str],
    stdin: bytes | None,
    pass_fds: Sequence[int],
) -> tuple[process.Completed, _Answer]:
    """Start the launcher and read what it reports through a pipe of its own."""
    answers, report = os.pipe()
    told = marshal.dumps({**spec, "report_fd": report}).hex()
    try:
        done = process.run(
            [sys.executable, "-I", "-S", "-c", _START, str(Path(__file__).parents[1]), told],
            cwd=str(spec["workdir"]),
            env=environment,
            timeout_s=limits.wall_s,
            stdin=stdin,
            output_limit_bytes=limits.output_bytes,
            pass_fds=(*pass_fds, report),
            stop_grace_s=_STOP_GRACE_S,
        )
    finally:
        os.close(report)
        with open(answers, "rb") as lines:
            text = lines.read().decode("utf-8", "replace")
    return done, _read(text)


def _read(text: str) -> _Answer:
    answer = _Answer()
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        words = rest.split(" ")
        if kind == "active":
            answer.layers = tuple(words)
        elif kind == "failed":
            answer.failed_step, answer.failed_errno, answer.failed_text = words[0], int(words[1]), " ".join(words[2:])
        elif kind == "ended":
            answer.ended, answer.status, answer.peak_kb = True, int(words[0]), int(words[1])
            answer.cpu_s = float(words[2])
            answer.stopped = "" if words[3] == "-" else cast(Stop, words[3])
    return answer


def _program(name: str, workdir: Path) -> str:
    """Return the absolute path of a program, found on the sandbox's own PATH. Raises ToolMissing."""
    found = str((workdir / name).absolute()) if "/" in name else shutil.which(name, path=_PATH)
    if not found or not Path(found).exists():
        raise ToolMissing(f"{name} is not installed or not on {_PATH}; install it or see `kope doctor`", (name,))
    return found


def _failure(command: Sequence[str], answer: _Answer) -> KopeError:
    """Return why a program could not be started, as an error with the next step."""
    if answer.failed_step == "start" and answer.failed_errno in (errno.ENOENT, errno.ENOEXEC):
        return ToolMissing(f"{command[0]} cannot be executed: {answer.failed_text}; reinstall it", command)
    if answer.failed_step == "start" and answer.failed_errno in (errno.EAGAIN, errno.ENOMEM):
        text = f"cannot start {command[0]}: {answer.failed_text}; free memory or processes and run again"
        return MachineError(text)
    why = f"{answer.failed_step}: {answer.failed_text}"
    return SandboxError(f"{command[0]} cannot be confined ({why}); see `kope doctor`")


_NO_MEMORY = ("bad_alloc", "MemoryError", "Cannot allocate memory", "ut of memory", "virtual memory exhausted")


def _guess(code: int, stderr: str) -> Stop:
    """A program that was refused memory dies in its own way; its last words tell."""
    return "memory" if code != 0 and any(words in stderr[-4000:] for words in _NO_MEMORY) else ""


@lru_cache(maxsize=1)
def python_paths() -> tuple[Path, ...]:
    """Return what must be readable to run this interpreter with its installed packages and KOPE itself."""
    package = Path(__file__).parent
    places = sysconfig.get_paths()
    folders = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent, package}
    folders |= {Path(places[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    # The same packages may come from elsewhere: a .pth file, a user's site folder, a distribution's own.
    for name in ("numpy", "scipy", "ml_dtypes", "torch"):
        found = importlib.util.find_spec(name)
        if found and found.origin:
            folders.add(Path(found.origin).parents[1])
    return (*sorted(folder for folder in folders if folder.is_dir()), *_links(Path(sys.executable)))


def _links(program: Path) -> list[Path]:
    """Return the links a program's path leads through, each of which must be there to start it by that path."""
    found = []
    while program.is_symlink() and program not in found:
        found.append(program)
        program = program.parent / program.readlink()
    return found


@dataclass(frozen=True, slots=True)
class Protection:
    """One protection as found on this machine. how_to_enable: "" when active."""

    name: str
    active: bool
    detail: str
    how_to_enable: str = ""


_NAMESPACES = (
    "allow user namespaces: sysctl user.max_user_namespaces=10000, on Ubuntu also"
    " kernel.apparmor_restrict_unprivileged_userns=0; in a container: --security-opt seccomp=unconfined"
)
_FILTER = "boot a kernel with seccomp, on x86-64 or arm64"
_IDENTITY = "run as an ordinary user, or as root with CAP_SETUID"
_LANDLOCK = "boot Linux 5.13 or newer with landlock in the list of the kernel option lsm="


@lru_cache(maxsize=1)
def protections() -> tuple[Protection, ...]:
    """Return every protection with whether it is active here; found by confining a program that does nothing.

    Raises SandboxError when nothing can be confined at all.
    """
    with tempfile.TemporaryDirectory(prefix="kope-") as folder:
        layers = set(run(["/bin/true"], workdir=Path(folder), limits=Limits(wall_s=30.0)).layers)
    landlock = next((layer for layer in layers if layer.startswith("landlock")), "")
    found = [
        ("process tree", "processes" in layers, "everything the program starts dies with it", _NAMESPACES),
        ("network", bool(layers & {"network", "filter"}), "none: sockets and connections are refused", _NAMESPACES),
        (
            "file system",
            "filesystem" in layers,
            "only what the program needs; read-only but for its folder",
            _NAMESPACES,
        ),
        ("file rights", bool(landlock), f"allow-list of files by right ({landlock or 'landlock'})", _LANDLOCK),
        ("system calls", "filter" in layers, "no sockets, none of the kernel's corners", _FILTER),
        ("identity", "identity" in layers, "an id of its own without privileges", _IDENTITY),
        ("process count", "count" in layers, "a limit that binds for root too", _IDENTITY),
        ("memory", "memory" in layers, "address space of each process, resident memory of all", "mount /proc"),
        ("environment", True, "PATH, LANG, HOME and TMPDIR only", ""),
    ]
    return tuple(Protection(name, active, detail, "" if active else remedy) for name, active, detail, remedy in found)
