"""What the launcher is told and what it answers, as plain values that start fast.

No dataclasses: importing them would cost as much as everything else here together.
"""

from __future__ import annotations

import os


class Spec:
    """One program to confine. Paths are absolute. without: layers to leave out, for tests of the layers behind them."""

    argv: list[str]
    parent: int
    workdir: str
    readable: list[str]
    writable: list[str]
    devices: list[str]
    candidate: bool
    cpu_s: int
    memory_bytes: int
    address_bytes: int
    file_bytes: int
    disk_bytes: int
    processes: int
    report_fd: int
    without: list[str]

    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)


class Report:
    """Lines to the parent: `active NAME...`, `failed STEP ERRNO TEXT`, `ended STATUS PEAK_KB CPU_S STOPPED`."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        os.set_inheritable(handle, False)

    def active(self, names: list[str]) -> None:
        """Tell which protections hold."""
        self._write("active " + " ".join(names))

    def failed(self, step: str, error: OSError) -> None:
        """Tell that the program could not be started."""
        self._write(f"failed {step} {error.errno or 0} {error}")

    def ended(self, status: int, peak_kb: int, cpu_s: float, stopped: str) -> None:
        """Tell how the program ended. status: as wait() gives it."""
        self._write(f"ended {status} {peak_kb} {cpu_s:.3f} {stopped or '-'}")

    def _write(self, line: str) -> None:
        os.write(self._handle, line.replace("\n", " ").encode("utf-8", "replace") + b"\n")
