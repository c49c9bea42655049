"""The build cache: entries are whole or absent, made once among processes, pruned when old."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from pathlib import Path

import pytest

from kope import process
from kope.errors import MachineError
from kope.target.twin.cache import BuildCache, digest

MAKER = """
import sys, time, pathlib
from kope.target.twin.cache import BuildCache

def fill(folder):
    with open(sys.argv[2], "a") as log:
        log.write("made\\n")
    (folder / "first").write_text("1")
    time.sleep(0.3)
    (folder / "second").write_text("2")

folder = BuildCache(pathlib.Path(sys.argv[1])).make("runtime", "abc", fill)
assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]
"""


def test_two_processes_make_an_entry_once(tmp_path: Path) -> None:
    codes: list[int] = []

    def one() -> None:
        done = process.run([sys.executable, "-c", MAKER, str(tmp_path / "c"), str(tmp_path / "log")], timeout_s=60.0)
        codes.append(done.returncode)

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0]
    assert (tmp_path / "log").read_text() == "made\n"


def test_a_failed_fill_leaves_nothing(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)

    def fill(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        cache.make("candidate", "k", fill)
    assert cache.find("candidate", "k") is None
    assert list((tmp_path / "scratch").iterdir()) == []


def test_old_entries_go_first_and_fresh_ones_stay(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path, max_bytes=2500)
    for index in range(5):
        folder = cache.make("candidate", f"k{index}", lambda folder: (folder / "f").write_bytes(b"x" * 1000) and None)
        age_s = 7200.0 * (5 - index) if index < 3 else 0.0
        os.utime(folder, (time.time() - age_s, time.time() - age_s))
    assert cache.prune("candidate") == 3
    assert [cache.find("candidate", f"k{index}") is not None for index in range(5)] == [False, False, False, True, True]
    cache.max_bytes = 0
    assert cache.prune("candidate") == 0


def test_use_counts_as_fresh(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    folder = cache.make("candidate", "k", lambda folder: None)
    os.utime(folder, (1.0, 1.0))
    assert cache.find("candidate", "k") == folder
    assert folder.stat().st_mtime > 1.0


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(MachineError, match="cannot be written"):
        BuildCache(tmp_path / "c").make("candidate", "k", lambda folder: None)


def test_a_file_in_the_way_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("")
    with pytest.raises(MachineError, match=r"build cache .* cannot be written"):
        BuildCache(tmp_path / "c").make("candidate", "k", lambda folder: None)


def test_compilers_under_another_id_can_reach_their_folder_in_a_private_cache(tmp_path: Path) -> None:
    root = tmp_path / "c"
    before = os.umask(0o077)
    try:
        with BuildCache(root).scratch() as folder:
            modes = [stat.S_IMODE(place.stat().st_mode) for place in (root, folder.parent, folder)]
    finally:
        os.umask(before)
    assert modes == [0o711, 0o711, 0o711]


def test_digest_frames_its_parts() -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest([b"ab"]) == digest(["ab"])
