"""Cases are prepared once per content, and never trusted when their files changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kope.errors import MachineError
from kope.evaluate import CaseLibrary, capacity
from kope.model import Task


def test_inputs_and_outputs_are_files_in_separate_trees(task: Task, library: CaseLibrary) -> None:
    first = library.prepare(task, task.cases)[0]
    assert first.inputs[0] is not None and first.inputs[0].path is not None and first.wants[0].path is not None
    x = np.fromfile(first.inputs[0].path, np.float32).reshape(40, 100)
    assert np.array_equal(np.fromfile(first.wants[0].path, np.float64).reshape(40, 100), 2.0 * x)
    assert library.inputs.folder in first.inputs[0].path.parents
    assert library.wants.folder in first.wants[0].path.parents
    assert library.inputs.folder not in library.wants.folder.parents


def test_a_second_time_nothing_is_run(task: Task, library: CaseLibrary) -> None:
    first = library.prepare(task, task.cases)
    assert len(library.runner.steps) == 1
    assert library.prepare(task, task.cases) == first
    assert library.prepare(task, task.cases[2:]) == first[2:]
    assert len(library.runner.steps) == 1


def test_only_what_changed_is_made_anew(task: Task, make_task: Callable[..., Task], library: CaseLibrary) -> None:
    before = library.prepare(task, task.cases)
    tolerant = make_task(("inputs =", "tolerance = { float32 = { rtol = 1e-2 } }\ninputs ="))
    assert tolerant.digest != task.digest
    assert library.prepare(tolerant, tolerant.cases) == before
    one_more = make_task(("[64]", "[65]"))
    changed = library.prepare(one_more, one_more.cases)
    assert [new == old for new, old in zip(changed, before, strict=True)] == [True, False, True, True, True]
    other = make_task(("return 2 * x", "return x + x + 1"))
    again = library.prepare(other, other.cases)
    assert [case.input_hash for case in again] == [case.input_hash for case in before]
    assert all(new.want_hash != old.want_hash for new, old in zip(again, before, strict=True))


def test_another_seed_gives_other_values(task: Task, library: CaseLibrary) -> None:
    one, other = (library.prepare(task, task.cases[:1], seed)[0] for seed in (0, 1))
    assert one.input_hash != other.input_hash
    assert one.want_hash != other.want_hash


@pytest.mark.parametrize("which", ["input", "want"])
def test_a_file_that_was_changed_or_cut_is_made_anew(task: Task, library: CaseLibrary, which: str) -> None:
    first = library.prepare(task, task.cases[:1])[0]
    path = first.inputs[0].path if which == "input" else first.wants[0].path  # type: ignore[union-attr]
    assert path is not None
    good = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(bytes(len(good)))
    assert library.untouched(first) is (which == "want")
    again = library.prepare(task, task.cases[:1])[0]
    assert again == first
    assert path.read_bytes() == good
    path.chmod(0o644)
    path.write_bytes(good[:-1])
    library.prepare(task, task.cases[:1])
    assert path.read_bytes() == good


def test_a_case_too_large_for_memory_is_refused_before_it_is_allocated(
    make_task: Callable[..., Task], library: CaseLibrary
) -> None:
    huge = make_task(("[40, 100]", "[1000000, 1000000]"), name="huge")
    with pytest.raises(
        MachineError, match=r"case 1 of huge needs about \d+\.\d GiB of memory .* is available; make its shape"
    ):
        library.prepare(huge, huge.cases)


def test_a_case_too_large_for_the_disk_is_refused(tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1000})())
    with pytest.raises(
        MachineError, match=r"case 1 of double needs about 0.0 GiB of disk, 0.0 GiB is free in .*; free some"
    ):
        capacity.require_room("double", task.cases[0], tmp_path)


def test_memory_is_the_smaller_of_machine_and_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    2048 kB\n"}
    monkeypatch.setattr(capacity, "_read", lambda path: files.get(path, ""))
    assert capacity.available_memory_bytes() == 2 << 20
    files |= {"/sys/fs/cgroup/memory.max": "1048576\n", "/sys/fs/cgroup/memory.current": "1000000\n"}
    assert capacity.available_memory_bytes() == 48_576
    files |= {"/sys/fs/cgroup/memory.max": "max\n"}
    assert capacity.available_memory_bytes() == 2 << 20
