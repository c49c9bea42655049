"""The graph as recall works with it: narrow rows, lineage and vectors in memory, brought up to date by revision.

Every change of a node raises its revision, so that catching up reads only what changed, whoever changed it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from kope.memory.database import Database
from kope.memory.value import Key, Values, key_of, purpose_of, was_helped
from kope.memory.words import Vocabulary, terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Node(NamedTuple):
    """A node, and of its attempt what recall decides on. traits: JSON. plan is read when asked for.

    retired: 1 or 0 when a person said so, None otherwise.
    """

    seq: int
    id: str
    kind: str
    attempt_id: str | None
    task_name: str
    move: str
    traits: str
    stage: str
    works: int
    label: str
    speedup: float | None
    step_ratio: float
    downstream: float
    confidence: float
    hardware: str
    bottleneck: str
    created_at: str
    revision: int
    session_id: str | None
    task_digest: str | None
    candidate_id: str | None
    promoted: int
    verdict: str | None
    time_kind: str | None
    retired: int | None
    standing: str
    origin_id: str


Group = tuple[str, str, str]
"""Task digest, task name and traits (JSON): nodes that are equally like any other operator."""


def group_of(node: Node) -> Group:
    """Return the group of a node."""
    return node.task_digest or "", node.task_name, node.traits


def is_trusted(node: Node) -> bool:
    """Whether an experience was made or measured here, or a person said that it counts as if it were."""
    return node.standing in ("own", "trusted")


_NODES = """
    SELECT n.seq, n.id, n.kind, n.attempt_id, n.task_name, n.move, n.traits, n.stage, n.works, n.label, n.speedup,
           n.step_ratio, n.downstream, n.confidence, n.hardware, n.bottleneck, n.created_at, n.revision,
           a.session_id, a.task_digest, a.candidate_id, coalesce(a.promoted, 0), a.verdict, a.time_kind, n.retired,
           o.trust, n.origin_id
    FROM nodes AS n JOIN origins AS o ON o.id = n.origin_id LEFT JOIN attempts AS a ON a.id = n.attempt_id
    WHERE n.revision > ? ORDER BY n.revision
"""
_LINEAGE = "SELECT seq, src, dst FROM edges WHERE kind = 'led_to' AND seq > ? ORDER BY seq"
_PLANS = """
    SELECT a.seq, n.id, t.plan FROM attempts AS a JOIN attempt_texts AS t ON t.attempt_id = a.id
    JOIN nodes AS n ON n.attempt_id = a.id WHERE a.seq > ? ORDER BY a.seq
"""
_USES = "SELECT seq, src, dst FROM edges WHERE kind = 'used' AND seq > ? ORDER BY seq"
_TASKS = "SELECT digest, name, text, tags FROM tasks"
_TASK_COUNT = "SELECT count(*) FROM tasks"
_ORIGINS = "SELECT id, label FROM origins"
_NEWEST = """
    SELECT (SELECT max(revision) FROM nodes), (SELECT value FROM meta WHERE key = 'generation')
