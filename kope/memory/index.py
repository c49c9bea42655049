"""Derived tables that let recall read only what one question needs: places, tallies, and the signs of vectors.

Made from nodes, edges and attempts, at any time again; they never travel. Every transaction that adds nodes ends with
`extend`, one that changes or removes others calls `clear` before it. Reading them is image's and vectors' business.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from kope.memory.database import Database
from kope.memory.value import key_of, purpose_of, was_helped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TABLES = ("scenes", "places", "tallies", "codes")
RANGE = 512
"""Rows of a table whose vectors are coded together; what came after the last full range is read row by row."""
_EXPONENT = 0x7C00
"""Of a half-precision number: all ones in infinities and NaN."""
_MOST_AT_ONCE = 16 * RANGE

_FACTS = """
    SELECT n.seq, coalesce(a.task_digest, ''), n.task_name, n.traits, n.origin_id, n.hardware, a.verdict, n.step_ratio,
           a.time_kind, e.src IS NOT NULL, b.verdict
    FROM nodes AS n LEFT JOIN attempts AS a ON a.id = n.attempt_id
    LEFT JOIN edges AS e ON e.dst = n.id AND e.kind = 'led_to'
    LEFT JOIN nodes AS m ON m.id = e.src LEFT JOIN attempts AS b ON b.id = m.attempt_id
"""
_NEW = f"{_FACTS} WHERE n.seq > (SELECT coalesce(max(seq), -1) FROM places) ORDER BY n.seq"
_THESE = f"{_FACTS} WHERE n.seq IN (SELECT value FROM json_each(?)) ORDER BY n.seq"
_SCENE = "SELECT seq FROM scenes WHERE task_digest = ? AND task_name = ? AND traits = ?"
_NEW_SCENE = "INSERT INTO scenes (task_digest, task_name, traits) VALUES (?, ?, ?) RETURNING seq"
_PLACE = "INSERT INTO places (seq, scene, purpose, helped) VALUES (?, ?, ?, ?)"
_NO_PLACE = "DELETE FROM places WHERE seq = ?"
_TALLY = """
    INSERT INTO tallies (origin_id, purpose, hardware, attempts, helped) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (origin_id, purpose, hardware)
    DO UPDATE SET attempts = attempts + excluded.attempts, helped = helped + excluded.helped
"""
_IS_WHOLE = """
    SELECT (SELECT coalesce(max(seq), -1) FROM nodes) = (SELECT coalesce(max(seq), -1) FROM places)
"""
VECTORS = {
    "nodes": "SELECT n.seq, n.seq, n.embedder, n.embedding FROM nodes AS n WHERE n.embedding IS NOT NULL AND ",
    "edges": "SELECT e.seq, n.seq, e.embedder, e.embedding FROM edges AS e JOIN nodes AS n ON n.id = e.dst"
             " WHERE e.embedding IS NOT NULL AND ",
}  # fmt: skip
"""Row, node it finds, embedder and vector of everything that has one, by part."""
RANGED = {"nodes": "n.seq > ? AND n.seq <= ? ORDER BY n.seq", "edges": "e.seq > ? AND e.seq <= ? ORDER BY e.seq"}
_NEWEST = {part: f"SELECT coalesce(max(seq), 0) FROM {part}" for part in VECTORS}
_CODED = "SELECT coalesce(max(last_seq), 0) FROM codes WHERE part = ?"
_CODE = "INSERT INTO codes (part, last_seq, first_seq, embedder, dim, seqs, signs) VALUES (?, ?, ?, ?, ?, ?, ?)"
_HELD = "SELECT first_seq, last_seq, embedder, dim, seqs, signs FROM codes WHERE part = ?"
_AROUND = "SELECT DISTINCT first_seq, last_seq FROM codes WHERE part = ?1 AND first_seq <= ?2 AND last_seq >= ?2"
_NO_LATER = "DELETE FROM codes WHERE part = ? AND last_seq > ?"
_NO_CODE = "DELETE FROM codes WHERE part = ? AND last_seq = ?"


def ready(database: Database) -> None:
    """Make what is missing: of a file that was just brought to this schema, or of one that never had it, an export.

    For a file that is not written to, in tables of this connection alone that stand before the file's own.
    """
    if database.row(_IS_WHOLE) == (1,):
        return
    if database.read_only:
        with database.lock:
            _shadow(database.connection)
            extend(database.connection)
        return
    with database.write() as connection:
        extend(connection)


def clear(connection: sqlite3.Connection) -> None:
    """Forget everything; the next `extend` makes it all again. Inside the caller's transaction."""
    for name in TABLES:
        connection.execute(f"DELETE FROM {name}")


