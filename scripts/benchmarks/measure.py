"""How benchmarks measure and print: minimum and median of repeats, ratios, and how busy the machine was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Times:
    """Wall seconds of repeats."""

    samples_s: tuple[float, ...]

    @property
    def least_s(self) -> float:
        """The fastest repeat: what the work costs when nothing disturbs it."""
        return min(self.samples_s)

    @property
    def median_s(self) -> float:
        """The middle repeat."""
        return median(self.samples_s)

    def __str__(self) -> str:
        return f"min {self.least_s * 1e3:9.2f} ms   median {self.median_s * 1e3:9.2f} ms   of {len(self.samples_s)}"


def timed(work: Callable[[], object], *, repeats: int = 7) -> Times:
    """Time work after one round that warms caches up."""
    work()
    samples = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        samples.append(time.perf_counter() - began)
    return Times(tuple(samples))


def compare(rows: Mapping[str, Times], against: str) -> None:
    """Print every row and its ratio to one of them, by minimum and by median."""
    unit = rows[against]
    for name, times in rows.items():
        least, middle = times.least_s / unit.least_s, times.median_s / unit.median_s
        print(f"{name:<44} {times}   x{least:.2f} / x{middle:.2f} of {against}")


def machine() -> str:
    """Return one line on how busy the machine is."""
    one, five, fifteen = os.getloadavg()
    return f"machine: {os.cpu_count()} processors, load {one:.2f} {five:.2f} {fifteen:.2f}"
