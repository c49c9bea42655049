"""What use teaches: values, retirement, exploration, and that noise and placebo teach nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from scipy.stats import beta

from kope.memory import RecallQuery, Scope, Store
from kope.memory.query import MemoryMode
from kope.memory.value import Purpose, Values, Worth, beta_below, key_of, purpose_of, was_helped
from kope.model import Attempt, Experience, Verdict
from tests.memory.samples import OTHER, TWIN, attempt_of, fails, works

HERE = TWIN.hardware


@pytest.mark.parametrize(("a", "b", "x"), [(1, 1, 0.3), (1, 9, 0.1), (4, 2, 0.5), (30, 70, 0.35), (1, 500, 0.01)])
def test_posterior_is_the_beta_distribution(a: int, b: int, x: float) -> None:
    assert beta_below(a, b, x) == pytest.approx(beta.cdf(x, a, b), abs=1e-12)
    assert (beta_below(a, b, 0.0), beta_below(a, b, 1.0)) == (0.0, 1.0)


def test_unknown_is_worth_what_doing_without_is() -> None:
    assert Worth(0, 0, 10, 4).value == 1.0
    assert Worth(0, 0, 10, 4).mean == Worth(0, 0, 10, 4).without == pytest.approx(5 / 12)


def test_value_is_share_with_over_share_without() -> None:
    helps = Worth(uses=4, helped=4, others=98, others_helped=24)
    assert (helps.without, helps.mean) == (0.25, (4 * 0.25 + 4) / 8)
    assert helps.value == 2.0  # 2.5, bounded
    assert Worth(4, 1, 98, 24).value == pytest.approx(1.0)
    assert Worth(4, 0, 98, 24).value == pytest.approx(0.5)


def test_retired_is_what_was_used_often_and_helps_less() -> None:
    """P(Beta(1, 1 + n) < 0.8 * 0.25) = 1 - 0.8^(n + 1) passes 0.95 at n = 13."""
    assert [Worth(uses, 0, 98, 24).retired for uses in (4, 12, 13, 30)] == [False, False, True, True]
    assert Worth(13, 0, 98, 24).value == 0.0
    assert not Worth(13, 3, 98, 24).retired
    assert not Worth(30, 0, 98, 0).retired  # nothing else helps either


def test_purpose_follows_from_the_parent() -> None:
    assert purpose_of(False, None) is Purpose.DRAFT
    assert purpose_of(True, "failed") is Purpose.REPAIR
    assert purpose_of(True, "screened") is Purpose.REFINE


def test_gain_that_noise_could_make_is_none() -> None:
    assert was_helped(Purpose.REFINE, "verified", 1.02, "modelled")
    assert not was_helped(Purpose.REFINE, "verified", 1.02, "measured")
    assert not was_helped(Purpose.REFINE, "verified", 1.005, "modelled")
    assert was_helped(Purpose.REPAIR, "screened", 0.5, "measured")
    assert not was_helped(Purpose.DRAFT, "failed", 0.0, "modelled")


def test_noise_retires_no_more_than_chance_does() -> None:
    """Measured times of equal kernels scatter by 2%: none is better, and at most one in twenty is taken for worse."""
    worths = []
    key = key_of(Purpose.REFINE, HERE)
    for seed in range(50):
        rng, values = random.Random(seed), Values()
        for _ in range(200):
            helped = was_helped(Purpose.REFINE, "verified", rng.gauss(1.0, 0.02), "measured")
            values.add_attempt(key, helped)
            for name in rng.sample("abcdefgh", 3):
                values.add_use(name, key, helped)
        worths += [values.worth(name, Purpose.REFINE, HERE) for name in "abcdefgh"]
    assert sum(worth.retired for worth in worths) <= len(worths) / 20
    assert sum(worth.helped for worth in worths) <= sum(worth.uses for worth in worths) / 20


# --- in a database --------------------------------------------------------------------------------------------------


def use(
    store: Store, session_id: str, experience: Experience, parent: Attempt, numbers: range, ratio: float
) -> list[Attempt]:
    """Record attempts that used an experience and came to a ratio of their parent's speed."""
    made = []
    for number in numbers:
        attempt = attempt_of(
            session_id, number, works(), parent=parent, used=(experience.id,), speedup=ratio, promoted=ratio > 1.0
        )
        store.record(attempt, propensities={experience.id: 0.5})
        made.append(attempt)
    return made


def prepared(store: Store, session_id: str) -> tuple[Attempt, Experience, Experience]:
    """A first kernel and two experiences that say the same of another task; then attempts that used neither."""
    root = attempt_of(session_id, 1, works())
    store.record(root)
    good, bad = (
        store.record(attempt_of(session_id, number, works(), move=move, thought="zebra"))
        for number, move in ((2, "m-good"), (3, "m-bad"))
    )
    for number in range(4, 14):
        attempt = attempt_of(session_id, number, works(), parent=root, speedup=1.5 if number % 3 == 0 else 1.0)
        store.record(attempt)
    return root, good, bad


