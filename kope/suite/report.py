"""A comparison for people: the Markdown report, the table of a terminal, and CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from kope import render

HEADINGS = (
    "system",
    "cases passed",
    "rate",
    "by the suite's rule",
    "operators: any",
    "all",
    "time / published",
    "cases in it",
    "tokens",
)
_COLUMNS = (
    "system",
    "source",
    "passed",
    "cases",
    "rate",
    "official_passed",
    "operators",
    "operators_any",
    "operators_all",
    "compiled",
    "discriminating_passed",
    "discriminating_cases",
    "time_kind",
    "hardware",
    "time_over_published",
    "time_over_published_low",
    "time_over_published_high",
    "time_over_published_cases",
    "score",
    "tokens",
)


def markdown(document: Mapping[str, Any], title: str) -> str:
    """Return the report."""
    names = [one["system"] for one in document["systems"] if not one["source"]]
    text = render.render(
        "reports/suite.md", title=title, document=document, names=names, percent=percent, mean=mean_text, share=_share
    )
    return _spaced(text)


def _spaced(text: str) -> str:
    """Return Markdown with one blank line around headings, tables and lists, and none within them."""
    lines: list[str] = []
    for line in (line.rstrip() for line in text.splitlines()):
        if line.startswith("|") and len(lines) > 1 and not lines[-1] and lines[-2].startswith("|"):
            lines.pop()
        before = lines[-1] if lines else ""
        if before and line and (_block(line) != _block(before) or line.startswith("#")):
            lines.append("")
        if line or before:
            lines.append(line)
    return "\n".join(lines).strip() + "\n"


def _block(line: str) -> str:
    """Return the kind of block a line is part of."""
    first = line[:1]
    return first if first in "#|" else "-" if line.startswith(("- ", "  ")) else ""


def rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the terminal table's rows, one per system, under HEADINGS."""
    return [_row(one) for one in document["systems"]]


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    official, times = one.get("official"), one.get("over_published")
    kind = f"{one['time_kind']} " if one.get("time_kind") and times else ""
    return (
        f"{one['system']} ({one['source']})" if one["source"] else one["system"],
        f"{one['passed']}/{one['cases']}",
        percent(one["rate"]),
        f"{official['passed']}/{official['cases']}" if official else "-",
        _share(one.get("any_passed"), one["operators"]),
        _share(one.get("all_passed"), one["operators"]),
        kind + mean_text(times),
        str(times["count"]) if times else "-",
        f"{one['tokens']:,}" if one["tokens"] is not None else "-",
    )


def _share(count: int | None, whole: int | None) -> str:
    return "-" if count is None else f"{count}/{whole}" if whole is not None else str(count)


def percent(share: float) -> str:
    """Return a share as people write it."""
    return f"{100 * share:.1f}%"


def mean_text(mean: Mapping[str, Any] | None) -> str:
    """Return a mean with its interval."""
    if not mean:
        return "-"
    return f"{mean['value']:.3g} [{mean['low']:.3g}, {mean['high']:.3g}]"


def as_csv(document: Mapping[str, Any]) -> str:
    """Return one line per system."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in document["systems"]:
        writer.writerow(_csv_row(one))
    return out.getvalue()


def _csv_row(one: Mapping[str, Any]) -> dict[str, Any]:
    official, telling, times = (one.get(name) or {} for name in ("official", "discriminating", "over_published"))
    plain = {name: one.get(name) for name in _COLUMNS if name in one}
    return plain | {
        "rate": f"{one['rate']:.6f}",
        "official_passed": official.get("passed"),
        "operators_any": one.get("any_passed"),
        "operators_all": one.get("all_passed"),
        "discriminating_passed": telling.get("passed"),
        "discriminating_cases": telling.get("cases"),
        "time_over_published": times.get("value"),
        "time_over_published_low": times.get("low"),
        "time_over_published_high": times.get("high"),
        "time_over_published_cases": times.get("count"),
        "score": (one.get("score") or {}).get("total"),
    }
