"""A suite run on disk: a folder with what was asked for, one result per task, and the kernels. Plain JSON, no database.

    run.json            what was asked for, and every task with its declared cases
    tasks/NAME.json     what came of one task; written whole or not at all
    kernels/NAME.asc    the best kernel

Files appear by one rename each, so a run killed at any moment leaves whole files only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kope.errors import ConfigError
from kope.model import Anchor, Task

RUN_FILE = "run.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """One declared case.

    passed: KOPE's strict verdict, False for whatever was not compared. official: the suite's own, None without one.
    time_us: of the best kernel, None when it was not timed. baseline_us, limit_us: what the suite publishes.
    nulls: outputs that need no kernel and pass, None when that was not tried. note: why it was not judged.
    """

    case: str
    passed: bool = False
    official: bool | None = None
    time_us: float | None = None
    bound_us: float | None = None
    baseline_us: float | None = None
    limit_us: float | None = None
    nulls: tuple[str, ...] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What came of one task. compiled: some attempt compiled. candidate: id of the best kernel, "" when none is right.

    problem: why the task could not be worked on, "" otherwise. stop: why work on it ended. reason: where no kernel is
    right on all cases, what the last attempt failed of.
    """

    task: str
    unit: str
    level: str
    operator: str
    digest: str
    cases: tuple[CaseRecord, ...]
    attempts: int = 0
    compiled: bool = False
    candidate: str = ""
    verdict: str = ""
    tokens: int = 0
    wall_s: float = 0.0
    stop: str = ""
    problem: str = ""
    reason: str = ""

    @property
    def passed_count(self) -> int:
        """Cases that pass the strict verdict."""
        return sum(case.passed for case in self.cases)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a run was asked for. system: its name in comparisons. declared: task -> its cases, the full denominator.

    facts: everything that must be equal for the run to be taken up again: plan, limits, hardware, KOPE's version.
    places: task -> the folder it was read from, "" where it has none. left_out: cases left out for their size.
    """

    id: str
    system: str
    suite: str
    version: str
    time_kind: str
    hardware: str
    facts: Mapping[str, Any]
    declared: Mapping[str, Sequence[str]]
    places: Mapping[str, str] = field(default_factory=dict)
    left_out: int = 0
    started_at: str = ""
    format: int = FORMAT


@dataclass(slots=True)
class RunFolder:
    """A run's folder."""

    path: Path
    info: RunInfo
    records: dict[str, TaskRecord] = field(default_factory=dict)

    @classmethod
    def create(cls, path: Path, info: RunInfo) -> RunFolder:
        """Begin a run. Raises ConfigError when the folder holds something else."""
        if path.is_dir() and any(path.iterdir()):
            raise ConfigError(f"{path} is not empty and no suite run; give another folder with --out")
        try:
            (path / "tasks").mkdir(parents=True)
            (path / "kernels").mkdir()
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}; give a folder that can be written with --out") from error
        _write(path / RUN_FILE, asdict(info))
        return cls(path, info)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Read a run with every result it has. Raises ConfigError when it is none, or of another format."""
        document = _read(path / RUN_FILE)
        if document.get("format") != FORMAT:
            raise ConfigError(f"{path / RUN_FILE}: format {document.get('format')}, this version reads {FORMAT}")
        try:
            run = cls(path, RunInfo(**document))
            for file in sorted((path / "tasks").glob("*.json")):
                record = _task_record(_read(file))
                run.records[record.task] = record
        except TypeError as error:
            raise ConfigError(f"{path}: not as KOPE wrote it ({error}); restore it or run the suite anew") from error
        return run

    def add(self, record: TaskRecord, source: str | None) -> None:
        """Keep the result of a task, its kernel first, so that a result always has its kernel."""
        if source is not None:
            _write_text(self.path / "kernels" / f"{record.task}.asc", source)
        _write(self.path / "tasks" / f"{record.task}.json", asdict(record))
        self.records[record.task] = record

    def kernel(self, task: str) -> str | None:
        """Return the best kernel of a task, None when there is none."""
        file = self.path / "kernels" / f"{task}.asc"
        return file.read_text(encoding="utf-8") if file.is_file() and self.records[task].candidate else None


def empty_record(task: Task, chip: str, **facts: Any) -> TaskRecord:
    """Return the record of a task nothing passed on: every declared case, with what its suite publishes for a chip."""
    origin = task.origin
    anchors = origin.anchors.get(chip, {}) if origin is not None else {}
    cases = []
    for case in task.cases:
        anchor = anchors.get(case.id, Anchor(None, None))
        cases.append(CaseRecord(case.id, baseline_us=anchor.baseline_us, limit_us=anchor.limit_us))
    unit, level = (origin.unit, origin.level) if origin is not None else (task.name, "")
    operator = origin.operator if origin is not None else task.name
    return TaskRecord(task.name, unit, level, operator, task.digest, tuple(cases), **facts)


def _task_record(document: dict[str, Any]) -> TaskRecord:
    cases = tuple(
        CaseRecord(**{**case, "nulls": None if case.get("nulls") is None else tuple(case["nulls"])})
        for case in document.pop("cases")
    )
    return TaskRecord(**document, cases=cases)


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{file.parent}: no {file.name}; give the folder of a suite run") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read ({error}); restore it or run the suite anew") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: holds no table; restore it or run the suite anew")
    return document


def _write(file: Path, document: Any) -> None:
    _write_text(file, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _write_text(file: Path, text: str) -> None:
    """Write beside, flush to disk, rename over."""
    beside = file.with_name(f".{file.name}.new")
    with beside.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    beside.rename(file)
