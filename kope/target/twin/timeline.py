"""What every pipe of every block did when, as a Chrome trace that Perfetto and chrome://tracing open.

Blocks are processes, pipes are threads; a further process shows the launches as wholes. What took how long is the
runtime's account; here it is only put into another form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kope.target.twin.parameters import ParameterSet

MOST_SPANS = 200_000
"""Entries of a launch that are kept; the rest is counted."""

PIPES = ("scalar", "vector", "MTE2: device memory to UB", "MTE3: UB to device memory")
"""In the order of the runtime."""

_LAUNCHES = 0
"""Process of the launches; block k is process k + 1."""


def chrome_trace(launches: Sequence[Mapping[str, Any]], parameters: ParameterSet) -> dict[str, Any]:
    """Return the launches of one call, one after the other, as a JSON-able trace. Times in microseconds, modelled.

    Every event is complete ("X") with start and duration; their order is that of their starts. otherData says what
    they come from, what of that is guessed, and how many entries there was no room for.
    """
    events: list[dict[str, Any]] = []
    begin_us = 0.0
    blocks: set[int] = set()
    for launch in launches:
        duration_us = float(launch["duration_us"])
        inside_us = begin_us + parameters.values["launch_us"]
        events.append(_event(launch["kernel"], _LAUNCHES, 0, begin_us, duration_us, {"blocks": launch["blocks"]}))
        names = launch.get("span_names", ())
        for block, pipe, start_us, end_us, name, line, size_bytes in launch.get("spans", ()):
            told = {key: value for key, value in (("line", line), ("bytes", size_bytes)) if value}
            label = names[name] or "scalar code"
            events.append(_event(label, block + 1, pipe, inside_us + start_us, end_us - start_us, told))
            blocks.add(block)
        begin_us += duration_us
    events.sort(key=lambda event: (event["ts"], event["pid"], event["tid"]))
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "modelled": True,
            "parameters": parameters.label,
            "guesses": list(parameters.guesses),
            "left_out": sum(int(launch.get("spans_left_out", 0)) for launch in launches),
        },
        "traceEvents": [*_headings(sorted(blocks)), *events],
    }


def as_text(trace: Mapping[str, Any]) -> str:
    """Return a trace as JSON, an event a line."""
    head = {name: value for name, value in trace.items() if name != "traceEvents"}
    events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in trace["traceEvents"])
    return json.dumps(head)[:-1] + f', "traceEvents": [\n{events}\n]}}\n'


def _event(name: str, process: int, thread: int, start_us: float, span_us: float, told: Mapping[str, Any]) -> Any:
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": round(start_us, 6),
        "dur": round(span_us, 6),
        "args": dict(told),
    }


def _headings(blocks: Sequence[int]) -> list[dict[str, Any]]:
    """Return the names of processes and threads, and the order they are shown in."""
    found = [_heading("process_name", _LAUNCHES, 0, "launches"), _heading("thread_name", _LAUNCHES, 0, "kernel")]
    for block in blocks:
        found.append(_heading("process_name", block + 1, 0, f"block {block}"))
        found += [_heading("thread_name", block + 1, number, pipe) for number, pipe in enumerate(PIPES)]
    return found


def _heading(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
