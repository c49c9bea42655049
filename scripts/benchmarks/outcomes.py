"""Outcomes kept on disk by content, so that a benchmark judges the same candidate once however many arms propose it.

An evaluator like any other from outside. What it returns is what the evaluator behind it would have returned: whether
an outcome is of the small cases or in full depends on `promote`, so the two are kept apart.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kope.model import Candidate, Evaluator, Fingerprint, Outcome, Task


@dataclass
class OutcomeCache:
    """kope.model.Evaluator in front of another one. wall_s: time spent judging; saved_s: time not spent again."""

    judge: Evaluator
    fingerprint: Fingerprint
    folder: Path
    judged: int = 0
    reused: int = 0
    wall_s: float = 0.0
    saved_s: float = 0.0

    def evaluate(
        self, task: Task, candidate: Candidate, workdir: Path, *, promote: Callable[[Mapping[str, float]], bool]
    ) -> Outcome:
        """Return the kept outcome of this candidate, or judge it and keep what came out."""
        key = hashlib.sha256(f"{task.digest}\0{candidate.id}\0{self.fingerprint}".encode()).hexdigest()
        kept = self._read(key)
        timed = next((outcome for outcome in kept.values() if outcome.times_us), None)
        found = kept.get(_kind(promote(timed.times_us))) if timed is not None else kept.get("untimed")
        if found is not None:
            self.reused += 1
            self.saved_s += found.wall_s
            return found
        asked: list[bool] = []

        def remember(times_us: Mapping[str, float]) -> bool:
            asked.append(promote(times_us))
            return asked[-1]

        outcome = self.judge.evaluate(task, candidate, workdir, promote=remember)
        self.judged += 1
        self.wall_s += outcome.wall_s
        self._write(key, {**kept, _kind(asked[-1]) if asked else "untimed": outcome})
        return outcome

    def _read(self, key: str) -> dict[str, Outcome]:
        file = self.folder / key[:2] / key
        if not file.is_file():
            return {}
        kept: dict[str, Outcome] = pickle.loads(file.read_bytes())
        return kept

    def _write(self, key: str, kept: dict[str, Outcome]) -> None:
        file = self.folder / key[:2] / key
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_bytes(pickle.dumps(kept))
        scratch.replace(file)


def _kind(promoted: bool) -> str:
    return "full" if promoted else "small"
