"""The twin's profile: written in the profiler's layout, read by the profiler's reader, the same numbers both ways."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from kope.target.profile import bottleneck, counters, read_profiles
from kope.target.twin import opprof, parameters

CHIP = parameters.load("910b2")
LAUNCH = {
    "kernel": "exp_kernel<float>",
    "blocks": 2,
    "duration_us": 25.25,
    "rows": [
        # block, time, scalar, vec, mte2, mte3, scalar wait, instructions (same order), read, written, vector types, hit
        [0, 20.5, 2.25, 5.125, 16.0, 9.0, 12.5, 400, 30, 12, 11, 1048576, 1040384, 4.1, 0.0, 0.0, 0.0, 1.025, 0],
        [1, 21.0, 2.0, 5.0, 17.0, 9.5, 13.0, 410, 31, 12, 12, 1048576, 1048576, 4.2, 0.0, 0.0, 0.0, 0.8, 524288],
    ],
}


def test_the_reader_gets_the_same_numbers_from_the_tree(tmp_path: Path) -> None:
    tree = opprof.write(tmp_path, [LAUNCH], parameters=CHIP)
    (profile,) = read_profiles(tree)
    assert (profile.op_name, profile.kind, profile.blocks) == ("exp_kernel<float>", "vector", 2)
    assert profile.modelled == CHIP.label == "910b2:1"
    assert counters(profile) == pytest.approx(opprof.counters([LAUNCH], CHIP), rel=1e-5, abs=1e-6)
    assert not profile.throttled


def test_counters_of_one_launch() -> None:
    values = opprof.counters([LAUNCH], CHIP)
    assert values["Task Duration(us)"] == 25.25
    assert values["aiv_time(us)"] == 20.75
    assert values["aiv_mte2_time(us)"] == 16.5
    assert values["aiv_mte2_ratio"] == pytest.approx((16.0 / 20.5 + 17.0 / 21.0) / 2)
    assert values["GM_to_UB_datas(KB)"] == 2048.0
    assert values["aiv_vec_fp32_ratio"] == pytest.approx(0.2)
    assert values["aiv_mte2_instructions"] == 24
    assert values["aiv_total_cycles"] == pytest.approx(20.75 * CHIP.values["clock_mhz"])
    assert bottleneck(values) == "mte2"


def test_layout_is_the_profilers(tmp_path: Path) -> None:
    tree = opprof.write(tmp_path, [LAUNCH], parameters=CHIP)
    assert tree.name.startswith("OPPROF_2") and len(tree.name) == len("OPPROF_20261201000000_ABCDEFGHIJKLMNOP")
    assert sorted(path.name for path in tree.iterdir()) == sorted(
        [*(f"{name}.csv" for name in opprof.COLUMNS), "kope_modelled.json"]
    )
    text = (tree / "PipeUtilization.csv").read_text("utf-8")
    header, first, *_ = text.splitlines()
    assert header == opprof.COLUMNS["PipeUtilization"] + ","
    assert first.startswith("0,vector0,NA,NA,") and first.endswith(",")
    assert {len(row) for row in csv.reader(text.splitlines())} == {len(header.split(","))}
    label = json.loads((tree / "kope_modelled.json").read_text("utf-8"))
    assert label["modelled"] is True and label["parameters"] == "910b2:1" and "launch_us" in label["guesses"]


def test_several_launches_have_a_folder_each(tmp_path: Path) -> None:
    second = {**LAUNCH, "kernel": "ns::fold", "duration_us": 4.0}
    tree = opprof.write(tmp_path, [LAUNCH, second], parameters=CHIP)
    assert [profile.op_name for profile in read_profiles(tree)] == ["exp_kernel<float>", "ns::fold"]
    assert (tree / "ns__fold" / "1" / "Memory.csv").exists()
    assert opprof.counters([LAUNCH, second], CHIP)["Task Duration(us)"] == 29.25


def test_hits_of_the_cache_are_shown_where_one_is_modelled() -> None:
    assert "aiv_read_hit_rate(%)" not in opprof.counters([LAUNCH], CHIP)
    assert opprof.counters([LAUNCH], parameters.load("910b2:2"))["aiv_read_hit_rate(%)"] == 25.0
