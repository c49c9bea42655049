"""Systems side by side: one denominator, published counts as such, foreign CSV files, the report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope.cli import app
from kope.errors import ConfigError
from kope.suite.compare import compare
from kope.suite.record import CaseRecord, RunFolder, RunInfo, TaskRecord
from kope.suite.report import as_csv, markdown
from kope.suite.results import read_systems
from tests.documents import parsed

PUBLISHED = Path(__file__).parents[2] / "examples" / "published" / "cann-bench-0.4.0.csv"


def case(number: int, **facts: Any) -> CaseRecord:
    return CaseRecord(str(number), **facts)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three operators, one of which was never reached."""
    declared = {"cann_exp": ["1", "2", "3"], "cann_gru": ["1", "2"], "cann_add": ["1"]}
    facts = {"proposer": "search", "memory": "on", "seed": 0, "kope": "1"}
    info = RunInfo("id", "ours", "cann-bench", "1.0.0", "modelled", "twin:910b2:1", facts, declared)
    folder = RunFolder.create(tmp_path / "run", info)
    exp = (
        case(1, passed=True, official=True, time_us=5.0, baseline_us=10.0, limit_us=2.0, nulls=()),
        case(2, passed=True, official=True, time_us=20.0, baseline_us=20.0, limit_us=2.0, nulls=("zeros",)),
        case(3, official=True, baseline_us=10.0, limit_us=3.0, nulls=(), note="wrong-value"),
    )
    gru = (
        case(1, baseline_us=10.0, limit_us=1.0, official=False, note="timeout"),
        case(2, note="timeout", official=False),
    )
    folder.add(
        TaskRecord("cann_exp", "level1/exp", "L1", "Exp", "d1", exp, 4, True, "abc", "failed", 70, 3.5), "source"
    )
    folder.add(TaskRecord("cann_gru", "level4/gru", "L4", "GRU", "d2", gru, 2, False, tokens=30, wall_s=1.5), None)
    return tmp_path / "run"


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """What another system wrote: fewer cases, names of its own."""
    file = tmp_path / "agent.csv"
    file.write_text(
        "system,operator,case,passed,time_us,tokens,time_kind,hardware\n"
        "Agent,Exp,1,true,10,500,modelled,twin:910b2:1\n"
        "Agent,exp,2,yes,10,,modelled,twin:910b2:1\n"
        "Agent,GRU,1,0,,,modelled,twin:910b2:1\n"
    )
    return file


def document(*places: Path) -> dict[str, Any]:
    return compare([system for place in places for system in read_systems(place)]).document()


def test_published_counts_give_the_published_rates() -> None:
    found = document(PUBLISHED)
    assert [(one["system"], f"{100 * one['rate']:.1f}", one["any_passed"]) for one in found["systems"]] == [
        ("KOPE (GLM-5.2)", "84.6", 52),
        ("CANNBot (GLM-5.2)", "57.8", 37),
        ("CUDA-Agent (GLM-5.2)", "14.7", 13),
        ("KOPE (DeepSeek-V4-Pro)", "73.9", 47),
        ("CANNBot (DeepSeek-V4-Pro)", "39.3", 25),
        ("CUDA-Agent (DeepSeek-V4-Pro)", "9.1", 8),
    ]
    assert {(one["cases"], one["operators"], one["source"]) for one in found["systems"]} == {
        (1060, 53, "published: arXiv 2608.25570")
    }
    assert found["cases"] == 0


