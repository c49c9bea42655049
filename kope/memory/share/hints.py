"""What comes with an attempt beside its rows: what its time goes to, and its vectors, as far as a file's are usable.

They are hints: nothing is counted on, and what is known here goes first.
"""

from __future__ import annotations

import sqlite3

from kope.memory.learn import node_id_of
from kope.memory.record import NO_VECTOR, Vector
from kope.memory.share.rebuild import Hint

_DIM_LIMIT = 4096
_HINT = """
    SELECT n.id, n.bottleneck, n.embedder, n.embedding, e.embedder, e.embedding FROM nodes AS n
    LEFT JOIN edges AS e ON e.dst = n.id AND e.kind = 'led_to' WHERE n.attempt_id = ?
"""
_BOTTLENECKS = "SELECT attempt_id, bottleneck FROM nodes WHERE bottleneck <> '' AND attempt_id IS NOT NULL"
_HERE = """
    SELECT n.bottleneck, o.trust = 'own' FROM nodes AS n JOIN origins AS o ON o.id = n.origin_id WHERE n.attempt_id = ?
"""


class Hints:
    """Bottleneck and vectors of attempts: what is known of them here, and what the file says that is usable."""

    def __init__(self, here: sqlite3.Connection, there: sqlite3.Connection) -> None:
        self._here = here
        self._there = there
        self.without_vector = 0

    def better_known(self) -> list[str]:
        """Return the attempts that are here and of which the file knows a bottleneck that belongs in its place."""
        found = []
        for name, told in self._there.execute(_BOTTLENECKS):
            row = self._here.execute(_HERE, (name,)).fetchone() if type(name) is str else None
            if row is not None and self._joined(row, told) != row[0]:
                found.append(name)
        return found

    def of(self, attempt_id: str) -> Hint:
        """Return what is known beside the rows of an attempt that is here."""
        return self._hint(attempt_id, self._here.execute(_HERE, (attempt_id,)).fetchone() or ("", False))

    def of_new(self, attempt_id: str) -> Hint:
        """Return what the file says beside the rows of an attempt that was not here."""
        return self._hint(attempt_id, ("", False))

    def _hint(self, attempt_id: str, here: tuple[str, bool]) -> Hint:
        row = self._there.execute(_HINT, (attempt_id,)).fetchone()
        if row is None or row[0] != node_id_of(attempt_id):
            self.without_vector += 1
            return Hint(here[0])
        node = _vector(row[2], row[3])
        self.without_vector += node is NO_VECTOR
        return Hint(self._joined(here, row[1]), node, _vector(row[4], row[5]))

    @staticmethod
    def _joined(here: tuple[str, bool], told: object) -> str:
        """Return one of two bottlenecks: our own, else the one that sorts first, so that no order decides."""
        known, own = here
        if own or type(told) is not str or not 0 < len(told) <= 200:
            return known
        return min(known, told) if known else told


def _vector(embedder: object, data: object) -> Vector:
    """Return a vector of unit length, NO_VECTOR for anything else."""
    import numpy as np

    if type(embedder) is not str or not 0 < len(embedder) <= 300 or type(data) is not bytes:
        return NO_VECTOR
    if not data or len(data) % 2 or len(data) > 2 * _DIM_LIMIT:
        return NO_VECTOR
    values = np.frombuffer(data, "<f2").astype(np.float32)
    length = float(np.dot(values, values))
    return Vector(data, embedder) if 0.97 <= length <= 1.03 else NO_VECTOR
