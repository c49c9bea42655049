"""Stands in for msopprof: runs a program, writes an OPPROF_* tree of its generation; `simulator` writes a trace."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import standin

from kope.target.twin import opprof, parameters

KNOWN = {
    "output": (),
    "application": (),
    "kernel-name": (),
    "launch-count": (),
    "warm-up": (),
    "aic-metrics": (),
    "replay-mode": ("kernel", "application", "range"),
    "soc-version": (),
}
OLD_PIPES = (
    "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_time(us),aic_cube_ratio,aic_scalar_time(us),"
    "aic_scalar_ratio,aic_mte2_time(us),aic_mte2_ratio,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,"
    "aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte2_active_bw(GB/s),aiv_mte3_time(us),"
    "aiv_mte3_ratio,aiv_mte3_active_bw(GB/s),aiv_icache_miss_rate,aic_mte2_active_bw(GB/s)"
)
"""The order of CANN 8.3, which has no columns on what the scalar unit waits for."""


def main(arguments: list[str]) -> int:
    """Profile or simulate a program."""
    standin.obey("msopprof")
    simulated = arguments[:1] == ["simulator"]
    options, program = standin.split("msopprof", arguments[1:] if simulated else arguments, KNOWN)
    output = Path(options.get("output", "."))
    standin.check_output("msopprof", output)
    if simulated and "simulator" not in os.environ.get("LD_LIBRARY_PATH", ""):
        standin.refuse("msopprof", "the simulator's libraries are not on LD_LIBRARY_PATH")
    status, launches = standin.launches(program, output)
    if status != 0:
        print("[ERROR]  Running task failed")
    chosen = select(launches, options)
    tree = output / f"OPPROF_{standin.stamp()}_ABCDEFGHIJKLMNOP"
    tree.mkdir()
    if not chosen:
        print("[WARN]  Profiling results are empty. No kernel profiling data was generated")
        if launches:
            print(f"No profiling data matched --kernel-name={options.get('kernel-name', '')}")
        return 0
    for launch, folder, suffix in places(chosen, tree):
        (simulate if simulated else write)(launch, folder, suffix)
    print("[INFO]  Profiling running finished. All task success.")
    print(f"[INFO]  Profiling results saved in {tree}")
    return 0


def select(launches: list[dict[str, Any]], options: dict[str, str]) -> list[dict[str, Any]]:
    """By default the first kernel only; names match as prefixes, * is any text."""
    pattern = options.get("kernel-name")
    if pattern is None:
        names = {launch["kernel"] for launch in launches[:1]}
        chosen = [launch for launch in launches if launch["kernel"] in names]
    else:
        words = "|".join(re.escape(part).replace(r"\*", ".*") for part in pattern.split("|"))
        chosen = [launch for launch in launches if re.match(words, launch["kernel"])]
    return chosen[: int(options.get("launch-count", "1"))]


def places(launches: list[dict[str, Any]], tree: Path) -> list[tuple[dict[str, Any], Path, str]]:
    """One launch: in the tree itself; several: in NAME/NUMBER below it, the time in every file's name."""
    if len(launches) == 1:
        return [(launches[0], tree, "")]
    counts: dict[str, int] = {}
    found = []
    for number, launch in enumerate(launches):
        name = launch["kernel"].split("<")[0]
        counts[name] = counts.get(name, -1) + 1
        found.append((launch, tree / name / str(counts[name]), f"_{standin.stamp()}{number:03d}"))
    return found


def write(launch: dict[str, Any], folder: Path, suffix: str) -> None:
    """Write the tables of one launch; every line ends with a comma, what there is no number for is NA."""
    folder.mkdir(parents=True, exist_ok=True)
    chip = parameters.load("910b2")
    rows = opprof.rows(launch, chip)
    clock = "1500" if standin.told("msopprof").get("throttled") else "1800"
    for metric, header in opprof.COLUMNS.items():
        if metric == "PipeUtilization" and standin.config()["form"] == "cce":
            header = OLD_PIPES
        lines = [header + ","]
        if metric == "OpBasicInfo":
            name, duration = launch["kernel"].split("<")[0], launch["duration_us"]
            lines.append(f"{name},vector,{duration:.6f},{launch['blocks']},NA,0,1000,{clock},1800,")
        for entry, row in zip(launch["rows"], rows, strict=True) if metric != "OpBasicInfo" else ():
            cells = [f"{row[name]:.6f}" if name in row else "NA" for name in header.split(",")[2:]]
            lines.append(",".join([str(int(entry[0])), "vector0", *cells]) + ",")
        (folder / f"{metric}{suffix}.csv").write_text("\n".join(lines) + "\n")


def simulate(launch: dict[str, Any], folder: Path, suffix: str) -> None:
    """Write a trace of one event per core and pipe."""
    place = folder / "simulator"
    place.mkdir(parents=True)
    events = [
        {
            "name": "VADD",
            "ph": "X",
            "pid": f"core{int(row[0])}",
            "tid": "VECTOR",
            "ts": 1.0,
            "dur": launch["duration_us"],
        }
        for row in launch["rows"]
    ]
    (place / "trace.json").write_text(json.dumps({"traceEvents": [{"name": "process_name", "ph": "M"}, *events]}))


def mean_row(launch: dict[str, Any]) -> dict[str, float]:
    """Return the mean over cores of what the model knows of a launch."""
    rows = opprof.rows(launch, parameters.load("910b2"))
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
