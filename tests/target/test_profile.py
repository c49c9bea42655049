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
