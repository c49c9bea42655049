"""Limits that the kernel holds each process to, and the process limit that it holds an id to."""

from __future__ import annotations

import os
import resource

from kope.confine import identity
from kope.confine.spec import Spec

_FILES = 1024
_SLACK = 8
"""An id that others use too is counted with them, and how many they are changes; the watcher counts exactly."""


def apply(spec: Spec, *, spaces: str, spare: int) -> None:
    """Set the limits of this process and of all it starts. Raises OSError.

    The process limit counts an id: alone when the id is spare, per user namespace since Linux 5.14, else with
    everything the user runs.
    """
    counted = 0
    if not spare:
        others = 2 if spaces == "user" and _release() >= (5, 14) else identity.own_tasks()
        counted = others + _SLACK
    for kind, soft, hard in (
        (resource.RLIMIT_CORE, 1, 1),  # 0 would still start a crash handler where the machine has one
        (resource.RLIMIT_CPU, spec.cpu_s, spec.cpu_s + 1),
        (resource.RLIMIT_FSIZE, spec.file_bytes, spec.file_bytes),
        (resource.RLIMIT_NOFILE, _FILES, _FILES),
        (resource.RLIMIT_NPROC, counted + spec.processes, counted + spec.processes),
        (resource.RLIMIT_MEMLOCK, 1 << 16, 1 << 16),
        (resource.RLIMIT_AS, spec.address_bytes, spec.address_bytes),
    ):
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(kind, (soft, hard))


def _release() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)
