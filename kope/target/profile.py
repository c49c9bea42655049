"""Reads the OPPROF_* trees of msopprof (`msprof op`), and says what a time goes to.

Columns are found by name, never by position: their order and number differ between versions. The twin writes the same
tree, so one reader serves both. Tables of application-level msprof are `op_summary`'s; verdicts are decided elsewhere.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kope.errors import ToolError
from kope.model import Attempt

METRICS = (
    "PipeUtilization",
    "ArithmeticUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "L2Cache",
    "ResourceConflictRatio",
)
MODELLED_LABEL = "kope_modelled.json"
"""A file of this name in a tree says that its numbers come from a model: {"parameters": <set name>}."""

DURATION = "Task Duration(us)"
BLOCKS = "Block Dim"
_MISSING = ("", "NA", "N/A")
_KEYS = ("block_id", "sub_block_id")


@dataclass(frozen=True, slots=True)
class Profile:
    """One kernel launch as the profiler saw it.

    duration_us: the task scheduler's Task Duration. kind: "vector", "cube" or "mix". rows: per metric one mapping per
    core, column name to number, columns without a value left out. modelled: name of the parameter set, "" if measured.
    """

    op_name: str
    kind: str
    duration_us: float
    blocks: int
    current_mhz: float = 0.0
    rated_mhz: float = 0.0
    rows: Mapping[str, tuple[Mapping[str, float], ...]] = field(default_factory=dict)
    modelled: str = ""

    @property
    def throttled(self) -> bool:
        """Whether the clock was below its rated value, which makes the time untrustworthy."""
        return 0.0 < self.current_mhz < self.rated_mhz


def read_profiles(folder: Path) -> tuple[Profile, ...]:
    """Read every kernel launch below an OPPROF_* folder, in the order of their folders.

    Raises ToolError when the folder holds no OpBasicInfo table, or a table cannot be understood.
    """
    tables = sorted(folder.glob("**/OpBasicInfo*.csv"), key=_natural)
    if not tables:
        raise ToolError(f"no OpBasicInfo*.csv below {folder}: the profiler wrote nothing; look at its own output")
    return tuple(_read_launch(table) for table in tables)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Order launch 10 of a kernel behind launch 9."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", str(path))]


def _read_launch(basic: Path) -> Profile:
    rows = _table(basic)
    if len(rows) != 1:
        raise ToolError(f"{basic} has {len(rows)} rows where 1 is expected; profile again")
    row = rows[0]
    stamp = basic.stem[len("OpBasicInfo") :]  # several kernels in one tree: files carry the launch's time
    metrics = {name: _numbers(_metric_file(basic.parent, name, stamp)) for name in METRICS}
    label = basic.parent / MODELLED_LABEL
    return Profile(
        op_name=row.get("Op Name", ""),
        kind=row.get("Op Type", ""),
        duration_us=_required(row, DURATION, basic),
        blocks=int(_required(row, BLOCKS, basic)),
        current_mhz=number(row.get("Current Freq", "")) or 0.0,
        rated_mhz=number(row.get("Rated Freq", "")) or 0.0,
        rows={name: found for name, found in metrics.items() if found},
        modelled=json.loads(label.read_text("utf-8"))["parameters"] if label.exists() else "",
    )


def _metric_file(folder: Path, name: str, stamp: str) -> Path:
    """Return the table of a metric; its time stamp may differ a little from that of OpBasicInfo."""
    same = folder / f"{name}{stamp}.csv"
    if same.exists():
        return same
    others = [path for path in folder.glob(f"{name}_*.csv") if path.stem[len(name) + 1 :].isdigit()]
    return min(others, default=same)


def _table(path: Path) -> list[dict[str, str]]:
    """Rows as column name -> text. Header and rows end with a comma; a row without it was not written to its end."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = [cells for cells in csv.reader(file, skipinitialspace=True) if cells]
    if not lines:
        return []
    names = [cell.strip() for cell in lines[0]]
    for count, cells in enumerate(lines[1:], 2):
        if len(cells) < len(names):
            raise ToolError(f"{path}: row {count} is cut off; profile again, with room on the disk")
    return [{name: cell.strip() for name, cell in zip(names, cells, strict=False) if name} for cells in lines[1:]]


def _numbers(path: Path) -> tuple[Mapping[str, float], ...]:
    if not path.exists():
        return ()
    rows = []
    for row in _table(path):
        parsed = {name: number(text) for name, text in row.items() if name not in _KEYS}
        rows.append({name: value for name, value in parsed.items() if value is not None})
    return tuple(rows)


