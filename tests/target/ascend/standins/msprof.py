"""Stands in for msprof: runs a program, writes PROF_*/mindstudio_profiler_output/op_summary_*.csv of its generation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msopprof
import standin

KNOWN = {
    "output": (),
    "application": (),
    "ascendcl": ("on", "off"),
    "task-time": ("on", "l0", "l1", "off"),
    "ai-core": ("on", "off"),
    "aic-mode": ("task-based", "sample-based"),
    "aic-metrics": ("PipeUtilization",),
    "type": ("text", "db"),
    "summary-format": ("csv",),
}
HEADER = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us),"
    "Task Wait Time(us),{blocks},Mix {blocks},HF32 Eligible,Input Shapes,Input Data Types,aicore_time(us),"
    "aic_total_cycles,aic_mac_time(us),aic_mac_ratio,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,"
    "aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte3_time(us),aiv_mte3_ratio,"
    "aiv_icache_miss_rate,cube_utilization(%)"
)


def main(arguments: list[str]) -> int:
    """Profile a program."""
    if arguments[:1] == ["op"]:
        return msopprof.main(arguments[1:])
    config = standin.config()
    standin.obey("msprof")
    options, program = standin.split("msprof", arguments, KNOWN)
    if config["form"] == "cce" and "--application" not in " ".join(arguments):
        standin.refuse("msprof", "--application is required")
    output = Path(options["output"])
    standin.check_output("msprof", output)
    status, launches = standin.launches(program, output)
    tree = output / f"PROF_000001_{standin.stamp()}000_ABCDEFGHIJKLMNOP"
    (tree / "host").mkdir(parents=True)
    if not standin.told("msprof").get("no_table"):
        folder = tree / "mindstudio_profiler_output"
        folder.mkdir()
        write(
            folder / f"op_summary_{standin.stamp()}.csv",
            launches,
            "Block Num" if config["form"] == "asc" else "Block Dim",
        )
    print(f"Process profiling data complete. Data is saved in {tree}")
    return 0 if status == 0 else status


def write(path: Path, launches: list[dict[str, Any]], blocks: str) -> None:
    """Write a row per kernel, after a row of an engine that is no AI core."""
    lines = [HEADER.format(blocks=blocks)]
    start = launches[0]["start_us"] if launches else 0
    lines.append(
        f"0,4294967295,0,2,warmup_random,DSARandomNormal,dynamic,DSA_SQE,{start}.070\t,6341.500,0,0,0,NO,N/A,N/A"
        + ",N/A" * 16
    )
    for number, launch in enumerate(launches, 1):
        row = msopprof.mean_row(launch)
        values = [row[name] for name in ("aiv_time(us)", "aiv_total_cycles")]
        for pipe in ("vec", "scalar", "mte2", "mte3"):
            values += [row[f"aiv_{pipe}_time(us)"], row[f"aiv_{pipe}_ratio"]]
        numbers = ",".join(f"{value:.3f}" for value in values)
        lines.append(
            f"0,4294967295,{number},2,{launch['kernel'].split('<')[0]},custom,static,AI_VECTOR_CORE,"
            f"{launch['start_us']}.120\t,{launch['duration_us']:.3f},0.000000,{launch['blocks']},0,YES,"
            f'"""64,1024""",FLOAT,0.0,0,0.0,0.0,{numbers},0.004,0.000'
        )
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
