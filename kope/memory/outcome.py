"""What an experience's outcome says: whether it was refused, whether its time counts as speed, which is better.

Whether an experience fits the question is ranking's business.
"""

from __future__ import annotations

from kope.memory.graph import LABELS
from kope.memory.image import Node, is_trusted
from kope.model import Verdict

_FAILED = Verdict.FAILED.value


def is_failure(node: Node) -> bool:
    """Whether an experience is of a candidate that was refused, or a digest of such."""
    return node.verdict == _FAILED or (node.kind == "digest" and not node.works)


def is_fast_evidence(node: Node, hardware: str) -> bool:
    """Whether an experience's times say something about speed on this hardware: taken there, and not by strangers."""
    return bool(hardware) and node.hardware == hardware and bool(node.label) and is_trusted(node)


def outcome_key(node: Node, hardware: str) -> tuple[float, float, int]:
    """Return the sort key of the graph's outcome signal: label bucket, then downstream score x confidence, then age.

    What ran on other hardware ranks by whether it works: between "effective" and "partial here", times unseen.
    """
    if is_failure(node):
        return 5.0, -node.confidence, -node.seq
    if is_fast_evidence(node, hardware):
        return float(LABELS.index(node.label)), -node.downstream * node.confidence, -node.seq
    return (0.5 if node.works else 1.5), -node.confidence, -node.seq
