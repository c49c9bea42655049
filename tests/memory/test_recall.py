"""Recall finds by structure, words, meaning and outcome, says why, and shows what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kope.memory import Filters, RecallQuery, Store
from kope.memory.embedding import HashEmbedder
from kope.memory.learn import node_id_of
from kope.memory.words import indexed, indexed_code, terms_of
from kope.model import Outcome, Recall, Stage, Verdict
from tests.memory.samples import OTHER, TWIN, attempt_of, begin, fails, grow, task_of, works

HERE = TWIN.hardware
IN_MEMORY = Path(":memory:")


def ids(recall: Recall) -> list[str | None]:
    return [item.experience.attempt_id for item in recall.items]


def test_empty_memory_recalls_nothing(store: Store) -> None:
    assert store.recall(RecallQuery(text="anything", code="anything", task_name="x")) == Recall()


def test_words_of_text_code_move_and_diagnostics_are_found(store: Store, session_id: str) -> None:
    given = {
        "thought": attempt_of(session_id, 1, works(), thought="zebra stripes"),
        "move": attempt_of(session_id, 2, works(), move="giraffe-neck"),
        "code": attempt_of(session_id, 3, works(), source="void elephantTrunk_copy() {}"),
        "message": attempt_of(session_id, 4, fails(message="a crocodile in the queue")),
        "log": attempt_of(session_id, 5, replace(fails(), log="hippopotamus.asc:3: error")),
    }
    for attempt in given.values():
        store.record(attempt)
    words = {"thought": "zebras", "move": "giraffe", "code": "trunk", "message": "crocodiles", "log": "Hippopotamus"}
    for kind, word in words.items():
        recall = store.recall(RecallQuery(text=word, limit=1))
        assert ids(recall) == [given[kind].id], kind
        assert f"says {word.lower()}" in recall.items[0].reason
    for kind in ("code", "message", "log"):
        assert ids(store.recall(RecallQuery(code=words[kind], limit=1))) == [given[kind].id], kind
    assert store.recall(RecallQuery(code=words["thought"], limit=1)).items == ()


def test_reason_tells_structure_words_and_worth(store: Store, session_id: str) -> None:
    store.record(attempt_of(session_id, 1, works(), thought="zebra", traits=("rows", "sum", "dtype:float16")))
    (item,) = store.recall(
        RecallQuery(text="zebra", task_name="rms_norm", hardware=HERE, traits=("rows", "dtype:float16"))
    ).items
    assert item.reason == "same task; says zebra; alike in meaning 0.50; verified, 1.00x its parent here (partial)"
    query = RecallQuery(text="zebra", task_name="softmax", traits=("rows", "sum", "dtype:float16"), hardware=HERE)
    assert store.recall(query).items[0].reason.startswith("also rows, sum; says zebra; ")


def test_reason_tells_what_it_led_on_to(store: Store, session_id: str) -> None:
    root = attempt_of(session_id, 1, works(), thought="zebra")
    child = attempt_of(session_id, 2, works(), parent=root, speedup=0.9)
    grandchild = attempt_of(session_id, 3, works(), parent=child, speedup=2.5)
    for attempt in (root, child, grandchild):
        store.record(attempt)
    item = store.recall(RecallQuery(text="zebra", hardware=HERE, limit=1)).items[0]
    assert item.experience.attempt_id == root.id
    assert item.reason.endswith("led on to 2.50x")
    assert "led on" not in store.recall(RecallQuery(text="zebra", hardware="npu", limit=1)).items[0].reason


def test_time_of_other_hardware_is_no_evidence_of_speed(store: Store, session_id: str) -> None:
    fast_elsewhere = attempt_of(session_id, 1, works(), speedup=9.0, fingerprint=OTHER, parent=None, step_ratio=9.0)
    slow_here = attempt_of(session_id, 2, works(), speedup=1.2, step_ratio=1.2)
    for attempt in (fast_elsewhere, slow_here):
        store.record(attempt)
    recall = store.recall(RecallQuery(task_name="rms_norm", hardware=HERE))
    assert ids(recall) == [slow_here.id, fast_elsewhere.id]
    reason = recall.items[1].reason
    assert reason == f"same task; verified; ran on {OTHER.hardware}, its time says nothing here"
    assert {move.experience_id: move.fast for move in recall.moves} == {
        node_id_of(fast_elsewhere.id): False,
        node_id_of(slow_here.id): True,
    }
    assert not any(move.fast for move in store.recall(RecallQuery()).moves)


def test_screened_is_never_said_to_be_verified(store: Store, session_id: str) -> None:
    made = store.record(attempt_of(session_id, 1, works(5.0, Verdict.SCREENED), speedup=2.0, step_ratio=2.0))
    assert (made.works, made.label, made.confidence) == (False, "effective", 0.5)
    assert "not verified in full" in made.text
    recall = store.recall(RecallQuery(task_name="rms_norm", hardware=HERE))
    assert "right on small cases" in recall.items[0].reason
    assert "verified" not in recall.items[0].reason
    assert recall.moves[0].works and recall.moves[0].fast


def test_successes_and_failures_are_both_recalled(store: Store, session_id: str) -> None:
    for number in range(1, 31):
        good = number % 10 != 0
        attempt = attempt_of(
            session_id,
            number,
            works() if good else fails(message=f"number {number}"),
            move=f"move-{number}",
            thought="zebra" if good else "lion",
        )
        store.record(attempt)
    items = store.recall(RecallQuery(text="zebra", task_name="rms_norm", hardware=HERE, limit=8)).items
    assert len(items) == 8
    assert sum(item.experience.label == "negative" for item in items) == 2
    items = store.recall(RecallQuery(text="lion", task_name="rms_norm", hardware=HERE, limit=8)).items
    assert sum(item.experience.works for item in items) >= 4


def test_same_source_again_and_the_third_of_a_kind_come_last(store: Store, session_id: str) -> None:
    for number in range(1, 5):
        store.record(attempt_of(session_id, number, works(), source="same", move=f"m{number}", thought="zebra"))
    for number in range(5, 9):
        store.record(attempt_of(session_id, number, works(), move="alike", thought="zebra"))
    items = store.recall(RecallQuery(text="zebra", limit=3)).items
    assert sum(item.experience.move == "alike" for item in items) == 2
    assert sum(item.experience.move.startswith("m") for item in items) == 1


def test_items_are_ordered_by_score_and_limited(store: Store, session_id: str) -> None:
    grow(store, session_id, 40)
    recall = store.recall(RecallQuery(text="variant 3 of the loop", task_name="rms_norm", hardware=HERE, limit=5))
    scores = [item.score for item in recall.items]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert store.recall(RecallQuery(text="variant", limit=0)).items == ()


def test_neighbourhood_shows_parent_move_and_outcome(store: Store, session_id: str) -> None:
    root = attempt_of(session_id, 1, works(), thought="lion")
    hit = attempt_of(session_id, 2, works(), parent=root, thought="zebra", speedup=1.5)
    sibling = attempt_of(session_id, 3, fails(), parent=root, thought="lion")
    child = attempt_of(session_id, 4, works(), parent=hit, thought="lion", speedup=2.0)
    stranger = attempt_of(session_id, 5, works(), thought="lion")
    for attempt in (root, hit, sibling, child, stranger):
        store.record(attempt)
    recall = store.recall(RecallQuery(text="zebra", hardware=HERE, limit=1))
    assert ids(recall) == [hit.id]
    assert {node.attempt_id for node in recall.neighbours} == {root.id, sibling.id, child.id}
    assert {(edge.src, edge.dst) for edge in recall.edges if edge.kind == "led_to"} == {
        (node_id_of(root.id), node_id_of(name)) for name in (hit.id, sibling.id)
    } | {(node_id_of(hit.id), node_id_of(child.id))}


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        (Filters(tasks=("exp",)), [3]),
        (Filters(tasks=("digest-of-exp",)), [3]),
        (Filters(moves=("special",)), [2]),
        (Filters(labels=("negative",)), [4]),
        (Filters(stages=(Stage.RUN,)), [4]),
        (Filters(hardware=OTHER.hardware), [5]),
        (Filters(traits=("rare", "never")), [1]),
        (Filters(kinds=("fact",)), []),
        (Filters(tasks=("exp",), labels=("negative",)), []),
    ],
)
def test_filters_are_exact(store: Store, session_id: str, filters: Filters, numbers: Sequence[int]) -> None:
    given = [
        attempt_of(session_id, 1, works(), traits=("rare", "rows")),
        attempt_of(session_id, 2, works(), move="special"),
        attempt_of(session_id, 3, works(), task=task_of("exp")),
        attempt_of(session_id, 4, fails()),
        attempt_of(session_id, 5, works(), fingerprint=OTHER),
    ]
    for attempt in given:
        store.record(attempt)
    query = RecallQuery(text="double buffer overlap", task_name="rms_norm", traits=("elementwise",), filters=filters)
    assert sorted(str(name) for name in ids(store.recall(query))) == sorted(given[n - 1].id for n in numbers)


def test_operators_with_shared_tags_come_first_without_a_word_in_common() -> None:
    with Store.open(IN_MEMORY) as store:
        session_id = begin(store, task_of("layer_norm", ("normalization",)), task_of("exp", ("elementwise",)))
        store.record(attempt_of(session_id, 1, works(), task=task_of("layer_norm"), traits=()))
        store.record(attempt_of(session_id, 1, works(), task=task_of("exp"), traits=()))
        wanted = replace(task_of("group_norm", ("normalization", "rows")), text="zzz")
        recall = store.recall(replace(RecallQuery.for_task(wanted), hardware=HERE))
    assert ids(recall) == [f"{session_id}-layer_norm-1"]
    assert recall.items[0].reason.startswith("also normalization; ")


# --- questions that are not what they seem --------------------------------------------------------------------------

NASTY = [
    '"', '""', '"a', "'; DROP TABLE nodes; --", "NEAR(a b)", "a AND", "OR", "NOT a", "text : zebra", "zebra*",
    "^zebra", "(zebra", "{text}: a", "-zebra", "\0", "\udc80", "😀", "a" * 100_000, "()", "*", "node_words", "%",
]  # fmt: skip


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_no_text_reaches_the_index_as_syntax(store: Store, session_id: str, text: str) -> None:
    store.record(attempt_of(session_id, 1, works(), thought="zebra"))
    for query in (RecallQuery(text=text), RecallQuery(code=text), RecallQuery(text=f"zebra {text} zebra")):
        store.recall(query)
    assert store.check() == ()
    assert len(store.recall(RecallQuery(text=f"zebra {text} zebra")).items) == 1


def test_identifiers_are_split_and_chinese_is_cut_into_pairs() -> None:
    assert indexed("DataCopyPad ub_overflow") == "DataCopyPad Data Copy Pad ub overflow"
    assert indexed("缓冲区 溢") == "缓冲 冲区 溢"
    assert indexed_code("LocalTensor<half> x; LocalTensor<half> y;") == "LocalTensor Local Tensor half x y"
    assert terms_of("What is the DataCopyPad?") == ["datacopypad", "data", "copy", "pad"]


def test_chinese_is_found_by_words() -> None:
    with Store.open(IN_MEMORY) as store:
        session_id = begin(store)
        store.record(attempt_of(session_id, 1, fails(message="统一缓冲区溢出")))
        store.record(attempt_of(session_id, 2, fails(message="同步缺失")))
        assert ids(store.recall(RecallQuery(text="缓冲区", limit=1))) == [f"{session_id}-rms_norm-1"]
        assert ids(store.recall(RecallQuery(text="为什么同步", limit=1))) == [f"{session_id}-rms_norm-2"]


# --- embedders ------------------------------------------------------------------------------------------------------


def test_without_embedder_recall_works_and_says_so() -> None:
    with Store.open(IN_MEMORY) as store:
        session_id = begin(store)
        store.record(attempt_of(session_id, 1, works(), thought="zebra"))
        recall = store.recall(RecallQuery(text="zebra"))
    assert ids(recall) == [f"{session_id}-rms_norm-1"]
    assert recall.degraded == "no embedder"


def test_vectors_of_two_embedders_never_meet(path: Path) -> None:
    with Store.open(path, embedder=HashEmbedder(64)) as store:
        session_id = begin(store)
        store.record(attempt_of(session_id, 1, works(), thought="zebra"))
        assert store.recall(RecallQuery(text="zebra")).degraded == ""
    with Store.open(path, embedder=HashEmbedder(32)) as store:
        recall = store.recall(RecallQuery(text="zebra"))
        assert recall.degraded == "1 of 1 experiences have no vector of hash:32"
        assert "alike in meaning" not in recall.items[0].reason
        store.record(attempt_of(session_id, 2, works(), thought="zebra lion"))
        assert store.info().embedders == (("hash:32", 32, 1), ("hash:64", 64, 1))
        assert store.check() == ()


class ZeroEmbedder:
    """Gives vectors that have no direction."""

    name = "zero"
    dim = 4

    def __init__(self, value: float) -> None:
        self.value = value

    def embed(self, texts: Sequence[str]) -> object:
        import numpy as np

        return np.full((len(texts), 4), self.value, np.float32)


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_vector_without_direction_is_not_kept(value: float) -> None:
    with Store.open(IN_MEMORY, embedder=ZeroEmbedder(value)) as store:
        session_id = begin(store)
        store.record(attempt_of(session_id, 1, works(), thought="zebra"))
        assert store.info().embedders == (("", 0, 1),)
        assert len(store.recall(RecallQuery(text="zebra")).items) == 1


def test_meaning_finds_what_shares_no_rare_word() -> None:
    class Synonyms(HashEmbedder):
        name = "synonyms"

        def embed(self, texts: Sequence[str]) -> object:
            return super().embed([text.replace("faster", "zebra").replace("quick", "zebra") for text in texts])

    with Store.open(IN_MEMORY, embedder=Synonyms(256)) as store:
        session_id = begin(store)
        for number, word in enumerate(("quick", "lion", "bear"), start=1):
            thought = " ".join([word] * 30)
            store.record(attempt_of(session_id, number, works(), thought=thought, traits=()))
        recall = store.recall(RecallQuery(text="faster", limit=1))
    assert ids(recall) == [f"{session_id}-rms_norm-1"]
    assert "alike in meaning" in recall.items[0].reason


def test_vector_of_a_move_finds_the_attempt_it_led_to() -> None:
    with Store.open(IN_MEMORY, embedder=HashEmbedder(256)) as store:
        session_id = begin(store)
        root = attempt_of(session_id, 1, works(), thought="lion")
        child = attempt_of(session_id, 2, works(), parent=root, thought="zebra " * 20, plan={"tile": 1024})
        store.record(root)
        store.record(child)
        item = store.recall(RecallQuery(text="zebra", limit=1)).items[0]
    assert item.experience.attempt_id == child.id
    assert "move alike" in item.reason


# --- evidence on moves ----------------------------------------------------------------------------------------------


def test_moves_tell_the_state_they_were_made_in(store: Store, session_id: str) -> None:
    root = attempt_of(session_id, 1, works(), move="draft", plan={"tile": 1})
    child = attempt_of(session_id, 2, works(), parent=root, plan={"tile": 2}, speedup=1.5)
    failed = attempt_of(session_id, 3, fails(), parent=child, plan={"tile": 4}, promoted=False)
    silent = attempt_of(session_id, 4, fails("no-candidate", "mute", Stage.PROPOSE), source=None)
    for attempt, bottleneck in ((root, "mte2"), (child, "vector"), (failed, ""), (silent, "")):
        store.record(attempt, bottleneck=bottleneck)
    moves = store.recall(RecallQuery(hardware=HERE, limit=0)).moves
    told = [
        (m.move, m.parent_plan, m.plan, m.works, m.fast, m.step_ratio, m.speedup, m.bottleneck, m.promoted)
        for m in moves
    ]
    assert told == [
        ("draft", {}, {"tile": 1}, True, True, 1.0, 1.0, "", True),
        ("double-buffer", {"tile": 1}, {"tile": 2}, True, True, 1.5, 1.5, "mte2", True),
        ("double-buffer", {"tile": 2}, {"tile": 4}, False, True, 0.0, 0.0, "vector", False),
    ]
    assert [m.parent_experience_id for m in moves] == [None, node_id_of(root.id), node_id_of(child.id)]
    assert [m.downstream for m in moves] == pytest.approx([0.5 + 0.35 * 0.75, 0.75, 0.0])


def test_moves_follow_what_is_recorded_later_by_anyone(store: Store, session_id: str, path: Path) -> None:
    root = attempt_of(session_id, 1, works())
    store.record(root)
    assert [m.downstream for m in store.recall(RecallQuery(limit=0)).moves] == [1.0]
    with Store.open(path) as other:
        other.record(attempt_of(session_id, 2, works(), parent=root, speedup=3.0))
    assert [m.downstream for m in store.recall(RecallQuery(limit=0)).moves] == pytest.approx([0.5 + 0.35 * 3.0, 3.0])


def test_recall_sees_rows_that_others_removed(store: Store, session_id: str, path: Path) -> None:
    import sqlite3
    from contextlib import closing

    for number in (1, 2):
        store.record(attempt_of(session_id, number, works(), thought="zebra"))
    assert len(store.recall(RecallQuery(text="zebra")).items) == 2
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("DELETE FROM attempts WHERE iteration = 2")
    recall = store.recall(RecallQuery(text="zebra"))
    assert ids(recall) == [f"{session_id}-rms_norm-1"]
    assert len(recall.moves) == 1


def test_too_much_evidence_is_cut_to_the_most_alike(
    store: Store, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kope.memory.moves.MOST", 3)
    for number in (1, 2):
        for name in ("exp", "rms_norm", "layer_norm"):
            store.record(
                attempt_of(session_id, number, works(), task=task_of(name), traits=("rows",) if name != "exp" else ())
            )
    moves = store.recall(RecallQuery(task_name="rms_norm", traits=("rows",), limit=0)).moves
    assert [(m.task_name, m.plan["tile"]) for m in moves] == [
        ("rms_norm", 1024),
        ("rms_norm", 2048),
        ("layer_norm", 2048),
    ]


def test_outcome_without_cases_is_no_trouble(store: Store, session_id: str) -> None:
    made = store.record(attempt_of(session_id, 1, Outcome(Stage.PROFILE, Verdict.VERIFIED), speedup=None))
    assert made.works
