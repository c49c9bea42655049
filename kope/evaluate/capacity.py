"""Whether a case fits: memory and disk are counted before anything is allocated, so that nothing is killed halfway."""

from __future__ import annotations

import shutil
from pathlib import Path

from kope.errors import CaseTooLarge
from kope.evaluate.dtypes import FLOATS, size_bytes
from kope.model import Case

_TEMPORARIES = 3
"""Float64 arrays of the largest input's size that a plain NumPy expression holds at once besides inputs."""


def reference_bytes(case: Case) -> int:
    """Estimate the peak memory of running a reference on a case: inputs, their float64 copies, a few temporaries."""
    specs = [given.spec for given in case.inputs if given is not None]
    own = sum(size_bytes(spec) for spec in specs)
    widened = [8 * spec.numel if spec.dtype in FLOATS else size_bytes(spec) for spec in specs]
    return own + sum(widened) + _TEMPORARIES * max((8 * spec.numel for spec in specs), default=0)


def case_bytes(case: Case) -> int:
    """Bytes of the inputs of a case in their own dtypes: the measure by which cases are small or large."""
    return sum(size_bytes(given.spec) for given in case.inputs if given is not None)


def require_room(task_name: str, case: Case, folder: Path) -> None:
    """Raise CaseTooLarge, naming the numbers, when a case needs more memory or disk than there is."""
    need, have = reference_bytes(case), available_memory_bytes()
    if need > have:
        raise CaseTooLarge(
            f"case {case.id} of {task_name} needs about {_gib(need)} of memory (inputs {_gib(case_bytes(case))}, the "
            f"rest for its float64 reference) and {_gib(have)} is available; make its shape smaller or free memory"
        )
    disk, free = need // 2, shutil.disk_usage(folder).free
    if disk > free:
        raise CaseTooLarge(
            f"case {case.id} of {task_name} needs about {_gib(disk)} of disk, {_gib(free)} is free in {folder.parent}; "
            "free some, or set another cache folder"
        )


def available_memory_bytes() -> int:
    """Memory that can be had without swapping: the kernel's estimate, and what the control group still allows."""
    available = 1 << 62
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    limit, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit():
        available = min(available, max(0, int(limit) - int(used)))
    return available


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"
