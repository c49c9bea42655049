"""What recall reads first is derived: however it came about, it says what a full reading of the graph says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kope.memory import MemoryMode, RecallQuery, Scope, Selection, Store, index
from kope.memory.embedding import HashEmbedder
from kope.memory.image import Node
from kope.memory.learn import node_id_of
from kope.memory.moves import nearness
from kope.memory.outcome import is_failure, outcome_key
from kope.memory.query import Filters
from kope.memory.ranking import POOL, by_structure
from kope.memory.scope import view_of
from kope.memory.value import Tally, Values, key_of, purpose_of, was_helped
from kope.model import Attempt, Recall
from tests.memory.samples import OTHER, TWIN, attempt_of, begin, fails, grow, rows, task_of, works

TASKS = tuple(task_of(f"task_{n}", tags) for n, tags in enumerate((("rows",), ("rows", "sum"), ("flat",), ())))
EMBEDDER = HashEmbedder(128)


def filled(path: Path, count: int = 25, seed: int = 0) -> Path:
    """A database of random lineages on four operators and two chips, whose attempts used one another."""
    with Store.open(path, embedder=EMBEDDER) as store:
        session = begin(store, *TASKS)
        made = [
            each
            for number, task in enumerate(TASKS)
            for each in grow(store, session, count, task=task, seed=seed, fingerprint=(TWIN, OTHER)[number % 2])
        ]
        rng = random.Random(seed)
        for number in range(1000, 1000 + count):
            used = tuple(each.id for each in rng.sample(made, 3))
            store.record(attempt_of(session, number, rng.choice((works(), fails())), task=TASKS[0], used=used))
        store.distil()
    return path


def questions() -> list[RecallQuery]:
    return [
        RecallQuery(
            text=text,
            task_name=task,
            traits=traits,
            tags=("rows",),
            hardware=TWIN.hardware,
            filters=filters,
            explore=explore,
        )
        for text in ("variant of the loop over tiles", "task_2 over the last axis; ub-overflow")
        for task in ("", "task_1")
        for traits in ((), ("elementwise",))
        for filters in (Filters(), Filters(labels=("effective", "negative")))
        for explore in (None, 7)
    ]


def answers(store: Store) -> list[Recall]:
    return [store.recall(query) for query in questions()]


# --- equal to a full reading ----------------------------------------------------------------------------------------


def structure_of(store: Store, query: RecallQuery, nodes: list[Node]) -> list[tuple[str, float]]:
    """The ranking by structure, made from every node."""
    tags = {task.digest: task.tags for task in TASKS}
    groups: dict[tuple[str, str, str], list[Node]] = {}
    for node in nodes:
        groups.setdefault((node.task_digest or "", node.task_name, node.traits), []).append(node)
    ranked: list[tuple[str, float]] = []
    for group in sorted(groups, key=lambda group: (-nearness(group, tags, query), group)):
        share, room = min(2.0, nearness(group, tags, query)), POOL - len(ranked)
        if share <= 0.0 or room <= 0:
            break
        good = sorted((n for n in groups[group] if not is_failure(n)), key=lambda n: outcome_key(n, query.hardware))
        bad = sorted((n for n in groups[group] if is_failure(n)), key=lambda n: -n.seq)
        places = min(len(bad), max(room // 3, room - len(good)))
        ranked += [(node.id, share) for node in (*good[: room - places], *bad[:places])]
    return ranked


@pytest.mark.parametrize("seed", [1, 2])
def test_structure_ranks_as_if_every_node_had_been_looked_at(tmp_path: Path, seed: int) -> None:
    with Store.open(filled(tmp_path / "a.db", seed=seed)) as store:
        query = RecallQuery(task_name="task_1", tags=("rows", "sum"), hardware=TWIN.hardware)
        with store._database.reading():
            store._image.catch_up()
            view = view_of(store._image, Scope(), "")
            assert by_structure(store._image, view, query) == structure_of(store, query, store._image.everything())


@pytest.mark.parametrize("seed", [1, 2])
def test_values_are_those_of_all_attempts_counted_one_by_one(tmp_path: Path, seed: int) -> None:
    with Store.open(filled(tmp_path / "a.db", seed=seed)) as store, store._database.reading() as connection:
        image = store._image
        image.catch_up()
        nodes = {node.id: node for node in image.everything()}
        counted, keys = Values(), {}
        for node in nodes.values():
            if node.verdict is not None:
                parent = nodes.get(image.parent(node.id) or "")
                purpose = purpose_of(parent is not None, parent.verdict if parent is not None else None)
                helped = was_helped(purpose, node.verdict, node.step_ratio, node.time_kind)
                keys[node.id] = key_of(purpose, node.hardware), helped
                counted.all.setdefault(keys[node.id][0], Tally()).add(helped)
        for src, dst in connection.execute("SELECT src, dst FROM edges WHERE kind = 'used'"):
            counted.of.setdefault(dst, {}).setdefault(keys[src][0], Tally()).add(keys[src][1])
        found = image.values(nodes)
        assert found.all == counted.all
        assert {name: of for name, of in found.of.items() if of} == counted.of
        assert len(counted.of) > 20


# --- however it came about ------------------------------------------------------------------------------------------


def test_whoever_recorded_and_whoever_opens_the_file_later_recall_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts fill several ranges of codes; the one that recorded them has read along all the time."""
    monkeypatch.setattr(index, "RANGE", 100)
    path = tmp_path / "a.db"
    with Store.open(path, embedder=EMBEDDER) as store:
        session = begin(store, *TASKS)
        for number, task in enumerate(TASKS):
            grow(store, session, 75, task=task, seed=number)
            store.recall(questions()[0])
        store.distil()
        along = answers(store)
    with Store.open(path, embedder=EMBEDDER) as store:
        assert answers(store) == along
        assert store.check() == ()
    assert rows(path, "SELECT count(*) > 0 FROM codes") == [(1,)]


