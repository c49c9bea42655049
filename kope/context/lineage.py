"""The recalled subgraph as text: parent -> move -> outcome, one tree per lineage.

Choosing which experiences are shown is the budget's business; this only draws those it is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kope.confidential import without_secrets
from kope.context.quote import one_line
from kope.model import Edge, Experience, Recall

_TEXT_LIMIT = 600
_NO_CHANGES: Mapping[str, Sequence[str]] = {}


def outcome_phrase(node: Experience) -> str:
    """Return what became of an experience in a few words, for example "verified, 1.42x its parent (effective)"."""
    if node.attempt_id is None:
        return "noted"
    if not node.works and not node.speedup:
        return f"failed at {node.stage.value}"
    state = "verified" if node.works else "right on small cases"
    if not node.speedup:
        return state
    label = f" ({node.label})" if node.label else ""
    return f"{state}, {node.step_ratio:.2f}x its parent, {node.speedup:.2f}x the first kernel of its task{label}"


def _lesson(node: Experience, edge: Edge | None) -> str:
    """Return what an experience says beyond its move: its first line repeats what the line of the move shows."""
    text = without_secrets(node.text)  # Before it is cut: half a key would not look like one.
    _decision, _, rest = text.partition("\n")
    return rest if edge is not None and edge.text and rest else text


@dataclass(frozen=True, slots=True)
class Forest:
    """Recalled experiences with their lineage. `reasons` is keyed by experience id, for the recalled ones only."""

    nodes: dict[str, Experience]
    parents: dict[str, Edge]
    reasons: dict[str, str]

    @classmethod
    def of(cls, recall: Recall) -> Forest:
        """Index a recall: every node it brought, the led_to edge into each, and why each was recalled."""
        nodes = {node.id: node for node in recall.neighbours}
        nodes.update((item.experience.id, item.experience) for item in recall.items)
        parents = {
            edge.dst: edge for edge in recall.edges if edge.kind == "led_to" and edge.dst in nodes and edge.src in nodes
        }
        return cls(nodes, parents, {item.experience.id: item.reason for item in recall.items})

    def depth(self, node: str) -> int:
        """Return how many of a node's ancestors are known."""
        count, seen = 0, {node}
        while node in self.parents and self.parents[node].src not in seen:
            node = self.parents[node].src
            seen.add(node)
            count += 1
        return count

    def shown_with(self, chosen: Collection[str]) -> set[str]:
        """Return the chosen nodes and the parent of each: an outcome means little without what it started from."""
        return set(chosen) | {self.parents[node].src for node in chosen if node in self.parents}

    def draw(self, chosen: Sequence[str], changes: Mapping[str, Sequence[str]] = _NO_CHANGES) -> str:
        """Return the trees that hold the chosen nodes (best first), lineages in the order of their best member.

        changes: by node, the lines of code it changed in its parent.
        """
        shown = self.shown_with(chosen)
        children: dict[str, list[str]] = {}
        roots: list[str] = []
        for node in self.nodes:
            if node in shown:
                edge = self.parents.get(node)
                inside = edge is not None and edge.src in shown
                (children.setdefault(edge.src, []) if edge is not None and inside else roots).append(node)
        places = {node: place for place, node in enumerate(chosen)}

        def place(node: str) -> int:
            return min([places.get(node, len(places)), *(place(child) for child in children.get(node, ()))])

        def lines(node: str, level: int) -> Iterator[str]:
            yield from self.describe(node, level, changes.get(node, ()))
            for child in sorted(children.get(node, ()), key=place):
                yield from lines(child, level + 1)

        return "\n".join(line for root in sorted(roots, key=place) for line in lines(root, 0))

    def describe(self, node_id: str, level: int, change: Sequence[str] = ()) -> Iterator[str]:
        """Yield the lines of one node: its move and outcome, why it is here, its lesson, the lines it changed."""
        node = self.nodes[node_id]
        pad = "  " * level
        edge = self.parents.get(node_id)
        move = one_line(f"{node.move}: {edge.text}" if edge is not None and edge.text else node.move)
        start = f"{pad}-> " if level else f"{pad}{one_line(node.task_name)}: "
        yield f"{start}{move or one_line(node.title)} -> {outcome_phrase(node)} [{node_id[:8]}]"
        if node_id in self.reasons:
            yield f"{pad}   recalled because: {one_line(self.reasons[node_id])}"
            lesson = one_line(_lesson(node, edge), _TEXT_LIMIT)
            if lesson:
                yield f"{pad}   lesson: {lesson}"
            if node.origin:
                yield f"{pad}   from {one_line(node.origin, 60)}, not tried here"
        if change:
            yield f"{pad}   change:"
            yield from (f"{pad}   {line}" for line in change)
