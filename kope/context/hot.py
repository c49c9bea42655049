"""The hot tier: the task, its cases, the incumbent, the latest feedback and the target, each as compact text.

Nothing here is retrieved and nothing is dropped; lists and what a tool wrote are shortened by stated rules only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kope.confidential import without_secrets
from kope.context.quote import clean, head_and_tail, one_line
from kope.model import Attempt, Case, CaseInput, CaseResult, Diagnostic, Outcome, Task, TimeKind


@dataclass(frozen=True, slots=True)
class Room:
    """How much of what can be shortened is shown.

    log: characters of a tool's own text (the first error is at the beginning, the summary at the end). diagnostics,
    cases, timed: how many are listed. Sources, the reference and the task's text are never shortened.
    """

    log: int = 6_000
    diagnostics: int = 12
    cases: int = 1_000
    timed: int = 1_000


ROOMS = (Room(), Room(log=1_500), Room(500, 4), Room(500, 4, cases=24, timed=12), Room(0, 3, cases=8, timed=6))
"""Tried in this order until the hot tier fits the budget."""


def case_line(case: Case, names: tuple[str, ...]) -> str:
    """Return one case on one line: id, inputs with shape and dtype, attributes."""
    inputs = ", ".join(_input(name, item) for name, item in zip(names, case.inputs, strict=True))
    attrs = "".join(f"; {name}={value!r}" for name, value in case.attrs.items())
    return f"{case.id}: {inputs}{attrs}"


def _input(name: str, item: CaseInput | None) -> str:
    if item is None:
        return f"{name} omitted"
    shape = "x".join(str(extent) for extent in item.spec.shape) or "scalar"
    special = f" with {item.values.special}" if item.values.special else ""
    return f"{name} {item.spec.dtype}[{shape}]{special}"


def cases_text(task: Task, room: Room = ROOMS[0]) -> str:
    """Return the outputs and every case, one line each; of too many the first, the last and every k-th between."""
    outputs = ", ".join(f"{output.name} ({output.dtype})" for output in task.outputs)
    shown = _spread([case_line(case, task.inputs) for case in task.cases], room.cases)
    left = len(task.cases) - len(shown)
    return "\n".join([f"outputs: {outputs}", *shown, *([f"[... {left} more cases, like these ...]"] if left else [])])


def _spread(lines: Sequence[str], count: int) -> list[str]:
    if len(lines) <= count:
        return list(lines)
    return [lines[round(k * (len(lines) - 1) / (count - 1))] for k in range(count)]


def tolerance_text(task: Task) -> str:
    """Return on one line the tolerance of every dtype that an output has in some case."""
    dtypes = {_output_dtype(task, case, output.dtype) for case in task.cases for output in task.outputs}
    known = [(dtype, task.tolerance[dtype]) for dtype in sorted(dtypes) if dtype in task.tolerance]
    grows = "; atol grows with the square root of the number of terms" if task.reduction is not None else ""
    return "; ".join(f"{dtype}: rtol {tolerance.rtol:g}, atol {tolerance.atol:g}" for dtype, tolerance in known) + grows


def _output_dtype(task: Task, case: Case, declared: str) -> str:
    source = declared.removeprefix("same:")
    given = case.inputs[task.inputs.index(source)] if source in task.inputs else None
    return given.spec.dtype if given is not None else declared


def times_text(outcome: Outcome, room: Room = ROOMS[0]) -> str:
    """Return a line per timed case, furthest from its hardware bound first: time, share of bound, busiest pipes."""
    timed = [case for case in outcome.cases if case.duration_us]
    times = outcome.times_us
    word = "modelled" if outcome.time_kind is TimeKind.MODELLED else "measured"
    rows = [
        f"{case.case_id}: {times[case.case_id]:.2f} us {word}{_where(case, times)}"
        for case in sorted(timed, key=lambda case: _share(case, times))
    ]
    left = len(rows) - room.timed
    more = [f"[... {left} more cases, nearer to the bound ...]"] if left > 0 else []
    return "\n".join([*rows[: room.timed], *more]) or "not timed"


def _share(case: CaseResult, times: Mapping[str, float]) -> float:
    return case.bound_us / times[case.case_id] if case.bound_us else 1.0


def _where(case: CaseResult, times: Mapping[str, float]) -> str:
    share = f", {_share(case, times):.0%} of the bound" if case.bound_us else ""
    pipes = [
        (value, name)
        for name, value in case.counters.items()
        if name.endswith("_time(us)") and name != "aiv_time(us)" and value > 0
    ]
    busiest = ", ".join(f"{name} {value:.2f}" for value, name in sorted(pipes, reverse=True)[:3])
    return share + (f"; {busiest}" if busiest else "")


_BOUND_BY = {
    "mte2": "copies from device memory to the core: move fewer bytes, larger pieces, overlap them (2 buffers)",
    "mte3": "copies from the unified buffer to device memory: larger pieces, overlap them with the next tile",
    "vector": "vector arithmetic: fewer instructions, longer counts, no work twice",
    "scalar": "scalar instructions: fewer loops, no GetValue/SetValue, larger tiles",
    "launch": "launch and waiting: fewer launches, work spread evenly over the cores",
    "cube": "matrix arithmetic: keep the cube unit fed",
    "mte1": "copies inside the core to the cube unit",
}


def bottleneck_text(bound_by: str) -> str:
    """Return what most of the time goes to and what helps, for target.profile's word; "" when nothing is known."""
    return f"{bound_by}: {_BOUND_BY[bound_by]}" if bound_by in _BOUND_BY else bound_by


