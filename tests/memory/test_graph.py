"""Labels and downstream scores: the paper's by hand, the bounded ones by property, incremental equal to full."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kope.memory import RecallQuery, Store
from kope.memory.graph import Downstream, downstream, label_of, score
from kope.model import Attempt
from tests.memory.samples import attempt_of, begin, fails, rows, works


@pytest.mark.parametrize(
    ("ratio", "label"),
    [
        (1.05, "effective"),
        (1.0499, "partial"),
        (1.0, "partial"),
        (0.999, "ineffective"),
        (0.85, "ineffective"),
        (0.8499, "negative"),
        (0.0, "negative"),
    ],
)
def test_labels_have_the_papers_thresholds(ratio: float, label: str) -> None:
    assert label_of(1.0, ratio) == label


def test_what_was_not_timed_has_no_label() -> None:
    assert label_of(None, 2.0) == ""


def test_paper_score_of_a_hand_computed_forest() -> None:
    # a (1.0) -> b (1.2) -> d (0.9), b -> e (1.5); a -> c (0.5). f (1.1) alone.
    ratios = {"a": 1.0, "b": 1.2, "c": 0.5, "d": 0.9, "e": 1.5, "f": 1.1}
    parents = {"b": "a", "c": "a", "d": "b", "e": "b"}
    d_b = 0.5 * 1.2 + 0.35 * (0.9 + 1.5)  # 1.44
    expected = {"a": 0.5 + 0.35 * (d_b + 0.5), "b": d_b, "c": 0.5, "d": 0.9, "e": 1.5, "f": 1.1}
    assert downstream(ratios, parents, Downstream.PAPER) == pytest.approx(expected)
    assert expected["a"] == pytest.approx(1.179)


def test_bounded_scores_of_the_same_forest() -> None:
    ratios = {"a": 1.0, "b": 1.2, "c": 0.5, "d": 0.9, "e": 1.5}
    parents = {"b": "a", "c": "a", "d": "b", "e": "b"}
    best_b, mean_b = 0.6 + 0.35 * 1.5, 0.6 + 0.35 * 1.2
    best = downstream(ratios, parents, Downstream.BEST)
    mean = downstream(ratios, parents, Downstream.MEAN)
    assert best == pytest.approx({"a": 0.5 + 0.35 * best_b, "b": best_b, "c": 0.5, "d": 0.9, "e": 1.5})
    assert mean == pytest.approx({"a": 0.5 + 0.35 * (mean_b + 0.5) / 2, "b": mean_b, "c": 0.5, "d": 0.9, "e": 1.5})


def test_paper_score_lets_many_poor_attempts_outrank_a_good_one_and_the_default_does_not() -> None:
    ratios = {"root": 1.0, "good": 1.4} | {f"poor{n}": 0.8 for n in range(10)}
    parents = {f"poor{n}": "root" for n in range(10)}
    paper = downstream(ratios, parents, Downstream.PAPER)
    assert paper["root"] > paper["good"]
    default = downstream(ratios, parents)
    assert default["root"] < default["good"]


@st.composite
def forests(draw: st.DrawFn) -> tuple[dict[str, float], dict[str, str]]:
    """A forest of up to 40 nodes; node n starts from an earlier one or from nothing."""
    count = draw(st.integers(1, 40))
    ratios = {str(n): draw(st.floats(0.0, 4.0)) for n in range(count)}
    parents = {}
    for n in range(1, count):
        above = draw(st.integers(-1, n - 1))
        if above >= 0:
            parents[str(n)] = str(above)
    return ratios, parents


@given(forests(), st.sampled_from([Downstream.BEST, Downstream.MEAN]))
def test_bounded_scores_stay_within_the_largest_step_ratio(
    forest: tuple[dict[str, float], dict[str, str]], mode: Downstream
) -> None:
    ratios, parents = forest
    assert all(0.0 <= value <= max(ratios.values()) for value in downstream(ratios, parents, mode).values())


@given(forests(), st.sampled_from(list(Downstream)))
def test_score_of_every_node_is_that_of_its_successors(
    forest: tuple[dict[str, float], dict[str, str]], mode: Downstream
) -> None:
    ratios, parents = forest
    scores = downstream(ratios, parents, mode)
    for name in ratios:
        after = [scores[child] for child, parent in parents.items() if parent == name]
        assert scores[name] == pytest.approx(score(ratios[name], after, mode))


def test_deep_lineage_needs_no_recursion() -> None:
    ratios = {str(n): 1.0 for n in range(20_000)}
    scores = downstream(ratios, {str(n): str(n - 1) for n in range(1, 20_000)})
    assert scores["19999"] == 1.0
    assert scores["0"] == pytest.approx(0.5 / 0.65)


def test_circle_is_refused() -> None:
    with pytest.raises(ValueError, match="2 experiences lead back to themselves"):
        downstream({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": "b", "b": "a"})


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_scores_kept_while_recording_equal_a_full_pass(seed: int) -> None:
    rng = random.Random(seed)
    with Store.open(Path(":memory:")) as store:
        session_id = begin(store)
        made: list[Attempt] = []
        for number in range(1, 30):
            parent = rng.choice(made) if made and rng.random() > 0.1 else None
            outcome = works() if rng.random() > 0.3 else fails()
            attempt = attempt_of(
                session_id, number, outcome, parent=parent, speedup=rng.uniform(0.3, 3.0) if outcome.ok else 0.0
            )
            store.record(attempt)
            made.append(attempt)
        kept = {move.experience_id: move for move in store.recall(RecallQuery(limit=0)).moves}
    ratios = {name: move.step_ratio for name, move in kept.items()}
    parents = {name: move.parent_experience_id for name, move in kept.items() if move.parent_experience_id}
    assert {name: move.downstream for name, move in kept.items()} == pytest.approx(downstream(ratios, parents))


def test_score_update_touches_the_path_and_nothing_else(store: Store, session_id: str, path: Path) -> None:
    root = attempt_of(session_id, 1, works())
    left = attempt_of(session_id, 2, works(), parent=root, speedup=1.1)
    right = attempt_of(session_id, 3, works(), parent=root, speedup=1.0)
    for attempt in (root, left, right):
        store.record(attempt)
    before = dict(rows(path, "SELECT attempt_id, revision FROM nodes"))
    leaf = attempt_of(session_id, 4, works(), parent=left, speedup=3.0)
    store.record(leaf)
    after = dict(rows(path, "SELECT attempt_id, revision FROM nodes"))
    assert {name for name in after if after[name] != before.get(name)} == {root.id, left.id, leaf.id}
