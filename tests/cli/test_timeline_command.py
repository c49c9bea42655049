"""Timelines and what limits a kernel, from the command line: files that Perfetto reads, and lines a person reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.documents import parsed

from .test_eval_command import KERNEL, kope, own_folder

__all__ = ["own_folder"]


def trace_in(path: Path) -> dict[str, Any]:
    trace: dict[str, Any] = json.loads(path.read_text())
    assert trace["otherData"]["modelled"] is True
    return trace


def blocks(trace: dict[str, Any]) -> int:
    return len({event["pid"] for event in trace["traceEvents"] if event["pid"] > 0})


def test_eval_writes_the_timeline_of_the_largest_case_or_of_the_one_asked_for(tmp_path: Path) -> None:
    said = kope("eval", "./exp", str(KERNEL), "--trace", "largest.json")
    assert "timeline: largest.json; open it at ui.perfetto.dev" in said
    kope("eval", "./exp", str(KERNEL), "--trace", "second.json", "--case", "2")
    largest, second = trace_in(tmp_path / "largest.json"), trace_in(tmp_path / "second.json")
    assert blocks(largest) == 9 and blocks(second) == 6
    assert {event["name"] for event in largest["traceEvents"]} > {"Exp", "DataCopyPad", "wait", "exp_kernel<float>"}
    assert "exp_kernel<half>" in {event["name"] for event in second["traceEvents"]}


def test_a_case_that_is_not_there_is_said(tmp_path: Path) -> None:
    said = kope("eval", "./exp", str(KERNEL), "--trace", "t.json", "--case", "9", status=1)
    assert "exp has no case '9'; choose one of 1, 2" in said
    assert not (tmp_path / "t.json").exists()


def test_eval_says_what_limits_the_cases() -> None:
    text = kope("eval", "./exp", str(KERNEL))
    assert re.search(r"cases by what limits them: launch in 2; of the cores' time, on average: \w+ \d+%, ", text)


def test_twin_run_writes_a_timeline_and_names_the_limit(tmp_path: Path) -> None:
    tensor = {"shape": [2097152], "dtype": "float32"}
    launch = {"inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y", **tensor}]}
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    argv = ("twin", "run", str(KERNEL), "--launch", "launch.json")
    text = kope(*argv, "--trace", "t.json")
    assert "timeline: t.json; open it at ui.perfetto.dev" in text
    assert re.search(r"memory \d\d%", text) and "Not in the model: bank conflicts" in text
    assert blocks(trace_in(tmp_path / "t.json")) == 48
    shown = parsed(kope(*argv, "--json"), "twin_run")
    (only,) = shown["launches"]
    assert only["limit"]["unit"] == "memory" and 0.6 < only["limit"]["share"] < 1.0
    assert shown["time_us"] == only["time_us"]
    assert "spans" not in only


def test_twin_run_says_when_there_is_no_timeline(tmp_path: Path) -> None:
    tensor = {"shape": [32], "dtype": "float32"}
    launch = {"inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y", **tensor}]}
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    (tmp_path / "wrong.asc").write_text(KERNEL.read_text().replace("Exp(y, x, n);", "Exq(y, x, n);"))
    said = kope("twin", "run", "wrong.asc", "--launch", "launch.json", "--trace", "t.json", status=1)
    assert "no timeline: no launch came to its end" in said
    assert not (tmp_path / "t.json").exists()
