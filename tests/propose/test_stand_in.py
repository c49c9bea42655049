"""Active, passive, everything-in and no context with a stand-in for a model: a test of the plumbing, of no model.

The stand-in writes a right kernel exactly when the fact its task needs is in what it was sent, and that is not longer
than LONGEST tokens. Told how to ask for more, it does what an agent does that knows little: it looks for broad words,
reads the kernels it found, and comes to the words it needs in its fifth or sixth turn.

Tokens: active, none and everything-in send one prompt an attempt and count its tokens. Passive sends the whole
transcript again in every turn, as chat endpoints are paid, and counts the tokens of every turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kope.context import Assembled, Briefing, Budget, Sources, assemble, estimate_tokens
from kope.library import Library
from kope.lookup import SessionLookup
from kope.memory import RecallQuery, Scope, Store
from kope.memory.embedding import HashEmbedder
from kope.memory.learn import node_id_of
from kope.model import Attempt, Candidate, Outcome, Proposal, Recall, Recalled, Stage, State, Task, Verdict
from kope.propose.gather import ROUNDS, MoreByLine
from kope.propose.llm import LlmProposer
from kope.render import render
from kope.session import SessionMemory
from tests.propose.llm_bench import Bench
from tests.propose.scripted_endpoint import Seen, Step, reply
from tests.propose.states import FINGERPRINT, TASK, fenced, kernel

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jade", "knoll", "larch")
LONGEST = 32_000


def fact(number: int) -> str:
    return f"fact-{number:02d}: pad {WORDS[number]} rows to {7 * number + 3} blocks"


def task(number: int) -> Task:
    text = f"Folds {WORDS[number]} rows. [task {number:02d}]"
    return replace(
        TASK, name=f"fold_{WORDS[number]}", text=text, digest=f"{number:064d}", tags=(f"row-{WORDS[number]}",)
    )


def donor(number: int) -> Task:
    """An operator that was worked on before: what it taught is what task `number` needs."""
    return replace(task(number), name=f"scan_{WORDS[number]}", digest=f"{number + 500:064d}")


@pytest.fixture(scope="module")
def memory() -> Iterator[SessionMemory]:
    """Forty attempts for each of twelve donors; one of the forty taught the fact."""
    store = Store.open(Path(":memory:"), embedder=HashEmbedder())
    session = store.begin_session("stand-in")
    for number in range(len(WORDS)):
        about = donor(number)
        store.add_task(about)
        for k in range(40):
            thought = fact(number) if k == 17 else f"{WORDS[number]} rows: tried variant {k} of the tile and the queue"
            store.record(_attempt(session.id, about, number, k, thought))
    yield SessionMemory(store, session, FINGERPRINT, Scope(session_id=session.id))
    store.close()


def _attempt(session_id: str, about: Task, number: int, k: int, thought: str) -> Attempt:
    source = kernel(k + 100 * number) + f"// {WORDS[number]} variant {k}\n" * 260
    ok = k % 3 != 0
    return Attempt(
        id=f"{number:02d}{k:02d}",
        session_id=session_id,
        iteration=k + 1,
        task_name=about.name,
        task_digest=about.digest,
        candidate=Candidate.of(source),
        proposal=Proposal(source, f"variant-{k}", thought, traits=about.tags),
        outcome=Outcome(Stage.PROFILE, Verdict.VERIFIED) if ok else Outcome(Stage.COMPILE, Verdict.FAILED),
        fingerprint=FINGERPRINT,
        proposer="test",
        speedup=2.0 if k == 17 else 1.0 if ok else 0.0,
        step_ratio=2.0 if k == 17 else 1.0 if ok else 0.0,
    )


def stand_in(seen: Seen) -> Step:
    said = "\n".join(message["content"] for message in seen.messages)
    found = re.search(r"\[task (\d\d)\]", said)
    assert found
    number = int(found[1])
    knows = fact(number) in said and estimate_tokens(said) <= LONGEST
    turn = len(seen.messages) // 2
    if not knows and "RECALL: words" in said and turn < ROUNDS:
        return reply("\n".join(_requests(number, turn, said)))
    return reply(fenced(kernel(number + 1, "time_us=1" if knows else "time_us=1 fail=wrong-value")))


def _requests(number: int, turn: int, said: str) -> list[str]:
    if turn == 4 + number % 2:
        return [f"RECALL: pad {WORDS[number]} rows blocks"]
    if turn % 2:
        ids = re.findall(r"\[([0-9a-f]{8})\]", said.rpartition("What you asked for.")[2])
        return [f"SHOW: {name}" for name in dict.fromkeys(ids)]
    return [f"RECALL: {('tile', 'copy', 'queue')[turn // 2]} variant {number}", "DOCS: long rows, tails, overlap"]


@dataclass
class Score:
    tokens: int = 0
    solved: int = 0


def run(memory: SessionMemory, mode: str) -> Score:
    """Give every task one attempt in a mode."""
    score = Score()
    library = Library(None)
    lookup = SessionLookup(memory, library) if mode == "passive" else None
    with Bench(answer=stand_in, reply_bytes=1 << 20) as bench:
        proposer = LlmProposer(bench.caller, lookup=lookup)
        for number in range(len(WORDS)):
            start = len(bench.seen)
            state = _state(memory, task(number), everything=mode == "everything")
            prompt = MODES[mode](state, library)
            got = proposer.propose(replace(state, prompt=prompt.text))
            score.solved += "fail" not in (got.source or "fail")
            for seen in bench.seen[start:]:
                score.tokens += estimate_tokens("".join(message["content"] for message in seen.messages))
    library.close()
    return score


def _state(memory: SessionMemory, about: Task, *, everything: bool) -> State:
    state = State(about, FINGERPRINT, 0, 1, None, None, None, (), Recall())
    if everything:
        names = [node_id_of(attempt.id) for attempt in memory.store.attempts()]
        items = tuple(Recalled(memory.store.experience(name), 1.0, "everything") for name in names)
        return replace(state, recall=Recall(items))
    return replace(state, recall=memory.store.recall(RecallQuery.for_state(state)))


def _prompt(state: State, budget: Budget, library: Library, more: str = "") -> Assembled:
    return assemble(state, Briefing("twin", "48 cores", more), budget, Sources(passages=library.search))


ASK = render("prompts/more_by_line", MoreByLine(ROUNDS))
MODES: dict[str, Callable[[State, Library], Assembled]] = {
    "active": lambda state, library: _prompt(state, Budget(), library),
    "passive": lambda state, library: _prompt(state, Budget(warm=0, cold=0), library, ASK),
    "everything": lambda state, library: _prompt(state, Budget(window=10**6, warm=10**6, cold=10**6), library),
    "none": lambda state, library: _prompt(state, Budget(warm=0, cold=0), library),
}


def test_active_context_solves_what_passive_does_with_a_tenth_of_the_tokens(memory: SessionMemory) -> None:
    scores = {mode: run(memory, mode) for mode in MODES}
    assert scores["none"].solved == 0
    assert scores["active"].solved == len(WORDS)
    assert scores["everything"].solved == 0 and scores["everything"].tokens > LONGEST * len(WORDS)
    assert scores["passive"].solved >= len(WORDS) // 2
    assert scores["active"].tokens < 0.10 * scores["passive"].tokens
