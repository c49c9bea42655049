"""What the twin showed of a foreign source: text with a table of launches, and a document (schema/twin_run.json).

What it is printed on is the command's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from kope.report.document import diagnostic_document
from kope.report.table import duration
from kope.target.twin.foreign import ForeignRun
from kope.target.twin.limit import PIPES, limit_of
from kope.target.twin.parameters import ParameterSet


def run_document(run: ForeignRun, parameters: ParameterSet) -> dict[str, Any]:
    """Return a run, or a check, as a JSON-able value. Times in microseconds, modelled."""
    return {
        "kind": run.kind,
        "kernels": list(run.kernels),
        "chip": parameters.chip,
        "ok": run.ok,
        "compiled": run.compiled,
        "returncode": run.returncode,
        "time_us": run.duration_us,
        "bound_us": run.bound_us,
        "launches": [_launch_document(launch, parameters) for launch in run.launches],
        "compared": [
            {"name": one.name, "right": one.right, "worst": one.worst, "wrong": one.wrong, "numel": one.numel}
            for one in run.compared
        ],
        "diagnostics": [diagnostic_document(found) for found in run.diagnostics],
        "log": run.log,
    }


def _launch_document(launch: Mapping[str, Any], parameters: ParameterSet) -> dict[str, Any]:
    limit = limit_of(launch, parameters)
    return {
        "kernel": launch["kernel"],
        "line": launch["line"],
        "blocks": launch["blocks"],
        "time_us": launch["duration_us"],
        "ub_peak_bytes": launch["ub_peak_bytes"],
        "busy_share": utilisation(launch),
        "limit": {"unit": limit.unit, "share": round(limit.share, 4)},
    }


UNKNOWN = "Not in the model: bank conflicts, instruction cache, other programs on the card; see docs/twin.md."
"""What a reader of modelled times must know, in a line."""


def utilisation(launch: Mapping[str, Any]) -> dict[str, float]:
    """Return for each pipe the share of the blocks' time in which it worked."""
    rows: Sequence[Sequence[float]] = launch["rows"]
    total = sum(row[1] for row in rows)
    return {pipe: round(sum(row[2 + k] for row in rows) / total, 4) if total else 0.0 for k, pipe in enumerate(PIPES)}


def launch_table(run: ForeignRun, parameters: ParameterSet) -> Table:
    """Return a line per launch: blocks, time, how busy each pipe was, what limits it, how much of the UB it took."""
    table = Table(
        title=f"launches: times modelled (twin:{parameters.label})",
        caption="busy: share of the cores' time. limit: the unit that alone needs most of the launch's time.\n"
        + UNKNOWN,
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("kernel")
    for heading in ("blocks", "time", *(f"{pipe} busy" for pipe in PIPES), "limit", "UB"):
        table.add_column(heading, justify="right")
    for launch in run.launches:
        busy = utilisation(launch)
        shares = [f"{busy[pipe]:.0%}" for pipe in PIPES]
        limit = str(limit_of(launch, parameters))
        size = f"{launch['ub_peak_bytes'] / 1024:.1f} KB"
        table.add_row(launch["kernel"], str(launch["blocks"]), duration(launch["duration_us"]), *shares, limit, size)
    return table


def result_line(run: ForeignRun) -> str:
    """Return what became of it in one sentence."""
    errors = sum(found.severity == "error" for found in run.diagnostics)
    if not run.compiled:
        return f"does not compile: {errors} error{'s' if errors != 1 else ''}"
    wrong = [one.name for one in run.compared if not one.right]
    if errors:
        return f"{errors} defect{'s' if errors != 1 else ''} found"
    if wrong:
        return f"no defect found, but wrong values in {', '.join(wrong)}"
    if run.returncode:
        return f"no defect found; the program ended with status {run.returncode}"
    right = f", {len(run.compared)} output(s) as expected" if run.compared else ""
    share = f", {run.bound_us / run.duration_us:.0%} of the hardware bound" if run.bound_us and run.duration_us else ""
    return f"no defect found{right}: {duration(run.duration_us)} (modelled){share}"


def comparison_lines(run: ForeignRun) -> list[str]:
    """Return a line per output that was compared."""
    return [
        f"{one.name}: {'as expected' if one.right else f'{one.wrong} of {one.numel} elements wrong'},"
        f" largest difference {one.worst:.3g}"
        for one in run.compared
    ]