def number(text: str) -> float | None:
    """Return the number in a cell, None for NA, N/A, nothing, and what is no number."""
    if text in _MISSING:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _required(row: Mapping[str, str], name: str, path: Path) -> float:
    value = number(row.get(name, ""))
    if value is None:
        raise ToolError(f"{path} has no number in column {name!r}; profile again with OpBasicInfo")
    return value


def counters(profile: Profile) -> dict[str, float]:
    """Put one launch into one flat mapping under the profiler's own column names.

    Over the cores: amounts (KB, instructions, fops) are summed; times, cycles, ratios and rates are averaged.
    """
    flat = {DURATION: profile.duration_us, BLOCKS: float(profile.blocks)}
    for rows in profile.rows.values():
        flat.update(_over_cores(rows))
    return flat


def _over_cores(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    columns = {name: None for row in rows for name in row}  # keeps the table's order
    flat = {}
    for name in columns:
        values = [row[name] for row in rows if name in row]
        total = sum(values)
        flat[name] = total if is_amount(name) else total / len(values)
    return flat


def is_amount(column: str) -> bool:
    """Whether a column counts something that adds up over cores and launches."""
    endings = ("_instructions", "_fops", "_instr_number", "_hit", "_miss", "_victim", "_allocate")
    return column.endswith(endings) or "datas(KB)" in column


def combine(launches: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Put several launches of one call together: times, cycles and amounts add up, ratios are weighted by core time."""
    found = [dict(launch) for launch in launches]
    if len(found) <= 1:
        return found[0] if found else {}
    columns = {name: None for launch in found for name in launch}
    weights = [launch.get("aiv_time(us)", launch.get(DURATION, 0.0)) for launch in found]
    flat: dict[str, float] = {}
    for name in columns:
        values = [launch.get(name, 0.0) for launch in found]
        if name == BLOCKS:
            flat[name] = max(values)
        elif is_amount(name) or name.endswith(("_time(us)", "_cycles")) or name == DURATION or name == "aiv_time(us)":
            flat[name] = sum(values)
        else:
            total = sum(weights)
            flat[name] = sum(v * w for v, w in zip(values, weights, strict=True)) / total if total else 0.0
    return flat


PIPES = {
    "mte2": "mte2",
    "mte3": "mte3",
    "vec": "vector",
    "scalar": "scalar",
    "cube": "cube",
    "mac": "cube",
    "mte1": "mte1",
}
"""The profilers' word for a pipe -> KOPE's; op_summary says mac for cube."""


def pipe_shares(values: Mapping[str, float]) -> dict[str, float]:
    """Return for each pipe of PIPES the share of core time in which it works; 0 where the profile does not say."""
    core_us = values.get("aiv_time(us)", 0.0) or values.get("aic_time(us)", 0.0)
    shares = dict.fromkeys(PIPES.values(), 0.0)
    for name, pipe in PIPES.items():
        shares[pipe] = max(shares[pipe], _share(values, name, core_us))
    return shares


def bottleneck(values: Mapping[str, float]) -> str:
    """Name what a time goes to: "mte2", "mte3", "vector", "scalar" (also "cube", "mte1"), "launch", or "" when unknown.

    "launch": the cores work less than half of the task's duration. Otherwise the pipe with the largest share of core
    time; the scalar pipe issues for all the others, so it counts only when none of them is busy half of the time.
    """
    core_us = values.get("aiv_time(us)", 0.0) or values.get("aic_time(us)", 0.0)
    duration_us = values.get(DURATION, 0.0)
    shares = pipe_shares(values)
    if core_us <= 0.0 or not any(shares.values()):
        return ""
    if duration_us > 0.0 and core_us < 0.5 * duration_us:
        return "launch"
    scalar = shares.pop("scalar")
    busiest = max(shares, key=lambda pipe: shares[pipe])
    return "scalar" if shares[busiest] < 0.5 and scalar > shares[busiest] else busiest


def _share(values: Mapping[str, float], pipe: str, core_us: float) -> float:
    for side in ("aiv", "aic"):
        ratio = values.get(f"{side}_{pipe}_ratio")
        if ratio:
            return ratio
        time_us = values.get(f"{side}_{pipe}_time(us)")
        if time_us and core_us:
            return time_us / core_us
    return 0.0


def bound_by(attempt: Attempt | None) -> str:
    """What most of an attempt's cases spend their time on, "" when nothing is known."""
    if attempt is None:
        return ""
    found = Counter(name for case in attempt.outcome.cases if (name := bottleneck(case.counters)))
    return min(found, key=lambda name: (-found[name], name), default="")
