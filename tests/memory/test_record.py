"""What is recorded comes back whole; what cannot be recorded leaves the file as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kope.errors import NotFound, StoreError
from kope.memory import Prompt, RecallQuery, Store
from kope.memory.learn import node_id_of
from kope.memory.rows import LOG_LIMIT, MESSAGE_LIMIT
from kope.model import Candidate, CaseResult, Diagnostic, Outcome, Stage, TimeKind, Verdict
from tests.memory.samples import OTHER, TWIN, attempt_of, begin, dump, fails, rows, task_of, works


def rich_outcome() -> Outcome:
    """An outcome with something in every field."""
    cases = (
        CaseResult("c1", True, (1.5, 1.25, 1.75), 1.0, 0.25, {"aiv_vec_time(us)": 0.5, "Block Dim": 48.0}),
        CaseResult("c2", None, (), None, None, {"aiv_vec_time(us)": 2.0}),
        CaseResult("c3", False, (3.0,), 2.5, math.inf),
    )
    found = (
        Diagnostic("wrong-value", "element 7 is 1.0", "warning", "check the tail", "kernel.asc", 12, "c3", 3),
        Diagnostic("note", "缓冲区", "note"),
    )
    steps = ({"argv": ["g++", "-O3"], "exit": 0, "wall_s": 0.5},)
    evidence = {"binary": "abc"}
    return Outcome(Stage.VERIFY, Verdict.FAILED, found, cases, TimeKind.MEASURED, "log\n", 2.5, steps, evidence)


def test_attempt_comes_back_as_it_was(store: Store, session_id: str) -> None:
    attempt = attempt_of(session_id, 1, rich_outcome(), speedup=0.0, plan={"tile": 64, "rewrites": ["a", "b"]})
    attempt = replace(
        attempt,
        proposal=replace(
            attempt.proposal, tokens=7, reply="```cpp\n```", reason="why", calls=({"model": "m", "n": 1.5},)
        ),
        repeated=True,
    )
    store.record(attempt)
    assert store.attempt(attempt.id) == attempt
    assert store.attempts() == (attempt,)


def test_attempt_without_candidate_comes_back(store: Store, session_id: str) -> None:
    attempt = attempt_of(session_id, 1, fails("no-candidate", "mute", Stage.PROPOSE), source=None)
    store.record(attempt)
    assert store.attempt(attempt.id) == attempt


def test_attempts_are_found_by_place_in_order_of_recording(store: Store, session_id: str) -> None:
    other = begin(store, key="other")
    first = attempt_of(session_id, 1, works())
    second = attempt_of(other, 1, works(), task=task_of("exp"))
    third = attempt_of(session_id, 2, works(), created_at="1999-01-01T00:00:00+00:00")
    for attempt in (first, second, third):
        store.record(attempt)
    assert store.attempts(session_id=session_id) == (first, third)
    assert store.attempts(task_name="exp") == (second,)
    assert store.attempts(session_id=other, task_digest="digest-of-rms_norm") == ()


def test_attempt_is_found_by_the_beginning_of_its_id(store: Store, session_id: str) -> None:
    one = attempt_of(session_id, 1, works(), id="abc1")
    two = attempt_of(session_id, 2, works(), id="abc12")
    store.record(one)
    store.record(two)
    assert store.attempt("abc12") == two
    assert store.attempt("abc1") == one
    for unusable in ("ab", "zz", "", "a%", "\udc80"):
        with pytest.raises(NotFound):
            store.attempt(unusable)


def test_equal_source_is_kept_once(store: Store, session_id: str, path: Path) -> None:
    for number in range(1, 4):
        store.record(attempt_of(session_id, number, works(), source="same"))
    assert rows(path, "SELECT count(*) FROM candidates")[0] == (1,)


def test_record_returns_the_experience_that_recall_gives(store: Store, session_id: str) -> None:
    made = store.record(attempt_of(session_id, 1, works()), bottleneck="mte2")
    (item,) = store.recall(RecallQuery(text="double buffer")).items
    assert item.experience == made
    assert made.bottleneck == "mte2"
    assert "copies and arithmetic do not overlap" in made.text
    assert "Verified on 2 cases" in made.text


def test_prompt_is_kept_with_its_ledger(store: Store, session_id: str, path: Path) -> None:
    prompt = Prompt("Write a kernel.\n", "prompts/draft", 4, ({"tier": "hot", "tokens": 4},))
    attempt = attempt_of(session_id, 1, works())
    store.record(attempt, prompt=prompt)
    kept = store.attempt(attempt.id)
    assert kept.prompt_id is not None
    assert store.prompt(kept.prompt_id) == "Write a kernel.\n"
    with pytest.raises(NotFound):
        store.prompt("0" * 64)


def test_used_experience_gets_an_edge_when_it_lives_here(store: Store, session_id: str) -> None:
    first = store.record(attempt_of(session_id, 1, works()))
    store.record(attempt_of(session_id, 2, works(), used=(first.id, "lives-elsewhere", first.id)))
    edges = store.recall(RecallQuery(text="double buffer")).edges
    assert [(edge.kind, edge.src, edge.dst) for edge in edges] == [
        ("used", node_id_of(f"{session_id}-rms_norm-2"), first.id)
    ]


def test_lineage_edge_says_what_was_changed_and_why(store: Store, session_id: str) -> None:
    parent = attempt_of(session_id, 1, works(), plan={"tile": 1024, "depth": 1, "gone": 1})
    child = attempt_of(session_id, 2, works(), parent=parent, plan={"tile": 2048, "depth": 1, "new": ["a"]})
    store.record(parent)
    store.record(child)
    (edge,) = store.recall(RecallQuery(text="double buffer")).edges
    expected = "tile 1024 -> 2048, new none -> [a], gone 1 -> none; copies and arithmetic do not overlap"
    assert edge.text == expected


def test_journal_tells_strategy_change_and_outcome(store: Store, session_id: str, path: Path) -> None:
    parent = attempt_of(session_id, 1, works(), source="int a;\nint b;\n")
    child = attempt_of(session_id, 2, works(5.0), parent=parent, source="int a;\nint c;\n", speedup=2.0)
    store.record(parent)
    store.record(child)
    entries = [row[0] for row in rows(path, "SELECT markdown FROM journals ORDER BY seq")]
    assert len(entries) == 2
    for part in (
        "**Strategy.**",
        "1 line added, 1 removed",
        "-int b;",
        "+int c;",
        "verified at stage",
        "2.00x its parent",
    ):
        assert part in entries[1], part


# --- known outcomes, baseline, incumbent ----------------------------------------------------------------------------


def test_known_outcome_is_found_under_an_equal_fingerprint_only(store: Store, session_id: str) -> None:
    attempt = attempt_of(session_id, 1, works())
    store.record(attempt)
    candidate = Candidate.of(attempt.proposal.source or "").id
    digest = attempt.task_digest
    assert store.find_outcome(candidate, digest, TWIN) == attempt.outcome
    assert store.find_outcome(candidate, digest, OTHER) is None
    assert store.find_outcome(candidate, digest, replace(TWIN, toolchain="g++ 13")) is None
    assert store.find_outcome(candidate, digest, replace(TWIN, evaluator="rules-2")) is None
    assert store.find_outcome(candidate, "another task", TWIN) is None
    assert store.find_outcome("another candidate", digest, TWIN) is None


def test_conclusive_outcome_goes_before_a_screened_one(store: Store, session_id: str) -> None:
    source = "same source"
    screened = attempt_of(session_id, 1, works(5.0, Verdict.SCREENED), source=source)
    candidate = Candidate.of(source).id
    store.record(screened)
    assert store.find_outcome(candidate, screened.task_digest, TWIN) == screened.outcome
    assert store.find_outcome(candidate, screened.task_digest, TWIN, at_least=Verdict.VERIFIED) is None
    verified = attempt_of(session_id, 2, works(5.0), source=source)
    store.record(verified)
    store.record(attempt_of(session_id, 3, works(5.0, Verdict.SCREENED), source=source))
    assert store.find_outcome(candidate, screened.task_digest, TWIN) == verified.outcome
    assert store.find_outcome(candidate, screened.task_digest, TWIN, at_least=Verdict.VERIFIED) == verified.outcome


def test_a_failure_is_known_too(store: Store, session_id: str) -> None:
    attempt = attempt_of(session_id, 1, fails(), source="bad")
    store.record(attempt)
    assert store.find_outcome(Candidate.of("bad").id, attempt.task_digest, TWIN) == attempt.outcome


def test_baseline_is_the_first_and_incumbent_the_fastest_promoted(store: Store, session_id: str) -> None:
    digest, hardware = task_of().digest, TWIN.hardware
    assert store.baseline(digest, hardware) is None
    assert store.incumbent(digest, hardware) is None
    given = [
        attempt_of(session_id, 1, fails()),
        attempt_of(session_id, 2, works(9.0, Verdict.SCREENED)),
        attempt_of(session_id, 3, works(10.0)),
        attempt_of(session_id, 4, works(6.0)),
        attempt_of(session_id, 5, works(1.0), promoted=False),
        attempt_of(session_id, 6, works(2.0), fingerprint=OTHER),
    ]
    for attempt in given:
        store.record(attempt)
    assert store.baseline(digest, hardware) == given[2]
    assert store.incumbent(digest, hardware) == given[3]
    assert store.incumbent(digest, OTHER.hardware) == given[5]
    assert store.incumbent(digest, hardware, session_id="another") is None
    assert store.best("rms_norm") == given[5]
    assert store.best("rms_norm", hardware=hardware) == given[3]
    assert store.best(digest, hardware=hardware) == given[3]


def test_best_says_what_there_is_instead(store: Store, session_id: str) -> None:
    with pytest.raises(NotFound, match=r"no kernels at all.*kope optimize gelu"):
        store.best("gelu")
    store.record(attempt_of(session_id, 1, fails()))
    with pytest.raises(NotFound, match="none of the 1 attempts on rms_norm is right"):
        store.best("rms_norm")
    store.record(attempt_of(session_id, 2, works()))
    with pytest.raises(NotFound, match="there are kernels of rms_norm"):
        store.best("gelu")
    with pytest.raises(NotFound, match="no kernel for npu"):
        store.best("rms_norm", hardware="npu")


# --- what cannot be recorded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"session_id": "unknown"}, "session unknown is not in the database"),
        ({"task_digest": "unknown"}, "task rms_norm is not in the database"),
        ({"prompt_id": "f" * 64}, "prompt f+ is not in the database"),
        ({"candidate": Candidate("0" * 64, "x")}, "not the sha256 of its source"),
    ],
)
def test_attempt_that_hangs_in_the_air_is_refused(
    store: Store, session_id: str, path: Path, changes: Mapping[str, Any], message: str
) -> None:
    before = dump(path)
    with pytest.raises(StoreError, match=message):
        store.record(replace(attempt_of(session_id, 1, works()), **changes))
    assert dump(path) == before


def test_same_id_twice_is_refused(store: Store, session_id: str, path: Path) -> None:
    attempt = attempt_of(session_id, 1, works())
    store.record(attempt)
    before = dump(path)
    with pytest.raises(StoreError, match="recorded already, with the same content"):
        store.record(attempt)
    with pytest.raises(StoreError, match="recorded already, with other content"):
        store.record(replace(attempt, outcome=fails()))
    assert dump(path) == before


def test_plan_that_json_cannot_hold_is_refused(store: Store, session_id: str, path: Path) -> None:
    before = dump(path)
    with pytest.raises(StoreError, match="JSON cannot"):
        store.record(attempt_of(session_id, 1, works(), plan={"a": object()}))
    assert dump(path) == before


# --- awkward content ------------------------------------------------------------------------------------------------


def test_huge_texts_are_cut_head_and_tail(store: Store, session_id: str) -> None:
    text = "HEAD" + "x" * 10_000_000 + "TAIL"
    outcome = replace(fails("compile-error", text, Stage.COMPILE), log=text)
    many = tuple(Diagnostic("unused", f"finding {n}") for n in range(1_000))
    outcome = replace(outcome, diagnostics=(*outcome.diagnostics, *many))
    attempt = attempt_of(session_id, 1, outcome)
    store.record(attempt)
    kept = store.attempt(attempt.id).outcome
    for cut, limit in ((kept.log, LOG_LIMIT), (kept.diagnostics[0].message, MESSAGE_LIMIT)):
        assert cut.startswith("HEADx") and cut.endswith("xTAIL") and "characters cut" in cut
        assert len(cut) < limit + 100
    assert len(kept.diagnostics) == 201
    assert kept.diagnostics[-1].message == "801 more findings were not kept"
    assert store.check() == ()
    assert store.info().size_bytes < 1_000_000


def test_text_that_is_no_unicode_is_kept_and_searchable(store: Store, session_id: str) -> None:
    broken = b"caf\xe9 \x00 overflow".decode("utf-8", "surrogateescape")
    outcome = replace(fails("compile-error", broken, Stage.COMPILE), log=broken)
    attempt = attempt_of(session_id, 1, outcome, thought=broken, plan={broken: broken}, move=f"m{broken}")
    store.record(attempt, prompt=Prompt(broken))
    kept = store.attempt(attempt.id)
    assert kept.outcome.log == broken.replace("\0", "\N{SYMBOL FOR NULL}") or kept.outcome.log == broken
    assert "overflow" in kept.proposal.thought
    assert store.recall(RecallQuery(text="overflow")).items[0].experience.attempt_id == attempt.id
    assert store.check() == ()


def test_times_that_are_no_numbers_are_kept_and_rank_nothing(store: Store, session_id: str) -> None:
    samples = (math.nan, math.inf, 1.0)
    attempt = attempt_of(session_id, 1, works(samples=samples), speedup=math.nan, step_ratio=math.nan)
    made = store.record(attempt, bottleneck="")
    kept = store.attempt(attempt.id)
    assert math.isnan(kept.outcome.cases[0].duration_us[0])
    assert kept.outcome.cases[0].duration_us[1:] == samples[1:]
    assert (kept.speedup, made.label, made.speedup) == (None, "", None)
    assert store.incumbent(attempt.task_digest, TWIN.hardware) is None
    assert not any(move.fast for move in store.recall(RecallQuery(hardware=TWIN.hardware)).moves)
    assert store.check() == ()


def test_clock_that_goes_backwards_changes_no_order(store: Store, session_id: str) -> None:
    for number, year in enumerate((2026, 1970, 2050), start=1):
        store.record(attempt_of(session_id, number, works(), created_at=f"{year}-01-01T00:00:00.000+00:00"))
    assert [attempt.iteration for attempt in store.attempts()] == [1, 2, 3]


def test_digest_covers_all_of_an_attempt(store: Store, session_id: str, path: Path) -> None:
    attempt = attempt_of(session_id, 1, works())
    store.record(attempt)
    digests = {rows(path, "SELECT content_digest FROM attempts")[0][0]}
    variants = [
        replace(attempt, repeated=True),
        replace(attempt, outcome=replace(attempt.outcome, log="other")),
        replace(attempt, proposal=replace(attempt.proposal, plan={"tile": 1})),
        replace(attempt, outcome=replace(attempt.outcome, cases=attempt.outcome.cases[:1])),
        replace(attempt, proposal=replace(attempt.proposal, thought="other")),
    ]
    for number, variant in enumerate(variants):
        store.record(replace(variant, id=f"v{number}"))
        digests |= {row[0] for row in rows(path, "SELECT content_digest FROM attempts")}
    assert len(digests) == 1 + len(variants)
    assert json.loads(rows(path, "SELECT plan FROM attempt_texts")[0][0]) == {"tile": 1024}
