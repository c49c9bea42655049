"""One experience with all that is linked to it: why it is believed, what came of it, what else was tried from there.

How it is drawn is report's business.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from kope.errors import NotFound
from kope.memory import answer
from kope.memory.image import Image
from kope.memory.scope import View
from kope.memory.sessions import prefix_range
from kope.memory.value import Key, Worth
from kope.model import Edge, Experience

_IDS = """
    SELECT id FROM nodes WHERE (id >= ?1 AND id < ?2) OR (attempt_id >= ?1 AND attempt_id < ?2) LIMIT 2
"""
_EXACT = "SELECT id FROM nodes WHERE id = ?1 OR attempt_id = ?1"
"""A whole id may begin others: attempt 2, attempt 20."""
_EDGES = """
    SELECT e.id, e.src, e.dst, e.kind, coalesce(t.text, '')
    FROM edges AS e LEFT JOIN edge_texts AS t ON t.edge_id = e.id WHERE e.src = ?1 OR e.dst = ?1 ORDER BY e.seq
"""
_JOURNAL = "SELECT markdown FROM journals WHERE attempt_id = ?"
_RETIRED = "SELECT retired FROM nodes WHERE id = ?"


@dataclass(frozen=True, slots=True)
class Linked:
    """What an edge leads to. outward: the edge starts here."""

    edge: Edge
    other: Experience
    outward: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An experience in the graph. ancestors: from the first kernel down to its parent. siblings: what else was tried
    from its parent. worths: what use taught, by purpose and hardware. retired: why it is not recalled any more, ""
    else.
    """

    node: Experience
    ancestors: tuple[Experience, ...]
    siblings: tuple[Experience, ...]
    links: tuple[Linked, ...]
    worths: dict[Key, Worth]
    retired: str
    journal: str


def find_id(connection: sqlite3.Connection, name: str) -> str:
    """Return the experience meant by the beginning of its id or of its attempt's. Raises NotFound."""
    found = connection.execute(_EXACT, (name,)).fetchall() or connection.execute(_IDS, prefix_range(name)).fetchall()
    if len(found) != 1:
        raise NotFound(f"{'several' if found else 'no'} experiences begin with {name!r}; kope recall shows ids")
    return str(found[0][0])


def surroundings(connection: sqlite3.Connection, image: Image, view: View, name: str) -> Surroundings:
    """Return an experience with everything around it that the view shows. Raises NotFound."""
    node_id = find_id(connection, name)

    def one(other: str) -> Experience:
        return answer.one(connection, view, other, image.origins)

    links = []
    for row in connection.execute(_EDGES, (node_id,)).fetchall():
        edge = Edge(*row)
        other = edge.dst if edge.src == node_id else edge.src
        if view.get(other) is not None:
            links.append(Linked(edge, one(other), edge.src == node_id))
    above = _ancestors(image, node_id)
    siblings = [child for child in image.children(above[-1]) if child != node_id] if above else []
    node = one(node_id)
    journal = connection.execute(_JOURNAL, (node.attempt_id,)).fetchone()
    return Surroundings(
        node=node,
        ancestors=tuple(one(other) for other in view.named(above)),
        siblings=tuple(one(other) for other in view.named(siblings)),
        links=tuple(links),
        worths=image.values([node_id]).worths(node_id),
        retired=_why_retired(connection, image, node_id),
        journal=journal[0] if journal is not None else "",
    )


def _ancestors(image: Image, node_id: str) -> list[str]:
    """Return the lineage above a node, the first kernel first. Ends where it would go round in a circle."""
    found: list[str] = []
    at = image.parent(node_id)
    while at is not None and at not in found and at != node_id:
        found.append(at)
        at = image.parent(at)
    return found[::-1]


def _why_retired(connection: sqlite3.Connection, image: Image, node_id: str) -> str:
    said = connection.execute(_RETIRED, (node_id,)).fetchone()[0]
    if said is not None:
        return "by hand" if said else ""
    for (purpose, hardware), worth in image.values([node_id]).worths(node_id).items():
        if worth.retired:
            where = f" on {hardware}" if hardware else ""
            return (
                f"to {purpose.value}{where}: helped {worth.helped} of {worth.uses} attempts that used it, "
                f"{worth.without:.0%} of those that did not"
            )
    return ""
