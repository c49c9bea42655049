"""What stands around an experience in the lineage: parent, children, a sibling that ended otherwise, the best below.

Which experiences are looked at is recall's choice.
"""

from __future__ import annotations

from collections.abc import Iterable

from kope.memory.image import Image, Node
from kope.memory.outcome import is_failure, outcome_key
from kope.memory.scope import View

_BELOW = 500
"""How many descendants of an item are looked at for the best of them."""


def best_below(image: Image, view: View, node: Node) -> Node | None:
    """Return the fastest verified experience in the lineage below a node, None when nothing below is faster."""
    below = view.named(image.below(node.id, _BELOW)).values()
    faster = (other for other in below if other.works and (other.speedup or 0.0) > (node.speedup or 0.0))
    return max(faster, key=lambda other: (other.speedup or 0.0, -other.seq), default=None)


def neighbourhood(image: Image, view: View, chosen: Iterable[Node], hardware: str) -> list[Node]:
    """Return what stands around the chosen: the parent of each, its best child, and a sibling that ended otherwise."""
    picked = {node.id: node for node in chosen}
    around: dict[str, Node] = {}
    for node in picked.values():
        parent = view.get(image.parent(node.id))
        children = list(view.named(image.children(node.id)).values())
        siblings = list(view.named(image.children(parent.id)).values()) if parent is not None else []
        contrast = [other for other in siblings if is_failure(other) != is_failure(node)]
        for group in ([parent] if parent is not None else [], children, contrast):
            if group:
                best = min(group, key=lambda other: outcome_key(other, hardware))
                around.setdefault(best.id, best)
    return [node for name, node in around.items() if name not in picked]
