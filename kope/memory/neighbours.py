"""What stands around an experience in the lineage: parent, children, a sibling that ended otherwise, the best below.

Which experiences are looked at is recall's choice.
"""

from __future__ import annotations

from collections.abc import Iterable

from kope.memory.image import Image, Node
from kope.memory.outcome import is_failure, outcome_key
from kope.memory.scope import View

_BELOW = 2_000
"""How many descendants of an item are looked at for the best of them."""


def best_below(image: Image, view: View, node: Node) -> Node | None:
    """Return the fastest verified experience in the lineage below a node, None when nothing below is faster."""
    best: Node | None = None
    waiting = list(image.children.get(node.id, ()))
    seen = set(waiting)
    while waiting and len(seen) < _BELOW:
        below = view.nodes.get(waiting.pop())
        if below is None:
            continue
        if below.works and (below.speedup or 0.0) > ((best.speedup if best is not None else node.speedup) or 0.0):
            best = below
        fresh = [child for child in image.children.get(below.id, ()) if child not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return best


def neighbourhood(image: Image, view: View, chosen: Iterable[Node], hardware: str) -> list[Node]:
    """Return what stands around the chosen: the parent of each, its best child, and a sibling that ended otherwise."""
    picked = {node.id: node for node in chosen}
    around: dict[str, Node] = {}
    for node in picked.values():
        parent = view.nodes.get(image.parents.get(node.id, ""))
        children = seen(view, image.children.get(node.id, ()))
        siblings = seen(view, image.children.get(parent.id, ())) if parent is not None else []
        contrast = [other for other in siblings if is_failure(other) != is_failure(node)]
        for group in ([parent] if parent is not None else [], children, contrast):
            if group:
                best = min(group, key=lambda other: outcome_key(other, hardware))
                around.setdefault(best.id, best)
    return [node for name, node in around.items() if name not in picked]


def seen(view: View, names: Iterable[str]) -> list[Node]:
    """Return those of the nodes that a view shows."""
    return [view.nodes[name] for name in names if name in view.nodes]
