"""What a person reads of attempts: rows, lines, labels."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kope.loop import Standing, Stop, TaskResult
from kope.model import CaseResult, Diagnostic, Outcome, Stage, TimeKind, Verdict
from kope.report.document import time_label
from kope.report.overview import best_of, by_task, of_session, tasks_table
from kope.report.progress import Lines
from kope.report.summary import best_line, next_line
from kope.report.table import attempt_line, attempts_table, cells, duration
from kope.report.verdict import verdict_table
from tests.context import samples


def verified(iteration: int, **more: object):  # type: ignore[no-untyped-def]
    values: dict[str, object] = {"speedup": 1.0, "step_ratio": 1.0, "promoted": True}
    return samples.attempt(iteration, samples.verified(), move="tile-length", **(values | more))


def printed(renderable: object, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_row_holds_what_the_headings_say() -> None:
    assert cells(verified(3, speedup=2.0), 2) == ("3*", "tile-length", "verified", "2/2", "6.93 us", "2.00x", "35%")


def test_row_of_a_failure_names_stage_and_finding() -> None:
    failed = samples.attempt(4, samples.compile_failure(), speedup=0.0)
    assert cells(failed, 2) == ("4", "edit", "failed at compile: compile-error", "0/2", "-", "-", "-")


def test_time_of_a_kernel_that_failed_later_is_not_shown() -> None:
    outcome = Outcome(Stage.PROFILE, Verdict.FAILED, (Diagnostic("ub-oob", "m"),), samples.verified().cases)
    row = cells(samples.attempt(4, outcome, speedup=0.0), 2)
    assert row == ("4", "edit", "failed at profile: ub-oob", "2/2", "-", "-", "-")


def test_screened_is_never_shown_as_verified() -> None:
    outcome = Outcome(Stage.PROFILE, Verdict.SCREENED, cases=samples.verified().cases)
    row = cells(samples.attempt(5, outcome, speedup=0.5), 20)
    assert "screened" in row and "verified" not in row


def test_repeated_outcome_is_said() -> None:
    assert cells(verified(6, repeated=True), 2)[1] == "tile-length (seen before)"


def test_table_labels_its_times_as_modelled_with_the_parameter_set() -> None:
    text = printed(attempts_table("scale_norm", 2, [verified(1)]))
    assert "scale_norm: times modelled (twin:910b2:1), geometric mean over cases" in text
    assert time_label(TimeKind.MEASURED, "ascend:910b2") == "measured (ascend:910b2)"


def test_on_a_screen_of_80_columns_no_word_is_broken() -> None:
    outcome = Outcome(Stage.VERIFY, Verdict.FAILED, diagnostics=(Diagnostic("wrong-value", "m"),))
    rows = [verified(15), samples.attempt(16, outcome, move="accumulate-reduction")]
    text = printed(attempts_table("scale_norm", 20, rows), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert {"accumulate-reduction", "wrong-value", "verified", "speedup", "6.93"} <= set(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("time_us", "text"), [(None, "-"), (12.25, "12.25 us"), (9_999.0, "9999.00 us"), (12_250.0, "12.25 ms")]
)
def test_duration_has_its_unit(time_us: float | None, text: str) -> None:
    assert duration(time_us) == text


@pytest.mark.parametrize(
    ("error", "text"), [(None, "-"), (0.0, "0"), (0.0123, "0.012"), (123.0, "1.2e+02"), (1e30, "> 1e6")]
)
def test_an_error_beyond_all_tolerance_shows_no_odd_number(error: float | None, text: str) -> None:
    outcome = Outcome(Stage.VERIFY, Verdict.FAILED, cases=(CaseResult("c1", False, error=error),))
    table = printed(verdict_table(samples.task(), samples.FINGERPRINT, outcome))
    row = next(line for line in table.splitlines() if "c1" in line)
    assert row.split("│")[4].strip() == text


def test_progress_is_plain_lines_when_not_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=60)
    task, attempt = samples.task(), verified(1)
    with Lines(console) as lines:
        lines.begin(task, "s1", [])
        lines.trying(task, 1, "tile-length")
        lines.attempt(task, attempt)
        lines.end(TaskResult(task, Standing(attempt, attempt, (attempt,)), Stop.ITERATIONS))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "scale_norm: 2 cases, session s1",
        attempt_line(attempt, 2),
        "scale_norm: stopped after 1 attempt: the number of attempts asked for",
    ]


def test_last_lines_say_what_is_best_and_what_to_run_next() -> None:
    attempt = verified(1, speedup=2.0)
    result = TaskResult(samples.task(), Standing(attempt, attempt, (attempt,)), Stop.CONVERGED)
    assert best_line(result) == (
        "scale_norm: best kernel 6.93 us, 2.00x over the first verified kernel, 35% of the hardware bound; right on 2/2"
        " cases; times modelled (twin:910b2:1)"
    )
    nothing = TaskResult(samples.task(), Standing(), Stop.CONVERGED)
    assert best_line(nothing) == "scale_norm: no kernel yet is right on all cases"
    best, report = "kope best scale_norm -o scale_norm.asc --db x.db", "kope report scale_norm --db x.db"
    assert next_line([result], {}, " --db x.db") == f"Next: {best}; kope report --db x.db"
    assert next_line([nothing], {}, " --db x.db") == f"Next: {report} shows what failed"
    assert next_line([result, nothing], {}, " --db x.db") == f"Next: {best}; {report} shows what failed"
    assert next_line([result, result], {}, "") == "Next: kope best TASK -o TASK.asc; kope report"


def test_attempts_group_by_task_definition_and_session() -> None:
    first, second = verified(1), verified(2, speedup=3.0)
    assert list(by_task([first, second])) == ["scale_norm"]
    assert best_of([first, second]) == first
    assert of_session([first, second], None) == (first, second)
    assert of_session([first], "other") == ()
    assert "0/20" in printed(tasks_table([samples.attempt(1, samples.compile_failure())], {first.task_digest: 20}))
    assert best_of([samples.attempt(1, samples.compile_failure())]) is None


def test_bracketed_text_of_a_kernel_is_no_markup() -> None:
    outcome = Outcome(Stage.RUN, Verdict.FAILED, diagnostics=(Diagnostic("[red]crash[/red]", "m"),))
    text = printed(attempts_table("t", 1, [samples.attempt(1, outcome, move="[bold]x")]))
    assert "[bold]x" in text and "[red]crash[/red]" in text
