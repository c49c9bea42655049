"""Sharing: what was learned in several files comes together, in any order, nothing lost and nothing believed unseen."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kope.errors import StoreError
from kope.memory import RecallQuery, Selection, Store
from kope.memory.database import Database
from kope.memory.embedding import HashEmbedder
from kope.memory.share import Choice, Form, export_file, import_file, merge_files, trust_origin
from kope.memory.share.claimed import CONFLICT
from kope.memory.share.content import content_hash
from kope.memory.share.travel import TABLES
from tests.memory.samples import OTHER, begin, grow, rows, task_of

EVIDENCE = [table for table in TABLES if table.evidence and table.name not in ("origins", "sessions", "tasks")]


def run(path: Path, seed: int, count: int = 12, task: str = "rms_norm", **more: Any) -> Path:
    """A database as one run of the loop leaves it."""
    with Store.open(path, embedder=HashEmbedder(64)) as store:
        session_id = begin(store, task_of(task), key=f"run {seed}")
        grow(store, session_id, count, task=task_of(task), seed=seed, **more)
        store.end_session(session_id, "iterations")
    return path


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    """Three runs: two on one task, one on another chip."""
    return [
        run(tmp_path / "a.db", 1),
        run(tmp_path / "b.db", 2),
        run(tmp_path / "c.db", 3, task="exp", fingerprint=OTHER),
    ]


def hash_of(path: Path) -> str:
    with Database.open(path, create=False, read_only=True) as database, database.reading() as connection:
        return content_hash(connection)


def evidence(path: Path) -> dict[str, list[Any]]:
    """Every travelling row but for the origin it is kept under, sorted."""
    found = {}
    for table in EVIDENCE:
        columns = [name for name in table.columns if name != "origin_id"]
        found[table.name] = sorted(rows(path, f"SELECT {', '.join(columns)} FROM {table.name}"), key=repr)
    return found


def derived(path: Path) -> dict[str, list[Any]]:
    """What the graph says, in an order that does not depend on arrival."""
    return {
        "nodes": sorted(
            rows(path, "SELECT id, label, works, step_ratio, downstream, bottleneck, confidence FROM nodes"), key=repr
        ),
        "texts": sorted(rows(path, "SELECT node_id, title, decision, lesson FROM node_texts")),
        "edges": sorted(rows(path, "SELECT id, src, dst, kind FROM edges")),
        "journals": sorted(rows(path, "SELECT attempt_id, markdown FROM journals")),
    }


def is_whole(path: Path) -> None:
    with Store.open(path, create=False) as store:
        assert store.check() == ()


# --- merging --------------------------------------------------------------------------------------------------------


def test_three_runs_merge_to_the_same_in_all_six_orders(three: list[Path], tmp_path: Path) -> None:
    results = []
    for number, order in enumerate(itertools.permutations(three)):
        place = tmp_path / f"merged{number}.db"
        taken, found = merge_files(order, place)
        assert [each.new for each in taken] == [12, 12, 12]
        is_whole(place)
        results.append((found, evidence(place), derived(place)))
    assert all(result == results[0] for result in results[1:])
    sources = [evidence(source) for source in three]  # runs of one task may have tried the same kernel: one row
    together = {name: sorted({row for source in sources for row in source[name]}, key=repr) for name in sources[0]}
    assert results[0][1] == together


def test_merging_again_changes_nothing(three: list[Path], tmp_path: Path) -> None:
    place = tmp_path / "m.db"
    _, first = merge_files(three, place)
    before = evidence(place), derived(place)
    for source in (*three, place):
        if source is place:
            source = Path(shutil.copy(place, tmp_path / "copy.db"))
        taken = import_file(place, source)
        assert (taken.new, taken.completed, taken.refused, taken.conflicts) == (0, 0, 0, [])
        assert taken.known == taken.attempts
    assert (hash_of(place), evidence(place), derived(place)) == (first, *before)


def test_sources_are_only_read(three: list[Path], tmp_path: Path) -> None:
    before = [source.read_bytes() for source in three]
    merge_files(three, tmp_path / "m.db")
    assert [source.read_bytes() for source in three] == before
    assert sorted(place.name for place in tmp_path.iterdir()) == ["a.db", "b.db", "c.db", "m.db"]


def test_a_part_then_the_whole_equals_the_whole(tmp_path: Path) -> None:
    """A child that comes without its parent is linked to it, and told anew, when the parent comes."""
    whole = run(tmp_path / "a.db", 1, count=20)
    at_once, in_parts = tmp_path / "at_once.db", tmp_path / "in_parts.db"
    import_file(at_once, whole)
    part = tmp_path / "part.db"
    shutil.copy(whole, part)
    with Store.open(part) as store:
        keep = {attempt.id for attempt in store.attempts()[10:]}
    with closing(sqlite3.connect(part)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        marks = ", ".join("?" * len(keep))
        connection.execute(f"DELETE FROM attempts WHERE id NOT IN ({marks})", sorted(keep))
    assert import_file(in_parts, part).new == 10
    is_whole(in_parts)
    assert import_file(in_parts, whole).new == 10
    is_whole(in_parts)
    assert evidence(in_parts) == evidence(at_once)
    assert derived(in_parts) == derived(at_once)


# --- the same attempt, differently ----------------------------------------------------------------------------------


def variant(path: Path, source: Path, attempt_number: int) -> Path:
    """The same run, in which one attempt says something else under its id, with digests that are right."""
    shutil.copy(source, path)
    with Store.open(path) as store:
        attempts = store.attempts()
    made = path.with_name(f"{path.stem}-made.db")
    with Store.open(made) as store:
        begin(store, task_of())
        store.begin_session("run 1", {"why": "test"}, session_id=attempts[0].session_id)
        for place, attempt in enumerate(attempts):
            if place == attempt_number:
                attempt = replace(attempt, outcome=replace(attempt.outcome, log=f"forged {path.stem}"))
            store.record(attempt)
    path.unlink()
    return made


def test_two_versions_of_an_attempt_are_both_kept_and_neither_believed(tmp_path: Path) -> None:
    first = run(tmp_path / "a.db", 1)
    second, third = variant(tmp_path / "b.db", first, 4), variant(tmp_path / "c.db", first, 4)
    results = []
    for number, order in enumerate(itertools.permutations((first, second, third))):
        place = tmp_path / f"m{number}.db"
        taken, found = merge_files(order, place)
        disputed = {name for each in taken for name in each.conflicts}
        assert len(disputed) == 1
        assert [row[0] for row in rows(place, f"SELECT id FROM attempts WHERE origin_id = '{CONFLICT}'")] == [*disputed]
        assert len(rows(place, "SELECT * FROM conflicts")) == 3
        is_whole(place)
        results.append((found, evidence(place), derived(place)))
    for result in results[1:]:
        assert result == results[0]


def test_merging_is_associative_with_versions_that_disagree(tmp_path: Path) -> None:
    first = run(tmp_path / "a.db", 1)
    second, third = variant(tmp_path / "b.db", first, 4), variant(tmp_path / "c.db", first, 4)
    one = merge_files([first, second], tmp_path / "ab.db")[1]
    left = merge_files([tmp_path / "ab.db", third], tmp_path / "ab_c.db")[1]
    merge_files([second, third], tmp_path / "bc.db")
    right = merge_files([first, tmp_path / "bc.db"], tmp_path / "a_bc.db")[1]
    assert left == right != one
    assert evidence(tmp_path / "ab_c.db") == evidence(tmp_path / "a_bc.db")


def test_own_version_stays_in_place_but_is_not_believed(tmp_path: Path) -> None:
    own = run(tmp_path / "a.db", 1)
    forged = variant(tmp_path / "b.db", own, 4)
    before = rows(own, "SELECT id, content_digest FROM attempts ORDER BY id")
    taken = import_file(own, forged)
    assert rows(own, "SELECT id, content_digest FROM attempts ORDER BY id") == before
    with Store.open(own) as store:
        items = store.recall(RecallQuery(text="variant of the loop", limit=50)).items
        standing = {item.experience.attempt_id: item.experience.standing for item in items}
    assert standing[taken.conflicts[0]] == "quarantined"
    assert {standing[name] for name, _ in before if name not in taken.conflicts} == {"own"}


def test_disagreeing_attempt_cannot_be_trusted(tmp_path: Path) -> None:
    own = run(tmp_path / "a.db", 1)
    import_file(own, variant(tmp_path / "b.db", own, 4), trusted=True)
    with pytest.raises(StoreError, match="none is believed"):
        trust_origin(own, "disagreeing files", "trusted")
    assert rows(own, f"SELECT trust FROM origins WHERE id = '{CONFLICT}'") == [("quarantined",)]


def test_forgotten_attempts_do_not_come_back(tmp_path: Path) -> None:
    own = run(tmp_path / "a.db", 1)
    import_file(own, variant(tmp_path / "b.db", own, 4))
    theirs = run(tmp_path / "c.db", 2)
    import_file(own, theirs)
    with Store.open(own) as store:
        store.forget(Selection(tasks=("rms_norm",)))
    assert rows(own, "SELECT count(*) FROM attempts") == [(0,)]
    assert rows(own, "SELECT count(*) FROM conflicts") == [(0,)]
    taken = import_file(own, theirs)
    assert (taken.new, taken.forgotten) == (0, 12)
    is_whole(own)


def test_reduced_copy_and_whole_one_come_to_the_whole_one(tmp_path: Path) -> None:
    whole = run(tmp_path / "a.db", 1)
    reduced, numbers = tmp_path / "reduced.db", tmp_path / "numbers.db"
    export_file(whole, reduced, Choice(), Form(code=False))
    export_file(whole, numbers, Choice(), Form(code=False, text=False))
    results = []
    for number, order in enumerate(itertools.permutations((whole, reduced, numbers))):
        place = tmp_path / f"m{number}.db"
        taken, found = merge_files(order, place)
        assert [each.conflicts for each in taken] == [[], [], []]
        is_whole(place)
        results.append((found, evidence(place), derived(place)))
    assert all(result == results[0] for result in results[1:])
    assert results[0][1] == evidence(whole)
    assert not rows(place, "SELECT 1 FROM attempts WHERE original_digest IS NOT NULL")


@st.composite
def shares(draw: st.DrawFn) -> list[list[tuple[int, str]]]:
    """What three files hold of eight attempts, each as it is, without code, without text, or in another version."""
    versions = st.sampled_from(("whole", "no code", "no text", "other"))
    return [sorted(draw(st.dictionaries(st.integers(0, 7), versions, min_size=1)).items()) for _ in range(3)]


@pytest.fixture(scope="module")
def universe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Eight attempts of one lineage, in every version, as exports."""
    folder = tmp_path_factory.mktemp("universe")
    whole = run(folder / "whole.db", 5, count=8)
    forms = {"whole": Form(), "no code": Form(code=False), "no text": Form(text=False)}
    made = {}
    for name, form in forms.items():
        made[name] = folder / f"{name}.db"
        if name != "whole":
            export_file(whole, made[name], Choice(), form)
    other = whole
    for place in range(8):
        other = variant(folder / f"other{place}.db", other, place)
    return {**made, "other": other}