def forgotten(store: Store) -> None:
    store.forget(Selection(tasks=("task_2",)))


def reembedded(store: Store) -> None:
    store.embedder = HashEmbedder(64)
    store.reembed()


def wiped(store: Store) -> None:
    with store._database.write() as connection:
        index.clear(connection)
        index.extend(connection)


@pytest.mark.parametrize("change", [forgotten, reembedded, wiped])
def test_after_any_change_it_is_what_a_new_file_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Store], None]
) -> None:
    monkeypatch.setattr(index, "RANGE", 30)
    path = filled(tmp_path / "a.db")
    with Store.open(path, embedder=EMBEDDER) as store:
        change(store)
        before = answers(store)
        assert store.check() == ()
    with Store.open(path, embedder=store.embedder) as store:
        assert answers(store) == before


def test_a_file_that_never_had_it_is_read_as_well(tmp_path: Path) -> None:
    """As exports have none; nothing is written to a file that may not be written."""
    path = filled(tmp_path / "a.db")
    with Store.open(path, embedder=EMBEDDER) as store:
        wanted = answers(store)
        with store._database.write() as connection:
            index.clear(connection)
    with Store.open(path, embedder=EMBEDDER, read_only=True) as store:
        assert answers(store) == wanted
    assert rows(path, "SELECT count(*) FROM places") == [(0,)]
    with Store.open(path, embedder=EMBEDDER) as store:
        assert answers(store) == wanted
        assert store.check() == ()
    assert rows(path, "SELECT count(*) = (SELECT count(*) FROM nodes) FROM places") == [(1,)]


@pytest.mark.parametrize(
    ("damage", "table"),
    [
        ("UPDATE places SET purpose = 'draft', helped = 1 WHERE seq = 7", "places"),
        ("UPDATE places SET scene = (SELECT max(seq) FROM scenes) WHERE seq = 3", "places"),
        ("DELETE FROM places WHERE seq = 5", "places"),
        ("UPDATE tallies SET helped = helped + 1", "tallies"),
        ("UPDATE codes SET signs = zeroblob(length(signs))", "codes"),
    ],
)
def test_what_is_wrong_in_it_is_found_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, table: str
) -> None:
    from kope.memory.repair import repair

    monkeypatch.setattr(index, "RANGE", 30)
    path = filled(tmp_path / "a.db")
    with Store.open(path, embedder=EMBEDDER) as store, store._database.write() as connection:
        connection.execute(damage)
    with Store.open(path) as store:
        assert [(p.kind, f"table {table} " in p.message) for p in store.check()] == [("derived", True)]
    assert repair(path).how == "rebuilt"
    with Store.open(path) as store:
        assert store.check() == ()


def test_a_placebo_shows_nothing_of_a_distrusted_file(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    with Store.open(path) as store, store._database.write() as connection:
        connection.execute("INSERT INTO origins VALUES (?, 'bad', 'distrusted', '')", ("f" * 32,))
        connection.execute("UPDATE nodes SET origin_id = ? WHERE task_name = 'task_1'", ("f" * 32,))
    with Store.open(path) as store:
        found = store.recall(RecallQuery(text="task_1", task_name="task_1"), Scope(MemoryMode.PLACEBO, "nobody"))
        assert found.items
        assert {item.experience.task_name for item in found.items} & {"task_1"} == set()


@pytest.mark.parametrize("seed", range(2))
def test_whoever_reads_along_sees_what_whoever_opens_it_now_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever is recorded, distilled, forgotten or retired meanwhile: numbers of rows that went come again."""
    monkeypatch.setattr(index, "RANGE", 7)
    path, rng = tmp_path / "a.db", random.Random(seed)
    queries = [replace(query, limit=5) for query in questions()[::5]]
    with Store.open(path, embedder=EMBEDDER) as writer, Store.open(path, embedder=EMBEDDER) as along:
        session = begin(writer, *TASKS)
        alive: list[Attempt] = []
        for number in range(60):
            step = rng.random()
            if step < 0.75 or len(alive) < 3:
                parent = rng.choice([None, *alive[-4:]])
                task = next(t for t in TASKS if t.name == parent.task_name) if parent else rng.choice(TASKS)
                speedup = rng.choice((0.0, 0.5, 1.0, 1.6))
                made = attempt_of(
                    session,
                    number,
                    works(1.0 / speedup) if speedup else fails(rng.choice(("ub-overflow", "wrong-value"))),
                    task=task,
                    parent=parent,
                    move=rng.choice(("double-buffer", "longer-tile")),
                    used=tuple(rng.sample([node_id_of(each.id) for each in alive], min(2, len(alive)))),
                    speedup=speedup,
                    plan={"tile": rng.choice((1024, 2048))},
                )
                writer.record(made)
                alive += [made] if speedup else []
            elif step < 0.9:
                writer.distil()
            elif step < 0.95:
                writer.retire(node_id_of(rng.choice(alive).id), rng.choice((True, None)))
            else:
                gone = writer.forget(Selection(experiences=(rng.choice(alive).id,)))
                alive = [each for each in alive if each.id not in gone.attempts]
            if number % 4 == 0:
                with Store.open(path, embedder=EMBEDDER) as fresh:
                    assert [along.recall(query) for query in queries] == [fresh.recall(query) for query in queries]
        assert writer.check() == ()
