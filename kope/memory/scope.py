"""What a session may see of memory: everything, only its own, or everything with its outcomes permuted.

The placebo answers whether it is what experiences say that helps, or only that there is more to read and choose from.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kope.memory.image import Group, Image, Node, group_of
from kope.memory.query import Filters, MemoryMode, Scope

OUTCOME = ("stage", "works", "label", "speedup", "step_ratio", "downstream", "confidence", "promoted", "verdict")
"""What the placebo permutes, together; the lesson's text goes with it."""


@dataclass(frozen=True, slots=True)
class View:
    """The nodes a scope sees, and the same by group. complete: all nodes of the image; nothing needs to be filtered.

    real: all of memory, with the outcomes it has: learned values count. lessons: node whose lesson is shown instead of
    a node's own; {} except in a placebo.
    """

    nodes: Mapping[str, Node]
    groups: Mapping[Group, Sequence[str]]
    lessons: Mapping[str, str]
    complete: bool
    real: bool = False

    @classmethod
    def of(cls, nodes: Mapping[str, Node]) -> View:
        """Return the view of some of the nodes."""
        groups: dict[Group, list[str]] = {}
        for name, node in nodes.items():
            groups.setdefault(group_of(node), []).append(name)
        return cls(nodes, groups, {}, False)

    def narrowed(self, filters: Filters) -> View:
        """Return the view with the nodes that meet all filters."""
        meets = predicate(filters)
        if meets is None:
            return self
        kept = View.of({name: node for name, node in self.nodes.items() if meets(node)})
        return replace(kept, lessons=self.lessons, real=self.real)


def view_of(image: Image, scope: Scope, task_name: str) -> View:
    """Return what `scope` sees when it works on a task. Its own attempts on that task are always seen as they are."""
    if scope.mode is MemoryMode.ON:
        return _without_distrusted(image)
    own = {name: node for name, node in image.by_id.items() if _is_own(node, scope, task_name)}
    if scope.mode is not MemoryMode.PLACEBO:
        return View.of(own)
    lessons = _permutation([node for name, node in image.by_id.items() if name not in own], scope.seed)
    nodes = {
        name: _with_outcome(node, image.by_id[lessons[name]]) if name in lessons else node
        for name, node in image.by_id.items()
    }
    return View(nodes, image.groups, lessons, True)


def _without_distrusted(image: Image) -> View:
    """Return everything but what comes from a file the user distrusts. Made again only when the image has changed."""
    if not image.set_aside:
        return View(image.by_id, image.groups, {}, True, True)
    known = image.seen.get("view")
    if known is None or known[0] != image.revision:
        nodes = {name: node for name, node in image.by_id.items() if node.standing != "distrusted"}
        known = image.revision, replace(View.of(nodes), real=True)
        image.seen["view"] = known
    view: View = known[1]
    return view


def _is_own(node: Node, scope: Scope, task_name: str) -> bool:
    return bool(scope.session_id) and node.session_id == scope.session_id and node.task_name == task_name


def _permutation(nodes: list[Node], seed: int) -> dict[str, str]:
    """Return for every node the one whose outcome it gets: a shuffle within each kind, the same for the same seed."""
    given: dict[str, str] = {}
    for kind in sorted({node.kind for node in nodes}):
        names = sorted(node.id for node in nodes if node.kind == kind)
        shuffled = list(names)
        random.Random(f"{seed}:{kind}").shuffle(shuffled)
        given.update(zip(names, shuffled, strict=True))
    return given


def _with_outcome(node: Node, other: Node) -> Node:
    changes: dict[str, Any] = {name: getattr(other, name) for name in OUTCOME}
    return node._replace(**changes)


def predicate(filters: Filters) -> Callable[[Node], bool] | None:
    """Return the test that exact filters make, None when they let everything through."""
    if filters == Filters():
        return None
    stages = {stage.value for stage in filters.stages}
    quoted = [f'"{trait}"' for trait in filters.traits]

    def meets(node: Node) -> bool:
        return (
            (not filters.tasks or node.task_name in filters.tasks or node.task_digest in filters.tasks)
            and (not filters.moves or node.move in filters.moves)
            and (not filters.labels or node.label in filters.labels)
            and (not stages or node.stage in stages)
            and (not filters.kinds or node.kind in filters.kinds)
            and (not filters.hardware or node.hardware == filters.hardware)
            and (not quoted or any(trait in node.traits for trait in quoted))
        )

    return meets
