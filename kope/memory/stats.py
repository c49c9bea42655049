"""How healthy a memory is: growth, use, duplicates, what is out of date or retired, and whether it echoes itself."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from kope.memory.image import Image, is_trusted
from kope.memory.value import Key, Worth

NEAR = 0.98
"""Cosine from which two experiences of one task say the same."""
_NEAR_SAMPLE = 2_000
_RANKED = 5

_DAYS = "SELECT substr(created_at, 1, 10), count(*) FROM attempts GROUP BY 1 ORDER BY 1"
_CONTEXT = """
    SELECT count(*), sum(prompt_id IS NOT NULL), sum(used <> '[]'), sum(prompt_id IS NOT NULL AND used <> '[]')
    FROM attempts
"""
_REPEATS = """
    SELECT count(*) - count(DISTINCT candidate_id || task_digest) FROM attempts WHERE candidate_id IS NOT NULL
"""
_ECHOES = """
    SELECT count(DISTINCT e.src) FROM edges AS e
    JOIN nodes AS n ON n.id = e.src JOIN attempts AS a ON a.id = n.attempt_id
    JOIN nodes AS m ON m.id = e.dst JOIN attempts AS b ON b.id = m.attempt_id
    WHERE e.kind = 'used' AND a.candidate_id = b.candidate_id
"""
_USING = "SELECT count(DISTINCT src), count(DISTINCT dst), count(*) FROM edges WHERE kind = 'used'"
_STALE = """
    WITH newest AS (
        SELECT target, toolchain, evaluator FROM attempts WHERE seq IN (SELECT max(seq) FROM attempts GROUP BY target)
    )
    SELECT count(*) FROM attempts AS a JOIN newest AS n ON n.target = a.target
    WHERE a.toolchain <> n.toolchain OR a.evaluator <> n.evaluator
"""
_SAID = "SELECT id, retired FROM nodes WHERE retired IS NOT NULL"
_KINDS = "SELECT kind, count(*) FROM nodes GROUP BY kind ORDER BY kind"
_EMBEDDED = "SELECT task_name, embedder, embedding FROM nodes WHERE embedding IS NOT NULL ORDER BY seq DESC LIMIT ?"
_SIZES = (
    ("code", "SELECT coalesce(sum(length(source)), 0) FROM candidates"),
    ("prompts", "SELECT coalesce(sum(length(text)), 0) FROM prompts"),
    ("vectors", "SELECT (SELECT coalesce(sum(length(embedding)), 0) FROM nodes)"
                " + (SELECT coalesce(sum(length(embedding)), 0) FROM edges)"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rated:
    """An experience with what its use taught for one purpose and hardware."""

    experience_id: str
    title: str
    key: Key
    worth: Worth


@dataclass(frozen=True, slots=True)
class Stats:
    """A memory in figures; shares are in [0, 1].

    by_day: attempts; kinds: experiences by kind; sizes: bytes of code, prompts and vectors. hit_share: of attempts with
    a prompt, those that had experience in it. used_share: of experiences, those that were ever used. uses: how often in
    all. repeated_share: of attempts, those of a source tried before on the task. near_share: of the newest experiences
    compared, those that say what another of the task says. echo_share: of attempts that used experience, those whose
    source was one of those they used. stale_share: of attempts, those judged by an older toolchain or evaluator than
    the newest on their target. retired: experiences not recalled any more, of which by_hand by a person.
    """

    attempts: int
    by_day: dict[str, int]
    kinds: dict[str, int]
    sizes: dict[str, int]
    hit_share: float
    used_share: float
    uses: int
    repeated_share: float
    near_share: float
    near_compared: int
    echo_share: float
    stale_share: float
    retired: int
    by_hand: int
    best: tuple[Rated, ...]
    worst: tuple[Rated, ...]


def read_stats(connection: sqlite3.Connection, image: Image) -> Stats:
    """Return the figures of a database. The image is up to date with it."""
    attempts, prompted, _, hits = (int(value or 0) for value in connection.execute(_CONTEXT).fetchone())
    using, used, uses = connection.execute(_USING).fetchone()
    near, compared = _near(connection)
    rated = _rated(connection, image)
    by_record = {each.experience_id for each in rated if each.worth.retired}
    said = dict(connection.execute(_SAID).fetchall())
    by_hand = {name for name, retired in said.items() if retired}
    return Stats(
        attempts=attempts,
        by_day=dict(connection.execute(_DAYS).fetchall()),
        kinds=dict(connection.execute(_KINDS).fetchall()),
        sizes={name: int(connection.execute(sql).fetchone()[0]) for name, sql in _SIZES},
        hit_share=_share(hits, prompted),
        used_share=_share(used, image.count),
        uses=uses,
        repeated_share=_share(connection.execute(_REPEATS).fetchone()[0], attempts),
        near_share=_share(near, compared),
        near_compared=compared,
        echo_share=_share(connection.execute(_ECHOES).fetchone()[0], using),
        stale_share=_share(connection.execute(_STALE).fetchone()[0], attempts),
        retired=len((by_record - said.keys()) | by_hand),
        by_hand=len(by_hand),
        best=tuple(rated[:_RANKED]),
        worst=tuple(each for each in rated[::-1][:_RANKED] if each.worth.value < 1.0),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _rated(connection: sqlite3.Connection, image: Image) -> list[Rated]:
    """Return experiences that were used, by how much more attempts were helped with them than without, best first."""
    titles = dict(connection.execute("SELECT node_id, title FROM node_texts").fetchall())
    values = image.all_values()
    found = [
        Rated(name, titles.get(name, ""), key, worth)
        for name, node in image.named(values.of).items()
        if is_trusted(node)
        for key, worth in values.worths(name).items()
    ]
    return sorted(found, key=lambda each: (-each.worth.value, -each.worth.uses, each.experience_id))


def _near(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return how many of the newest experiences say what another one of the task says, and of how many."""
    import numpy as np

    groups: dict[tuple[str, str], list[bytes]] = {}
    for task_name, embedder, data in connection.execute(_EMBEDDED, (_NEAR_SAMPLE,)):
        groups.setdefault((task_name, f"{embedder} {len(data)}"), []).append(data)
    near = 0
    for rows in groups.values():
        matrix = np.nan_to_num(np.frombuffer(b"".join(rows), "<f2").reshape(len(rows), -1).astype(np.float32))
        alike = matrix @ matrix.T
        np.fill_diagonal(alike, 0.0)
        near += int((alike.max(axis=1) >= NEAR).sum())
    return near, sum(len(rows) for rows in groups.values())
