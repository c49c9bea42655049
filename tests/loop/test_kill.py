"""Killed at any moment, a run loses at most the attempt in flight and resumes to the attempts of an undisturbed one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kope.memory import Store

ROOT = Path(__file__).parents[2]


@dataclass
class Runner:
    """Starts the program on a folder, to its end or to a kill."""

    kind: str
    cache: Path

    def start(self, folder: Path) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "tests.loop.killed_run", str(folder), self.kind, str(self.cache)]
        return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, folder: Path) -> tuple[list[str], float]:
        """Run to the end; return the attempts that were reported, and seconds from the beginning of the loop."""
        program = self.start(folder)
        assert program.stdout is not None
        assert program.stdout.readline() == "begin\n", program.communicate()[1]
        started = time.monotonic()
        out, err = program.communicate(timeout=300)
        assert program.returncode == 0, err
        return reported(out), time.monotonic() - started

    def kill(self, folder: Path, after_s: float, *, begun: bool) -> list[str]:
        """Kill it some time after it started, or after its loop began; return the attempts it had reported by then."""
        program = self.start(folder)
        assert program.stdout is not None
        if begun:
            program.stdout.readline()
        time.sleep(after_s)
        program.send_signal(signal.SIGKILL)
        return reported(program.communicate(timeout=60)[0])


def reported(out: str) -> list[str]:
    return [line.split()[1] for line in out.splitlines() if line.startswith("finished ")]


def facts(folder: Path) -> list[tuple[Any, ...]]:
    """What an attempt is, leaving out ids and clocks."""
    with Store.open(folder / "kope.db", read_only=True) as store:
        return [
            (
                a.iteration,
                a.candidate.id if a.candidate is not None else None,
                a.proposal.move,
                a.outcome.verdict,
                a.outcome.stage,
                a.outcome.times_us,
                a.speedup,
                a.step_ratio,
                a.promoted,
                a.repeated,
            )
            for a in store.attempts()
        ]


def hold(runner: Runner, folder: Path, kills: int, seed: int) -> None:
    """Kill runs `kills` times in all, each a few times before it may end, and hold every one to the promise."""
    rng = random.Random(seed)
    undisturbed = folder / "undisturbed"
    undisturbed.mkdir()
    _, seconds = runner.finish(undisturbed)
    expected = facts(undisturbed)
    done = 0
    while done < kills:
        place = folder / f"run-{done}"
        place.mkdir()
        said: list[str] = []
        for _ in range(min(rng.randint(1, 4), kills - done)):
            said += runner.kill(place, rng.uniform(0.0, seconds), begun=rng.random() < 0.8)
            done += 1
            check(place, said)
            if ended(place):
                break
        else:
            said += runner.finish(place)[0]
        check(place, said)
        assert facts(place) == expected


def check(place: Path, reported_ids: list[str]) -> None:
    """The database opens, is whole, and holds every attempt that was reported."""
    with Store.open(place / "kope.db") as store:
        assert store.check() == ()
        assert set(reported_ids) <= {attempt.id for attempt in store.attempts()}


def ended(place: Path) -> bool:
    """Whether a run came to its end before it was killed."""
    with Store.open(place / "kope.db", read_only=True) as store:
        sessions = store.sessions()
        assert len(sessions) <= 1, "a killed session was begun anew instead of resumed"
        return bool(sessions) and bool(sessions[0].ended_at)


@pytest.mark.parametrize("seed", [0])
def test_killed_runs_resume_to_the_same_attempts(tmp_path: Path, seed: int) -> None:
    hold(Runner("replay", tmp_path / "cache"), tmp_path, kills=15, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_killed_runs_resume_to_the_same_attempts_200_times(tmp_path: Path, seed: int) -> None:
    hold(Runner("replay", tmp_path / "cache"), tmp_path, kills=20, seed=seed)


@pytest.mark.slow
def test_killed_runs_on_the_twin_resume_to_the_same_attempts(tmp_path: Path, twin_cache: Path) -> None:
    hold(Runner("twin", twin_cache), tmp_path, kills=10, seed=0)
