"""The starter memory comes with KOPE, is read beside one's own when asked for, and never becomes part of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kope import config, wiring
from kope.cli import app
from kope.errors import ConfigError, MachineError
from kope.memory import MemoryMode, RecallQuery, Scope, Store, starter
from kope.memory.embedding import HashEmbedder
from kope.resources import shipped_tasks
from kope.target.twin import parameters
from tests.memory.samples import TWIN, attempt_of, begin, task_of, works


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all tests share, since unpacking takes a second."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def settings_of_our_own(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOPE_CACHE", str(unpacked))
    monkeypatch.setenv("KOPE_EMBEDDER", "none")


@pytest.fixture
def opened(unpacked: Path) -> Iterator[Store]:
    with starter.open_starter(unpacked) as store:
        yield store


def test_it_is_small_and_of_our_own_tasks_and_labelled(opened: Store) -> None:
    assert starter.PACKED.stat().st_size < 2_000_000
    info = opened.info()
    assert {task.name for task in info.tasks} == {place.name for place in shipped_tasks().iterdir() if place.is_dir()}
    assert [(origin.label, origin.trust) for origin in info.origins if origin.attempts] == [("starter", "trusted")]
    assert opened.check() == ()
    assert opened.read_only


def test_what_it_says_is_marked_as_its_own(opened: Store) -> None:
    found = opened.recall(RecallQuery(text="softmax over rows", limit=20))
    assert {item.experience.origin for item in found.items} == {"starter"}


def test_its_times_are_speed_on_the_parameter_set_they_were_modelled_with_and_nowhere_else(opened: Store) -> None:
    here = opened.hardware_tried_last()
    current = f"twin:{parameters.load(config.load().chip).label}"
    assert here == current, "the default parameter set has changed: make the file anew with scripts/starter"
    assert any(move.fast for move in opened.recall(RecallQuery(text="softmax", hardware=here)).moves)
    assert not any(move.fast for move in opened.recall(RecallQuery(text="softmax", hardware="twin:910b4:1")).moves)


def test_programs_that_start_at_once_share_what_is_unpacked(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        paths = set(pool.map(lambda _: open_and_close(tmp_path / "cache"), range(2)))
    assert [place.name for place in (tmp_path / "cache").iterdir()] == [path.name for path in paths]


def open_and_close(folder: Path) -> Path:
    with starter.open_starter(folder) as store:
        return store.path


def test_it_stands_beside_ones_own_experiences(opened: Store, path: Path) -> None:
    with Store.open(path, embedder=HashEmbedder()) as store:
        session = begin(store, task_of("softmax"))
        store.record(attempt_of(session, 1, works(), task=task_of("softmax"), thought="softmax over rows"))
        query = RecallQuery(text="softmax over rows", task_name="softmax", hardware=TWIN.hardware)
        alone = store.recall(query, Scope(MemoryMode.ON, session))
        both = store.recall(query, Scope(MemoryMode.ON, session, source=opened))
        assert {item.experience.origin for item in alone.items} == {""}
        assert {item.experience.origin for item in both.items} == {"", "starter"}
        assert len(both.moves) > len(alone.moves)
        assert store.recall(query, Scope(MemoryMode.ON, session)) == alone
        assert store.info().counts["attempts"] == 1


def test_a_session_has_it_when_it_asks_for_it(tmp_path: Path) -> None:
    settings = config.load({"db": tmp_path / "kope.db"})
    scope = wiring.scope(wiring.Plan(memory="starter"), "s", settings)
    assert scope.mode is MemoryMode.ON
    assert scope.source is not None
    scope.source.close()
    assert wiring.scope(wiring.Plan(), "s", settings).source is None


@pytest.mark.parametrize("memory", ["startre", "starter:x.db", "only:", "on:x.db"])
def test_a_memory_that_does_not_exist_is_refused_before_a_database_is_made(tmp_path: Path, memory: str) -> None:
    db = tmp_path / "new.db"
    done = CliRunner().invoke(app, ["optimize", "exp", "--memory", memory, "--db", str(db)])
    assert done.exit_code != 0
    assert "none of on, off, placebo, starter, only:FILE" in done.output
    assert not db.exists()


def test_who_has_no_database_yet_may_ask_it(tmp_path: Path) -> None:
    argv = ["recall", "softmax", "--db", str(tmp_path / "none.db"), "--json"]
    assert CliRunner().invoke(app, argv).exit_code != 0
    done = CliRunner().invoke(app, [*argv, "--starter"])
    assert done.exit_code == 0, done.output
    assert {item["origin"] for item in json.loads(done.stdout)["items"]} == {"starter"}
    assert not (tmp_path / "none.db").exists()


def test_every_embedder_finds_all_of_it(tmp_path: Path) -> None:
    for embedder in (HashEmbedder(64), HashEmbedder(32)):
        with starter.open_starter(tmp_path / "cache", embedder) as store:
            assert store.recall(RecallQuery(text="softmax over rows")).degraded == ""
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    place = open_and_close(tmp_path / "cache")
    place.write_bytes(b"gone")
    with starter.open_starter(tmp_path / "cache") as store:
        assert store.path == place
        assert store.check() == ()


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="KOPE_CACHE"):
        starter.open_starter(tmp_path / "file" / "cache")


def test_an_installation_without_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "PACKED", tmp_path / "starter.db.xz")
    with pytest.raises(ConfigError, match="install KOPE again"):
        starter.open_starter(tmp_path)
