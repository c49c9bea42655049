"""The twin's times in the profiler's own words: per-core rows, flat counters, and the OPPROF_* tree on disk.

Every tree carries a label that its numbers are modelled. Columns the model has no number for are written as NA.
"""

from __future__ import annotations

import csv
import json
import secrets
import string
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kope.target import profile
from kope.target.twin.parameters import ParameterSet

COLUMNS: Mapping[str, str] = {
    "OpBasicInfo": "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,Rated Freq",
    "PipeUtilization": (
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_time(us),aic_cube_ratio,aic_mte1_time(us),"
        "aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,aic_mte3_time(us),aic_mte3_ratio,aic_mte3_active_bw(GB/s),"
        "aic_fixpipe_time(us),aic_fixpipe_ratio,aic_fixpipe_active_bw(GB/s),aic_icache_miss_rate,aic_scalar_time(us),"
        "aic_scalar_ratio,aic_scalar_single_time(us),aic_scalar_dual_time(us),aic_scalar_mte1_stall_time(us),"
        "aic_scalar_mte2_stall_time(us),aic_scalar_mte3_stall_time(us),aic_scalar_cube_stall_time(us),"
        "aic_scalar_wait_ib_time(us),aic_scalar_wait_time(us),aiv_time(us),aiv_total_cycles,aiv_vec_time(us),"
        "aiv_vec_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte2_active_bw(GB/s),aiv_mte3_time(us),aiv_mte3_ratio,"
        "aiv_mte3_active_bw(GB/s),aiv_icache_miss_rate,aiv_scalar_time(us),aiv_scalar_ratio,aiv_scalar_single_time(us),"
        "aiv_scalar_dual_time(us),aiv_scalar_mte2_stall_time(us),aiv_scalar_mte3_stall_time(us),"
        "aiv_scalar_stall_by_ub_time(us),aiv_scalar_vector_stall_time(us),aiv_scalar_wait_ib_time(us),"
        "aiv_scalar_wait_time(us)"
    ),
    "ArithmeticUtilization": (
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_ratio,aic_cube_fp16_ratio,aic_cube_int8_ratio,"
        "aic_cube_fops,aic_cube_total_instr_number,aic_cube_fp_instr_number,aic_cube_int_instr_number,aiv_time(us),"
        "aiv_total_cycles,aiv_vec_ratio,aiv_vec_fp32_ratio,aiv_vec_fp16_ratio,aiv_vec_int32_ratio,aiv_vec_int16_ratio,"
        "aiv_vec_misc_ratio,aiv_vec_fops"
    ),
    "Memory": (
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_l1_read_bw(GB/s),aic_l1_write_bw(GB/s),"
        "aic_main_mem_read_bw(GB/s),aic_main_mem_write_bw(GB/s),aic_mte1_instructions,aic_mte1_ratio,"
        "aic_mte2_instructions,aic_mte2_ratio,aic_mte3_instructions,aic_mte3_ratio,aiv_time(us),aiv_total_cycles,"
        "aiv_ub_to_gm_bw(GB/s),aiv_gm_to_ub_bw(GB/s),aiv_main_mem_read_bw(GB/s),aiv_main_mem_write_bw(GB/s),"
        "aiv_mte2_instructions,aiv_mte2_ratio,aiv_mte3_instructions,aiv_mte3_ratio,read_main_memory_datas(KB),"
        "write_main_memory_datas(KB),GM_to_L1_datas(KB),GM_to_L1_bw_usage_rate(%),L1_to_GM_datas(KB)(estimate),"
        "L1_to_GM_bw_usage_rate(%)(estimate),L0C_to_L1_datas(KB),L0C_to_L1_bw_usage_rate(%),L0C_to_GM_datas(KB),"
        "L0C_to_GM_bw_usage_rate(%),GM_to_UB_datas(KB),GM_to_UB_bw_usage_rate(%),UB_to_GM_datas(KB),"
        "UB_to_GM_bw_usage_rate(%)"
    ),
    "MemoryL0": (
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_l0a_read_bw(GB/s),aic_l0a_write_bw(GB/s),"
        "aic_l0b_read_bw(GB/s),aic_l0b_write_bw(GB/s),aic_l0c_read_bw_cube(GB/s),aic_l0c_write_bw_cube(GB/s),"
        "aiv_time(us),aiv_total_cycles"
    ),
    "MemoryUB": (
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,aiv_time(us),aiv_total_cycles,"
        "aiv_ub_read_bw_vector(GB/s),aiv_ub_write_bw_vector(GB/s),aiv_ub_read_bw_scalar(GB/s),"
        "aiv_ub_write_bw_scalar(GB/s)"
    ),
    "L2Cache": (
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_write_cache_hit,aic_write_cache_miss_allocate,"
        "aic_r0_read_cache_hit,aic_r0_read_cache_miss_allocate,aic_r1_read_cache_hit,aic_r1_read_cache_miss_allocate,"
        "aic_write_hit_rate(%),aic_read_hit_rate(%),aic_total_hit_rate(%),aiv_time(us),aiv_total_cycles,"
        "aiv_write_cache_hit,aiv_write_cache_miss_allocate,aiv_r0_read_cache_hit,aiv_r0_read_cache_miss_allocate,"
        "aiv_r1_read_cache_hit,aiv_r1_read_cache_miss_allocate,aiv_write_hit_rate(%),aiv_read_hit_rate(%),"
        "aiv_total_hit_rate(%)"
    ),
    "ResourceConflictRatio": (
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_wait_ratio,aic_mte1_wait_ratio,"
        "aic_mte2_wait_ratio,aic_mte3_wait_ratio,aiv_time(us),aiv_total_cycles,aiv_vec_total_cflt_ratio,"
        "aiv_vec_bankgroup_cflt_ratio,aiv_vec_bank_cflt_ratio,aiv_vec_resc_cflt_ratio,aiv_vec_mte_cflt_ratio,"
        "aiv_vec_wait_ratio,aiv_mte2_wait_ratio,aiv_mte3_wait_ratio"
    ),
}
"""File name -> columns as the profiler for architecture 2201 (910B) writes them."""

