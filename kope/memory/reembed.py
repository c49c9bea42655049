"""Vectors made anew by another embedder, a batch at a time: stopped anywhere, the same call goes on.

Which texts have a vector is decided where they are written; this only says it again for what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kope.memory import index
from kope.memory.database import Database, new_generation
from kope.memory.encode import vector_bytes
from kope.model import Embedder, Verdict

_BATCH = 64
_WAITING = {
    "nodes": f"""
        SELECT n.id, n.seq,
               CASE a.verdict WHEN '{Verdict.FAILED.value}' THEN t.decision || char(10) || t.lesson ELSE t.decision END
        FROM nodes AS n JOIN node_texts AS t ON t.node_id = n.id LEFT JOIN attempts AS a ON a.id = n.attempt_id
        WHERE n.seq > ? AND (n.embedder IS NULL OR n.embedder <> ?) ORDER BY n.seq LIMIT ?
    """,
    "edges": """
        SELECT e.id, e.seq, t.text FROM edges AS e JOIN edge_texts AS t ON t.edge_id = e.id
        WHERE e.kind = 'led_to' AND e.seq > ? AND (e.embedder IS NULL OR e.embedder <> ?) ORDER BY e.seq LIMIT ?
    """,
}
_COUNTS = """
    SELECT (SELECT count(*) FROM nodes WHERE embedder IS NULL OR embedder <> ?1)
         + (SELECT count(*) FROM edges WHERE kind = 'led_to' AND (embedder IS NULL OR embedder <> ?1))
"""


def reembed(database: Database, embedder: Embedder, progress: Callable[[int, int], None]) -> int:
    """Give everything that has a meaning a vector of this embedder; returns how many were made.

    progress: told how many are done, of how many. Texts without direction (empty) keep no vector.
    """
    row = database.row(_COUNTS, (embedder.name,))
    total = int(row[0]) if row is not None else 0
    done = 0
    for table, sql in _WAITING.items():
        last = -1
        while batch := database.rows(sql, (last, embedder.name, _BATCH)):
            last = batch[-1][1]
            _write(database, table, embedder, [(row[0], row[2]) for row in batch])
            done += len(batch)
            progress(done, total)
    if done:
        with database.write() as connection:
            index.clear(connection)
            index.extend(connection)
            new_generation(connection)
    return done


def _write(database: Database, table: str, embedder: Embedder, texts: Sequence[tuple[str, str]]) -> None:
    vectors = embedder.embed([text for _, text in texts])
    values = []
    for (name, text), vector in zip(texts, vectors, strict=True):
        data = vector_bytes(vector) if text.strip() else None
        values.append((data, embedder.name if data is not None else None, name))
    with database.write() as connection:
        connection.executemany(f"UPDATE {table} SET embedding = ?, embedder = ? WHERE id = ?", values)
