"""Where the toolkit's programs run: on this machine, confined, with the NPU's device nodes.

`remote` is the same for a machine reached through a command. What programs mean is others' business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kope import process, sandbox
from kope.target.ascend import toolkit as toolkits
from kope.target.ascend import vendor
from kope.target.ascend.toolkit import Toolkit

MEMORY_BYTES = 24 << 30
"""The profiler's guide asks for 20 GB; it is a ceiling, not what is taken."""
_ADDRESS_BYTES = 1 << 56
"""The driver reserves address space by the terabyte."""
_PROCESSES = 512


@dataclass(frozen=True, slots=True)
class Job:
    """A program to be run. folder: where it starts and what it can write.

    environment: beside the toolkit's own. inputs: files and folders it reads; outputs: files it writes elsewhere. card:
    the NPU it may use, renumbered to 0 for it; None: no NPU.
    """

    argv: Sequence[str]
    folder: Path
    toolkit: Toolkit
    wall_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    inputs: Sequence[Path] = ()
    outputs: Sequence[Path] = ()
    card: int | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Every variable it is started with."""
        visible = {} if self.card is None else {vendor.VISIBLE: str(self.card)}
        return {**self.toolkit.environment, **self.environment, **visible}


class Host(Protocol):
    """A machine with the toolkit. Every end a program can come to is a value."""

    @property
    def inherited(self) -> Mapping[str, str]:
        """Those of vendor.INHERITED that are set in its environment."""

    def find(self, home: Path | None) -> Toolkit:
        """Return the toolkit to use; home: the chosen one. Raises ToolMissing."""

    def place(self, path: Path) -> Path:
        """Return what programs there call a file or folder of this machine."""

    def ask(self, argv: Sequence[str], toolkit: Toolkit, *, timeout_s: float) -> process.Completed:
        """Run a program of the vendor's that answers a question, unconfined and without files."""

    def run(self, job: Job) -> sandbox.Finished:
        """Run a program; what it wrote into its folder and the outputs are there afterwards."""


@dataclass(frozen=True, slots=True)
class LocalHost:
    """This machine. without: protections to leave out, for drivers that do not stand them."""

    inherited: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def find(self, home: Path | None) -> Toolkit:
        """Return the toolkit to use. Raises ToolMissing."""
        return toolkits.find(home, self.inherited)

    def place(self, path: Path) -> Path:
        """Return the path itself."""
        return path

    def ask(self, argv: Sequence[str], toolkit: Toolkit, *, timeout_s: float) -> process.Completed:
        """Run a program of the vendor's. Raises ToolMissing, MachineError."""
        return process.run(argv, env=toolkit.environment, timeout_s=timeout_s)

    def run(self, job: Job) -> sandbox.Finished:
        """Run a program in the sandbox; scripts of the toolkit find Python there. Raises as sandbox.run does."""
        return sandbox.run(
            job.argv,
            workdir=job.folder,
            limits=sandbox.Limits(
                wall_s=job.wall_s,
                memory_bytes=MEMORY_BYTES,
                address_bytes=_ADDRESS_BYTES,
                file_bytes=8 << 30,
                processes=_PROCESSES,
            ),
            readable=[*_folders(job.inputs), *job.toolkit.folders, *sandbox.python_paths()],
            writable=_folders(job.outputs),
            devices=devices(job.card),
            env=job.variables,
            without=self.without,
        )


def _folders(paths: Sequence[Path]) -> list[Path]:
    """Return folders as they are, and the folders that files lie in, each once."""
    return sorted({path if path.is_dir() else path.parent for path in paths})


def devices(card: int | None) -> tuple[Path, ...]:
    """Return the device nodes a program on a card needs."""
    if card is None:
        return ()
    return (*map(Path, vendor.SHARED_DEVICES), Path(vendor.CARD_DEVICE.format(card=card)))
