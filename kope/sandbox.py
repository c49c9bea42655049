"""Runs foreign programs confined: compilers on foreign source, candidates, references.

How the confinement is built is `confine`'s business (it runs inside the child); what a stopped program means is the
caller's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kope import process

Profile = Literal["tool", "candidate"]
"""tool: compilers and references; a forbidden system call fails with EPERM. candidate: network, new processes and
other forbidden calls raise SIGSYS (si_syscall says which), so that the deed is seen and named."""

Stop = Literal["", "timeout", "cpu", "memory", "output", "file-size", "disk", "processes"]
"""Which limit ended the program, "" for none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a confined program, with everything it starts, may use.

    wall_s, cpu_s: seconds; cpu_s None is wall_s times the processors of the machine.
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


@dataclass(frozen=True, slots=True)
class Finished:
    """How a confined program ended. returncode: negative is the signal. stopped: the limit that ended it, "" for none.

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

    @property
    def output(self) -> str:
        """Both streams, stdout first."""
        return self.stdout + self.stderr

    @property
    def step(self) -> dict[str, object]:
        """The record kept with an outcome: argv, exit status, wall seconds."""
        return {"argv": list(self.argv), "returncode": self.returncode, "wall_s": round(self.wall_s, 4)}


@dataclass(frozen=True, slots=True)
class Protection:
    """One protection as found on this machine. how_to_enable: "" when active."""

    name: str
    active: bool
    detail: str
    how_to_enable: str = ""


def run(
    argv: Sequence[str],
    *,
    workdir: Path,
    limits: Limits,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    pass_fds: Sequence[int] = (),
    profile: Profile = "tool",
) -> Finished:
    """Run a program that may be hostile; every end it can come to is a value.

    It starts in workdir, the only folder it can write besides `writable`; it can read the system's programs and
    libraries, workdir and `readable` (files or folders, shown at their own paths), and nothing else. No network, no
    view of other processes; its environment is PATH, LANG, HOME and TMPDIR (both workdir) plus `env`. Nothing it
    started is alive when this returns, within limits.wall_s + 2 s.
    Raises ToolMissing when argv[0] is not there, SandboxError when the machine refuses a protection that is required,
    MachineError when it cannot start a process.
    """
    done = process.run(
        argv,
        cwd=workdir,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(workdir), "TMPDIR": str(workdir), **(env or {})},
        timeout_s=limits.wall_s,
        stdin=stdin,
        output_limit_bytes=limits.output_bytes,
        pass_fds=pass_fds,
    )
    stopped: Stop = "timeout" if done.timed_out else "output" if done.flooded else ""
    return Finished(done.argv, done.returncode, done.stdout, done.stderr, done.wall_s, stopped, done.truncated)


def protections() -> tuple[Protection, ...]:
    """Return every protection with whether it is active here; asked once per process."""
    return ()


def python_paths() -> tuple[Path, ...]:
    """Return what must be readable to run this interpreter with its installed packages."""
    folders = {Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parent}
    folders |= {Path(entry) for entry in sys.path if entry and Path(entry).is_dir()}
    return tuple(sorted(folders))