def test_a_run_counts_every_declared_case(run: Path) -> None:
    (ours,) = document(run)["systems"]
    assert (ours["passed"], ours["cases"], ours["operators"], ours["any_passed"], ours["all_passed"]) == (2, 6, 3, 1, 0)
    assert (ours["official"]["passed"], ours["official"]["cases"], ours["official"]["all_passed"]) == (3, 6, 1)
    assert (ours["discriminating"]["passed"], ours["discriminating"]["cases"]) == (1, 5)
    assert (ours["compiled"], ours["tokens"], ours["wall_s"], ours["facts"]["tasks"]) == (1, 100, 5.0, "2 of 3")
    assert ours["over_published"] == {"value": pytest.approx(0.5**0.5), "count": 2, "low": pytest.approx(0.5**0.5),
                                      "high": pytest.approx(0.5**0.5)}  # fmt: skip
    assert ours["over_published_uncapped"]["count"] == 1
    assert ours["faster_than_published"] == {"1": 2, "2": 1}
    assert [(level["level"], level["passed"], level["cases"]) for level in ours["levels"]] == [
        ("L1", 2, 3),
        ("L4", 0, 2),
    ]


def test_a_modelled_time_has_no_score_and_a_measured_one_has(run: Path) -> None:
    assert document(run)["systems"][0]["score"] is None
    text = (run / "run.json").read_text().replace('"modelled"', '"measured"')
    (run / "run.json").write_text(text)
    (ours,) = document(run)["systems"]
    exp = 20.0 + (30 + 50 * 8 / 11 + 30 + 50 * 0.5) / 3
    assert ours["score"] == {"total": pytest.approx(exp), "capped": pytest.approx(exp),
                             "average": pytest.approx(exp / 3), "above_limit": []}  # fmt: skip


def test_another_system_is_brought_to_the_same_cases(run: Path, agent: Path) -> None:
    found = document(run, agent)
    _, theirs = found["systems"]
    assert (theirs["system"], theirs["passed"], theirs["cases"], theirs["tokens"]) == ("Agent", 2, 6, 500)
    assert (theirs["official"], theirs["compiled"]) == (None, None)
    assert theirs["over_published"]["count"] == 2
    assert [(one["operator"], one["passed"]) for one in found["by_operator"]] == [
        ("level1/exp", {"ours": 2, "Agent": 2}),
        ("level4/gru", {"ours": 0, "Agent": 0}),
        ("cann_add", {"ours": 0, "Agent": 0}),
    ]
    both = found["intersection"]
    assert (both["cases"], both["reason"]) == (2, "")
    assert [(one["system"], one["against"], one["count"]) for one in both["ratios"]] == [("Agent", "ours", 2)]
    assert both["ratios"][0]["value"] == pytest.approx(1.0)  # half as fast on one, twice on the other


def test_times_of_other_hardware_are_never_set_side_by_side(run: Path, agent: Path) -> None:
    agent.write_text(agent.read_text().replace("modelled,twin:910b2:1", "measured,Ascend 910C"))
    both = document(run, agent)["intersection"]
    assert (both["cases"], both["ratios"]) == (0, [])
    assert both["reason"].startswith(
        "times of different hardware or kind are never compared (ours: modelled twin:910b2:1;"
    )


def test_two_systems_of_one_name_are_told_apart(run: Path) -> None:
    found = document(run, run)
    assert [one["system"] for one in found["systems"]] == ["ours", "ours (2)"]
    assert found["by_operator"][0]["passed"] == {"ours": 2, "ours (2)": 2}
    assert [one["against"] for one in found["intersection"]["ratios"]] == ["ours"]


def test_without_a_case_in_common_times_are_not_compared(run: Path, agent: Path) -> None:
    agent.write_text("\n".join(line for line in agent.read_text().splitlines() if "xp," not in line))
    agent.write_text(agent.read_text() + "\nAgent,gru,2,1,3,,modelled,twin:910b2:1\n")
    assert document(run, agent)["intersection"]["reason"] == "no case was passed and timed by all systems with times"


def test_the_report_says_what_each_number_is(run: Path, agent: Path) -> None:
    text = markdown(document(run, agent, PUBLISHED), "Two systems")
    assert "# Two systems\n\n6 cases of 3 operators" in text
    assert "| ours | 2/6 | 33.3% | 1/3 | 0/3 | 100 |" in text
    assert "| CANNBot (GLM-5.2) (published: arXiv 2608.25570) | 613/1060 | 57.8% | 37/53 | - | - |" in text
    assert (
        "- by the suite's own rule, for comparison with published counts: 3/6 (50.0%), 1 operators with a pass" in text
    )
    assert "| level | cases passed | rate | modelled / published | cases in it | without capped baselines |" in text
    assert "| L1 | 2/3 | 66.7% | 0.707 [0.707, 0.707] | 2 | 0.5 [0.5, 0.5] |" in text
    assert "| level1/exp | L1 | 2/3 | 2/3 |" in text
    assert "speedup" not in text.replace("is no speedup", "")