_PIPES = ("scalar", "vec", "mte2", "mte3")
_VECTOR_TYPES = ("fp32", "fp16", "int32", "int16", "misc")
"""Both in the order of the runtime."""

Launch = Mapping[str, Any]


def rows(launch: Launch, parameters: ParameterSet) -> list[dict[str, float]]:
    """Return what the model knows of each core of one launch, under the profiler's column names."""
    return [_row(entry, parameters) for entry in launch["rows"]]


def _row(entry: Sequence[float], parameters: ParameterSet) -> dict[str, float]:
    """One entry as the harness writes it: block, time, busy time per pipe, scalar wait, instructions per pipe, bytes
    read, bytes written, vector time per type, bytes read from the L2 cache."""
    time_us, busy, wait_us = entry[1], dict(zip(_PIPES, entry[2:6], strict=True)), entry[6]
    count = dict(zip(_PIPES, entry[7:11], strict=True))
    read_bytes, written_bytes = entry[11], entry[12]
    row = {"aiv_time(us)": time_us, "aiv_total_cycles": round(time_us * parameters.values["clock_mhz"])}
    for pipe in ("vec", "mte2", "mte3", "scalar"):
        row[f"aiv_{pipe}_time(us)"] = busy[pipe]
        row[f"aiv_{pipe}_ratio"] = _per(busy[pipe], time_us)
    for kind, part_us in zip(_VECTOR_TYPES, entry[13:18], strict=True):
        row[f"aiv_vec_{kind}_ratio"] = _per(part_us, time_us)
    row["aiv_scalar_wait_time(us)"] = wait_us
    row["aiv_mte2_active_bw(GB/s)"] = _gb_per_s(read_bytes, busy["mte2"])
    row["aiv_mte3_active_bw(GB/s)"] = _gb_per_s(written_bytes, busy["mte3"])
    row["aiv_mte2_instructions"] = count["mte2"]
    row["aiv_mte3_instructions"] = count["mte3"]
    row["aiv_gm_to_ub_bw(GB/s)"] = row["aiv_main_mem_read_bw(GB/s)"] = _gb_per_s(read_bytes, time_us)
    row["aiv_ub_to_gm_bw(GB/s)"] = row["aiv_main_mem_write_bw(GB/s)"] = _gb_per_s(written_bytes, time_us)
    row["read_main_memory_datas(KB)"] = row["GM_to_UB_datas(KB)"] = read_bytes / 1024
    row["write_main_memory_datas(KB)"] = row["UB_to_GM_datas(KB)"] = written_bytes / 1024
    row["GM_to_UB_bw_usage_rate(%)"] = _share(row["aiv_gm_to_ub_bw(GB/s)"], parameters.values["gm_to_ub_gbps"])
    row["UB_to_GM_bw_usage_rate(%)"] = _share(row["aiv_ub_to_gm_bw(GB/s)"], parameters.values["ub_to_gm_gbps"])
    if parameters.values.get("l2_gbps"):
        row["aiv_read_hit_rate(%)"] = _share(entry[18], read_bytes)
    return row