def assembled(folder: Path, universe: dict[str, Path], number: int, share: Sequence[tuple[int, str]]) -> Path:
    """A file with some attempts in the given versions: parts of the exports, put together by SQLite alone."""
    place = folder / f"file{number}.db"
    export_file(universe["whole"], place, Choice(), Form())
    wide = [table for table in TABLES if table.name in ("candidates", "attempts", "attempt_texts", "case_results")]
    with closing(sqlite3.connect(place)) as connection:
        names = [name for (name,) in connection.execute("SELECT id FROM attempts ORDER BY seq")]
        for table in (table for table in reversed(TABLES) if table.name not in ("origins", "sessions", "tasks")):
            connection.execute(f"DELETE FROM {table.name}")
        for version in {version for _, version in share}:
            connection.execute("ATTACH ? AS v", (str(universe[version]),))
            origins = "INSERT OR IGNORE INTO origins SELECT * FROM v.origins"
            connection.execute(origins)
            for table in wide:
                chosen = [names[index] for index, of in share if of == version]
                marks = ", ".join("?" * len(chosen))
                where = {
                    "candidates": f"id IN (SELECT candidate_id FROM v.attempts WHERE id IN ({marks}))",
                    "attempts": f"id IN ({marks})",
                }.get(table.name, f"attempt_id IN ({marks})")
                columns = ", ".join(table.columns)
                found = f"SELECT {columns} FROM v.{table.name} WHERE {where}"
                connection.execute(f"INSERT OR IGNORE INTO {table.name} ({columns}) {found}", chosen)
            connection.commit()
            connection.execute("DETACH v")
    return place


