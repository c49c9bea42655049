"""op_summary tables of msprof: by column name, a row per launch, of any size."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kope import process
from kope.errors import ToolError
from kope.target import op_summary
from kope.target.profile import bottleneck

HEADER = (
    "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),{blocks},Input Shapes,aicore_time(us),"
    "aic_mac_ratio,aiv_time(us),aiv_vec_ratio,aiv_mte2_ratio,cube_utilization(%)"
)
ROOT = Path(__file__).parents[2]


def write(folder: Path, *rows: str, blocks: str = "Block Num") -> Path:
    path = folder / "op_summary_20261006000000.csv"
    path.write_text("\n".join([HEADER.format(blocks=blocks), *rows]) + "\n", "utf-8")
    return path


MUL = '6,mul,Mul,AI_VECTOR_CORE,1791228052549800.590\t,308.140,40,"""8,16""",0.0,0.0,303.376,0.044,0.981,0.0'


@pytest.mark.parametrize("blocks", ["Block Num", "Block Dim"])
def test_old_and_new_names_tabs_and_triple_quotes_are_read(tmp_path: Path, blocks: str) -> None:
    (row,) = op_summary.rows(write(tmp_path, MUL, blocks=blocks))
    assert (row.op_name, row.kind, row.start_us, row.duration_us, row.on_cores) == (
        "mul", "AI_VECTOR_CORE", 1791228052549800.590, 308.14, True,
    )  # fmt: skip
    assert row.counters() == {
        "Task Duration(us)": 308.14,
        "Block Dim": 40.0,
        "aic_time(us)": 0.0,
        "aic_mac_ratio": 0.0,
        "aiv_time(us)": 303.376,
        "aiv_vec_ratio": 0.044,
        "aiv_mte2_ratio": 0.981,
    }
    assert bottleneck(row.counters()) == "mte2"


def test_what_did_not_run_on_cores_is_marked_and_na_is_no_number(tmp_path: Path) -> None:
    rows = [
        "6,random,DSARandomNormal,DSA_SQE,1.0,6341.5,0,N/A,N/A,N/A,N/A,N/A,NA,N/A",
        "6,cpu,Cpu,AI_CPU,2.0,1.0,0,N/A,N/A,N/A,N/A,N/A,,N/A",
    ]
    found = list(op_summary.rows(write(tmp_path, *rows)))
    assert [(row.op_name, row.on_cores) for row in found] == [("random", False), ("cpu", False)]
    assert found[0].counters() == {"Task Duration(us)": 6341.5, "Block Dim": 0.0}


def test_one_name_twice_at_one_time_stays_two_launches(tmp_path: Path) -> None:
    other = MUL.replace("8,16", "4,4").replace("308.140", "10.5")
    first, second = op_summary.rows(write(tmp_path, MUL, other))
    assert (first.duration_us, second.duration_us) == (308.14, 10.5)
    assert (first.cells[7], second.cells[7]) == ('"8,16"', '"4,4"')


def test_a_table_without_rows_has_no_kernels(tmp_path: Path) -> None:
    assert list(op_summary.rows(write(tmp_path))) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Op Name,Task Type\nmul,AIV\n", "no column 'Task Start Time"),
        ("", "no column 'Op Name'"),
        (HEADER.format(blocks="Block Num") + "\n" + MUL + "\n" + MUL[:60], "line 3 is cut off"),
    ],
)
def test_a_table_that_is_not_whole_is_one_clear_error(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "op_summary_1.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ToolError, match=words):
        list(op_summary.rows(path))


def test_kernel_details_of_the_framework_profiler_are_read_by_the_same_rules(tmp_path: Path) -> None:
    path = tmp_path / "kernel_details.csv"
    path.write_text("Name,Type,Accelerator Core,Start Time(us),Duration(us)\nadd,Add,AI_VECTOR_CORE,12.5\t,3.25\n")
    (row,) = op_summary.rows(path)
    assert (row.op_name, row.start_us, row.duration_us) == ("add", 12.5, 3.25)


BIG = """
import sys
from pathlib import Path
from kope.target import op_summary
count, total = 0, 0.0
for row in op_summary.rows(Path(sys.argv[1])):
    count, total = count + 1, total + row.duration_us
peak_kb = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])  # without the parent's
print(count, round(total, 1), peak_kb)
"""


def test_fifty_megabytes_are_read_in_little_memory(tmp_path: Path) -> None:
    path = write(tmp_path)
    count = 50_000_000 // len(MUL)
    with path.open("a", encoding="utf-8") as file:
        file.write((MUL + "\n") * count)
    done = process.run([sys.executable, "-c", BIG, str(path)], cwd=ROOT, timeout_s=120.0)
    read, total, peak_kb = done.stdout.split()
    assert (int(read), float(total)) == (count, pytest.approx(308.14 * count, rel=1e-6))
    assert int(peak_kb) < 200 * 1024
