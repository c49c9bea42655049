"""Profiler trees: read by column name, whatever their order; counters; what a time goes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.errors import ToolError
from kope.target.profile import bottleneck, combine, counters, read_profiles

BASIC = "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,Rated Freq,\n"


def tree(folder: Path, **tables: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text, "utf-8")
    return folder


def test_tables_are_read_by_name_with_trailing_commas_and_missing_values(tmp_path: Path) -> None:
    folder = tree(
        tmp_path / "OPPROF_20261201000000_ABCDEFGHIJKLMNOP",
        OpBasicInfo=BASIC + "scale_kernel,vector,12.5,2,NA,0,77,1500,1800,\n",
        PipeUtilization=(
            "sub_block_id,block_id,aiv_mte2_ratio,aic_time(us),aiv_time(us),aiv_vec_ratio,aiv_mte2_time(us),\n"
            "vector0,0,0.5,NA,10.0,0.25,5.0,\nvector0,1,0.7,NA,8.0,NA,5.6,\n"
        ),
        Memory="block_id,sub_block_id,aiv_mte2_instructions,GM_to_UB_datas(KB),\n0,vector0,3,16.0,\n1,vector0,5,8.0,\n",
    )
    (profile,) = read_profiles(folder)
    assert (profile.op_name, profile.kind, profile.duration_us, profile.blocks) == ("scale_kernel", "vector", 12.5, 2)
    assert profile.throttled and profile.modelled == ""
    assert counters(profile) == {
        "Task Duration(us)": 12.5,
        "Block Dim": 2.0,
        "aiv_mte2_ratio": pytest.approx(0.6),
        "aiv_time(us)": 9.0,
        "aiv_vec_ratio": 0.25,
        "aiv_mte2_time(us)": pytest.approx(5.3),
        "aiv_mte2_instructions": 8.0,
        "GM_to_UB_datas(KB)": 24.0,
    }


def test_several_kernels_keep_their_own_tables(tmp_path: Path) -> None:
    for number, stamp in enumerate(("_20261201000000111", "_20261201000000222")):
        tree(
            tmp_path / "OPPROF_X" / "k" / str(number),
            **{
                f"OpBasicInfo{stamp}": BASIC + f"k{number},vector,{number + 1}.0,1,NA,0,1,1800,1800,\n",
                f"PipeUtilization{stamp}": f"block_id,sub_block_id,aiv_time(us),\n0,vector0,{number + 0.5},\n",
            },
        )
    found = read_profiles(tmp_path)
    assert [(one.op_name, one.duration_us, counters(one)["aiv_time(us)"]) for one in found] == [
        ("k0", 1.0, 0.5),
        ("k1", 2.0, 1.5),
    ]


def test_an_empty_or_broken_tree_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="profiler wrote nothing"):
        read_profiles(tmp_path)
    tree(tmp_path / "a", OpBasicInfo=BASIC + "k,vector,NA,1,NA,0,1,1800,1800,\n")
    with pytest.raises(ToolError, match="no number in column 'Task Duration"):
        read_profiles(tmp_path)


def test_launches_of_one_call_add_up() -> None:
    first = {
        "Task Duration(us)": 10.0,
        "Block Dim": 8.0,
        "aiv_time(us)": 6.0,
        "aiv_vec_ratio": 0.5,
        "aiv_vec_fops": 4.0,
    }
    second = {
        "Task Duration(us)": 5.0,
        "Block Dim": 1.0,
        "aiv_time(us)": 2.0,
        "aiv_vec_ratio": 0.1,
        "aiv_vec_fops": 1.0,
    }
    assert combine([first, second]) == {
        "Task Duration(us)": 15.0,
        "Block Dim": 8.0,
        "aiv_time(us)": 8.0,
        "aiv_vec_ratio": pytest.approx(0.4),
        "aiv_vec_fops": 5.0,
    }
    assert combine([first]) == first
    assert combine([]) == {}


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"aiv_mte2_ratio": 0.9, "aiv_vec_ratio": 0.3, "aiv_scalar_ratio": 0.95}, "mte2"),
        ({"aiv_mte2_ratio": 0.4, "aiv_vec_ratio": 0.8, "aiv_scalar_ratio": 0.1}, "vector"),
        ({"aiv_mte3_time(us)": 9.0, "aiv_vec_time(us)": 1.0}, "mte3"),
        ({"aiv_mte2_ratio": 0.2, "aiv_vec_ratio": 0.1, "aiv_scalar_ratio": 0.7}, "scalar"),
        ({"aiv_mte2_ratio": 0.9, "Task Duration(us)": 40.0}, "launch"),
        ({}, ""),
    ],
)
def test_bottleneck(values: dict[str, float], name: str) -> None:
    assert bottleneck({"aiv_time(us)": 10.0, "Task Duration(us)": 12.0, **values} if values else {}) == name


HEADERS = {
    "910B: PipeUtilization": (
        "PipeUtilization",
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_time(us),aic_cube_ratio,aiv_time(us),"
        "aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte2_active_bw(GB/s),"
        "aiv_scalar_stall_by_ub_time(us),aiv_scalar_wait_time(us)",
    ),
    "910B: ArithmeticUtilization": (
        "ArithmeticUtilization",
        "block_id,sub_block_id,aic_time(us),aic_cube_fops,aiv_time(us),aiv_vec_ratio,aiv_vec_misc_ratio,aiv_vec_fops",
    ),
    "910B: L2Cache": (
        "L2Cache",
        "block_id,sub_block_id,aic_write_cache_hit,aic_write_cache_miss_allocate,aiv_r0_read_cache_hit,"
        "aiv_r1_read_cache_miss_allocate,aiv_total_hit_rate(%)",
    ),
    "910B: Memory": (
        "Memory",
        "block_id,sub_block_id,aiv_gm_to_ub_bw(GB/s),aiv_mte2_instructions,read_main_memory_datas(KB),"
        "L1_to_GM_datas(KB)(estimate),GM_to_UB_bw_usage_rate(%)",
    ),
    "910B: MemoryL0": ("MemoryL0", "block_id,sub_block_id,aic_l0a_read_bw(GB/s),aic_l0c_write_bw_cube(GB/s)"),
    "910B: MemoryUB": ("MemoryUB", "block_id,sub_block_id,aiv_ub_read_bw_vector(GB/s),aiv_ub_write_bw_scalar(GB/s)"),
    "910B: ResourceConflictRatio": (
        "ResourceConflictRatio",
        "block_id,sub_block_id,aic_cube_wait_ratio,aiv_vec_bank_cflt_ratio,aiv_mte1_wait_ratio,aiv_mte3_wait_ratio",
    ),
    "950: ArithmeticUtilization": (
        "ArithmeticUtilization",
        "block_id,sub_block_id,aic_cube_fp_ratio,aiv_vec_vf_ratio,aiv_vec_sfu_ratio,aiv_vec_simt_vf_ratio",
    ),
    "950: L2Cache": (
        "L2Cache",
        "block_id,sub_block_id,aic_read_close_hit,aic_read_close_miss,aiv_read_far_victim,aiv_write_hit_rate(%)",
    ),
    "950: MemoryUB": ("MemoryUB", "block_id,sub_block_id,aiv_ub_read_bw_vector(GB/s),aiv_ub_read_bw_gm(GB/s)"),
    "950: PipeUtilization": (
        "PipeUtilization",
        "block_id,sub_block_id,aic_cube_ratio,aic_mte1_active_bw(GB/s),aiv_vec_ratio,aiv_scalar_time(us),"
        "aiv_mte3_active_bw(GB/s),aiv_icache_miss_rate",
    ),
    "950: ResourceConflictRatio": (
        "ResourceConflictRatio",
        "block_id,sub_block_id,aiv_vec_stu_cflt_ratio,aiv_vec_ldu_cflt_ratio,aiv_vec_sfu_cflt_ratio",
    ),
    "310P: PipeUtilization": (
        "PipeUtilization",
        "aic_time(us),aic_total_cycles,aic_cube_ratio,aic_scalar_time(us),aic_mte2_ratio,aic_vec_time(us),aic_vec_ratio",
    ),
    "310P: L2Cache": ("L2Cache", "aic_l2_cache_hit_rate(%)"),
    "310P: MemoryL0": ("MemoryL0", "aic_l0c_read_bw_cube(GB/s),aic_l0c_read_bw(GB/s),aic_l0c_write_bw(GB/s)"),
}


@pytest.mark.parametrize("layout", HEADERS)
def test_every_chips_columns_are_read_by_name(tmp_path: Path, layout: str) -> None:
    metric, header = HEADERS[layout]
    names = header.split(",")
    keys = [name for name in names if name in ("block_id", "sub_block_id")]

    def line(block: int, *, blank: str) -> str:
        place = [str(block), "vector0"][: len(keys)]
        return ",".join([*place, *(str(k + block) if k else blank for k in range(len(names) - len(keys)))]) + ",\n"

    tables = {metric: header + ",\n" + line(1, blank="NA") + line(3, blank="N/A"), "OpBasicInfo": BASIC + OP}
    (profile,) = read_profiles(tree(tmp_path / "OPPROF_1", **tables))
    values = names[len(keys) :]
    counts = ("_hit", "_miss", "_victim", "_allocate", "_fops", "_instructions", "datas(KB)", "datas(KB)(estimate)")
    found = counters(profile)
    assert found == {
        "Task Duration(us)": 12.5,
        "Block Dim": 2.0,
        **{name: (2.0 * k + 4 if name.endswith(counts) else k + 2.0) for k, name in enumerate(values) if k},
    }


OP = "scale_kernel,vector,12.5,2,NA,0,77,1800,1800,\n"


def test_what_was_not_written_to_its_end_is_one_clear_error(tmp_path: Path) -> None:
    half = "block_id,sub_block_id,aiv_time(us),aiv_vec_ratio,\n0,vector0,10.0,0.5,\n1,vector0,8.0,0.4"
    folder = tree(tmp_path / "OPPROF_1", OpBasicInfo=BASIC + OP, PipeUtilization=half)
    with pytest.raises(ToolError, match="row 3 is cut off"):
        read_profiles(folder)
    with pytest.raises(ToolError, match="has 0 rows where 1 is expected"):
        read_profiles(tree(tmp_path / "OPPROF_2", OpBasicInfo=BASIC))


def test_the_older_spelling_without_mix_block_dim_is_read(tmp_path: Path) -> None:
    names = "Op Name,Op Type,Task Duration(us),Block Dim,Device ID/PID,Current Freq,Rated Freq,\n"
    basic = names + "k,mix,3.5,8,0/1,1650,1650,\n"
    (profile,) = read_profiles(tree(tmp_path / "OPPROF_1", OpBasicInfo=basic))
    assert (profile.op_name, profile.kind, profile.duration_us, profile.blocks, profile.throttled) == (
        "k", "mix", 3.5, 8, False,
    )  # fmt: skip


def test_launches_are_in_the_order_of_their_numbers_and_stamps_may_differ(tmp_path: Path) -> None:
    for number in (10, 9, 2):
        tree(
            tmp_path / "OPPROF_1" / "k" / str(number),
            OpBasicInfo_20261201000000111=BASIC + f"k,vector,{number}.0,1,NA,0,1,1800,1800,\n",
            PipeUtilization_20261201000000113=f"block_id,sub_block_id,aiv_time(us),\n0,vector0,{number}.5,\n",
            MemoryL0_20261201000000113="block_id,sub_block_id,aic_time(us),\n0,vector0,NA,\n",
        )
    found = read_profiles(tmp_path)
    assert [(one.duration_us, counters(one)["aiv_time(us)"]) for one in found] == [(2.0, 2.5), (9.0, 9.5), (10.0, 10.5)]
