"""Systems side by side over one full denominator: the document behind the table, the report, JSON and CSV.

Where results come from is results.py's business, the arithmetic metrics.py's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kope.model import TimeKind
from kope.suite import metrics
from kope.suite.results import Row, System

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Systems brought to one denominator. systems: with a row for every declared case; published: counts alone."""

    systems: tuple[System, ...]
    published: tuple[System, ...]
    declared: tuple[Key, ...]

    def document(self) -> dict[str, Any]:
        """Return everything as JSON; schema/suite_compare.json describes it."""
        return {
            "cases": len(self.declared),
            "operators": len({operator for operator, _ in self.declared}),
            "cases_hash": metrics.cases_hash(self.declared),
            "systems": [_system(system) for system in self.systems] + [_published(one) for one in self.published],
            "intersection": _intersection(self.systems),
            "by_operator": _by_operator(self.systems),
        }


def compare(systems: Sequence[System]) -> Comparison:
    """Bring systems to one denominator: every case that any of them declares; what a system lacks it has failed."""
    systems = _told_apart(systems)
    with_rows = [_named_alike(system, systems) for system in systems if system.counts is None]
    known: dict[Key, Row] = {}
    for system in with_rows:
        for row in system.rows:
            old = known.get(row.key)
            known[row.key] = row if old is None else _facts_of_both(old, row)
    return Comparison(
        systems=tuple(replace(system, rows=_completed(system.rows, known)) for system in with_rows),
        published=tuple(system for system in systems if system.counts is not None),
        declared=tuple(known),
    )


def _told_apart(systems: Sequence[System]) -> list[System]:
    """Return systems with names of their own: the second of a name is NAME (2)."""
    seen: dict[str, int] = {}
    renamed = []
    for system in systems:
        seen[system.name] = seen.get(system.name, 0) + 1
        again = seen[system.name] > 1
        renamed.append(replace(system, name=f"{system.name} ({seen[system.name]})") if again else system)
    return renamed


def _facts_of_both(old: Row, new: Row) -> Row:
    """Return what is known of a case whoever ran it: level and published times."""
    return replace(
        old,
        level=old.level or new.level,
        baseline_us=old.baseline_us or new.baseline_us,
        limit_us=old.limit_us or new.limit_us,
        discriminating=old.discriminating if old.discriminating is not None else new.discriminating,
    )


def _completed(rows: Sequence[Row], known: Mapping[Key, Row]) -> tuple[Row, ...]:
    own = {row.key: row for row in rows}
    return tuple(
        _facts_of_both(own[key], fact)
        if key in own
        else replace(fact, passed=False, official=None, time_us=None, ran=False)
        for key, fact in known.items()
    )


def _named_alike(system: System, systems: Sequence[System]) -> System:
    """Return a system with operators named as in the first system that has them: level1/exp, exp, Exp are one."""
    names: dict[str, str] = {}
    for other in systems:
        for row in other.rows:
            names.setdefault(_plain(row.operator), row.operator)
    return replace(system, rows=tuple(replace(row, operator=names[_plain(row.operator)]) for row in system.rows))


def _plain(operator: str) -> str:
    return re.sub(r"[^a-z0-9]", "", operator.lower().rpartition("/")[2])


def _system(system: System) -> dict[str, Any]:
    rows = system.rows
    official = all(row.official is not None for row in rows if row.ran) and any(row.official for row in rows)
    telling = [row for row in rows if row.discriminating is not False]
    tried = any(row.discriminating is not None for row in rows)
    return {
        "system": system.name,
        "source": "",
        **_rates(metrics.rates(rows)),
        "official": _rates(metrics.rates(rows, lambda row: row.official is True)) if official else None,
        "discriminating": _rates(metrics.rates(telling)) if tried else None,
        "compiled": system.compiled,
        "tokens": system.tokens,
        "wall_s": system.wall_s,
        "time_kind": system.time_kind,
        "hardware": system.hardware,
        **_times(rows),
        "faster_than_published": {str(n): metrics.faster_than_published(rows, n) for n in (1, 2)},
        "score": _score(system),
        "levels": [
            {"level": level, **_rates(metrics.rates(members)), **_times(members)}
            for level, members in sorted(_by_level(rows).items())
            if level
        ],
        "facts": dict(system.facts),
    }


def _rates(found: metrics.Rates) -> dict[str, Any]:
    return {**asdict(found), "rate": found.rate}


def _times(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "over_published": _mean(metrics.mean_ratio(metrics.over_published(rows))),
        "over_published_uncapped": _mean(metrics.mean_ratio(metrics.over_published(rows, without_capped=True))),
    }


def _mean(found: metrics.Mean | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def _by_level(rows: Sequence[Row]) -> dict[str, list[Row]]:
    levels: dict[str, list[Row]] = {}
    for row in rows:
        levels.setdefault(row.level, []).append(row)
    return levels


def _score(system: System) -> dict[str, Any] | None:
    """The suite's score of measured times; a modelled time has none."""
    if system.time_kind != TimeKind.MEASURED.value:
        return None
    found = metrics.score(system.rows)
    above = [f"{operator} {case}" for operator, case in found.above_limit]
    return {"total": found.total, "capped": found.capped, "average": found.average, "above_limit": above}


def _published(system: System) -> dict[str, Any]:
    counts = system.counts
    assert counts is not None
    return {
        "system": system.name,
        "source": counts.source,
        "passed": counts.passed,
        "cases": counts.cases,
        "rate": counts.passed / counts.cases,
        "operators": counts.operators,
        "any_passed": counts.operators_with_pass,
        "tokens": system.tokens,
    }


def _intersection(systems: Sequence[System]) -> dict[str, Any]:
    """Times of systems against the first one's, over the cases all of them passed with a time."""
    nothing: dict[str, Any] = {"cases": 0, "hash": "", "ratios": [], "reason": ""}
    timed = [system for system in systems if any(row.passed and row.time_us for row in system.rows)]
    if len(timed) < 2:
        return {**nothing, "reason": "fewer than two systems have times"}
    kinds = {(system.time_kind, system.hardware) for system in timed}
    if len(kinds) > 1:
        listed = "; ".join(
            f"{system.name}: {system.time_kind or 'unknown'} {system.hardware}".strip() for system in timed
        )
        return {**nothing, "reason": f"times of different hardware or kind are never compared ({listed})"}
    common = metrics.common_cases([system.rows for system in timed])
    tables = {system.name: {row.key: row.time_us for row in system.rows} for system in timed}
    first = timed[0]
    ratios = []
    for other in timed[1:]:
        pairs = {key: (tables[first.name][key] or 0.0) / (tables[other.name][key] or 1.0) for key in common}
        ratios.append({"system": other.name, "against": first.name, **(_mean(metrics.mean_ratio(pairs)) or {})})
    if not common:
        return {**nothing, "reason": "no case was passed and timed by all systems with times"}
    return {"cases": len(common), "hash": metrics.cases_hash(common), "ratios": ratios, "reason": ""}


def _by_operator(systems: Sequence[System]) -> list[dict[str, Any]]:
    tables = [(system.name, metrics.by_operator(system.rows)) for system in systems]
    operators = tables[0][1] if tables else {}
    return [
        {
            "operator": operator,
            "level": next((row.level for row in rows if row.level), ""),
            "cases": len(rows),
            "passed": {name: metrics.rates(table.get(operator, [])).passed for name, table in tables},
            "over_published": {
                name: _mean(metrics.mean_ratio(metrics.over_published(table.get(operator, []))))
                for name, table in tables
            },
        }
        for operator, rows in operators.items()
    ]