UNSHRUNK = (Phase.explicit, Phase.generate)


@settings(max_examples=3, phases=UNSHRUNK)
@given(shares())
def test_merge_is_commutative_associative_and_idempotent(
    tmp_path_factory: pytest.TempPathFactory, universe: dict[str, Path], share: list[list[tuple[int, str]]]
) -> None:
    merge_in_all_ways(tmp_path_factory, universe, share)


@pytest.mark.slow
@settings(max_examples=60, phases=UNSHRUNK)
@given(shares())
def test_merge_is_commutative_associative_and_idempotent_60_times(
    tmp_path_factory: pytest.TempPathFactory, universe: dict[str, Path], share: list[list[tuple[int, str]]]
) -> None:
    merge_in_all_ways(tmp_path_factory, universe, share)


def merge_in_all_ways(
    tmp_path_factory: pytest.TempPathFactory, universe: dict[str, Path], share: list[list[tuple[int, str]]]
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    a, b, c = (assembled(folder, universe, number, part) for number, part in enumerate(share))
    results = []
    for name, order in (("abc", [a, b, c]), ("cba", [c, b, a]), ("bca", [b, c, a]), ("aabc", [a, a, b, c, b])):
        merge_files(order, folder / f"{name}.db")
        is_whole(folder / f"{name}.db")
        results.append(name)
    merge_files([b, c], folder / "bc.db")
    merge_files([a, folder / "bc.db"], folder / "a_bc.db")
    for name in (*results, "a_bc"):
        assert evidence(folder / f"{name}.db") == evidence(folder / "abc.db"), name
        assert derived(folder / f"{name}.db") == derived(folder / "abc.db"), name
    shutil.rmtree(folder)
