"""The best kernels that came from elsewhere and were not judged here yet.

Judging them is the evaluator's business; what it finds is an attempt of our own, and the proof.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from kope.memory.encode import unpack
from kope.memory.learn import node_id_of

_BEST = """
    WITH claimed AS (
        SELECT a.id, a.task_name, a.task_digest, a.candidate_id, a.move, a.hardware, a.typical_us, a.speedup,
               CASE o.label WHEN '' THEN substr(o.id, 1, 8) ELSE o.label END AS origin,
               row_number() OVER (
                   PARTITION BY a.task_digest, a.candidate_id ORDER BY a.speedup DESC, a.id
               ) AS copy
        FROM attempts AS a JOIN origins AS o ON o.id = a.origin_id
        WHERE o.trust = 'quarantined' AND a.verdict = 'verified' AND a.candidate_id IS NOT NULL
        AND (?1 = '' OR a.task_name = ?1 OR a.task_digest = ?1)
        AND NOT EXISTS (
            SELECT 1 FROM attempts AS own JOIN origins AS us ON us.id = own.origin_id
            WHERE us.trust = 'own' AND own.candidate_id = a.candidate_id AND own.task_digest = a.task_digest
            AND own.hardware = ?2
        )
    ),
    ranked AS (
        SELECT *, row_number() OVER (PARTITION BY task_digest ORDER BY speedup DESC, id) AS place
        FROM claimed WHERE copy = 1
    )
    SELECT r.id, r.task_name, r.task_digest, r.move, r.hardware, r.typical_us, r.origin, c.source
    FROM ranked AS r JOIN candidates AS c ON c.id = r.candidate_id
    ORDER BY r.place, r.task_name, r.id LIMIT ?3
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A kernel that somebody else says is right. typical_us: as measured there, on `hardware`. origin: whose it is."""

    attempt_id: str
    task_name: str
    task_digest: str
    move: str
    hardware: str
    typical_us: float | None
    origin: str
    source: str

    @property
    def experience_id(self) -> str:
        """The experience of the claim."""
        return node_id_of(self.attempt_id)


def best_claims(connection: sqlite3.Connection, task: str, hardware: str, count: int) -> tuple[Claim, ...]:
    """Return the fastest of every task first, then the second of each; of one task where given, by name or digest.

    hardware: where they were not judged yet.
    """
    found = connection.execute(_BEST, (task, hardware, count)).fetchall()
    return tuple(
        Claim(attempt_id, name, digest, move, there, typical_us, origin, unpack(source))
        for attempt_id, name, digest, move, there, typical_us, origin, source in found
    )
