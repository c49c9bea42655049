"""The hot tier: the task, its cases, the incumbent, the latest feedback and the target, each as compact text.

Nothing here is retrieved and nothing is dropped; what a tool wrote is shortened by a stated rule only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kope.context.quote import clean, head_and_tail, one_line
from kope.model import Attempt, Case, CaseInput, CaseResult, Diagnostic, Outcome, Task, TimeKind

LOG_LIMIT = 6_000
"""Characters of a tool's own text shown: the first error is at the beginning, the summary at the end."""
_DIAGNOSTIC_LIMIT = 12


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


def cases_text(task: Task) -> str:
    """Return the outputs and every case, one line each."""
    outputs = ", ".join(f"{output.name} ({output.dtype})" for output in task.outputs)
    return "\n".join([f"outputs: {outputs}", *(case_line(case, task.inputs) for case in task.cases)])


def tolerance_text(task: Task) -> str:
    """Return on one line the tolerance of every dtype that an output has in some case."""
    dtypes = {_output_dtype(task, case, output.dtype) for case in task.cases for output in task.outputs}
    known = [(dtype, task.tolerance[dtype]) for dtype in sorted(dtypes) if dtype in task.tolerance]
    return "; ".join(f"{dtype}: rtol {tolerance.rtol:g}, atol {tolerance.atol:g}" for dtype, tolerance in known)


def _output_dtype(task: Task, case: Case, declared: str) -> str:
    source = declared.removeprefix("same:")
    given = case.inputs[task.inputs.index(source)] if source in task.inputs else None
    return given.spec.dtype if given is not None else declared


def times_text(outcome: Outcome) -> str:
    """Return a line per timed case, furthest from its hardware bound first: time, share of bound, busiest pipes."""
    timed = [case for case in outcome.cases if case.duration_us]
    times = outcome.times_us
    word = "modelled" if outcome.time_kind is TimeKind.MODELLED else "measured"
    rows = [
        f"{case.case_id}: {times[case.case_id]:.2f} us {word}{_where(case, times)}"
        for case in sorted(timed, key=lambda case: _share(case, times))
    ]
    return "\n".join(rows) or "not timed"


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


def feedback_text(attempt: Attempt) -> str:
    """Return what came of an attempt: verdict, diagnostics with place and remedy, and the tools' own text."""
    outcome = attempt.outcome
    head = f"move {one_line(attempt.proposal.move)}: {outcome.verdict.value} at stage {outcome.stage.value}"
    if outcome.ok and attempt.speedup is not None:
        head += f", {attempt.speedup:.3f}x the first verified kernel, {attempt.step_ratio:.3f}x its parent"
    lines = [head, *_reason(attempt), *_diagnostics(outcome.diagnostics)]
    if not outcome.ok and outcome.log.strip():
        lines += ["tool output:", head_and_tail(clean(outcome.log).strip(), LOG_LIMIT)]
    return "\n".join(lines)


def _reason(attempt: Attempt) -> Iterator[str]:
    if attempt.proposal.reason:
        yield f"reason: {one_line(attempt.proposal.reason)}"


def _diagnostics(found: tuple[Diagnostic, ...]) -> Iterator[str]:
    for item in found[:_DIAGNOSTIC_LIMIT]:
        place = f" at {item.file}:{item.line}" if item.line else ""
        case = f" in case {item.case_id}" if item.case_id else ""
        times = f" ({item.count} times)" if item.count > 1 else ""
        remedy = f" -> {one_line(item.remedy)}" if item.remedy else ""
        yield f"{item.severity} {item.kind}{place}{case}{times}: {one_line(item.message, 600)}{remedy}"
    if len(found) > _DIAGNOSTIC_LIMIT:
        yield f"[... {len(found) - _DIAGNOSTIC_LIMIT} more diagnostics left out ...]"