def tried_text(history: Sequence[Attempt], count: int = 8) -> str:
    """Return the last attempts, one line each: move, verdict, speedup, why."""
    lines = []
    for attempt in history[-count:]:
        outcome = attempt.outcome
        came = f"{attempt.speedup:.2f}x" if outcome.ok and attempt.speedup else f"failed at {outcome.stage.value}"
        thought = one_line(without_secrets(attempt.proposal.thought or attempt.proposal.reason), 160)
        lines.append(f"{one_line(attempt.proposal.move)}: {came}" + (f"; {thought}" if thought else ""))
    return "\n".join(lines) or "nothing"


def feedback_text(attempt: Attempt, room: Room = ROOMS[0]) -> str:
    """Return what came of an attempt: verdict, diagnostics with place and remedy, and the tools' own text."""
    outcome = attempt.outcome
    head = f"move {one_line(attempt.proposal.move)}: {outcome.verdict.value} at stage {outcome.stage.value}"
    if outcome.ok and attempt.speedup is not None:
        head += f", {attempt.speedup:.3f}x the first verified kernel, {attempt.step_ratio:.3f}x its parent"
    lines = [head, *_reason(attempt), *_diagnostics(outcome.diagnostics, room.diagnostics)]
    if not outcome.ok and outcome.log.strip():
        log = without_secrets(clean(outcome.log))  # before it is cut: half a key would not look like one
        lines += ["tool output:", head_and_tail(log.strip(), room.log).strip()]
    return without_secrets("\n".join(lines))


def _reason(attempt: Attempt) -> Iterator[str]:
    if attempt.proposal.reason:
        yield f"reason: {one_line(without_secrets(attempt.proposal.reason))}"


def _diagnostics(found: tuple[Diagnostic, ...], limit: int) -> Iterator[str]:
    for item in found[:limit]:
        place = f" at {item.file}:{item.line}" if item.line else ""
        case = f" in case {item.case_id}" if item.case_id else ""
        times = f" ({item.count} times)" if item.count > 1 else ""
        remedy = f" -> {one_line(without_secrets(item.remedy))}" if item.remedy else ""
        yield f"{item.severity} {item.kind}{place}{case}{times}: {one_line(without_secrets(item.message), 600)}{remedy}"
    if len(found) > limit:
        yield f"[... {len(found) - limit} more diagnostics left out ...]"
