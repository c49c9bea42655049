"""Files of others: whatever was done to them, they are refused in a line or only what is sound of them comes in."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kope.memory import Store
from kope.memory.embedding import HashEmbedder
from kope.memory.share import Choice, Form, export_file
from tests.memory.hostile import TRICKS
from tests.memory.samples import begin, grow, rows, task_of

ROOT = Path(__file__).parents[2]
MEMORY_MB = 500


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A whole kope.db of another person, the export of it, and a database of one's own."""
    folder = tmp_path_factory.mktemp("bases")
    for name, seed in (("plain", 1), ("own", 2)):
        with Store.open(folder / name, embedder=HashEmbedder(16)) as store:
            session_id = begin(store, task_of(), key=name)
            grow(store, session_id, 8, seed=seed)
            store.end_session(session_id, "iterations")
    export_file(folder / "plain", folder / "export", Choice(), Form())
    return {name: folder / name for name in ("plain", "own", "export")}


def take_all(pairs: Sequence[tuple[Path, Path]], cwd: Path) -> list[dict[str, Any]]:
    """What a process that takes files into databases says of each; it has to come to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.memory.taker"],
        input="\n".join(f"{own}\t{file}" for own, file in pairs),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(cwd), "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def only_sound_rows_in_quarantine(own: Path, before: Path) -> None:
    """What is new in a database is under an origin that is not believed, and all of it is what its ids say."""
    with Store.open(own, create=False) as store:
        assert store.check() == ()
    known = set(rows(before, "SELECT id, content_digest, origin_id FROM attempts"))
    now = set(rows(own, "SELECT id, content_digest, origin_id FROM attempts"))
    assert known <= now
    believed = {name for (name,) in rows(own, "SELECT id FROM origins WHERE trust IN ('own', 'trusted')")}
    assert {origin for _, _, origin in now - known} & believed == set()


def test_there_are_forty_tricks() -> None:
    assert len(TRICKS) >= 40
    assert len({hostile.name for hostile in TRICKS}) == len(TRICKS)


def test_every_trick_ends_in_a_line_or_in_quarantine(bases: dict[str, Path], tmp_path: Path) -> None:
    files, scratch = tmp_path / "files", tmp_path / "scratch"
    files.mkdir()
    scratch.mkdir()
    for hostile in TRICKS:
        shutil.copy(bases[hostile.base], files / hostile.name)
        hostile.play(files / hostile.name)
    own = Path(shutil.copy(bases["own"], tmp_path / "kope.db"))
    refused = [hostile for hostile in TRICKS if hostile.refused]
    told = take_all([(own, files / hostile.name) for hostile in refused], scratch)
    for hostile, said in zip(refused, told, strict=True):
        assert "taken" not in said, f"{hostile.name}: {said}"
        assert hostile.says in said["says"], f"{hostile.name}: {said['says']}"
        assert "\n" not in said["says"] and "\x1b" not in said["says"]
        assert len(said["says"]) < 400 + len(str(files))
    assert own.read_bytes() == bases["own"].read_bytes()
    assert told[-1]["peak_mb"] < MEMORY_MB
    taken = [hostile for hostile in TRICKS if not hostile.refused]
    own_files = [Path(shutil.copy(bases["own"], files / f"{hostile.name}.own")) for hostile in taken]
    told = take_all([(own, files / hostile.name) for own, hostile in zip(own_files, taken, strict=True)], scratch)
    for hostile, own, said in zip(taken, own_files, told, strict=True):
        assert hostile.says in said["says"], f"{hostile.name}: {said}"
        only_sound_rows_in_quarantine(own, bases["own"])
    assert told[-1]["peak_mb"] < MEMORY_MB
    assert list(scratch.iterdir()) == []
    assert sorted(place.name for place in tmp_path.iterdir()) == ["files", "kope.db", "scratch"]


# --- mutations ------------------------------------------------------------------------------------------------------


def mutated(source: Path, place: Path, seed: int) -> Path:
    """A copy in which something was changed at random: bytes, whole pages, or values of rows."""
    rng = random.Random(seed)
    shutil.copy(source, place)
    if rng.random() < 0.5:
        _mutate_bytes(place, rng)
    else:
        _mutate_rows(place, rng)
    return place


def _mutate_bytes(place: Path, rng: random.Random) -> None:
    data = bytearray(place.read_bytes())
    match rng.randrange(4):
        case 0:
            for _ in range(rng.choice((1, 3, 30))):
                data[rng.randrange(len(data))] = rng.randrange(256)
        case 1:  # the first bytes of a page: its kind, its cells
            page = rng.randrange(len(data) // 4096)
            data[page * 4096 + rng.randrange(12)] ^= 1 << rng.randrange(8)
        case 2:  # two pages exchanged
            a, b = (rng.randrange(1, len(data) // 4096) * 4096 for _ in range(2))
            data[a : a + 4096], data[b : b + 4096] = data[b : b + 4096], data[a : a + 4096]
        case _:
            start = rng.randrange(100, len(data))
            data[start : start + rng.randrange(1, 5000)] = rng.randbytes(rng.randrange(1, 5000))
    place.write_bytes(data)


_TABLES = ("origins", "sessions", "tasks", "candidates", "attempts", "attempt_texts", "case_results", "nodes", "edges")
_VALUES: tuple[Any, ...] = (
    None, "", "x", "\x00", "🦀" * 50, "[]", "{}", '{"a":1e999}', "[[[[1]]]]", "NaN", b"",
    b"x\x9c\x03\x00\x00\x00\x00\x01",
    0, -1, 2**62, 1e308, -0.0, float("inf"), "' OR 1 = 1 --", "quarantined", "own", "verified", "0" * 64, "a" * 32,
)  # fmt: skip


def _mutate_rows(place: Path, rng: random.Random) -> None:
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(rng.choice((1, 2, 5))):
            table = rng.choice(_TABLES)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            keys = [row[0] for row in connection.execute(f"SELECT {columns[0]} FROM {table}")]
            try:
                if rng.random() < 0.1:
                    connection.execute(f"DELETE FROM {table} WHERE {columns[0]} = ?", (rng.choice(keys),))
                else:
                    change = f"UPDATE OR REPLACE {table} SET {rng.choice(columns)} = ? WHERE {columns[0]} = ?"
                    connection.execute(change, (rng.choice(_VALUES), rng.choice(keys)))
            except (sqlite3.Error, IndexError):
                continue  # not even SQLite takes it


def hold(bases: dict[str, Path], tmp_path: Path, seeds: range) -> dict[str, int]:
    """Take mutated files in; returns how many were refused and taken."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    counts = {"refused": 0, "taken": 0}
    own = tmp_path / "kope.db"
    shutil.copy(bases["own"], own)
    batch = [mutated(bases["plain" if seed % 3 == 0 else "export"], tmp_path / f"m{seed}.db", seed) for seed in seeds]
    told = take_all([(own, file) for file in batch], scratch)
    assert len(told) == len(batch)
    for said in told:
        counts["taken" if "taken" in said else "refused"] += 1
        assert "\n" not in said["says"]
        assert said["peak_mb"] < MEMORY_MB
    only_sound_rows_in_quarantine(own, bases["own"])
    assert list(scratch.iterdir()) == []
    refused = [file for file, said in zip(batch, told, strict=True) if "taken" not in said]
    shutil.copy(bases["own"], own)
    take_all([(own, file) for file in refused], scratch)
    assert own.read_bytes() == bases["own"].read_bytes()
    for file in batch:
        file.unlink()
    return counts


def test_mutated_files_are_refused_or_come_in_sound(bases: dict[str, Path], tmp_path: Path) -> None:
    counts = hold(bases, tmp_path, range(60))
    assert min(counts.values()) > 10


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_two_thousand_mutated_files(bases: dict[str, Path], tmp_path: Path, part: int) -> None:
    hold(bases, tmp_path, range(1000 + 100 * part, 1100 + 100 * part))
