"""What wiring decides by itself: keys, and what is left of killed runs."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kope import config, wiring
from kope.errors import ConfigError
from kope.model import Candidate


def test_what_a_killed_run_left_is_removed_after_a_day_and_not_before(tmp_path: Path) -> None:
    settings = replace(config.load(), cache=tmp_path)
    assert wiring.work_folder(settings) == tmp_path / "work"
    old, new, other = (tmp_path / "work" / name for name in ("attempt-old", "attempt-new", "kept"))
    for folder in (old, new, other):
        (folder / "inside").mkdir(parents=True)
    two_days_ago = time.time() - 2 * 24 * 3600
    for folder in (old, other):
        os.utime(folder, (two_days_ago, two_days_ago))
    wiring.work_folder(settings)
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["attempt-new", "kept"]


def test_limits_and_jobs_are_no_part_of_the_key_and_a_given_kernel_is() -> None:
    plan = wiring.Plan()
    assert plan.key() == {"proposer": "search", "model": None, "command": None, "memory": "on", "seed": 0}
    given = replace(plan, baseline=Candidate.of("x"))
    assert given.key() == {**plan.key(), "baseline": Candidate.of("x").id}


@pytest.mark.parametrize("memory", ["", "sometimes", "on:file", "only", "only:"])
def test_memory_mode_that_is_none_is_refused(memory: str) -> None:
    with pytest.raises(ConfigError, match="on, off, placebo, starter, only:FILE"):
        wiring.scope(wiring.Plan(memory=memory), "s", config.load())
