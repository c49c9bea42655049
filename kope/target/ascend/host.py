"""Where the toolkit's programs run: on this machine, confined, with the NPU's device nodes.

`remote` is the same for a machine reached through a command. What programs mean is others' business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kope import sandbox
from kope.target.ascend import vendor

MEMORY_BYTES = 24 << 30
"""The profiler's guide asks for 20 GB; it is a ceiling, not what is taken."""
_ADDRESS_BYTES = 1 << 56
"""The driver reserves address space by the terabyte."""
_PROCESSES = 512


class Host(Protocol):
    """Runs programs with a folder of their own. Every end a program can come to is a value."""

    def run(
        self,
        argv: Sequence[str],
        folder: Path,
        *,
        environment: Mapping[str, str],
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        card: int | None = None,
        wall_s: float,
    ) -> sandbox.Finished:
        """Run a program in folder, which it can write; what it wrote there and in `writable` is there afterwards.

        card: the NPU it may use, renumbered to 0 for it. None: no NPU.
        """


@dataclass(frozen=True, slots=True)
class LocalHost:
    """This machine. without: protections to leave out, for drivers that do not stand them."""

    without: tuple[str, ...] = ()

    def run(
        self,
        argv: Sequence[str],
        folder: Path,
        *,
        environment: Mapping[str, str],
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        card: int | None = None,
        wall_s: float,
    ) -> sandbox.Finished:
        """Run a program in the sandbox; scripts of the toolkit find Python there. Raises as sandbox.run does."""
        visible = {} if card is None else {vendor.VISIBLE: str(card)}
        return sandbox.run(
            argv,
            workdir=folder,
            limits=sandbox.Limits(
                wall_s=wall_s,
                memory_bytes=MEMORY_BYTES,
                address_bytes=_ADDRESS_BYTES,
                file_bytes=8 << 30,
                processes=_PROCESSES,
            ),
            readable=[*readable, *sandbox.python_paths()],
            writable=writable,
            devices=devices(card),
            env={**environment, **visible},
            without=self.without,
        )


def devices(card: int | None) -> tuple[Path, ...]:
    """Return the device nodes a program on a card needs."""
    if card is None:
        return ()
    return (*map(Path, vendor.SHARED_DEVICES), Path(vendor.CARD_DEVICE.format(card=card)))