"""
_VECTORS = {
    "nodes": "SELECT seq, embedding, embedder, id FROM nodes WHERE seq > ? AND embedding IS NOT NULL ORDER BY seq",
    "edges": "SELECT seq, embedding, embedder, dst FROM edges WHERE seq > ? AND embedding IS NOT NULL ORDER BY seq",
}


_COMPARED = 800
"""Rows compared in full: of 100 nearest of 100,000 the signs bring all but a few among these."""


class Image:
    """The graph in memory. by_id holds nodes in the order they first came; parents and children are lineage alone.

    tags: structure words of each task, by digest; says: all words of its name and text. groups: nodes by what they are
    similar in, oldest first; touched: the revision in which each group last changed. values: learned from use.
    origins: label of each file that rows were taken over from. set_aside: whether any node is not simply to be seen.
    seen: what recall made from all of it, to be made again when it changes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reset()

    def _reset(self) -> None:
        self.by_id: dict[str, Node] = {}
        self.by_seq: dict[int, str] = {}
        self.parents: dict[str, str] = {}
        self.children: dict[str, list[str]] = {}
        self.plans: dict[str, str] = {}
        self.tags: dict[str, tuple[str, ...]] = {}
        self.says: dict[str, frozenset[str]] = {}
        self.groups: dict[Group, list[str]] = {}
        self.touched: dict[Group, int] = {}
        self.values = Values()
        self.origins: dict[str, str] = {}
        self.set_aside = False
        self.seen: dict[Any, Any] = {}
        self.vectors = {table: Vectors(self._database, table) for table in _VECTORS}
        self.vocabulary = Vocabulary()
        self.revision = -1
        self._last_edge = -1
        self._last_use = -1
        self._last_plan = -1
        self._keys: dict[str, tuple[Key, bool]] = {}
        self._generation: str | None = None

    def catch_up(self) -> None:
        """Read what was written since the last time; everything again when rows have gone.

        Belongs into `Database.reading`, which holds off what others write meanwhile.
        """
        newest, generation = self._database.row(_NEWEST) or (None, None)
        if newest is None or newest < self.revision or generation != self._generation:
            self._reset()
            self._generation = generation
        if newest is None or newest == self.revision:
            return
        self._read_tasks()
        fresh = self._read_nodes()
        self.revision = newest
        for seq, src, dst in self._database.rows(_LINEAGE, (self._last_edge,)):
            self._last_edge = seq
            self.parents[dst] = src
            self.children.setdefault(src, []).append(dst)
        self._read_values(fresh)

    def _read_tasks(self) -> None:
        if self._database.row(_TASK_COUNT) == (len(self.tags),):
            return
        for digest, name, text, tags in self._database.rows(_TASKS):
            self.tags[digest] = tuple(json.loads(tags))
            self.says[digest] = frozenset(terms_of(f"{name} {text} {' '.join(self.tags[digest])}"))

    def _read_nodes(self) -> list[Node]:
        """Take in new and changed nodes; returns the new ones."""
        fresh = []
        for row in self._database.rows(_NODES, (self.revision,)):
            node = Node._make(row)
            group = group_of(node)
            if node.id not in self.by_id:
                self.by_seq[node.seq] = node.id
                self.groups.setdefault(group, []).append(node.id)
                fresh.append(node)
            self.by_id[node.id] = node
            self.touched[group] = node.revision
            self.set_aside = self.set_aside or not is_trusted(node)
        if self.set_aside:
            self.origins = {name: label or name[:8] for name, label in self._database.rows(_ORIGINS)}
        return fresh

    def _read_values(self, fresh: Iterable[Node]) -> None:
        """Count new attempts, and new uses, for what they say of the experiences they used."""
        for node in fresh:
            if node.verdict is None or not is_trusted(node):
                continue
            parent = self.by_id.get(self.parents.get(node.id, ""))
            purpose = purpose_of(parent is not None, parent.verdict if parent is not None else None)
            helped = was_helped(purpose, node.verdict, node.step_ratio, node.time_kind)
            self._keys[node.id] = key_of(purpose, node.hardware), helped
            self.values.add_attempt(*self._keys[node.id])
        for seq, src, dst in self._database.rows(_USES, (self._last_use,)):
            self._last_use = seq
            if src in self._keys:
                self.values.add_use(dst, *self._keys[src])

    def read_plans(self) -> dict[str, str]:
        """Return the plan of every node that has an attempt, as JSON by node id."""
        for seq, node_id, plan in self._database.rows(_PLANS, (self._last_plan,)):
            self._last_plan = seq
            self.plans[node_id] = plan
        return self.plans


