"""Runs many tasks: from easy to hard, several at once, taken up again after a kill, stopped cleanly.

What is done for one task is work.py's business; where results go is record.py's.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock
from typing import Any

from kope import __version__, wiring
from kope.config import Settings
from kope.errors import ConfigError
from kope.loop import Limits
from kope.model import Task
from kope.suite.record import RUN_FILE, RunFolder, RunInfo, TaskRecord
from kope.suite.work import Work
from kope.task import find_task

Tell = Callable[["Progress"], None]
_FACTS_OF_LIMITS = ("iterations", "patience", "tokens", "time_s")


@dataclass(frozen=True, slots=True)
class Progress:
    """Told after every task. left_s: estimated seconds to the end at the pace of this process, None when unknown."""

    record: TaskRecord
    done: int
    total: int
    left_s: float | None


def in_order(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks from easy to hard: by the suite's level, then by the elements of a middling case, then by name.

    What was learned on easy tasks is there when the hard ones come.
    """

    def elements(task: Task) -> int:
        sizes = sorted(sum(given.spec.numel for given in case.inputs if given is not None) for case in task.cases)
        return sizes[len(sizes) // 2]

    return sorted(tasks, key=lambda task: (task.origin.level if task.origin else "", elements(task), task.name))


def open_run(
    path: Path,
    tasks: Sequence[Task],
    plan: wiring.Plan,
    limits: Limits,
    settings: Settings,
    *,
    system: str = "",
    left_out: int = 0,
) -> RunFolder:
    """Begin a run in a folder, or take up the one that is there. Raises ConfigError when that has other settings."""
    facts = _facts(tasks, plan, limits, settings)
    if (path / RUN_FILE).is_file():
        run = RunFolder.open(path)
        changed = sorted(key for key in facts if run.info.facts.get(key) != facts[key])
        if changed:
            raise ConfigError(
                f"{path} is a run with other settings ({', '.join(changed)}); repeat them, or give another --out"
            )
        return run
    origins = [task.origin for task in tasks if task.origin is not None]
    target = wiring.target(settings)
    return RunFolder.create(
        path,
        RunInfo(
            id=secrets.token_hex(6),
            system=system or "KOPE",
            suite=origins[0].suite if origins else "",
            version=origins[0].version if origins else "",
            time_kind=target.time_kind.value,
            hardware=facts["hardware"],
            facts=facts,
            declared={task.name: [case.id for case in task.cases] for task in tasks},
            places={task.name: str(task.folder or "") for task in tasks},
            left_out=left_out,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        ),
    )


def _facts(tasks: Sequence[Task], plan: wiring.Plan, limits: Limits, settings: Settings) -> dict[str, Any]:
    """Return what two runs must share for one to go on as the other, JSON-able; the number of jobs is not in it."""
    fingerprint = wiring.evaluator(settings).fingerprint()
    return {
        **plan.key(),
        **{name: asdict(limits)[name] for name in _FACTS_OF_LIMITS},
        "hardware": fingerprint.hardware,
        "toolchain": fingerprint.toolchain,
        "evaluator": fingerprint.evaluator,
        "tasks": {task.name: task.digest for task in tasks},
        "kope": __version__,
    }


def run_suite(
    run: RunFolder, tasks: Sequence[Task], plan: wiring.Plan, limits: Limits, settings: Settings, tell: Tell
) -> bool:
    """Work on every task that has no result yet, settings.jobs at once. Returns False when it was interrupted.

    Killed in any way it loses at most the attempts in flight; called again it goes on. An error that is the machine's
    ends the run after the tasks in flight, and is raised.
    """
    waiting = [task for task in tasks if task.name not in run.records]
    work = Work(replace(plan, run=run.info.id), limits, replace(settings, jobs=1))
    stop, lock, started = Event(), Lock(), time.monotonic()
    finished = 0

    def keep(record: TaskRecord, source: str | None) -> None:
        nonlocal finished
        with lock:
            run.add(record, source)
            finished += 1
            left = len(waiting) - finished
            tell(Progress(record, len(run.records), len(tasks), (time.monotonic() - started) / finished * left))

    with ThreadPoolExecutor(max_workers=settings.jobs, thread_name_prefix="suite") as pool:
        running: set[Future[None]] = set()
        queue = iter(waiting)
        try:
            for task in queue:
                running.add(pool.submit(work.on, task, stop, keep))
                if len(running) == settings.jobs:
                    running = _settled(running)
            while running:
                running = _settled(running)
        except KeyboardInterrupt:
            stop.set()
            _drained(running)
            return False
        except BaseException:
            stop.set()
            _drained(running)
            raise
    return True


def _settled(running: set[Future[None]]) -> set[Future[None]]:
    """Wait for one to end, raise what it raised, and return the rest."""
    done, rest = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        future.result()
    return rest


def _drained(running: set[Future[None]]) -> None:
    """Wait for all to end; what they raise now is a consequence of stopping."""
    for future in running:
        with contextlib.suppress(BaseException):
            future.result()


def clear_problems(run: RunFolder) -> list[str]:
    """Forget the results of tasks that could not be worked on, so that they are tried again; return their names."""
    names = [name for name, record in run.records.items() if record.problem]
    for name in names:
        (run.path / "tasks" / f"{name}.json").unlink()
        del run.records[name]
    return names


def tasks_of(run: RunFolder) -> list[Task]:
    """Return the tasks of a run, read from their folders again. Raises ConfigError when one has changed since."""
    tasks = []
    for name, cases in run.info.declared.items():
        task = find_task(run.info.places.get(name) or name, [])
        if [case.id for case in task.cases] != list(cases):
            task = with_cases(task, [case for case in task.cases if case.id in cases])
        if task.digest != run.info.facts["tasks"][name]:
            raise ConfigError(f"{task.folder}: {name} has changed since the run; restore it, or run the suite anew")
        tasks.append(task)
    return tasks


def listed_tasks(file: Path) -> list[str]:
    """Return the tasks of a list file: one folder or name a line, # begins a comment.

    Raises ConfigError when it is no UTF-8 text that names a task.
    """
    try:
        lines = file.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read as a list of tasks ({error}); write one task a line") from error
    names = [text for line in lines if (text := line.partition("#")[0].strip())]
    if not names:
        raise ConfigError(f"{file}: names no task; write one task a line")
    return names


def restricted(tasks: Sequence[Task], largest_bytes: int | None) -> tuple[list[Task], Mapping[str, int]]:
    """Return tasks with the cases whose inputs are at most `largest_bytes`, and how many cases each lost.

    A task that loses all of its cases is left out.
    """
    from kope.evaluate.capacity import case_bytes

    kept: list[Task] = []
    lost: dict[str, int] = {}
    for task in tasks:
        cases = tuple(case for case in task.cases if largest_bytes is None or case_bytes(case) <= largest_bytes)
        if len(cases) < len(task.cases):
            lost[task.name] = len(task.cases) - len(cases)
        if cases:
            kept.append(task if len(cases) == len(task.cases) else with_cases(task, cases))
    return kept, lost


def with_cases(task: Task, cases: Sequence[Any]) -> Task:
    """Return a task with some of its cases only; it is another task, with a digest of its own."""
    from kope.task.digest import task_digest

    parts = {name: getattr(task, name) for name in _DIGESTED}
    digest = task_digest(**{**parts, "cases": tuple(cases)})
    return replace(task, cases=tuple(cases), digest=digest)


_DIGESTED = (
    *("name", "inputs", "outputs", "attrs", "reference", "symbol", "framework", "cases", "tolerance"),
    *("native", "reduction", "fixed_shapes", "origin"),
)