def _per(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else 0.0


def _gb_per_s(size_bytes: float, time_us: float) -> float:
    return _per(size_bytes, time_us) / 1e3


def _share(rate: float, peak: float) -> float:
    return min(100.0, 100.0 * _per(rate, peak))


def counters(launches: Sequence[Launch], parameters: ParameterSet) -> dict[str, float]:
    """Return the counters of one call, all its launches together; the same numbers the reader gets from the tree."""
    return profile.combine(profile.counters(as_profile(launch, parameters)) for launch in launches)


def as_profile(launch: Launch, parameters: ParameterSet) -> profile.Profile:
    """Return one launch in the form that reading its tree gives."""
    clock_mhz = parameters.values["clock_mhz"]
    return profile.Profile(
        op_name=str(launch["kernel"]),
        kind="vector",
        duration_us=float(launch["duration_us"]),
        blocks=int(launch["blocks"]),
        current_mhz=clock_mhz,
        rated_mhz=clock_mhz,
        rows={"all": tuple(rows(launch, parameters))},
        modelled=parameters.label,
    )


def write(folder: Path, launches: Sequence[Launch], *, parameters: ParameterSet) -> Path:
    """Write the profiler's tree for the launches of one call and return it.

    One launch: the tables stand in OPPROF_<time>_<letters>; several: in <kernel>/<n> below it.
    """
    letters = "".join(secrets.choice(string.ascii_uppercase) for _ in range(16))
    tree = folder / f"OPPROF_{time.strftime('%Y%m%d%H%M%S')}_{letters}"
    for number, launch in enumerate(launches):
        kernel = "".join(char if char.isalnum() or char == "_" else "_" for char in str(launch["kernel"])).strip("_")
        below = tree if len(launches) == 1 else tree / kernel / str(number)
        _write_launch(below, launch, parameters)
    return tree


def _write_launch(folder: Path, launch: Launch, parameters: ParameterSet) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    clock = f"{parameters.values['clock_mhz']:.0f}"
    basic = [launch["kernel"], "vector", _text(launch["duration_us"]), launch["blocks"], "NA", 0, 0, clock, clock]
    _table(folder / "OpBasicInfo.csv", COLUMNS["OpBasicInfo"], [basic])
    found = rows(launch, parameters)
    for name, header in COLUMNS.items():
        if name == "OpBasicInfo":
            continue
        columns = header.split(",")[2:]
        lines = [
            [int(entry[0]), "vector0", *(_text(row[column]) if column in row else "NA" for column in columns)]
            for entry, row in zip(launch["rows"], found, strict=True)
        ]
        _table(folder / f"{name}.csv", header, lines)
    label = {"modelled": True, "parameters": parameters.label, "guesses": list(parameters.guesses)}
    (folder / profile.MODELLED_LABEL).write_text(json.dumps(label, indent=1), "utf-8")


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def _table(path: Path, header: str, lines: Sequence[Sequence[object]]) -> None:
    """Write a table as the profiler does: every line ends with a comma."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*header.split(","), ""])
        writer.writerows([*line, ""] for line in lines)
