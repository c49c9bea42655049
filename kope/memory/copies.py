"""Our own copies of kernels that came from elsewhere: the same source, or nearly, by a run that was shown the other.

What started from one by name is its descendant already; these are the ones that no lineage shows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection

from kope.memory.encode import unpack
from kope.memory.learn import node_id_of

NEARLY = 0.9
"""Share of lines, comments and empty ones left out, that two sources have in common when one is a near copy."""
_FOREIGN = """
    SELECT a.id, a.candidate_id, c.source FROM attempts AS a JOIN origins AS o ON o.id = a.origin_id
    JOIN candidates AS c ON c.id = a.candidate_id
    WHERE o.trust <> 'own' AND a.id IN (SELECT value FROM json_each(?))
"""
_OWN = """
    SELECT a.id, a.candidate_id, a.used, c.source FROM attempts AS a JOIN origins AS o ON o.id = a.origin_id
    JOIN candidates AS c ON c.id = a.candidate_id WHERE o.trust = 'own'
"""


def copies_of(connection: sqlite3.Connection, names: Collection[str]) -> set[str]:
    """Return our own attempts that are copies of those named attempts that came from elsewhere."""
    sources: dict[str, frozenset[str]] = {}
    candidates: set[str] = set()
    for name, candidate, source in connection.execute(_FOREIGN, (json.dumps(sorted(names)),)):
        candidates.add(candidate)
        sources[node_id_of(name)] = _lines(source)
    found = set()
    for name, candidate, used, source in connection.execute(_OWN) if candidates else ():
        shown = [sources[node] for node in json.loads(used) if node in sources] if used != "[]" else []
        if candidate in candidates or (shown and any(_alike(_lines(source), other) for other in shown)):
            found.add(name)
    return found


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    longest = max(len(one), len(other))
    return longest > 0 and len(one & other) >= NEARLY * longest


def _lines(source: bytes) -> frozenset[str]:
    lines = (line.strip() for line in unpack(source).splitlines())
    return frozenset(line for line in lines if line and not line.startswith("//"))