def extend(connection: sqlite3.Connection) -> None:
    """Take in the nodes that came last, inside the caller's transaction."""
    _place(connection, connection.execute(_NEW).fetchall())
    for part in VECTORS:
        _code_new(connection, part)


def replace(connection: sqlite3.Connection, changed: Collection[int], gone: Collection[int]) -> None:
    """Take in what became of lessons, by seq: changed ones may belong elsewhere, numbers of gone ones come again."""
    placed = [seq for seq in (*changed, *gone) if connection.execute(_NO_PLACE, (seq,)).rowcount]  # else `extend` will
    again = json.dumps(sorted(set(placed) & set(changed)))
    _place(connection, connection.execute(_THESE, (again,)).fetchall())
    for first, last in {found for seq in gone for found in connection.execute(_AROUND, ("nodes", seq)).fetchall()}:
        connection.execute(_NO_CODE, ("nodes", last))
        _code(connection, "nodes", first - 1, last)


# --- places and tallies ---------------------------------------------------------------------------------------------


def _place(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    scenes: dict[tuple[str, ...], int] = {}
    tallies: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    placed = []
    for seq, digest, task_name, traits, origin_id, hardware, verdict, ratio, time_kind, has_parent, above in rows:
        group = digest, task_name, traits
        if group not in scenes:
            scenes[group] = _scene(connection, group)
        purpose = helped = None
        if verdict is not None:
            purpose = purpose_of(bool(has_parent), above)
            helped = was_helped(purpose, verdict, ratio, time_kind)
            tally = tallies[origin_id, *key_of(purpose, hardware)]
            tally[0] += 1
            tally[1] += helped
        placed.append((seq, scenes[group], purpose, helped))
    connection.executemany(_PLACE, placed)
    connection.executemany(_TALLY, [(*key, *counts) for key, counts in tallies.items()])


def _scene(connection: sqlite3.Connection, group: tuple[str, ...]) -> int:
    row = connection.execute(_SCENE, group).fetchone() or connection.execute(_NEW_SCENE, group).fetchone()
    return int(row[0])


# --- signs of vectors -----------------------------------------------------------------------------------------------


def _code_new(connection: sqlite3.Connection, part: str) -> None:
    newest = connection.execute(_NEWEST[part]).fetchone()[0]
    connection.execute(_NO_LATER, (part, newest))  # numbers of what was removed come again
    done = connection.execute(_CODED, (part,)).fetchone()[0]
    while newest - done >= RANGE:
        upto = min(newest, done + _MOST_AT_ONCE)
        _code(connection, part, done, upto)
        done = upto


def _code(connection: sqlite3.Connection, part: str, after: int, upto: int) -> None:
    """Write the codes of a range of rows; one that holds no vector is noted as done."""
    rows = _codes_of(connection, part, after, upto) or [("", 0, b"", b"")]
    connection.executemany(_CODE, [(part, upto, after + 1, *row) for row in rows])


def _codes_of(connection: sqlite3.Connection, part: str, after: int, upto: int) -> list[tuple[str, int, bytes, bytes]]:
    """Return embedder, dimension, nodes and signs of the vectors in a range of rows."""
    found: defaultdict[tuple[str, int], tuple[list[int], list[bytes]]] = defaultdict(lambda: ([], []))
    for _, seq, embedder, data in connection.execute(VECTORS[part] + RANGED[part], (after, upto)):
        seqs, vectors = found[embedder, len(data) // 2]
        seqs.append(seq)
        vectors.append(data)
    if not found:
        return []
    import numpy as np

    return [
        (embedder, dim, np.array(seqs, "<i8").tobytes(), signs_of(from_bytes(vectors, dim)).tobytes())
        for (embedder, dim), (seqs, vectors) in found.items()
    ]


def from_bytes(vectors: Iterable[bytes], dim: int) -> NDArray[np.float16]:
    """Return stored vectors as rows. Imported bytes may hold anything: what is no number becomes 0, to win nothing."""
    import numpy as np

    bits = np.frombuffer(b"".join(vectors), "<u2").reshape(-1, dim).copy()
    bits[bits & _EXPONENT == _EXPONENT] = 0
    return bits.view("<f2")


def signs_of(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return which components are positive as bits, in whole words of 64, little-endian. Rows hold numbers, no NaN."""
    import numpy as np

    # A half-precision number is positive when its bits are, read as an integer: ten times as fast to ask.
    bits = np.packbits((rows.view("<i2") if rows.dtype == np.float16 else rows) > 0, axis=1)
    spare = -bits.shape[1] % 8
    return (np.pad(bits, ((0, 0), (0, spare))) if spare else bits).view("<u8")


# --- compared with what it is made from -----------------------------------------------------------------------------

_DIFFERENCES = {
    "places": """
        SELECT p.seq, s.task_digest, s.task_name, s.traits, p.purpose, p.helped
        FROM {0}.places AS p JOIN {0}.scenes AS s ON s.seq = p.scene JOIN nodes AS n ON n.seq = p.seq
    """,
    "tallies": "SELECT origin_id, purpose, hardware, attempts, helped FROM {0}.tallies",
}


def differences(connection: sqlite3.Connection) -> dict[str, int]:
    """Return how many entries of each table are not what would be made now; {} when all is as it should be."""
    if connection.execute("SELECT 1 FROM temp.sqlite_schema WHERE name = 'places'").fetchone():
        return {}  # `ready` has just made them
    _shadow(connection)
    try:
        extend(connection)
        found = {
            name: _count(connection, f"{sql.format('main')} EXCEPT {sql.format('temp')}")
            + _count(connection, f"{sql.format('temp')} EXCEPT {sql.format('main')}")
            for name, sql in _DIFFERENCES.items()
        }
    finally:
        for name in TABLES:
            connection.execute(f"DROP TABLE temp.{name}")
    found["codes"] = sum(_wrong_codes(connection, part) for part in VECTORS)
    return {name: count for name, count in found.items() if count}


def _wrong_codes(connection: sqlite3.Connection, part: str) -> int:
    """Return how many vectors are coded wrongly, or not though their range is."""
    held: defaultdict[tuple[int, int], list[tuple[str, int, bytes, bytes]]] = defaultdict(list)
    for first, last, *row in connection.execute(_HELD, (part,)):
        held[first, last] += [tuple(row)] if row[0] else []  # one without an embedder says that there is no vector
    wrong: set[tuple[str, bytes, bytes]] = set()
    done = 0
    for first, last in sorted(held):
        for after, upto in ((done, first - 1), (first - 1, last)):
            made = sorted(held.get((after + 1, upto), []))
            wanted = sorted(_codes_of(connection, part, after, upto)) if after < upto else []
            if made != wanted:
                wrong |= _each(made) ^ _each(wanted)
        done = max(done, last)
    return len(wrong)


def _each(rows: Iterable[tuple[str, int, bytes, bytes]]) -> set[tuple[str, bytes, bytes]]:
    """Return embedder, node and signs of every vector."""
    made = set()
    for embedder, dim, seqs, signs in rows:
        width = (dim + 63) // 64 * 8
        for place in range(len(seqs) // 8):
            made.add((embedder, seqs[8 * place : 8 * place + 8], signs[width * place : width * (place + 1)]))
    return made


def _count(connection: sqlite3.Connection, sql: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM ({sql})").fetchone()[0])


def _shadow(connection: sqlite3.Connection) -> None:
    """Make the tables anew, empty, for this connection alone: they stand before those of the file."""
    listed = ", ".join(f"'{name}'" for name in TABLES)
    made = f"SELECT type, name, sql FROM main.sqlite_schema WHERE tbl_name IN ({listed}) AND sql IS NOT NULL"
    for kind, name, sql in connection.execute(made).fetchall():
        connection.execute(sql.replace(f"CREATE {kind.upper()} {name}", f"CREATE {kind.upper()} temp.{name}", 1))
