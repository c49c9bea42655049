"""Reads op_summary_*.csv of application-level msprof: one row per kernel that ran, in files of any size.

Rows come one at a time and hold their cells as text; what of them is wanted as numbers is read when asked for.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kope.errors import ToolError
from kope.target.profile import BLOCKS, DURATION, number

_START = "Task Start Time(us)"
_NAMES = ("Op Name", "Name")
_KINDS = ("Task Type", "Accelerator Core")
_BLOCKS = ("Block Num", BLOCKS)
_METRIC = re.compile(r"ai[cv](?:ore)?_\w+(?:\(.*\))?$")
_NOT_ON_CORES = ("AI_CPU", "DSA_SQE", "N/A", "HCCL", "COMMUNICATION")


@dataclass(frozen=True, slots=True)
class Columns:
    """Where in a row each value stands, -1 for a column this version does not have."""

    name: int
    kind: int
    start: int
    duration: int
    blocks: int
    count: int
    metrics: tuple[tuple[str, int], ...]


class Row(NamedTuple):
    """One kernel. start_us: host time in microseconds of Unix time. kind: the profiler's Task Type."""

    op_name: str
    kind: str
    start_us: float
    duration_us: float
    cells: Sequence[str]
    columns: Columns

    @property
    def on_cores(self) -> bool:
        """Whether it ran on AI cores, not on a CPU or an engine that copies or draws random numbers."""
        return self.kind not in _NOT_ON_CORES

    def counters(self) -> dict[str, float]:
        """Return its numbers under the profiler's own names, as `profile.counters` does for an OPPROF tree."""
        found = {DURATION: self.duration_us}
        blocks = number(self.cells[self.columns.blocks].strip()) if self.columns.blocks >= 0 else None
        if blocks is not None:
            found[BLOCKS] = blocks
        for name, index in self.columns.metrics:
            value = number(self.cells[index].strip())
            if value is not None:
                found[name] = value
        return found


def rows(path: Path) -> Iterator[Row]:
    """Yield the kernels of a table in the order of the file.

    Raises ToolError when a column that is needed is missing, or a row was not written to its end.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        columns = _columns(next(reader, []), path)
        name, kind, start, duration, count = columns.name, columns.kind, columns.start, columns.duration, columns.count
        for cells in reader:
            if len(cells) < count:
                if not cells:
                    continue
                raise ToolError(f"{path}: line {reader.line_num} is cut off; profile again, with room on the disk")
            try:
                # float() takes blanks around a number: start times carry a tab
                yield Row(cells[name], cells[kind], float(cells[start]), float(cells[duration]), cells, columns)
            except ValueError:
                if number(cells[duration].strip()) is not None:
                    raise ToolError(f"{path}: line {reader.line_num} has no start time; profile again") from None


def _columns(header: list[str], path: Path) -> Columns:
    places = {cell.strip(): index for index, cell in enumerate(header) if cell.strip()}

    def needed(*names: str) -> int:
        for name in names:
            if name in places:
                return places[name]
        raise ToolError(f"{path} has no column {names[0]!r}; export it with --summary-format=csv --type=text")

    metrics = {
        re.sub(r"^aicore_time", "aic_time", name): index for name, index in places.items() if _METRIC.match(name)
    }
    return Columns(
        name=needed(*_NAMES),
        kind=needed(*_KINDS),
        start=needed(_START, "Start Time(us)"),
        duration=needed(DURATION, "Duration(us)"),
        blocks=next((places[name] for name in _BLOCKS if name in places), -1),
        count=len(header) - (not header[-1].strip()) if header else 0,
        metrics=tuple(metrics.items()),
    )


def find_tables(folder: Path) -> list[Path]:
    """Return every op_summary table below a PROF_* folder, whatever time its name carries."""
    return sorted(folder.glob("**/op_summary*.csv"))
