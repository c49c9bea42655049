"""Which unit a launch's time is spent on, and how far from its limit: what the unit alone would need, over the time.

The accounts of the pipes are the runtime's; what a kernel could do about it is not said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kope.target.twin.parameters import ParameterSet

PIPES = ("scalar", "vec", "mte2", "mte3")
"""In the order of the runtime."""


@dataclass(frozen=True, slots=True)
class Limit:
    """unit: "launch", "memory" (device memory, all cores together) or a pipe. share: of the launch's time, 0 to 1."""

    unit: str
    share: float

    def __str__(self) -> str:
        return f"{self.unit} {self.share:.0%}"


def limit_of(launch: Mapping[str, Any], parameters: ParameterSet) -> Limit:
    """Return the unit that alone needs the largest part of a launch's time.

    Bytes over the bandwidth of device memory count for all cores together, a pipe by the core it works longest on.
    A mover that waits for the memory works as long as it waits, so the memory is named when it needs nearly as much.
    """
    values, rows = parameters.values, launch["rows"]
    needs = {pipe: max((row[2 + number] for row in rows), default=0.0) for number, pipe in enumerate(PIPES)}
    needs["launch"] = values["launch_us"]
    memory_us = sum(row[11] - row[18] + row[12] for row in rows) / (values["gm_bandwidth_gbps"] * 1e3)
    unit = max(needs, key=lambda name: needs[name])
    if unit in ("mte2", "mte3") and memory_us >= 0.8 * needs[unit]:
        unit, needs["memory"] = "memory", memory_us
    duration_us = float(launch["duration_us"])
    return Limit(unit, min(1.0, needs[unit] / duration_us) if duration_us else 0.0)
