"""A whole run of the loop with a model behind a scripted endpoint: every fault leaves its outcome, the loop goes on."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from kope.context import Briefing, Budget, assemble
from kope.errors import ProposerError
from kope.loop import Limits, Parts, Stop, TaskResult, optimize
from kope.model import Attempt, Stage, Verdict
from kope.report.progress import Silent
from tests.loop.fakes import FINGERPRINT, ListMemory, MarkerEvaluator, small_task
from tests.propose.llm_bench import CUT, KEY, Bench
from tests.propose.scripted_endpoint import Step, chunk, error, reply, stream
from tests.propose.states import fenced, kernel

BRIEFING = Briefing("twin", "vector_cores = 48")


def edit(old: str, new: str) -> str:
    return f"Move: larger-tile\nLarger tiles.\n\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


ENDLESS = Limits(iterations=None)
REFUSAL = stream([chunk({"refusal": "I cannot."}), chunk({}, "stop")])
RUN: list[tuple[list[Step], str, Stage, str, float | None]] = [
    # what the endpoint does, the move, how far it came, the reason, the speedup
    ([error(503, "x"), reply(fenced(kernel()))], "draft", Stage.PROFILE, "", 1.0),
    (
        [reply(edit("// replay: time_us=10", "// replay: time_us=5"))],
        "larger-tile",
        Stage.PROFILE,
        "",
        2.0,
    ),
    ([CUT] * 3, "rewrite", Stage.PROPOSE, "truncated: the stream broke off", 0.0),
    ([reply(fenced(kernel(8, "time_us=1 fail=ub-overflow")))], "rewrite", Stage.RUN, "", 0.0),
    ([reply(fenced(kernel(8, "time_us=4")))], "repair", Stage.PROFILE, "", 2.5),
    (
        [stream([chunk({"refusal": "I cannot."}), chunk({}, "stop")])],
        "rewrite",
        Stage.PROPOSE,
        "refusal: the model",
        0.0,
    ),
    ([reply("")] * 2, "rewrite", Stage.PROPOSE, "empty: the reply is empty", 0.0),
    ([reply("Use tiles."), reply(fenced(kernel(16, "time_us=2")))], "rewrite", Stage.PROFILE, "", 5.0),
    (
        [error(400, {"message": "x", "code": "context_length_exceeded"})],
        "rewrite",
        Stage.PROPOSE,
        "context: HTTP 400: x",
        0.0,
    ),
    ([reply("No."), reply("No!")], "rewrite", Stage.PROPOSE, "the reply holds no code block; it says: No!", 0.0),
    ([reply(fenced(kernel(16, "time_us=2")))] * 2, "rewrite", Stage.PROPOSE, "the reply changes nothing", 0.0),
    ([reply("x", finish="content_filter")], "rewrite", Stage.PROPOSE, "content_filter: finish_reason", 0.0),
]


def go(bench: Bench, memory: ListMemory, limits: Limits = ENDLESS, *, proposals: int = 1) -> TaskResult:
    parts = Parts(
        memory,
        bench.proposer,
        MarkerEvaluator(),
        FINGERPRINT,
        Path("/tmp"),
        assemble=partial(assemble, briefing=BRIEFING, budget=Budget()),
        proposals=proposals,
    )
    [result] = optimize([small_task()], parts, limits, Silent())
    return result


def test_every_fault_leaves_its_outcome_and_the_run_goes_on() -> None:
    memory = ListMemory()
    script = [step for steps, *_ in RUN for step in steps]
    with Bench(*script, error(401, {"message": "key expired"})) as bench:
        with pytest.raises(ProposerError, match="HTTP 401: key expired; check the key"):
            go(bench, memory)
        assert len(bench.seen) == len(script) + 1
        assert bench.spending.spent == sum(attempt.proposal.tokens for attempt in memory.store) > 0
    assert len(memory.store) == len(RUN)
    for attempt, (steps, move, stage, reason, speedup) in zip(memory.store, RUN, strict=True):
        assert attempt.proposal.reason[: len(reason) or None] == reason
        assert (attempt.proposal.move, attempt.outcome.stage, len(attempt.proposal.calls)) == (move, stage, len(steps))
        assert attempt.speedup == pytest.approx(speedup)
    assert [attempt.iteration for attempt in memory.store if attempt.promoted] == [1, 2, 5, 8]
    assert memory.store[-1].outcome.verdict is Verdict.FAILED
    assert KEY not in json.dumps([attempt.proposal.calls for attempt in memory.store])


def test_children_hang_below_the_attempt_their_prompt_showed() -> None:
    memory = ListMemory()
    script = [step for steps, *_ in RUN for step in steps]
    with Bench(*script) as bench:
        go(bench, memory, Limits(iterations=len(RUN)))
    iteration = {attempt.id: attempt.iteration for attempt in memory.store}
    parents = [iteration.get(attempt.proposal.parent_id or "") for attempt in memory.store]
    assert parents == [None, 1, 2, 2, 4, 5, 5, 5, 8, 8, 8, 8]


def test_token_limit_ends_the_run_before_the_call_that_could_break_it() -> None:
    """Each call costs 1000. What it may cost is its prompt, as estimated, and 1000 more."""
    memory = ListMemory()
    count = iter(range(1, 100))
    with Bench(answer=lambda seen: reply(fenced(kernel(next(count))), count=990), limit=8_000) as bench:
        result = go(bench, memory)
    spent = 1_000 * len(bench.seen)
    last = memory.prompts[-1]
    assert result.stop is Stop.TOKENS
    assert last is not None
    assert bench.spending.spent == spent <= 8_000
    assert spent + last.tokens + 1_000 > 8_000 > spent - 1_000 + last.tokens
    assert len(memory.store) == len(bench.seen) > 2


def test_resumed_run_ends_with_the_same_attempts_and_repeats_no_answered_call() -> None:
    """The endpoint is gone in the middle of the third attempt; the same session goes on when it is back."""

    def sources(attempts: list[Attempt]) -> list[str]:
        return [attempt.candidate.source for attempt in attempts if attempt.candidate is not None]

    good = [reply(fenced(kernel(tile, f"time_us={20 - tile}"))) for tile in range(1, 6)]
    whole = ListMemory()
    with Bench(*good) as bench:
        go(bench, whole, Limits(iterations=5))
    broken = ListMemory()
    with Bench(*good[:2], error(401, {"message": "x"}), *good[2:]) as bench:
        with pytest.raises(ProposerError):
            go(bench, broken)
        assert sources(broken.store) == sources(whole.store)[:2]
        bench.restart()
        go(bench, broken, Limits(iterations=5))
        assert len(bench.seen) == 6
    assert sources(broken.store) == sources(whole.store)
    assert [attempt.id for attempt in broken.store] == [attempt.id for attempt in whole.store]
