"""What is taken back from a good kernel is what it was worth, is kept only when that is proven, and serves a search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope import wiring
from kope.cli import app
from kope.derive import Schedule, capture_graph, emit, first_schedule
from kope.derive.moves import BY_NAME
from kope.derive.recognise import recognise
from kope.errors import DeriveError
from kope.loop import Parts
from kope.memory import MemoryMode, RecallQuery, Scope, Store
from kope.model import Candidate, CaseResult, Fingerprint, Outcome, Stage, Task, Verdict
from kope.propose.search import SearchProposer
from kope.rewind import Chain, least_slowdown, remember, rewind
from kope.session import SessionMemory
from kope.task import find_task, shipped_folder
from tests.documents import parsed

HERE = Fingerprint("twin", "twin:910b2:1", "g++", "1")
GOOD = ("double-buffer", "larger-tile", "aligned-copy", "coarser-grain")


def shipped(name: str) -> Task:
    return find_task(name, [shipped_folder()])


def good_kernel(task: Task) -> Schedule:
    """A kernel some moves away from the first one."""
    graph = capture_graph(task)
    schedule = first_schedule(task, graph)
    for name in GOOD:
        made = BY_NAME[name].apply(task, graph, schedule)
        assert made is not None
        schedule = made
    return schedule


class Priced:
    """An evaluator: a kernel takes 10 us times a factor for every optimization it lacks; cases differ a little."""

    def __init__(self, task: Task, worth: Mapping[str, float], *, wrong: str = "") -> None:
        graph = capture_graph(task)
        good = good_kernel(task)
        first = first_schedule(task, graph)
        fields = {"double-buffer": "buffers", "larger-tile": "tile", "aligned-copy": "copy", "coarser-grain": "grain"}
        self.outcomes: dict[str, Outcome] = {}
        for mask in range(16):
            lacking = [name for place, name in enumerate(GOOD) if mask >> place & 1]
            schedule = good.with_(**{fields[name]: getattr(first, fields[name]) for name in lacking})
            factor = math.prod(worth.get(name, 1.0) for name in lacking)
            cases = tuple(
                CaseResult(f"c{n}", True, (10.0 * factor * (1.0 + 0.001 * n),), 1.0, 0.5, {}) for n in range(5)
            )
            verdict = Verdict.FAILED if wrong in lacking else Verdict.VERIFIED
            source = emit(task, graph, schedule)
            self.outcomes[Candidate.of(source).id] = Outcome(Stage.PROFILE, verdict, cases=cases)
        self.judged = 0

    def __call__(self, candidate: Candidate) -> Outcome:
        self.judged += 1
        return self.outcomes[candidate.id]

    def evaluate(self, task: Task, candidate: Candidate, workdir: Path, *, promote: Any) -> Outcome:
        return self(candidate)

    def fingerprint(self) -> Fingerprint:
        return HERE


WORTH = {"double-buffer": 1.5, "larger-tile": 1.2, "aligned-copy": 1.02, "coarser-grain": 1.0}


@pytest.fixture(scope="module")
def task() -> Task:
    return shipped("exp")


def source_of(task: Task) -> str:
    return emit(task, capture_graph(task), good_kernel(task))


def test_kernel_of_the_generator_is_recognised_by_its_text(task: Task) -> None:
    graph = capture_graph(task)
    schedule, lines = recognise(task, graph, source_of(task))
    assert lines == 0
    assert schedule is not None and emit(task, graph, schedule) == source_of(task)
    assert recognise(task, graph, emit(task, graph, first_schedule(task, graph))) == (first_schedule(task, graph), 0)


def test_foreign_kernel_is_refused_with_the_way_on(task: Task) -> None:
    with pytest.raises(DeriveError, match=r"differs in \d+ lines\); give one from kope best exp"):
        rewind(task, source_of(task).replace("DataCopy", "MyCopy"), Priced(task, WORTH))


def test_only_what_is_worth_more_than_five_percent_is_kept(task: Task) -> None:
    chain = rewind(task, source_of(task), Priced(task, WORTH))
    assert [taken.move for taken in chain.kernels] == ["", "larger-tile", "double-buffer"]
    assert [taken.slowdown for taken in chain.kernels] == pytest.approx([1.0, 1.2, 1.5])
    assert chain.dropped == ("coarser-grain", "aligned-copy")


def test_what_leaves_no_right_kernel_stays_in(task: Task) -> None:
    chain = rewind(task, source_of(task), Priced(task, WORTH, wrong="double-buffer"))
    assert [taken.move for taken in chain.kernels[1:]] == ["larger-tile"]
    assert "double-buffer" in chain.dropped


def test_kernel_that_is_not_right_teaches_nothing(task: Task) -> None:
    judge = Priced(task, WORTH)
    judge.outcomes = {name: Outcome(Stage.VERIFY, Verdict.FAILED) for name in judge.outcomes}
    with pytest.raises(DeriveError, match="not right on all cases of exp; see kope eval"):
        rewind(task, source_of(task), judge)


def test_slowdown_on_some_cases_alone_is_not_proven() -> None:
    fast = {f"c{n}": 10.0 for n in range(20)}
    assert least_slowdown(fast, {name: 11.0 for name in fast}) == pytest.approx(1.1)
    one_case = {**fast, "c0": 40.0}
    assert least_slowdown(fast, one_case) < 1.05
    assert least_slowdown(fast, {}) == 0.0


# --- what is remembered ---------------------------------------------------------------------------------------------


@pytest.fixture
def remembered(task: Task, tmp_path: Path) -> Iterator[tuple[Store, Chain]]:
    judge = Priced(task, WORTH)
    chain = rewind(task, source_of(task), judge)
    with Store.open(Path(":memory:")) as store:
        session = store.begin_session("rewind")
        memory = SessionMemory(store, session, HERE, Scope(MemoryMode.ON, session.id))
        remember(task, chain, Parts(memory, SearchProposer(), judge, HERE, tmp_path))
        store.end_session(session.id, "rewound")
        yield store, chain


def test_chain_is_recorded_from_the_slowest_to_the_good_kernel(task: Task, remembered: tuple[Store, Chain]) -> None:
    store, _ = remembered
    told = [
        (a.proposal.move, a.proposer, round(a.step_ratio, 6), round(a.speedup or 0, 6), a.promoted)
        for a in store.attempts()
    ]
    assert told == [
        ("draft", "rewind", 1.0, 1.0, True),
        ("double-buffer", "rewind", 1.5, 1.5, True),
        ("larger-tile", "rewind", 1.2, 1.8, True),
    ]
    best = store.best("exp").candidate
    assert best is not None and best.source == source_of(task)
    assert store.info().edges == {"distilled_from": 2, "led_to": 2, "rewound": 2}
    assert store.check() == ()


def test_search_on_another_operator_takes_the_lessons_over(remembered: tuple[Store, Chain]) -> None:
    from tests.propose.test_search import state_of

    store, _ = remembered
    other = shipped("sigmoid")
    recall = store.recall(RecallQuery.for_task(other))
    assert {item.experience.task_name for item in recall.items} >= {"exp"}
    moves = store.recall(RecallQuery(hardware=HERE.hardware, limit=0)).moves
    assert [move.move for move in moves] == ["draft", "double-buffer", "larger-tile"]
    assert all(move.fast for move in moves)
    assert SearchProposer().propose(state_of(other, (), moves)).move == "draft"


# --- the command ----------------------------------------------------------------------------------------------------


def test_command_rewinds_records_and_tells(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Priced(task, WORTH)
    monkeypatch.setattr(wiring, "evaluator", lambda settings, **named: judge)
    monkeypatch.setenv("KOPE_EMBEDDER", "none")
    kernel, db = tmp_path / "good.asc", tmp_path / "kope.db"
    kernel.write_text(source_of(task))
    argv = ["learn", "rewind", str(kernel), "--task", "exp", "--db", str(db)]
    done = CliRunner().invoke(app, argv)
    assert done.exit_code == 0, done.output
    assert "3 attempts recorded, 1.80x from the slowest to the kernel itself" in done.stdout
    assert "without: coarser-grain, aligned-copy" in done.stdout
    document = parsed(CliRunner().invoke(app, [*argv, "--json"]).stdout, "learn_rewind")
    assert [kept["move"] for kept in document["kernels"][0]["kept"]] == ["larger-tile", "double-buffer"]
    distilled = CliRunner().invoke(app, ["learn", "distil", "--db", str(db), "--json"])
    assert parsed(distilled.stdout, "learn_distil") == {"new": 0, "changed": 0, "gone": 0}
