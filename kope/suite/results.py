"""Results of systems side by side: of a suite run's folder, of a CSV another system wrote, of published counts.

Everything a comparison needs is in these rows; what is made of them is metrics.py's business.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kope.errors import ConfigError
from kope.suite.record import RUN_FILE, RunFolder

CASE_COLUMNS = ("system", "operator", "case", "passed", "time_us", "tokens")
COUNT_COLUMNS = ("system", "passed", "cases", "operators_with_pass", "operators", "tokens", "source")
_WRONG_VALUES = ("wrong-value", "disputed")
"""Notes of cases that ran to their end and gave other values."""
_TRUE, _FALSE = ("1", "true", "yes", "passed"), ("0", "false", "no", "failed", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One case of one system. operator: the suite's path of it, "level1/exp". level: "L1", ...

    official: the suite's own verdict, None where it was not asked. discriminating: False for a case that an output
    passes which needs no kernel, None where that was not tried. time_us: None when it was not timed. ran: its outputs
    were compared, with whatever result.
    """

    operator: str
    case: str
    level: str
    passed: bool
    official: bool | None = None
    time_us: float | None = None
    baseline_us: float | None = None
    limit_us: float | None = None
    discriminating: bool | None = None
    ran: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What a case is called in every system."""
        return self.operator, self.case


@dataclass(frozen=True, slots=True)
class Counts:
    """What somebody published of a system without its cases. source: where."""

    passed: int
    cases: int
    operators_with_pass: int | None
    operators: int | None
    source: str


@dataclass(frozen=True, slots=True)
class System:
    """One system on one suite.

    time_kind: modelled, measured, or "" where it is not known. hardware: what times were taken on. compiled: operators
    with a kernel that compiled, None where it is not known. tokens: of the whole run. counts: instead of rows.
    """

    name: str
    rows: tuple[Row, ...] = ()
    time_kind: str = ""
    hardware: str = ""
    compiled: int | None = None
    tokens: int | None = None
    wall_s: float | None = None
    suite: str = ""
    version: str = ""
    counts: Counts | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


def read_systems(place: Path, name: str = "") -> list[System]:
    """Read a run's folder or a CSV. name: instead of the one written there. Raises ConfigError."""
    if (place / RUN_FILE).is_file():
        return [_of_run(RunFolder.open(place), name)]
    if place.is_dir():
        raise ConfigError(f"{place}: no {RUN_FILE}; give the folder of a suite run, or a CSV file")
    rows = _read_csv(place)
    columns = set(rows[0]) if rows else set()
    if {"system", "operator", "case", "passed"} <= columns:
        return _of_cases(place, rows, name)
    if {"system", "passed", "cases"} <= columns:
        return [_of_counts(place, number, row, name) for number, row in enumerate(rows, start=2)]
    raise ConfigError(
        f"{place}: needs the columns {', '.join(CASE_COLUMNS)} (one line per case; the last two may be empty),"
        f" or {', '.join(COUNT_COLUMNS)}"
    )


def _of_run(run: RunFolder, name: str) -> System:
    rows = []
    for task, declared in run.info.declared.items():
        record = run.records.get(task)
        if record is None:
            rows += [Row(task, case, "", False) for case in declared]
            continue
        for case in record.cases:
            rows.append(
                Row(
                    operator=record.unit,
                    case=case.case,
                    level=record.level,
                    passed=case.passed,
                    official=case.official,
                    time_us=case.time_us if case.passed else None,
                    baseline_us=case.baseline_us,
                    limit_us=case.limit_us,
                    discriminating=None if case.nulls is None else not case.nulls,
                    ran=case.passed or case.note in _WRONG_VALUES,
                )
            )
    records = run.records.values()
    facts = {key: str(run.info.facts[key]) for key in ("proposer", "memory", "seed") if key in run.info.facts}
    return System(
        name=name or run.info.system,
        rows=tuple(rows),
        time_kind=run.info.time_kind,
        hardware=run.info.hardware,
        compiled=sum(record.compiled for record in records),
        tokens=sum(record.tokens for record in records),
        wall_s=sum(record.wall_s for record in records),
        suite=run.info.suite,
        version=run.info.version,
        facts={**facts, "tasks": f"{len(run.records)} of {len(run.info.declared)}", **_left_out(run)},
    )


def _left_out(run: RunFolder) -> dict[str, str]:
    """A run on a part of its suite says so."""
    return {"cases left out for their size": str(run.info.left_out)} if run.info.left_out else {}


def _read_csv(place: Path) -> list[dict[str, str]]:
    try:
        with place.open(encoding="utf-8-sig", newline="") as file:
            lines = (line for line in file if not line.startswith("#"))
            return [{key: value or "" for key, value in row.items() if key} for row in csv.DictReader(lines)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{place}: cannot be read as CSV ({error}); save it as UTF-8 text with commas") from error


def _of_cases(place: Path, rows: Sequence[Mapping[str, str]], name: str) -> list[System]:
    by_system: dict[str, list[Row]] = {}
    tokens: dict[str, int] = {}
    for number, row in enumerate(rows, start=2):
        system = row["system"] or place.stem
        passed = row["passed"].strip().lower()
        if passed not in (*_TRUE, *_FALSE):
            raise ConfigError(f"{place}:{number}: passed: {passed!r} is neither true nor false")
        time_us = _number(place, number, "time_us", row.get("time_us", ""))
        by_system.setdefault(system, []).append(
            Row(
                operator=row["operator"],
                case=row["case"],
                level=row.get("level", ""),
                passed=passed in _TRUE,
                time_us=time_us,
                ran=passed in _TRUE,
            )
        )
        spent = _number(place, number, "tokens", row.get("tokens", ""))
        if spent is not None:
            tokens[system] = tokens.get(system, 0) + int(spent)
    for system, members in by_system.items():
        seen = [row.key for row in members]
        twice = next((key for key in seen if seen.count(key) > 1), None)
        if twice is not None:
            raise ConfigError(f"{place}: {system} has case {twice[1]} of {twice[0]} twice; keep one line of it")
    only = name if len(by_system) == 1 else ""
    kind = rows[0].get("time_kind", "")
    hardware = rows[0].get("hardware", "")
    return [
        System(only or system, tuple(members), kind, hardware, tokens=tokens.get(system))
        for system, members in by_system.items()
    ]


def _of_counts(place: Path, number: int, row: Mapping[str, str], name: str) -> System:
    def count(column: str) -> int | None:
        value = _number(place, number, column, row.get(column, ""))
        return None if value is None else int(value)

    passed, cases = count("passed"), count("cases")
    if passed is None or not cases or passed > cases:
        raise ConfigError(f"{place}:{number}: passed and cases: {row['passed']!r} of {row['cases']!r} is no count")
    source = row.get("source", "") or str(place)
    counts = Counts(passed, cases, count("operators_with_pass"), count("operators"), source)
    return System(name or row["system"], tokens=count("tokens"), counts=counts)


def _number(place: Path, number: int, column: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf"):
        raise ConfigError(f"{place}:{number}: {column}: {text!r} is no number from 0 on")
    return value
