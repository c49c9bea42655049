"""The graph as recall works with it: narrow rows, lineage, uses and vectors, read when asked for and then kept.

One question touches a few hundred experiences of however many. Every change of a node raises its revision, so that
catching up forgets only what changed, whoever changed it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from kope.memory.database import Database
from kope.memory.value import Purpose, Tally, Values, key_of
from kope.memory.vectors import Vectors
from kope.memory.words import Vocabulary, terms_of

Group = tuple[str, str, str]
"""Task digest, task name and traits (JSON): experiences that are equally like any other operator."""


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


def is_trusted(node: Node) -> bool:
    """Whether an experience was made or measured here, or a person said that it counts as if it were."""
    return node.standing in ("own", "trusted")


_NODES = """
    SELECT n.seq, n.id, n.kind, n.attempt_id, n.task_name, n.move, n.traits, n.stage, n.works, n.label, n.speedup,
           n.step_ratio, n.downstream, n.confidence, n.hardware, n.bottleneck, n.created_at, n.revision,
           a.session_id, a.task_digest, a.candidate_id, coalesce(a.promoted, 0), a.verdict, a.time_kind, n.retired,
           o.trust, n.origin_id
    FROM nodes AS n JOIN origins AS o ON o.id = n.origin_id LEFT JOIN attempts AS a ON a.id = n.attempt_id
"""
_BY_SEQ = f"{_NODES} WHERE n.seq IN (SELECT value FROM json_each(?))"
_BY_ID = f"{_NODES} WHERE n.id IN (SELECT value FROM json_each(?))"
_NEWEST = """
    SELECT (SELECT max(revision) FROM nodes), (SELECT value FROM meta WHERE key = 'generation')
"""
_CHANGED = "SELECT n.seq, p.scene FROM nodes AS n LEFT JOIN places AS p ON p.seq = n.seq WHERE n.revision > ?"
_NEW_USES = "SELECT seq, dst FROM edges WHERE kind = 'used' AND seq > ?"
_LAST_EDGE = "SELECT coalesce(max(seq), 0) FROM edges"
_COUNT = "SELECT count(*) FROM nodes"
_ALL = "SELECT seq FROM nodes ORDER BY seq"
_SCENES = "SELECT seq, task_digest, task_name, traits FROM scenes WHERE seq > ? ORDER BY seq"
_OF_SCENE = "SELECT seq FROM places WHERE scene = ? ORDER BY seq"
_OWN = """
    SELECT n.seq FROM attempts AS a JOIN nodes AS n ON n.attempt_id = a.id WHERE a.session_id = ? AND a.task_name = ?
"""
_PARENTS = """
    SELECT dst, src FROM edges WHERE kind = 'led_to' AND dst IN (SELECT value FROM json_each(?))
"""
_CHILDREN = "SELECT dst FROM edges WHERE kind = 'led_to' AND src = ? ORDER BY seq"
_BELOW = """
    WITH RECURSIVE below (id) AS (
        SELECT dst FROM edges WHERE kind = 'led_to' AND src = ?1
        UNION SELECT e.dst FROM below JOIN edges AS e ON e.kind = 'led_to' AND e.src = below.id
    )
    SELECT id FROM below WHERE id <> ?1 LIMIT ?2
"""
_PLANS = """
    SELECT n.id, t.plan FROM nodes AS n JOIN attempt_texts AS t ON t.attempt_id = n.attempt_id
    WHERE n.id IN (SELECT value FROM json_each(?))
"""
_TALLIES = """
    SELECT t.purpose, t.hardware, sum(t.attempts), sum(t.helped)
    FROM tallies AS t JOIN origins AS o ON o.id = t.origin_id
    WHERE o.trust IN ('own', 'trusted') GROUP BY t.purpose, t.hardware
"""
_USES = """
    SELECT e.dst, p.purpose, n.hardware, count(*), sum(p.helped)
    FROM edges AS e JOIN nodes AS n ON n.id = e.src JOIN places AS p ON p.seq = n.seq
    JOIN origins AS o ON o.id = n.origin_id
    WHERE e.kind = 'used' AND p.purpose IS NOT NULL AND o.trust IN ('own', 'trusted') AND {}
    GROUP BY e.dst, p.purpose, n.hardware
