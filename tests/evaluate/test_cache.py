"""The cache stays bounded, and several processes may use it at once."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from kope.errors import MachineError
from kope.evaluate.cache import ContentCache


def put(cache: ContentCache, key: str, size_bytes: int = 1000, age_s: float = 0.0) -> Path:
    with cache.stage() as folder:
        (folder / "data.bin").write_bytes(b"x" * size_bytes)
        entry = cache.publish(folder, key)
    moment = time.time() - age_s
    os.utime(entry / ".used", (moment, moment))
    return entry


def test_an_entry_appears_whole_and_is_found(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path / "cache", 10_000)
    assert cache.find("a") is None
    entry = put(cache, "a")
    assert cache.find("a") == entry
    assert (entry / "data.bin").read_bytes() == b"x" * 1000
    assert [path.name for path in cache.folder.iterdir()] == ["a"]


def test_the_first_of_two_publishers_wins(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, 10_000)
    put(cache, "a", 10)
    put(cache, "a", 20)
    assert (tmp_path / "a" / "data.bin").stat().st_size == 10
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, 2500)
    for key, age_s in [("old", 9000), ("older", 10_000), ("newer", 8000), ("used", 11_000)]:
        put(cache, key, age_s=age_s)
    cache.find("used")
    cache.evict()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["newer", "used"]


def test_what_was_just_used_stays_although_the_limit_is_exceeded(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, 10)
    put(cache, "a")
    put(cache, "b", age_s=3600)
    cache.evict()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_a_killed_process_left_behind_is_removed_after_a_day(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, 10_000)
    for name in ("staging-old", "gone-old", "staging-new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.bin").touch()
        if name.endswith("old"):
            os.utime(tmp_path / name, (0, 0))
    cache.evict()
    assert [path.name for path in tmp_path.iterdir()] == ["staging-new"]


def test_nothing_is_left_when_preparing_fails(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, 10_000)
    with pytest.raises(RuntimeError), cache.stage() as folder:
        (folder / "part.bin").touch()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_the_machines_fault_in_one_line(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, 10_000)
    with pytest.raises(MachineError, match="No space left on device; free space or set another"), cache.stage():
        raise OSError(28, os.strerror(28))
    (tmp_path / "file").touch()
    with (
        pytest.raises(MachineError, match="free space or set another cache folder"),
        ContentCache(tmp_path / "file", 1).stage(),
    ):
        pass


def _hammer(folder: str, seed: int) -> None:
    cache = ContentCache(Path(folder), 3000)
    for round_number in range(60):
        key = f"k{(seed * 7 + round_number) % 8}"
        entry = cache.find(key)
        if entry is None:
            entry = put(cache, key, age_s=0)
        data = (entry / "data.bin").read_bytes()
        assert data == b"x" * 1000
        if round_number % 10 == 0:
            cache.evict()


def test_two_processes_never_see_half_an_entry(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_hammer, args=(str(tmp_path), seed)) for seed in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert {path.name for path in tmp_path.iterdir()} == {f"k{n}" for n in range(8)}