def test_csv_has_one_line_per_system(run: Path, agent: Path) -> None:
    lines = as_csv(document(run, agent, PUBLISHED)).splitlines()
    assert lines[0].startswith("system,source,passed,cases,rate,official_passed,operators")
    assert [line.split(",")[0] for line in lines[1:4]] == ["ours", "Agent", "KOPE (GLM-5.2)"]
    assert lines[1].split(",")[1:6] == ["", "2", "6", "0.333333", "3"]


def test_the_command_prints_a_table_writes_files_and_gives_json(run: Path, agent: Path, tmp_path: Path) -> None:
    def kope(*words: str) -> str:
        done = CliRunner().invoke(app, ["suite", "compare", *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    table = kope(str(run), f"other={agent}", "--published")
    assert "other" in table and "modelled 0.707" in table and "84.6%" in table
    assert "other: 1 times as fast as ours on 2 cases" in table
    assert kope(str(run), "-o", str(tmp_path / "report.md")).endswith("report.md: 1 systems, 6 cases\n")
    assert (tmp_path / "report.md").read_text().startswith("# Comparison\n")
    kope(str(run), "-o", str(tmp_path / "report.csv"))
    assert (tmp_path / "report.csv").read_text().startswith("system,source,")
    found = parsed(kope(str(run), str(agent), "--published", "--json"), "suite_compare")
    assert json.loads(json.dumps(document(run, agent, PUBLISHED))) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("system,operator\nA,exp\n", "needs the columns system, operator, case, passed"),
        ("", "needs the columns"),
        ("system,operator,case,passed\nA,exp,1,perhaps\n", ":2: passed: 'perhaps' is neither true nor false"),
        ("system,operator,case,passed,time_us\nA,exp,1,1,-3\n", ":2: time_us: '-3' is no number from 0 on"),
        ("system,operator,case,passed\nA,exp,1,1\nA,exp,1,0\n", "A has case 1 of exp twice"),
        ("system,passed,cases\nA,5,4\n", ":2: passed and cases: '5' of '4' is no count"),
    ],
)
def test_a_csv_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "x.csv"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_systems(file)
    assert said in str(caught.value)


def test_what_a_run_keeps_is_read_back_whole(run: Path) -> None:
    folder = RunFolder.open(run)
    assert [asdict(record)["task"] for record in folder.records.values()] == ["cann_exp", "cann_gru"]
    assert folder.records["cann_exp"].cases[1] == case(
        2, passed=True, official=True, time_us=20.0, baseline_us=20.0, limit_us=2.0, nulls=("zeros",)
    )
    assert (folder.kernel("cann_exp"), folder.kernel("cann_gru")) == ("source", None)
    assert sorted(path.name for path in run.rglob("*") if path.is_file()) == [
        "cann_exp.asc", "cann_exp.json", "cann_gru.json", "run.json",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: (run / "run.json").unlink(), "no run.json"),
        (lambda run: (run / "run.json").write_text("{"), "cannot be read"),
        (lambda run: (run / "run.json").write_text('{"format": 9}'), "format 9, this version reads 1"),
        (lambda run: (run / "tasks" / "cann_exp.json").write_text('{"cases": [], "x": 1}'), "not as KOPE wrote it"),
    ],
)
def test_a_damaged_run_is_one_line(run: Path, change: Any, said: str) -> None:
    change(run)
    with pytest.raises(ConfigError) as caught:
        RunFolder.open(run)
    assert said in str(caught.value) and "\n" not in str(caught.value)
