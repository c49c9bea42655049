"""A suite run keeps every result, goes on after a kill to the results of an undisturbed one, and stops cleanly."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kope import wiring
from kope.cli import app
from kope.errors import MachineError
from kope.loop import Limits
from kope.memory import Store, embedding
from kope.model import Anchor, Origin, Task
from kope.propose.replay import ReplayProposer
from kope.suite.record import RunFolder
from kope.suite.run import Progress, in_order, listed_tasks, open_run, restricted, run_suite
from kope.suite.work import chosen
from kope.target.replay import ReplayTarget, outputs_of
from kope.task import load_task
from tests.documents import parsed
from tests.replay_task import marked, replay_target, write_task

ROOT = Path(__file__).parents[2]
SOURCES = [marked(10), marked(1, "wrong"), marked(5)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reference outputs, by content; the same for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with tasks, a database to come, and the replay target in place of the twin."""
    for name in ("double", "twice", "again"):
        write_task(tmp_path / "tasks", name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOPE_CACHE", str(cache))
    monkeypatch.setattr(wiring, "target", lambda settings, *, progress=None: replay_target())
    monkeypatch.setattr(embedding, "find_embedder", embedding.HashEmbedder)
    propose(monkeypatch, SOURCES)
    return tmp_path


def propose(monkeypatch: pytest.MonkeyPatch, sources: Sequence[str]) -> None:
    monkeypatch.setattr(wiring, "proposer", lambda plan, settings, **more: ReplayProposer(sources))


def kope(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["suite", *arguments])
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done


def test_a_run_keeps_a_result_and_a_kernel_for_every_task(place: Path) -> None:
    (place / "list.txt").write_text("# our tasks\ntasks/double\ntasks/twice  # the same\n\n")
    done = kope("run", "list.txt", "tasks/again", "--out", "run", "--iterations", "3", "-j", "2")
    assert sorted(line.split(": ")[1].split(",")[0] for line in done.stderr.splitlines()) == ["5/5 cases"] * 3
    assert done.stdout.splitlines()[-1] == "Next: kope suite compare run"
    run = RunFolder.open(place / "run")
    assert sorted(run.records) == ["again", "double", "twice"]
    record = run.records["double"]
    assert (record.attempts, record.compiled, record.verdict, record.stop) == (3, True, "verified", "iterations")
    assert [(case.case, case.passed, case.official, case.time_us, case.nulls) for case in record.cases] == [
        (str(number), True, None, 5.0, ()) for number in range(1, 6)
    ]
    assert run.kernel("double") == marked(5)
    with Store.open(place / "kope.db", read_only=True) as store:
        assert [session.end_reason for session in store.sessions()] == ["iterations"] * 3


def test_a_finished_run_is_not_repeated(place: Path) -> None:
    words = ("run", "tasks/double", "--out", "run", "--iterations", "3")
    kope(*words)
    again = kope(*words, "--json")
    document = parsed(again.stdout, "suite_run")
    assert (again.stderr, [task["attempts"] for task in document["tasks"]]) == ("", [3])
    with Store.open(place / "kope.db", read_only=True) as store:
        assert len(store.sessions()) == 1


def test_another_question_needs_another_folder(place: Path) -> None:
    kope("run", "tasks/double", "--out", "run", "--iterations", "3")
    done = kope("run", "tasks/double", "--out", "run", "--iterations", "4", "--memory", "off", code=1)
    assert "run is a run with other settings (iterations, memory)" in done.stderr
    (place / "other").mkdir()
    (place / "other" / "notes").touch()
    assert "not empty and no suite run" in kope("run", "tasks/double", "--out", "other", code=1).stderr


def test_the_arms_of_a_comparison_start_alike(place: Path) -> None:
    """Two runs on one database with memory off: neither goes on from the other's kernel."""
    for name in ("one", "two"):
        kope("run", "tasks/double", "--out", name, "--iterations", "2", "--memory", "off", "--system", name)
    runs = [RunFolder.open(place / name) for name in ("one", "two")]
    assert [run.records["double"].attempts for run in runs] == [2, 2]
    assert [run.info.system for run in runs] == ["one", "two"]
    assert runs[0].info.id != runs[1].info.id


def test_a_kernel_that_is_right_on_some_cases_counts_for_those(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = ReplayTarget(outputs_of(lambda x: 2 * x if x.size < 3000 else 0 * x, ("x",)))
    monkeypatch.setattr(wiring, "target", lambda settings, *, progress=None: half)
    propose(monkeypatch, [marked(7, "fail=ub-overflow"), marked(7), "no answer\n"])
    kope("run", "tasks/double", "--out", "run", "--iterations", "3")
    record = RunFolder.open(place / "run").records["double"]
    assert (record.verdict, record.compiled, record.reason) == (
        "failed",
        True,
        "no answer for this candidate",
    )
    assert {case.case: (case.passed, case.note) for case in record.cases} == {
        **{number: (True, "") for number in ("2", "3", "4")},
        **{number: (False, "wrong-value") for number in ("1", "5")},
    }
    assert RunFolder.open(place / "run").kernel("double") == marked(7)


def test_a_task_that_cannot_be_worked_on_does_not_end_the_run(place: Path) -> None:
    reference = place / "tasks" / "double" / "reference.py"
    good = reference.read_text()
    reference.write_text("def reference(x):\n    raise ValueError('not today')\n")
    done = kope("run", "tasks/double", "tasks/twice", "--out", "run", "--iterations", "3", code=1)
    assert "double: " in done.stderr and "not today" in done.stderr
    run = RunFolder.open(place / "run")
    assert [(name, bool(record.problem), record.passed_count) for name, record in sorted(run.records.items())] == [
        ("double", True, 0),
        ("twice", False, 5),
    ]
    reference.write_text(good)
    assert (
        "other settings (tasks)" in kope("run", "tasks/double", "tasks/twice", "--out", "run", "-n", "3", code=1).stderr
    )


def test_problems_are_tried_again_on_demand(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kope.errors import ReferenceError_

    def fails(*_: Any, **__: Any) -> Any:
        raise ReferenceError_("a bad day")

    words = ("run", "tasks/double", "--out", "run", "--iterations", "3")
    with monkeypatch.context() as patch:
        patch.setattr("kope.suite.work.optimize", fails)
        kope(*words, code=1)
    assert "a bad day" in kope(*words, code=1).stdout
    kope(*words, "--retry")
    assert RunFolder.open(place / "run").records["double"].passed_count == 5


def settings_and_tasks(place: Path) -> tuple[Any, list[Task]]:
    from kope import config

    tasks = [load_task(place / "tasks" / name) for name in ("double", "twice", "again")]
    return config.load({"db": place / "kope.db", "jobs": 1}), tasks


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_run_keeps_what_is_finished_and_goes_on(place: Path, jobs: int) -> None:
    settings, tasks = settings_and_tasks(place)
    settings = replace(settings, jobs=jobs)
    plan, limits = wiring.Plan(), Limits(iterations=3)
    run = open_run(place / "run", tasks, plan, limits, settings)

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    assert run_suite(run, tasks, plan, limits, settings, interrupt) is False
    kept = RunFolder.open(place / "run")
    assert 1 <= len(kept.records) < 3
    said: list[Progress] = []
    again = open_run(place / "run", tasks, plan, limits, settings)
    assert run_suite(again, tasks, plan, limits, settings, said.append) is True
    assert [progress.done for progress in said] == list(range(len(kept.records) + 1, 4))
    assert said[-1].left_s == 0.0
    assert sorted(RunFolder.open(place / "run").records) == ["again", "double", "twice"]


def test_what_the_machine_is_to_blame_for_ends_the_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, tasks = settings_and_tasks(place)
    plan, limits = wiring.Plan(), Limits(iterations=3)
    run = open_run(place / "run", tasks, plan, limits, settings)

    def full(*_: Any, **__: Any) -> Any:
        raise MachineError("the disk is full; free some")

    monkeypatch.setattr("kope.suite.work.optimize", full)
    with pytest.raises(MachineError, match="the disk is full"):
        run_suite(run, tasks, plan, limits, settings, lambda progress: None)
    assert run.records == {}


def test_tasks_go_from_easy_to_hard(place: Path) -> None:
    _, (double, twice, again) = settings_and_tasks(place)

    def at(task: Task, level: str) -> Task:
        return replace(task, origin=Origin("s", "1", task.name, level, task.name, Path(), {}, (), {}))

    small = replace(again, cases=again.cases[1:3])
    assert [task.name for task in in_order([at(double, "L2"), at(twice, "L1"), at(small, "L1")])] == [
        "again",
        "twice",
        "double",
    ]


def test_cases_too_large_are_left_out_and_the_task_is_another(place: Path) -> None:
    _, tasks = settings_and_tasks(place)
    kept, lost = restricted(tasks[:1], 6000)
    assert ([case.id for case in kept[0].cases], lost) == (["2", "3", "4", "5"], {"double": 1})
    assert kept[0].digest != tasks[0].digest
    assert restricted(tasks, None) == (tasks, {})
    assert restricted(tasks[:1], 10) == ([], {"double": 5})


def test_published_times_of_the_chip_are_kept_with_the_cases(place: Path) -> None:
    from kope.suite.record import empty_record

    _, (double, *_) = settings_and_tasks(place)
    anchors = {"910b2": {"2": Anchor(8.0, 2.0)}}
    task = replace(double, origin=Origin("s", "1", "level1/double", "L1", "Double", Path(), {}, (), {}, anchors))
    record = empty_record(task, "910b2", problem="x")
    assert (record.unit, record.level, record.operator, record.problem) == ("level1/double", "L1", "Double", "x")
    assert [(case.case, case.baseline_us, case.limit_us) for case in record.cases[:2]] == [
        ("1", None, None),
        ("2", 8.0, 2.0),
    ]
    assert [case.baseline_us for case in empty_record(task, "910b3").cases] == [None] * 5


def test_without_an_attempt_nothing_is_chosen() -> None:
    assert chosen(None, ()) is None


# --- killed at any moment -------------------------------------------------------------------------------------------


def start(folder: Path, cache: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "tests.suite.killed_suite", str(folder), str(cache)]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(folder: Path, cache: Path) -> float:
    """Run to the end; return seconds from the beginning of the first task."""
    program = start(folder, cache)
    assert program.stdout is not None
    assert program.stdout.readline() == "begin\n", program.communicate()[1]
    started = time.monotonic()
    _, errors = program.communicate(timeout=300)
    assert program.returncode == 0, errors
    return time.monotonic() - started


def results(folder: Path) -> dict[str, Any]:
    """What a run's results say, leaving out clocks and paths; and every attempt in the database."""
    run = RunFolder.open(folder / "run")
    records = {name: {**_plain(record), "kernel": run.kernel(name)} for name, record in run.records.items()}
    with Store.open(folder / "kope.db", read_only=True) as store:
        attempts = [(a.task_name, a.iteration, a.outcome.verdict, a.speedup, a.promoted) for a in store.attempts()]
        assert len(store.sessions()) == len(run.info.declared)
    return {"records": records, "attempts": sorted(attempts, key=str)}


def _plain(record: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {key: value for key, value in json.loads(json.dumps(asdict(record))).items() if key != "wall_s"}


def hold(folder: Path, cache: Path, kills: int, seed: int) -> None:
    """Kill runs `kills` times in all, each a few times before it may end, and hold every one to the promise."""
    rng = random.Random(seed)
    (folder / "undisturbed").mkdir()
    finish(folder / "undisturbed", cache)
    again = folder / "timed"
    again.mkdir()
    seconds = finish(again, cache)
    expected = results(folder / "undisturbed")
    assert results(again) == expected
    done = 0
    while done < kills:
        place = folder / f"run-{done}"
        place.mkdir()
        for _ in range(min(rng.randint(1, 4), kills - done)):
            program = start(place, cache)
            assert program.stdout is not None
            if rng.random() < 0.8:
                program.stdout.readline()
            time.sleep(rng.uniform(0.0, seconds))
            program.send_signal(signal.SIGKILL)
            program.communicate(timeout=60)
            done += 1
        finish(place, cache)
        assert results(place) == expected


def test_killed_runs_resume_to_the_same_results(tmp_path: Path, cache: Path) -> None:
    hold(tmp_path, cache, kills=6, seed=0)


@pytest.mark.slow(minutes=3)
def test_killed_runs_resume_to_the_same_results_50_times(tmp_path: Path, cache: Path) -> None:
    hold(tmp_path, cache, kills=50, seed=1)


def test_a_list_names_tasks_line_by_line_or_is_refused_in_one(place: Path) -> None:
    (place / "list.txt").write_bytes(b"\xef\xbb\xbfdouble  # first\r\n\r\n# none\r\ntasks/twice\n")
    assert listed_tasks(place / "list.txt") == ["double", "tasks/twice"]
    for content, words in ((b"\xff\xfe", "cannot be read as a list of tasks"), (b"# none\n", "names no task")):
        (place / "list.txt").write_bytes(content)
        refused = CliRunner().invoke(app, ["suite", "run", "list.txt", "--out", "r"])
        assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1) and f"list.txt: {words}" in refused.stderr