"""
_USES_OF = _USES.format("e.dst IN (SELECT value FROM json_each(?))")
_EVERY_USE = _USES.format("e.dst IN (SELECT id FROM nodes)")
_TASKS = "SELECT digest, name, text, tags FROM tasks"
_TASK_COUNT = "SELECT count(*) FROM tasks"
_ORIGINS = "SELECT id, label FROM origins"


class Image:
    """The graph. tags: structure words of each task, by digest. scenes: the group of each scene. touched: the revision
    in which a scene last changed. origins: label of each file that rows were taken over from. count: of all nodes.
    seen: what recall made from all of it, to be made again when it changes.

    All of it belongs into `Database.reading`, after `catch_up`, which holds off what others write meanwhile.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reset()

    def _reset(self) -> None:
        self._by_seq: dict[int, Node] = {}
        self._seq_of: dict[str, int] = {}
        self._parents: dict[str, str | None] = {}
        self._plans: dict[str, str] = {}
        self._values = Values()
        self._says: dict[str, frozenset[str]] = {}
        self._texts: dict[str, str] = {}
        self.tags: dict[str, tuple[str, ...]] = {}
        self.scenes: dict[int, Group] = {}
        self.touched: dict[int, int] = {}
        self.origins: dict[str, str] = {}
        self.seen: dict[Any, Any] = {}
        self.vectors = {part: Vectors(self._database, part) for part in ("nodes", "edges")}
        self.vocabulary = Vocabulary()
        self.count = 0
        self.revision = -1
        self._last_edge = -1
        self._generation: str | None = None

    def catch_up(self) -> None:
        """Forget what was changed since the last time; everything when rows have gone."""
        newest, generation = self._database.row(_NEWEST) or (None, None)
        if newest is None or newest < self.revision or generation != self._generation:
            self._reset()
            self._generation = generation
        if newest is None or newest == self.revision:
            return
        if self.revision < 0:
            self._last_edge = self._number(_LAST_EDGE)
        else:
            self._forget_changed()
        self.revision = newest
        self.count = self._number(_COUNT)
        self.origins = {name: label or name[:8] for name, label in self._database.rows(_ORIGINS)}
        last = max(self.scenes, default=0)
        self.scenes |= {
            seq: (digest, name, traits) for seq, digest, name, traits in self._database.rows(_SCENES, (last,))
        }
        for purpose, hardware, attempts, helped in self._database.rows(_TALLIES):
            self._values.all[key_of(Purpose(purpose), hardware)] = Tally(attempts, helped)
        self._read_tasks()

    def _number(self, sql: str) -> int:
        row = self._database.row(sql)
        return int(row[0]) if row is not None else 0

    def _forget_changed(self) -> None:
        for seq, scene in self._database.rows(_CHANGED, (self.revision,)):
            self._by_seq.pop(seq, None)
            self.touched[scene] = self.touched.get(scene, 0) + 1
        for seq, name in self._database.rows(_NEW_USES, (self._last_edge,)):
            self._last_edge = seq
            self._values.of.pop(name, None)

    def _read_tasks(self) -> None:
        if self._database.row(_TASK_COUNT) == (len(self.tags),):
            return
        for digest, name, text, tags in self._database.rows(_TASKS):
            self.tags[digest] = tuple(json.loads(tags))
            self._texts[digest] = f"{name} {text} {' '.join(self.tags[digest])}"

    @property
    def says(self) -> dict[str, frozenset[str]]:
        """All words of each task's name, text and tags, by digest."""
        for digest, text in self._texts.items():
            if digest not in self._says:
                self._says[digest] = frozenset(terms_of(text))
        return self._says

    # --- nodes

    def at(self, seqs: Iterable[int]) -> list[Node]:
        """Return the nodes of these numbers, in this order; those that are gone are left out."""
        wanted = list(seqs)
        missing = [seq for seq in wanted if seq not in self._by_seq]
        if missing:
            self._keep(self._database.rows(_BY_SEQ, (json.dumps(missing),)))
        return [self._by_seq[seq] for seq in wanted if seq in self._by_seq]

    def named(self, names: Iterable[str]) -> dict[str, Node]:
        """Return the nodes of these ids that there are, in this order."""
        wanted = list(names)
        missing = [name for name in wanted if self._seq_of.get(name) not in self._by_seq]
        if missing:
            self._keep(self._database.rows(_BY_ID, (json.dumps(missing),)))
        found = ((name, self._by_seq.get(self._seq_of.get(name, -1))) for name in wanted)
        return {name: node for name, node in found if node is not None}

    def _keep(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for row in rows:
            node = Node._make(row)
            self._by_seq[node.seq] = node
            self._seq_of[node.id] = node.seq

    def everything(self) -> list[Node]:
        """Return all nodes, in the order they came."""
        return self.at(self.all_seqs())

    def all_seqs(self) -> list[int]:
        """Return the numbers of all nodes, in the order they came."""
        return self.seqs(_ALL)

    def seqs(self, sql: str, values: Collection[Any] = ()) -> list[int]:
        """Return the first column of a query, numbers of nodes."""
        return [row[0] for row in self._database.rows(sql, tuple(values))]

    def of_scene(self, scene: int) -> list[int]:
        """Return the numbers of a scene's nodes, in the order they came."""
        return self.seqs(_OF_SCENE, (scene,))

    def own(self, session_id: str, task_name: str) -> list[int]:
        """Return the numbers of a session's attempts on a task."""
        return self.seqs(_OWN, (session_id, task_name))

    # --- lineage and plans

    def parents(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return what each of some nodes started from, None for a root."""
        wanted = list(names)
        missing = [name for name in wanted if name not in self._parents]
        if missing:
            self._parents |= dict.fromkeys(missing)
            self._parents |= dict(self._database.rows(_PARENTS, (json.dumps(missing),)))
        return {name: self._parents[name] for name in wanted}

    def parent(self, name: str) -> str | None:
        """Return what a node started from, None for a root."""
        return self.parents([name])[name]

    def children(self, name: str) -> list[str]:
        """Return what started from a node, in the order it came."""
        return [row[0] for row in self._database.rows(_CHILDREN, (name,))]

    def below(self, name: str, most: int) -> list[str]:
        """Return what is below a node in the lineage, the nearest first, at most so many."""
        return [row[0] for row in self._database.rows(_BELOW, (name, most))]

    def plans(self, names: Iterable[str]) -> dict[str, str]:
        """Return the plans of nodes, as JSON; "{}" for those without an attempt."""
        wanted = list(names)
        missing = [name for name in wanted if name not in self._plans]
        if missing:
            self._plans |= dict.fromkeys(missing, "{}")
            self._plans |= dict(self._database.rows(_PLANS, (json.dumps(missing),)))
        return {name: self._plans[name] for name in wanted}

    # --- what use taught

    def values(self, names: Iterable[str]) -> Values:
        """Return what is known of these nodes from attempts that used them; of others it says that nothing is."""
        known = self._values.of
        missing = [name for name in names if name not in known]
        if missing:
            known |= {name: {} for name in missing}
            self._take_uses(self._database.rows(_USES_OF, (json.dumps(missing),)))
        return self._values

    def all_values(self) -> Values:
        """Return what is known of all nodes."""
        self._take_uses(self._database.rows(_EVERY_USE))
        return self._values

    def _take_uses(self, rows: Iterable[tuple[str, str, str, int, int]]) -> None:
        fresh: dict[str, dict[tuple[Purpose, str], Tally]] = {}
        for name, purpose, hardware, uses, helped in rows:
            key = key_of(Purpose(purpose), hardware)
            tally = fresh.setdefault(name, {}).setdefault(key, Tally())
            tally.uses += uses
            tally.helped += helped
        self._values.of |= fresh