def order(store: Store, explore: int | None = None) -> list[str]:
    query = RecallQuery(text="zebra", hardware=HERE, limit=2, explore=explore)
    return [item.experience.id for item in store.recall(query).items]


def test_experience_that_helped_goes_before_one_that_did_not(store: Store, session_id: str) -> None:
    root, good, bad = prepared(store, session_id)
    use(store, session_id, bad, root, range(20, 24), 1.0)
    use(store, session_id, good, root, range(30, 34), 1.6)
    assert order(store)[0] == good.id
    reasons = {item.experience.id: item.reason for item in store.recall(RecallQuery(text="zebra", hardware=HERE)).items}
    assert "helped 4 of 4 attempts that used it" in reasons[good.id]
    assert "helped 0 of 4 attempts that used it" in reasons[bad.id]
    values = {move.experience_id: move.value for move in store.recall(RecallQuery(hardware=HERE, limit=0)).moves}
    assert values[good.id] > 1.0 > values[bad.id] > 0.0


def test_retired_experience_is_not_recalled_and_a_person_may_keep_it(store: Store, session_id: str) -> None:
    root, good, bad = prepared(store, session_id)
    use(store, session_id, good, root, range(20, 24), 1.6)
    use(store, session_id, bad, root, range(30, 45), 1.0)
    assert bad.id not in order(store)
    assert {m.experience_id: m.value for m in store.recall(RecallQuery(hardware=HERE)).moves}[bad.id] == 0.0
    assert "helped 0 of 15" in store.surroundings(bad.id).retired
    store.retire(bad.id, False)
    assert bad.id in order(store)
    assert store.surroundings(bad.id).retired == ""
    store.retire(good.id[:10], True)
    assert good.id not in order(store)
    store.retire(good.id, None)
    assert good.id in order(store)


def test_refinements_count_where_they_ran_and_drafts_everywhere(store: Store, session_id: str) -> None:
    root, good, _ = prepared(store, session_id)
    use(store, session_id, good, root, range(20, 24), 1.6)
    elsewhere = RecallQuery(text="zebra", hardware=OTHER.hardware)
    assert all("helped" not in item.reason for item in store.recall(elsewhere).items)
    for number in range(40, 43):
        store.record(attempt_of(session_id, number, works(verdict=Verdict.SCREENED), used=(good.id,)))
    drafting = RecallQuery(text="zebra", hardware=OTHER.hardware, purpose=Purpose.DRAFT)
    found = {item.experience.id: item.reason for item in store.recall(drafting).items}
    assert "helped 3 of 3 attempts that used it" in found[good.id]


def test_exploration_is_drawn_logged_and_repeatable(store: Store, session_id: str) -> None:
    root, good, bad = prepared(store, session_id)
    use(store, session_id, good, root, range(20, 22), 1.6)
    use(store, session_id, bad, root, range(30, 32), 1.0)
    query = RecallQuery(text="zebra", task_name="rms_norm", hardware=HERE, limit=4)
    drawn = [[item.experience.id for item in store.recall(replace(query, explore=n)).items] for n in range(40)]
    places = {name: sum(names.index(name) for names in drawn if name in names) for name in (good.id, bad.id)}
    assert places[good.id] < places[bad.id]
    assert len({tuple(names) for names in drawn}) > 3
    again = [[item.experience.id for item in store.recall(replace(query, explore=n)).items] for n in range(40)]
    assert again == drawn
    chances = [item.propensity for item in store.recall(replace(query, explore=7)).items]
    assert 0.0 < min(chances) < 1.0
    assert {item.propensity for item in store.recall(query).items} == {1.0}


def test_propensity_is_kept_with_the_use(store: Store, session_id: str, path: object) -> None:
    root, good, _ = prepared(store, session_id)
    use(store, session_id, good, root, range(20, 21), 1.6)
    store.record(attempt_of(session_id, 50, works(), parent=root, used=(good.id,)))
    found = store._database.rows("SELECT propensity FROM edges WHERE kind = 'used' ORDER BY seq")
    assert found == [(0.5,), (None,)]


def test_placebo_knows_no_values(store: Store, session_id: str) -> None:
    root, good, bad = prepared(store, session_id)
    use(store, session_id, good, root, range(20, 24), 1.6)
    use(store, session_id, bad, root, range(30, 45), 1.0)
    recall = store.recall(RecallQuery(text="zebra", hardware=HERE), Scope(MemoryMode.PLACEBO, "other"))
    assert {move.value for move in recall.moves} == {1.0}
    assert not any("helped" in item.reason for item in recall.items)


def test_failure_that_used_an_experience_counts_against_it(store: Store, session_id: str) -> None:
    root, good, _ = prepared(store, session_id)
    for number in range(20, 23):
        store.record(attempt_of(session_id, number, fails(), parent=root, used=(good.id,)))
    assert "helped 0 of 3" in next(
        item.reason
        for item in store.recall(RecallQuery(text="zebra", hardware=HERE)).items
        if item.experience.id == good.id
    )
