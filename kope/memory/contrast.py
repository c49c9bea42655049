"""Edges `contrasts`: of attempts with one start, from each that ended badly to the best that ended well.

A function of the lineage alone: the same attempts give the same edges, whatever order they came in.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from kope.memory.learn import edge_id_of
from kope.model import Verdict

_FAILED = Verdict.FAILED.value
_CHILDREN = """
    SELECT n.id, n.move, n.stage, n.label, n.step_ratio, n.works, n.hardware, a.verdict
    FROM edges AS e JOIN nodes AS n ON n.id = e.dst JOIN attempts AS a ON a.id = n.attempt_id
    JOIN origins AS o ON o.id = n.origin_id
    WHERE e.src = ? AND e.kind = 'led_to' AND o.trust IN ('own', 'trusted')
"""
_KNOWN = """
    SELECT c.src, c.dst FROM edges AS e JOIN edges AS c ON c.src = e.dst AND c.kind = 'contrasts'
    WHERE e.src = ? AND e.kind = 'led_to'
"""
_PARENTS = """
    SELECT e.src FROM edges AS e JOIN nodes AS n ON n.id = e.dst JOIN origins AS o ON o.id = n.origin_id
    WHERE e.kind = 'led_to' AND o.trust IN ('own', 'trusted')
    UNION SELECT e.src FROM edges AS c JOIN edges AS e ON e.dst = c.src AND e.kind = 'led_to' WHERE c.kind = 'contrasts'
"""
"""Where there is a contrast to be drawn, or one that was."""
_DELETE = "DELETE FROM edges WHERE src = ? AND dst = ? AND kind = 'contrasts'"
_INSERT = "INSERT INTO edges (id, origin_id, src, dst, kind) VALUES (?, ?, ?, ?, 'contrasts')"
_TEXT = "INSERT INTO edge_texts (edge_id, text) VALUES (?, ?)"
_OWN = "SELECT value FROM meta WHERE key = 'origin'"


class _Child(NamedTuple):
    id: str
    move: str
    stage: str
    label: str
    step_ratio: float
    works: int
    hardware: str
    verdict: str

    @property
    def is_good(self) -> bool:
        """Whether it shows how to go on: verified, and faster than the start beyond any noise."""
        return bool(self.works) and self.label == "effective"

    @property
    def is_bad(self) -> bool:
        """Whether it was refused, or is slower than the start."""
        return self.verdict == _FAILED or self.label in ("ineffective", "negative")

    @property
    def outcome(self) -> str:
        """What became of it, in words."""
        return f"failed at {self.stage}" if self.verdict == _FAILED else f"came to {self.step_ratio:.2f}x"


def rebuild(connection: sqlite3.Connection) -> None:
    """Bring the contrasts of the whole graph up to date."""
    for (parent,) in connection.execute(_PARENTS).fetchall():
        recontrast(connection, parent)


def recontrast(connection: sqlite3.Connection, parent_id: str) -> None:
    """Bring the contrasts among the children of a node up to date, inside the caller's transaction."""
    children = [_Child(*row) for row in connection.execute(_CHILDREN, (parent_id,))]
    wanted: dict[tuple[str, str], str] = {}
    for hardware in {child.hardware for child in children}:
        here = [child for child in children if child.hardware == hardware]
        good = max(
            (child for child in here if child.is_good), key=lambda child: (child.step_ratio, child.id), default=None
        )
        if good is not None:
            for bad in (child for child in here if child.is_bad):
                wanted[bad.id, good.id] = f"{bad.move} {bad.outcome}; from the same start {good.move} {good.outcome}"
    known = set(connection.execute(_KNOWN, (parent_id,)).fetchall())
    connection.executemany(_DELETE, sorted(known - wanted.keys()))
    origin: str = connection.execute(_OWN).fetchone()[0]
    for src, dst in sorted(wanted.keys() - known):
        edge_id = edge_id_of(src, "contrasts", dst)
        connection.execute(_INSERT, (edge_id, origin, src, dst))
        connection.execute(_TEXT, (edge_id, wanted[src, dst]))