class Vectors:
    """All vectors of one table that one embedder made, as unit rows in float16, and the signs of each row as bits.

    The bits of a vector say in 1/32 of the bytes roughly what it is near; what is nearest by them is compared in full.
    Both grow by doubling.
    """

    def __init__(self, database: Database, table: str) -> None:
        self._database = database
        self._sql = _VECTORS[table]
        self._last_seq = -1
        self._rows: NDArray[np.float16] | None = None
        self._signs: NDArray[np.uint64] | None = None
        self._embedder = ""
        self.node_ids: list[str] = []
        self.foreign = 0
        """Vectors that another embedder made, or of another dimension; they cannot be compared with ours."""

    def nearest(
        self, vector: NDArray[np.float32], embedder: str, allowed: Iterable[str] | None, count: int
    ) -> list[tuple[str, float]]:
        """Return (node id, cosine) of the `count` nearest, best first. allowed: node ids to choose from, None for all.

        For edges the node id is where the edge leads. Of many rows those are compared whose signs differ least; those
        that are nearest in truth are hardly ever missing.
        """
        import numpy as np

        self._catch_up(embedder, len(vector))
        if self._rows is None or self._signs is None or not self.node_ids:
            return []
        places = self._likely(vector, allowed, max(_COMPARED, 4 * count))
        scores = self._rows[places].astype(np.float32) @ vector
        # Equal scores in the order of arrival, so that the answer does not depend on how the partition fell.
        best = np.lexsort((places, -scores))[:count]
        return [(self.node_ids[places[at]], float(scores[at])) for at in best]

    def _likely(self, vector: NDArray[np.float32], allowed: Iterable[str] | None, most: int) -> NDArray[np.intp]:
        """Return the rows worth comparing: all when there are few, else those whose signs differ least."""
        import numpy as np

        assert self._signs is not None
        total = len(self.node_ids)
        if allowed is not None:
            wanted = allowed if isinstance(allowed, set | frozenset | dict) else set(allowed)
            kept = np.fromiter((node in wanted for node in self.node_ids), bool, total).nonzero()[0]
        else:
            kept = np.arange(total)
        if len(kept) <= most:
            return kept
        signs = self._signs[:total] if allowed is None else self._signs[kept]
        differing = _bits_set(signs ^ _signs_of(vector[None, :])).sum(axis=1, dtype=np.uint16)
        return np.sort(kept[np.argpartition(differing, most)[:most]])

    def _catch_up(self, embedder: str, dim: int) -> None:
        import numpy as np

        if embedder != self._embedder:
            self._embedder, self._last_seq, self._rows, self._signs = embedder, -1, None, None
            self.node_ids, self.foreign = [], 0
        fresh: list[bytes] = []
        for seq, data, made_by, node_id in self._database.rows(self._sql, (self._last_seq,)):
            self._last_seq = seq
            if made_by == embedder and len(data) == 2 * dim:
                fresh.append(data)
                self.node_ids.append(node_id)
            else:
                self.foreign += 1
        if not fresh:
            return
        rows = np.frombuffer(b"".join(fresh), "<f2").reshape(-1, dim).astype(np.float16)
        # Imported bytes may hold anything: a NaN would win every comparison.
        np.nan_to_num(rows, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        used = len(self.node_ids) - len(fresh)
        self._rows = _grown(self._rows, used, rows)
        self._signs = _grown(self._signs, used, _signs_of(rows))


def _grown(held: NDArray[Any] | None, used: int, fresh: NDArray[Any]) -> NDArray[Any]:
    """Return the array with rows put after the first `used`, in a larger one when they do not fit."""
    import numpy as np

    needed = used + len(fresh)
    if held is None or len(held) < needed:
        # Exactly as many at first: a database that is only read, once, is not held twice over.
        grown = np.empty((needed if held is None else max(256, needed, 2 * used), fresh.shape[1]), fresh.dtype)
        if held is not None:
            grown[:used] = held[:used]
        held = grown
    held[used:needed] = fresh
    return held


def _signs_of(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return which components are positive as bits, in whole words of 64."""
    import numpy as np

    bits = np.packbits(rows > 0, axis=1)
    spare = -bits.shape[1] % 8
    return np.pad(bits, ((0, 0), (0, spare))).view(np.uint64) if spare else bits.view(np.uint64)


def _bits_set(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return how many bits of each word are set. NumPy has it from 2.0 on."""
    import numpy as np

    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(words), np.uint8)
    octets = words.view(np.uint8).reshape(*words.shape, 8)
    return np.asarray(np.unpackbits(octets, axis=-1).sum(axis=-1), np.uint8)
