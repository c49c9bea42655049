"""What a session may see of memory: everything, only its own, or everything with its outcomes permuted.

The placebo answers whether it is what experiences say that helps, or only that there is more to read and choose from.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from kope.memory.image import Image, Node
from kope.memory.query import Filters, MemoryMode, Scope

OUTCOME = ("stage", "works", "label", "speedup", "step_ratio", "downstream", "confidence", "promoted", "verdict")
"""What the placebo permutes, together; the lesson's text goes with it."""
_FIRST_BATCH = 64

_KINDS = {
    "tasks": "(n.task_name IN (SELECT value FROM json_each(?1)) OR a.task_digest IN (SELECT value FROM json_each(?1)))",
    "moves": "n.move IN (SELECT value FROM json_each(?1))",
    "kinds": "n.kind IN (SELECT value FROM json_each(?1))",
    "hardware": "n.hardware IN (SELECT value FROM json_each(?1))",
    "traits": "EXISTS (SELECT 1 FROM json_each(?1) AS t JOIN json_each(n.traits) AS h ON h.value = t.value)",
    "labels": "n.label IN (SELECT value FROM json_each(?1))",
    "stages": "n.stage IN (SELECT value FROM json_each(?1))",
}
_MEETING = "SELECT n.seq FROM nodes AS n LEFT JOIN attempts AS a ON a.id = n.attempt_id WHERE {}"


@dataclass(frozen=True)
class View:
    """The nodes a scope sees. only: their numbers; None: all that are there. What comes from a distrusted file is never
    seen.

    real: all of memory, with the outcomes it has: learned values count. given: in a placebo, for the number of every
    node the one whose outcome it shows.
    """

    image: Image
    only: frozenset[int] | None = None
    real: bool = True
    given: Mapping[int, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether nothing is left out and everything is as it is."""
        return self.only is None and self.real

    def at(self, seqs: Iterable[int]) -> list[Node]:
        """Return the nodes of these numbers that are seen, in this order."""
        wanted = list(seqs) if self.only is None else [seq for seq in seqs if seq in self.only]
        return [self._shown(node) for node in self.image.at(wanted) if node.standing != "distrusted"]

    def named(self, names: Iterable[str]) -> dict[str, Node]:
        """Return the nodes of these ids that are seen, in this order."""
        return {
            name: self._shown(node)
            for name, node in self.image.named(names).items()
            if node.standing != "distrusted" and (self.only is None or node.seq in self.only)
        }

    def get(self, name: str | None) -> Node | None:
        """Return a node by id, None when it is not seen."""
        return self.named([name]).get(name) if name is not None else None

    def first(self, seqs: Iterable[int], count: int) -> list[Node]:
        """Return the first of these nodes that are seen, reading no more than needed."""
        return list(islice(self._batched(iter(seqs)), count))

    def _batched(self, seqs: Iterator[int]) -> Iterator[Node]:
        size = _FIRST_BATCH
        while batch := list(islice(seqs, size)):
            yield from self.at(batch)
            size *= 2

    def lesson_of(self, node: Node) -> str:
        """Return the id of the node whose lesson is told as this one's."""
        donor = self.given.get(node.seq)
        return node.id if donor is None else self.image.at([donor])[0].id

    def _shown(self, node: Node) -> Node:
        donor = self.given.get(node.seq)
        return node if donor is None else _with_outcome(node, self.image.at([donor])[0])

    def narrowed(self, filters: Filters) -> View:
        """Return the view with the nodes that meet all filters."""
        if filters == Filters():
            return self
        wanted = {name: _listed(getattr(filters, name)) for name in _KINDS if getattr(filters, name)}
        met: set[int] | None = set(self.only) if self.only is not None else None
        for name, values in wanted.items():
            found = set(self.image.seqs(_MEETING.format(_KINDS[name]), (json.dumps(values),)))
            if name in ("labels", "stages") and self.given:  # an outcome: of the one it shows
                found = {node.seq for node in self.image.everything() if self.given.get(node.seq, node.seq) in found}
            met = found if met is None else met & found
        return replace(self, only=frozenset(met or ()))


def _listed(values: Any) -> list[Any]:
    return [values] if isinstance(values, str) else list(values)


def view_of(image: Image, scope: Scope, task_name: str) -> View:
    """Return what `scope` sees when it works on a task. Its own attempts on that task are always seen as they are."""
    if scope.mode is MemoryMode.ON:
        return View(image)
    own = frozenset(image.own(scope.session_id, task_name))
    if scope.mode is not MemoryMode.PLACEBO:
        return View(image, own, real=False)
    others = [node for node in image.everything() if node.seq not in own]
    return View(image, real=False, given=_permutation(others, scope.seed))


def _permutation(nodes: Iterable[Node], seed: int) -> dict[int, int]:
    """Return for every node the one whose outcome it gets: a shuffle within each kind, the same for the same seed."""
    kinds: dict[str, list[Node]] = {}
    for node in sorted(nodes, key=lambda node: node.id):
        kinds.setdefault(node.kind, []).append(node)
    given: dict[int, int] = {}
    for kind, members in sorted(kinds.items()):
        shuffled = list(members)
        random.Random(f"{seed}:{kind}").shuffle(shuffled)
        given |= {node.seq: other.seq for node, other in zip(members, shuffled, strict=True)}
    return given


def _with_outcome(node: Node, other: Node) -> Node:
    changes: dict[str, Any] = {name: getattr(other, name) for name in OUTCOME}
    return node._replace(**changes)
