"""What the loop promises: order, correctness before speed, what is kept, when it stops, how it resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kope.loop import Limits, Stop, TaskResult, Watcher, appraise, optimize, since_promotion
from kope.model import Attempt, Outcome, Proposal, Stage, State, Task, TokensSpent, Verdict
from tests.loop.fakes import ListMemory, MarkerEvaluator, Script, marked, parts_of, small_task

NO_LIMIT = Limits(iterations=None)


class Quiet:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def begin(self, task: Task, session_id: str, earlier: Sequence[Attempt]) -> None:
        self.events.append(f"begin {task.name} after {len(earlier)}")

    def trying(self, task: Task, iteration: int, move: str) -> None:
        self.events.append(f"trying {move}")

    def attempt(self, task: Task, attempt: Attempt) -> None:
        self.events.append(f"attempt {attempt.iteration}")

    def end(self, result: TaskResult) -> None:
        self.events.append(f"end {result.stop.value}")


def run(sources: Sequence[str | None], memory: ListMemory | None = None, limits: Limits = NO_LIMIT) -> TaskResult:
    watcher: Watcher = Quiet()
    (result,) = optimize([small_task()], parts_of(sources, memory), limits, watcher)
    return result


def facts(attempts: Sequence[Attempt]) -> list[tuple[object, ...]]:
    return [
        (a.id, a.proposal.move, a.outcome.verdict, a.speedup, a.step_ratio, a.promoted, a.repeated) for a in attempts
    ]


def test_first_verified_kernel_is_the_baseline_and_faster_ones_are_promoted() -> None:
    result = run([marked(10), marked(5), marked(2)])
    assert [(a.speedup, a.step_ratio, a.promoted) for a in result.standing.history] == [
        (1.0, 1.0, True),
        (pytest.approx(2.0), pytest.approx(2.0), True),
        (pytest.approx(5.0), pytest.approx(2.5), True),
    ]
    assert result.standing.baseline == result.standing.history[0]
    assert result.standing.incumbent == result.standing.history[2]
    assert result.stop is Stop.CONVERGED


def test_slower_candidate_is_screened_kept_and_never_incumbent() -> None:
    result = run([marked(10), marked(20)])
    slower = result.standing.history[1]
    assert slower.outcome.verdict is Verdict.SCREENED
    assert (slower.speedup, slower.step_ratio, slower.promoted) == (pytest.approx(0.5), pytest.approx(0.5), False)
    assert result.standing.incumbent == result.standing.history[0]


def test_gain_within_the_dead_zone_is_not_promoted() -> None:
    result = run([marked(10), marked(9.95)])
    assert [a.promoted for a in result.standing.history] == [True, False]


def test_fast_but_wrong_is_a_failure_with_step_ratio_zero() -> None:
    result = run([marked(10), marked(1, "wrong")])
    wrong = result.standing.history[1]
    assert (wrong.outcome.stage, wrong.speedup, wrong.step_ratio, wrong.promoted) == (Stage.VERIFY, 0.0, 0.0, False)
    assert result.standing.incumbent == result.standing.history[0]


def test_loop_goes_on_after_a_failure_and_a_mute_proposer() -> None:
    result = run([marked(1, "fail=ub-overflow"), None, marked(10)])
    assert [a.outcome.stage for a in result.standing.history] == [Stage.RUN, Stage.PROPOSE, Stage.PROFILE]
    (finding,) = result.standing.history[1].outcome.diagnostics
    assert finding.message == "mute" and f"kope ask {result.task.name}" in finding.remedy
    assert result.standing.baseline == result.standing.history[2]


def test_child_of_a_failure_has_step_ratio_one() -> None:
    task, good = small_task(), Outcome(Stage.PROFILE, Verdict.VERIFIED)
    parts = parts_of([marked(1, "fail=crash")])
    (result,) = optimize([task], parts, NO_LIMIT, Quiet())
    assert isinstance(parts.proposer, Script)
    failed = result.standing.history[0]
    assert appraise(parts.proposer.states[-1], good, failed) == (None, 1.0, False)


def test_same_source_is_not_run_again_but_recorded() -> None:
    memory = ListMemory()
    parts = parts_of([marked(10), marked(20), marked(20)], memory)
    (result,) = optimize([small_task()], parts, NO_LIMIT, Quiet())
    assert isinstance(parts.evaluator, MarkerEvaluator)
    assert len(parts.evaluator.seen) == 2
    assert [a.repeated for a in result.standing.history] == [False, False, True]
    assert result.standing.history[2].outcome == result.standing.history[1].outcome


def test_screened_outcome_is_judged_in_full_once_it_would_be_promoted() -> None:
    store: list[Attempt] = []
    run([marked(10), marked(20)], ListMemory("s1", store))
    result = run([marked(20)], ListMemory("s2", store))
    assert [(a.outcome.verdict, a.repeated, a.promoted) for a in result.standing.history] == [
        (Verdict.VERIFIED, False, True)
    ]


def test_stops_at_iterations_patience_and_tokens() -> None:
    sources = [marked(10), *(marked(20 + n) for n in range(9))]
    assert run(sources, limits=Limits(iterations=4)).stop is Stop.ITERATIONS
    patience = run(sources, limits=Limits(iterations=None, patience=3))
    assert (patience.stop, len(patience.standing.history)) == (Stop.PATIENCE, 4)
    tokens = run(sources, limits=Limits(iterations=None, tokens=500))
    assert (tokens.stop, len(tokens.standing.history)) == (Stop.TOKENS, 5)


def test_time_limit_stops_before_the_next_attempt() -> None:
    assert run([marked(10)], limits=Limits(time_s=0.0)).standing.history == ()


def test_resumed_run_gives_the_same_attempts_as_an_undisturbed_one() -> None:
    sources = [marked(10), marked(1, "fail=crash"), marked(6), marked(12), marked(4), marked(4)]
    whole = run(sources)
    for stop_after in range(len(sources)):
        memory = ListMemory()
        first = run(sources, memory, Limits(iterations=stop_after))
        assert len(first.standing.history) == stop_after
        resumed = run(sources, memory)
        assert facts(resumed.standing.history) == facts(whole.standing.history)


def test_interrupt_loses_the_attempt_in_flight_only() -> None:
    class Interrupting(MarkerEvaluator):
        def evaluate(self, task, candidate, workdir, *, promote):  # type: ignore[no-untyped-def]
            if len(self.seen) == 2:
                raise KeyboardInterrupt
            return super().evaluate(task, candidate, workdir, promote=promote)

    memory = ListMemory()
    parts = parts_of([marked(10), marked(5), marked(2)], memory)
    parts = type(parts)(memory, parts.proposer, Interrupting(), parts.fingerprint, parts.folder)
    with pytest.raises(KeyboardInterrupt):
        list(optimize([small_task()], parts, NO_LIMIT, Quiet()))
    assert [a.iteration for a in memory.store] == [1, 2]


def test_several_tasks_run_in_order_with_their_own_standing() -> None:
    watcher = Quiet()
    results = list(optimize([small_task("a"), small_task("b")], parts_of([marked(10)]), NO_LIMIT, watcher))
    assert [(r.task.name, len(r.standing.history)) for r in results] == [("a", 1), ("b", 1)]
    assert watcher.events == [
        "begin a after 0",
        "trying move-1",
        "attempt 1",
        "end converged",
        "begin b after 0",
        "trying move-1",
        "attempt 1",
        "end converged",
    ]


def test_since_promotion_counts_from_the_last_incumbent() -> None:
    history = run([marked(10), marked(20), marked(5), marked(30), marked(31)]).standing.history
    assert since_promotion(history) == 2
    assert since_promotion(()) == 0


def test_token_limit_of_the_proposer_stops_with_that_reason() -> None:
    parts = parts_of([marked(10)])

    class Spent:
        name = "spent"

        def propose(self, state: State) -> Proposal:
            raise TokensSpent("token limit: 9 of 10 spent, the next call may take 2")

    [result] = optimize([small_task()], replace(parts, proposer=Spent()), Limits(), Quiet())
    assert (result.stop, result.standing.history) == (Stop.TOKENS, ())
