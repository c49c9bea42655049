"""The timeline of a run: a Chrome trace of whole events in order, on known threads, that add up to the profile."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from kope.target.twin import TwinTarget, timeline
from kope.target.twin.limit import Limit, limit_of
from kope.target.twin.parameters import load

from .launching import Call, build, kernel, launch_case

COUNT = 1 << 20


@pytest.fixture(scope="module")
def traced(
    twin: TwinTarget, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, float], float]:
    """A trace, the counters of the same case, and its time."""
    folder = tmp_path_factory.mktemp("trace")
    case = launch_case(Call([np.zeros(COUNT, np.float32)], [((COUNT,), "float32")]), folder / "data", "c")
    built = build(twin, kernel("exp"), folder)
    trace = twin.trace(built, case, folder / "a", time_limit_s=60)
    (one,) = twin.run(built, [case], "time", folder / "b", time_limit_s=60).cases
    assert trace is not None
    return json.loads(json.dumps(trace)), dict(one.counters), one.duration_us[0]


def spans(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] > 0]


def test_every_event_has_what_the_format_wants(traced: Any) -> None:
    trace, _, duration_us = traced
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M") and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["name"] and isinstance(event["args"], dict)
        if event["ph"] == "X":
            assert 0.0 <= event["ts"] <= event["ts"] + event["dur"] <= duration_us + 1e-3
    starts = [event["ts"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert starts == sorted(starts)
    assert trace["otherData"]["parameters"] == "910b2:1" and trace["otherData"]["modelled"] is True
    assert trace["otherData"]["left_out"] == 0 and "launch_us" in trace["otherData"]["guesses"]


def test_blocks_are_processes_and_pipes_are_threads_with_names(traced: Any) -> None:
    trace, counters, duration_us = traced
    names = {(e["pid"], e["tid"], e["name"]): e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    blocks = {event["pid"] for event in spans(trace)}
    assert blocks == set(range(1, int(counters["Block Dim"]) + 1))
    for block in blocks:
        assert names[block, 0, "process_name"] == f"block {block - 1}"
        assert [names[block, k, "thread_name"] for k in range(4)] == list(timeline.PIPES)
    (whole,) = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 0]
    assert whole["name"] == "exp_kernel<float>" and whole["dur"] == pytest.approx(duration_us, abs=1e-6)


def test_a_pipe_does_one_thing_at_a_time(traced: Any) -> None:
    ends: dict[tuple[int, int], float] = defaultdict(float)
    for event in spans(traced[0]):
        place = (event["pid"], event["tid"])
        assert event["ts"] >= ends[place] - 2e-6
        ends[place] = event["ts"] + event["dur"]


def test_what_it_shows_adds_up_to_the_profile(traced: Any) -> None:
    trace, counters, _ = traced
    cores = counters["Block Dim"]
    for thread, pipe in enumerate(("scalar", "vec", "mte2", "mte3")):
        worked = [e["dur"] for e in spans(trace) if e["tid"] == thread and e["name"] != "wait"]
        assert sum(worked) / cores == pytest.approx(counters[f"aiv_{pipe}_time(us)"], rel=1e-3)
    waits = [e["dur"] for e in spans(trace) if e["name"] == "wait"]
    assert sum(waits) / cores == pytest.approx(counters["aiv_scalar_wait_time(us)"], rel=1e-3)
    read = sum(e["args"]["bytes"] for e in spans(trace) if e["tid"] == 2)
    assert read == 4 * COUNT == counters["GM_to_UB_datas(KB)"] * 1024


def test_entries_name_the_call_and_its_line(traced: Any) -> None:
    lines = kernel("exp").splitlines()
    for event in spans(traced[0]):
        if event["tid"] in (1, 2, 3) and "line" in event["args"]:
            assert event["name"].split("<")[0] in lines[event["args"]["line"] - 1]
    assert {e["name"] for e in spans(traced[0]) if e["tid"] == 1} >= {"Exp"}


def test_what_there_was_no_room_for_is_counted_and_launches_follow_each_other() -> None:
    launch = {
        "kernel": "k",
        "duration_us": 5.0,
        "blocks": 1,
        "spans": [[0, 1, 0.5, 1.5, 0, 7, 0]],
        "span_names": ["Add"],
        "spans_left_out": 3,
    }
    trace = timeline.chrome_trace([launch, launch], load("910b2"))
    assert trace["otherData"]["left_out"] == 6
    assert [(e["name"], e["pid"], e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"] == [
        ("k", 0, 0.0, 5.0),
        ("Add", 1, 3.5, 1.0),
        ("k", 0, 5.0, 5.0),
        ("Add", 1, 8.5, 1.0),
    ]


def launch_of(busy_us: tuple[float, float, float, float], moved_bytes: int, duration_us: float) -> dict[str, Any]:
    """One core's row as the harness writes it."""
    row = [0, duration_us, *busy_us, 0.0, 1, 1, 1, 1, moved_bytes, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0]
    return {"duration_us": duration_us, "rows": [row]}


@pytest.mark.parametrize(
    ("busy_us", "moved_bytes", "unit", "share"),
    [
        ((1.0, 8.0, 5.0, 2.0), 0, "vec", 0.8),
        ((9.0, 8.0, 5.0, 2.0), 0, "scalar", 0.9),
        ((1.0, 2.0, 9.0, 2.0), 0, "mte2", 0.9),
        ((1.0, 2.0, 9.0, 2.0), 14_000_000, "memory", 0.8),
        ((0.1, 0.2, 0.3, 0.2), 0, "launch", 0.3),
    ],
)
def test_the_limit_is_the_unit_that_alone_needs_most(
    busy_us: tuple[float, float, float, float], moved_bytes: int, unit: str, share: float
) -> None:
    assert limit_of(launch_of(busy_us, moved_bytes, 10.0), load("910b2")) == Limit(unit, pytest.approx(share))
