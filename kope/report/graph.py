"""One experience and what is linked to it, and a memory in figures: as documents and for people.

Documents are described by schema/db_show.json and schema/db_stats.json. What is linked is memory's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.tree import Tree

from kope.context.lineage import outcome_phrase
from kope.memory import Stats, Surroundings
from kope.memory.stats import Rated
from kope.model import Experience
from kope.report.experience import experience_document

_VERBS = {
    ("led_to", True): "led to",
    ("used", True): "used",
    ("used", False): "used by",
    ("contrasts", True): "ended worse than, from the same start",
    ("contrasts", False): "ended better than, from the same start",
    ("distilled_from", True): "distilled from",
    ("distilled_from", False): "taught",
    ("contradicts", True): "contradicts",
    ("contradicts", False): "contradicted by",
    ("rewound", True): "found by taking back",
}
"""How an edge reads from one of its ends. What led here is the tree itself."""


def show_document(found: Surroundings) -> dict[str, Any]:
    """Return an experience with its surroundings as a JSON-able value."""
    return {
        "node": experience_document(found.node),
        "ancestors": [experience_document(node) for node in found.ancestors],
        "siblings": [experience_document(node) for node in found.siblings],
        "links": [
            {"edge": asdict(link.edge), "outward": link.outward, "other": experience_document(link.other)}
            for link in found.links
        ],
        "worth": [_worth_document(key, worth) for key, worth in found.worths.items()],
        "retired": found.retired or None,
        "journal": found.journal,
    }


def _worth_document(key: Any, worth: Any) -> dict[str, Any]:
    purpose, hardware = key
    return {
        "purpose": purpose.value,
        "hardware": hardware or None,
        "uses": worth.uses,
        "helped": worth.helped,
        "share_without": worth.without,
        "value": worth.value,
    }


def show_tree(found: Surroundings) -> Tree:
    """Return the neighbourhood as a tree: the lineage down to the experience, and under it a branch per verb."""
    first, *rest = (*found.ancestors, found.node)
    at = tree = Tree(_line(first))
    for node in rest:
        at = at.add(_line(node))
    for note in _notes(found):
        at.add(note)
    for (kind, outward), verb in _VERBS.items():
        links = [link for link in found.links if (link.edge.kind, link.outward) == (kind, outward)]
        if links:
            branch = at.add(f"{verb}:")
            for link in links:
                said = f" ({link.edge.text})" if link.edge.text and kind in ("led_to", "contradicts") else ""
                branch.add(_line(link.other) + said)
    if found.siblings:
        branch = at.add("also tried from the same start:")
        for node in found.siblings:
            branch.add(_line(node))
    return tree


def _line(node: Experience) -> str:
    what = node.title or node.move
    outcome = "a lesson" if node.kind == "digest" else outcome_phrase(node)
    return f"{node.id[:8]} {what} -> {outcome}"


def _notes(found: Surroundings) -> Iterator[str]:
    yield from (line for line in found.node.text.splitlines() if line.strip())
    for name, code in (("before", found.node.before), ("after", found.node.after)):
        if code:
            yield f"{name}:\n{code}"
    for (purpose, hardware), worth in found.worths.items():
        where = f" on {hardware}" if hardware else ""
        yield (
            f"to {purpose.value}{where}: helped {worth.helped} of {worth.uses} attempts that used it, "
            f"{worth.without:.0%} of those that did not"
        )
    if found.retired:
        yield f"retired {found.retired}"
    if found.node.standing == "quarantined":
        yield f"from {found.node.origin}, not verified here"


# --- figures --------------------------------------------------------------------------------------------------------


def stats_document(stats: Stats) -> dict[str, Any]:
    """Return a memory in figures as a JSON-able value; sizes in bytes, shares in [0, 1]."""
    document = asdict(stats)
    for name in ("best", "worst"):
        document[name] = [
            {"experience": each.experience_id, "title": each.title, **_worth_document(each.key, each.worth)}
            for each in getattr(stats, name)
        ]
    return document


def stats_lines(stats: Stats) -> list[str]:
    """Return the figures in sentences."""
    kinds = ", ".join(f"{count} {kind}s" for kind, count in stats.kinds.items()) or "no experiences"
    days = list(stats.by_day.items())[-7:]
    sizes = ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in stats.sizes.items())
    return [
        f"{kinds}; {sizes}",
        "growth: " + (", ".join(f"{count} attempts on {day}" for day, count in days) or "none"),
        f"recall: {stats.hit_share:.0%} of prompts had experience in them;"
        f" {stats.used_share:.0%} of experiences were used, {stats.uses} times in all",
        f"duplicates: {stats.repeated_share:.0%} of attempts repeat a source;"
        f" {stats.near_share:.0%} of {stats.near_compared} experiences say what another of their task says",
        f"echo: {stats.echo_share:.0%} of attempts that used experience gave back a source from it",
        f"out of date: {stats.stale_share:.0%} of attempts were judged by an older toolchain or evaluator",
        f"retired: {stats.retired}, {stats.by_hand} of them by hand",
    ]


def stats_table(stats: Stats) -> Table:
    """Return the experiences whose use went best and worst, against doing without them."""
    table = Table(title="learned value", title_justify="left")
    for heading in ("id", "what", "for", "uses", "helped", "without it", "value"):
        table.add_column(heading, overflow="fold")
    for each in (*stats.best, *(worse for worse in stats.worst if worse not in stats.best)):
        table.add_row(*_cells(each))
    return table


def _cells(each: Rated) -> tuple[str, ...]:
    purpose, hardware = each.key
    worth = each.worth
    where = f"{purpose.value} on {hardware}" if hardware else purpose.value
    return (
        each.experience_id[:8],
        each.title,
        where,
        str(worth.uses),
        f"{worth.helped / worth.uses:.0%}",
        f"{worth.without:.0%}",
        "retired" if worth.retired else f"{worth.value:.2f}",
    )
