"""Lessons follow from attempts by rule, name their evidence, contradict each other, never say more than was shown."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kope.memory import Filters, RecallQuery, Store
from kope.memory.distil import Digest, distil
from kope.memory.learn import node_id_of
from kope.model import Attempt, Experience, Verdict
from tests.memory.samples import OTHER, TWIN, attempt_of, begin, dump, fails, grow, task_of, works

HERE = TWIN.hardware
ONE, TWO = {"buffers": 1}, {"buffers": 2}


def lessons(store: Store) -> list[Digest]:
    with store._database.reading() as connection:
        return distil(connection)


def recalled(store: Store) -> list[Experience]:
    query = RecallQuery(text="double buffer", hardware=HERE, filters=Filters(kinds=("digest",)), limit=50)
    return [item.experience for item in store.recall(query).items]


def pair(store: Store, session_id: str, task: str, ratio: float, first: int = 1, **changes: object) -> Attempt:
    """A kernel and one made from it with two buffers; returns the second."""
    root = attempt_of(session_id, first, works(), task=task_of(task), plan=ONE, move="draft")
    child = attempt_of(
        session_id,
        first + 1,
        works(10.0 / ratio),
        task=task_of(task),
        parent=root,
        plan=TWO,
        speedup=ratio,
        **changes,  # type: ignore[arg-type]
    )
    store.record(root, bottleneck="mte2")
    store.record(child, bottleneck="vector")
    return child


def test_gains_of_one_change_make_one_lesson(store: Store, session_id: str) -> None:
    first = pair(store, session_id, "exp", 1.4)
    second = pair(store, session_id, "rms_norm", 1.2)
    pair(store, session_id, "layer_norm", 1.01)
    store.distil()
    (lesson,) = recalled(store)
    assert (lesson.kind, lesson.title, lesson.works, lesson.label) == (
        "digest",
        "double-buffer: buffers 1 -> 2",
        True,
        "effective",
    )
    assert lesson.text == (
        "double-buffer: buffers 1 -> 2; bound by mte2: copies and arithmetic do not overlap\n"
        f"1.40x on exp, 1.20x on rms_norm: gained in 2 of 3 tries; modelled on {HERE}."
    )
    assert lesson.evidence == (first.id, second.id)
    assert lesson.step_ratio == pytest.approx(1.3)
    assert lesson.confidence == pytest.approx(3 / 5)
    assert (lesson.hardware, lesson.bottleneck, lesson.task_name) == (HERE, "mte2", "")
    assert "rms_norm 1" in first.candidate.source or lesson.before != lesson.after  # type: ignore[union-attr]


def test_nothing_is_learned_in_the_dead_zone(store: Store, session_id: str) -> None:
    for place, ratio in enumerate((0.9, 0.99, 1.0, 1.04)):
        pair(store, session_id, "exp", ratio, first=1 + 2 * place)
    assert lessons(store) == []


def test_screened_time_proves_no_gain(store: Store, session_id: str) -> None:
    root = attempt_of(session_id, 1, works(), plan=ONE)
    store.record(root)
    screened = works(2.0, Verdict.SCREENED)
    store.record(attempt_of(session_id, 2, screened, parent=root, plan=TWO, speedup=5.0, promoted=False))
    assert lessons(store) == []


def test_gain_and_loss_of_one_change_contradict_each_other(store: Store, session_id: str) -> None:
    gained = pair(store, session_id, "exp", 1.4)
    lost = pair(store, session_id, "rms_norm", 0.5)
    store.distil()
    by_rule = {each.rule: each for each in lessons(store)}
    assert set(by_rule) == {"gain", "loss"}
    assert "gained in 1 of 2 tries" in by_rule["gain"].lesson
    found = store.surroundings(by_rule["gain"].id)
    links = {(link.edge.kind, link.outward): link for link in found.links}
    assert links["contradicts", False].other.id == by_rule["loss"].id
    assert links["distilled_from", True].other.attempt_id == gained.id
    assert store.surroundings(by_rule["loss"].id).node.evidence == (lost.id,)


def test_times_of_two_chips_are_never_put_together(store: Store, session_id: str) -> None:
    pair(store, session_id, "exp", 1.4)
    pair(store, session_id, "exp", 3.0, first=3, fingerprint=OTHER)
    found = lessons(store)
    assert sorted((each.hardware, each.step_ratio) for each in found) == [(OTHER.hardware, 3.0), (HERE, 1.4)]


def test_failure_says_what_worked_from_the_same_start(store: Store, session_id: str) -> None:
    root = attempt_of(session_id, 1, works(), plan={"tile": 1024})
    bad = attempt_of(
        session_id, 2, fails(), parent=root, plan={"tile": 65536}, move="longer-tile", source="int tile = 65536;\n"
    )
    good = attempt_of(
        session_id, 3, works(), parent=root, plan={"tile": 2048}, speedup=1.5, source="int tile = 2048;\n"
    )
    for attempt in (root, bad, good):
        store.record(attempt)
    lesson = next(each for each in lessons(store) if each.rule == "failure")
    assert lesson.title == "longer-tile: ub-overflow"
    assert lesson.rationale == "needs 245856 B of 196608 B"
    assert lesson.lesson == (
        f"Failed at run in 1 try on rms_norm, {HERE}. Remedy: shorten the tile. "
        "From the same start double-buffer came to 1.50x."
    )
    assert (lesson.before, lesson.after) == ("int tile = 65536;", "int tile = 2048;")
    assert not lesson.works
    store.distil()
    query = RecallQuery(text="longer tile ub overflow", hardware=HERE, filters=Filters(kinds=("digest",)))
    (item,) = [item for item in store.recall(query).items if not item.experience.works]
    assert "distilled from failures at run: to be avoided" in item.reason


def test_limit_of_the_machine_is_no_lesson(store: Store, session_id: str) -> None:
    root = attempt_of(session_id, 1, works())
    store.record(root)
    store.record(attempt_of(session_id, 2, fails("timeout", "took too long"), parent=root))
    assert lessons(store) == []


def test_what_repaired_a_failure_is_a_lesson(store: Store, session_id: str) -> None:
    bad = attempt_of(session_id, 1, fails(), plan={}, move="draft", source="int tile = 9;\nint a;\n")
    good = attempt_of(
        session_id, 2, works(), parent=bad, plan={}, move="edit", thought="a shorter tile fits",
        source="int tile = 4;\nint a;\n",
    )  # fmt: skip
    store.record(bad)
    store.record(good)
    (lesson,) = [each for each in lessons(store) if each.rule == "repair"]
    assert (lesson.title, lesson.trigger) == ("ub-overflow repaired: edit", "ub-overflow: needs 245856 B of 196608 B")
    assert (lesson.before, lesson.after) == ("int tile = 9;", "int tile = 4;")
    assert lesson.evidence == (node_id_of(good.id),)


def test_edits_without_a_plan_merge_when_they_are_the_same(store: Store, session_id: str) -> None:
    for task in ("exp", "rms_norm"):
        for first, body in ((1, "Adds(x, y);"), (3, "Adds(x, y);"), (5, "Muls(x, y);")):
            root = attempt_of(session_id, first, works(), task=task_of(task), plan={}, source=f"{task}\nloop\n")
            child = attempt_of(
                session_id, first + 1, works(), task=task_of(task), plan={}, parent=root, move="edit",
                source=f"{task}\n  {body}\n", speedup=2.0,
            )  # fmt: skip
            store.record(root)
            store.record(child)
    assert sorted((each.task_name, len(each.evidence)) for each in lessons(store)) == [
        ("exp", 1),
        ("exp", 2),
        ("rms_norm", 1),
        ("rms_norm", 2),
    ]


def test_lessons_do_not_depend_on_the_order_attempts_came_in(tmp_path: Path) -> None:
    def filled(seed: int) -> list[Digest]:
        with Store.open(Path(":memory:")) as store:
            session = store.begin_session("key", session_id="s").id
            attempts = []
            for name in ("exp", "rms_norm"):
                store.add_task(task_of(name))
            with Store.open(Path(":memory:")) as source:
                other = source.begin_session("key", session_id=session).id
                for name in ("exp", "rms_norm"):
                    source.add_task(task_of(name))
                    grow(source, other, 20, task=task_of(name))
                attempts = list(source.attempts())
            # A parent always comes before its children; apart from that the two lineages are shuffled together.
            rng = random.Random(seed)
            lines = [[a for a in attempts if a.task_name == name] for name in ("exp", "rms_norm")]
            while any(lines):
                line = rng.choice([line for line in lines if line])
                store.record(line.pop(0), bottleneck="mte2")
            return lessons(store)

    assert filled(1) == filled(2) != []


def test_distilling_again_changes_nothing(store: Store, session_id: str, path: Path) -> None:
    grow(store, session_id, 40)
    new, changed, gone = store.distil()
    assert (new > 0, changed, gone) == (True, 0, 0)
    before = dump(path)
    assert store.distil() == (0, 0, 0)
    assert dump(path) == before
    assert store.check() == ()


def test_more_evidence_changes_a_lesson_in_place(store: Store, session_id: str) -> None:
    pair(store, session_id, "exp", 1.4)
    store.distil()
    (before,) = recalled(store)
    pair(store, session_id, "rms_norm", 1.6)
    assert store.distil() == (0, 1, 0)
    (after,) = recalled(store)
    assert after.id == before.id
    assert "1.60x on rms_norm, 1.40x on exp" in after.text
    assert store.check() == ()


def test_session_that_ends_is_distilled(store: Store, session_id: str) -> None:
    pair(store, session_id, "exp", 1.4)
    store.end_session(session_id, "done")
    assert [each.kind for each in recalled(store)] == ["digest"]


def test_attempt_that_followed_a_lesson_and_lost_contradicts_it(store: Store, session_id: str) -> None:
    pair(store, session_id, "exp", 1.4)
    store.distil()
    (lesson,) = recalled(store)
    lost = pair(store, session_id, "rms_norm", 0.7, used=(lesson.id,))
    store.distil()
    kinds = {(link.edge.kind, link.outward, link.other.attempt_id) for link in store.surroundings(lesson.id).links}
    assert ("contradicts", False, lost.id) in kinds
    assert ("used", False, lost.id) in kinds


# --- contrasts ------------------------------------------------------------------------------------------------------


def contrasts(store: Store) -> set[tuple[str, str, str]]:
    sql = "SELECT e.src, e.dst, t.text FROM edges e JOIN edge_texts t ON t.edge_id = e.id WHERE kind = 'contrasts'"
    return set(store._database.rows(sql))


def test_bad_siblings_contrast_with_the_best(store: Store, session_id: str) -> None:
    root = attempt_of(session_id, 1, works())
    bad = attempt_of(session_id, 2, fails(), parent=root, move="longer-tile")
    slow = attempt_of(session_id, 3, works(), parent=root, move="in-place", speedup=0.7)
    good = attempt_of(session_id, 4, works(), parent=root, move="double-buffer", speedup=1.3)
    for attempt in (root, bad, slow):
        store.record(attempt)
    assert contrasts(store) == set()
    store.record(good)
    ids = {name: node_id_of(attempt.id) for name, attempt in (("bad", bad), ("slow", slow), ("good", good))}
    assert contrasts(store) == {
        (ids["bad"], ids["good"], "longer-tile failed at run; from the same start double-buffer came to 1.30x"),
        (ids["slow"], ids["good"], "in-place came to 0.70x; from the same start double-buffer came to 1.30x"),
    }
    better = attempt_of(session_id, 5, works(), parent=root, move="vector-reduce", speedup=2.0)
    store.record(better)
    assert {dst for _, dst, _ in contrasts(store)} == {node_id_of(better.id)}
    assert store.check() == ()


def test_siblings_of_two_chips_do_not_contrast(store: Store, session_id: str) -> None:
    root = attempt_of(session_id, 1, works())
    store.record(root)
    store.record(attempt_of(session_id, 2, fails(), parent=root))
    store.record(attempt_of(session_id, 3, works(), parent=root, speedup=2.0, fingerprint=OTHER))
    assert contrasts(store) == set()


def test_rewound_lineage_is_marked(store: Store) -> None:
    session_id = begin(store)
    root = attempt_of(session_id, 1, works(), proposer="rewind")
    child = attempt_of(session_id, 2, works(), parent=root, speedup=1.5, proposer="rewind")
    store.record(root)
    store.record(child)
    kinds = store._database.rows("SELECT kind FROM edges ORDER BY kind")
    assert kinds == [("led_to",), ("rewound",)]
