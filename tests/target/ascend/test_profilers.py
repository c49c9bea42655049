"""What a profiler wrote becomes one time per call: kernels summed, warm-up left out, odd calls refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kope.errors import ToolError, ToolMissing
from kope.target.ascend import chip as chips
from kope.target.ascend.profilers import (
    Msopprof,
    Msprof,
    Simulator,
    choose,
    deal,
    last_words,
    newest_tree,
    trace_span_us,
)
from kope.target.ascend.toolkit import Toolkit

HEADER = "Op Name,Task Type,Task Start Time(us),Task Duration(us),Block Num,aiv_time(us),aiv_mte2_ratio\n"
EPOCH = 1_791_228_052_000_000
BASIC = "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,Rated Freq,\n"


def summary(folder: Path, *rows: tuple[str, float, float], kind: str = "AI_VECTOR_CORE") -> Path:
    """Write a table of kernels: name, start after EPOCH, duration."""
    place = folder / "PROF_000001_1_X" / "mindstudio_profiler_output"
    place.mkdir(parents=True)
    lines = [f"{name},{kind},{EPOCH + start}\t,{us},8,{us},0.5" for name, start, us in rows]
    (place / "op_summary_20261201.csv").write_text(HEADER + "\n".join(lines) + "\n")
    return folder


def calls(*starts: float) -> tuple[tuple[int, int], ...]:
    """Calls of a millisecond each."""
    return tuple((int(EPOCH + start), int(EPOCH + start + 1000)) for start in starts)


WARM = Msprof(Path("msprof"), parameters={"warm_up": 1.0, "repeats": 2.0, "gap_us": 4000.0})


def test_kernels_are_summed_per_call_and_the_warm_up_is_left_out(tmp_path: Path) -> None:
    rows = [(f"k{k}", start + 10 * k, 2.0 + k + start / 10_000) for start in (0, 10_000, 20_000) for k in range(3)]
    found = WARM.read(summary(tmp_path, *rows), {"c1": calls(0, 10_000, 20_000)}, "")["c1"]
    assert found.duration_us == pytest.approx((12.0, 15.0)) and found.diagnostics == ()
    assert found.counters["Task Duration(us)"] == pytest.approx(12.0)
    assert found.counters["aiv_mte2_ratio"] == pytest.approx(0.5)


def test_rows_in_any_order_go_to_the_case_whose_call_they_started_in(tmp_path: Path) -> None:
    rows = [
        ("b", 50_010, 7.0),
        ("a", 10_010, 3.0),
        ("b", 40_010, 6.0),
        ("a", 20_010, 4.0),
        ("a", 5, 1.0),
        ("b", 30_000, 5.0),
    ]
    of = {"c1": calls(0, 10_000, 20_000), "c2": calls(30_000, 40_000, 50_000)}
    found = WARM.read(summary(tmp_path, *rows), of, "")
    assert {case: one.duration_us for case, one in found.items()} == {"c1": (3.0, 4.0), "c2": (6.0, 7.0)}


def test_clocks_may_differ_by_a_little_and_no_more(tmp_path: Path) -> None:
    of = {"c1": calls(0, 10_000, 20_000)}
    early = [("a", start - 900, 2.0) for start in (0, 10_000, 20_000)]
    assert WARM.read(summary(tmp_path / "early", *early), of, "")["c1"].duration_us == (2.0, 2.0)
    with pytest.raises(ToolError, match="none of 1 kernels started within a call .* set ascend_profiler to msopprof"):
        WARM.read(summary(tmp_path / "away", ("a", 3_600_000_000, 2.0)), of, "")


def test_three_states_are_told_apart_no_kernel_uneven_calls_and_no_table(tmp_path: Path) -> None:
    of = {"c1": calls(0, 10_000, 20_000)}
    engine = WARM.read(summary(tmp_path / "engine", ("random", 5, 9.0), kind="DSA_SQE"), of, "")["c1"]
    assert (engine.duration_us, [one.kind for one in engine.diagnostics]) == ((), ["no-kernel"])
    odd = WARM.read(summary(tmp_path / "odd", ("a", 5, 1.0), ("a", 20_005, 1.0)), of, "")["c1"]
    assert (odd.duration_us, [one.kind for one in odd.diagnostics]) == ((), ["uneven-calls"])
    with pytest.raises(ToolError, match="msprof wrote no op_summary table; it said: \\[ERROR\\] no permission"):
        WARM.read(tmp_path / "empty", of, "start\n[ERROR] no permission\nbye\n")


def launch(folder: Path, name: str, us: float, clock: str = "1800") -> None:
    folder.mkdir(parents=True)
    (folder / "OpBasicInfo_20261201000000001.csv").write_text(BASIC + f"{name},vector,{us},8,NA,0,1,{clock},1800,\n")


OPERATOR = Msopprof(("msopprof",))


def test_launches_of_every_name_are_dealt_out_to_the_calls(tmp_path: Path) -> None:
    for number in range(4):
        launch(tmp_path / "OPPROF_1_X" / "first" / str(number), "first", 1.0 + number)
    for number in range(2):
        launch(tmp_path / "OPPROF_1_X" / "second" / str(number), "second", 10.0 + number, "1500")
    found = OPERATOR.read(tmp_path, {"c1": calls(0, 1)}, "")["c1"]
    assert found.duration_us == (1.0 + 2.0 + 10.0, 3.0 + 4.0 + 11.0)
    assert [(one.kind, one.severity) for one in found.diagnostics] == [("throttled", "warning")]


def test_launches_that_cannot_be_dealt_out_give_no_time(tmp_path: Path) -> None:
    for number in range(3):
        launch(tmp_path / "OPPROF_1_X" / "odd" / str(number), "odd", 1.0)
    found = OPERATOR.read(tmp_path, {"c1": calls(0, 1)}, "")["c1"]
    assert (found.duration_us, [one.message for one in found.diagnostics]) == (
        (),
        ["2 equal calls did not launch the same kernels (odd)"],
    )
    assert deal([("a", 1)], 0) == ([], "a")


@pytest.mark.parametrize(
    "words",
    [
        "Profiling results are empty. No kernel profiling data was generated",
        "No profiling data matched --kernel-name=x",
        "No profiling data dumped.",
    ],
)
def test_an_empty_tree_with_the_profilers_own_words_is_a_case_without_a_kernel(tmp_path: Path, words: str) -> None:
    (tmp_path / "OPPROF_1_X").mkdir()
    found = OPERATOR.read(tmp_path, {"c1": calls(0)}, f"[WARN] {words}\n")["c1"]
    assert [one.kind for one in found.diagnostics] == ["no-kernel"]


@pytest.mark.parametrize("words", ["Running task failed", "Get profiling data failed.", "Profiling data parse failed."])
def test_no_tree_is_the_profilers_failure_told_in_its_own_words(tmp_path: Path, words: str) -> None:
    text = f"2026-12-01 00:00:00 [INFO] start\n2026-12-01 00:00:01 [ERROR] {words}\n[INFO] end\n"
    with pytest.raises(ToolError, match=f"msopprof wrote no OPPROF tree; it said: .*{words}"):
        OPERATOR.read(tmp_path, {"c1": calls(0)}, text)
    assert last_words("") == "it said: nothing"


def test_a_simulated_time_spans_all_cores_and_adds_up_over_kernels(tmp_path: Path) -> None:
    for number, end in ((1, 30.0), (2, 12.5)):
        place = tmp_path / "OPPROF_1_X" / "k" / str(number) / "simulator"
        place.mkdir(parents=True)
        events = [{"ph": "M"}, {"ts": 2.0, "dur": 3.0}, {"ts": 4.0, "dur": end - 4.0}]
        (place / "trace.json").write_text(json.dumps({"traceEvents": events} if number == 1 else events))
    simulator = Simulator(("msopprof", "simulator"), "Ascend910B2")
    assert simulator.read(tmp_path, {"c1": calls(0)}, "")["c1"].duration_us == (28.0 + 10.5,)
    for text, words in (("{", "is cut off"), ('{"traceEvents": []}', "holds no event")):
        broken = tmp_path / "trace.json"
        broken.write_text(text)
        with pytest.raises(ToolError, match=words):
            trace_span_us(broken)


def test_the_newest_tree_counts(tmp_path: Path) -> None:
    for name in ("OPPROF_20261201000001_A", "OPPROF_20261201000000_B"):
        (tmp_path / name).mkdir()
    assert newest_tree(tmp_path) == tmp_path / "OPPROF_20261201000001_A"
    assert newest_tree(tmp_path / "nothing") is None


def tools(*names: str, version: str = "9.0.0") -> Toolkit:
    programs = {name: Path(f"/cann/bin/{name}") for name in names}
    return Toolkit(Path("/cann"), "test", version, programs=programs)


CHIP = chips.describe("Ascend910B2")
PROGRAM = ["./candidate", "launch.txt", "answers.jsonl"]


def test_every_profiler_is_called_as_documented() -> None:
    new, old = tools("msprof", "msopprof"), tools("msprof", version="8.3.RC2")
    common = "--output=/o --ascendcl=on --task-time=on --ai-core=on --aic-mode=task-based"
    common += " --aic-metrics=PipeUtilization --type=text --summary-format=csv"

    def called(toolkit: Toolkit, choice: str, *, has_card: bool = True) -> str:
        chosen = choose(choice, toolkit, CHIP, has_card=has_card)  # type: ignore[arg-type]
        return " ".join(chosen.argv(PROGRAM, Path("/o")))

    program = " ".join(PROGRAM)
    assert called(new, "auto") == f"/cann/bin/msprof {common} {program}"
    assert called(old, "auto") == f"/cann/bin/msprof {common} --application={program}"
    options = f"--output=/o --kernel-name=* --launch-count=5000 --warm-up=5 {program}"
    assert called(new, "msopprof") == f"/cann/bin/msopprof {options}"
    assert called(old, "msopprof") == f"/cann/bin/msprof op {options}"
    assert called(tools("msopprof"), "auto") == f"/cann/bin/msopprof {options}"
    simulated = f"--soc-version=Ascend910B2 --output=/o --kernel-name=* --launch-count=5000 {program}"
    assert called(new, "auto", has_card=False) == f"/cann/bin/msopprof simulator {simulated}"
    assert called(old, "simulator") == f"/cann/bin/msprof op simulator {simulated}"


def test_a_profiler_that_is_not_installed_is_one_line() -> None:
    with pytest.raises(ToolMissing, match="msprof is not in /cann; install the whole toolkit"):
        choose("msprof", tools(), CHIP, has_card=True)
    with pytest.raises(ToolMissing, match="neither msopprof nor msprof is in /cann"):
        choose("simulator", tools(), CHIP, has_card=True)
