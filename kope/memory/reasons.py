"""One line on why an experience was chosen: how it was found, and what its outcome is worth here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from kope.memory.image import Node
from kope.memory.outcome import is_fast_evidence
from kope.memory.query import RecallQuery
from kope.memory.value import Worth
from kope.model import Verdict

WORDS_SHOWN = 4
_CLOSE = 0.3
"""Cosine from which texts are called alike. Unrelated sentences lie around zero."""


@dataclass
class Found:
    """How an experience was found.

    ranks: by ranking, from 1. words: of the question, that it holds; task_words: that its task's text has.
    """

    score: float = 0.0
    ranks: dict[str, int] = field(default_factory=dict)
    cosines: dict[str, float] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    task_words: tuple[str, ...] = ()


def reason_for(
    node: Node,
    tags: Sequence[str],
    found: Found,
    query: RecallQuery,
    best_below: Node | None,
    *,
    worth: Worth | None = None,
    origin: str = "",
) -> str:
    """Return the line, for example "same task; says depth, ub; 1.42x its parent here (effective); led on to 2.10x".

    worth: what use taught. origin: the file it came from, when that is not trusted.
    """
    parts = [_structure(node, tags, query)]
    if found.task_words:
        parts.append("its task says " + ", ".join(found.task_words[:WORDS_SHOWN]))
    if found.words:
        parts.append("says " + ", ".join(found.words[:WORDS_SHOWN]))
    parts.extend(
        f"{what} {found.cosines[way]:.2f}"
        for way, what in (("meaning", "alike in meaning"), ("move", "move alike"))
        if found.cosines.get(way, 0.0) >= _CLOSE
    )
    parts.append(_worth(node, query.hardware))
    if best_below is not None and best_below.speedup and _here(best_below, query.hardware):
        parts.append(f"led on to {best_below.speedup:.2f}x")
    if worth is not None and worth.uses:
        parts.append(f"helped {worth.helped} of {worth.uses} attempts that used it ({worth.without:.0%} without)")
    if origin:
        parts.append(f"from {origin}, not verified here")
    return "; ".join(part for part in parts if part)


def _structure(node: Node, tags: Sequence[str], query: RecallQuery) -> str:
    if query.task_name and node.task_name == query.task_name:
        return "same task"
    words = {*query.traits, *query.tags} & {*json.loads(node.traits), *tags}
    shared = sorted((word for word in words if not word.startswith("dtype:")), key=lambda word: (":" in word, word))
    if not shared:
        return ""
    more = f" and {len(shared) - WORDS_SHOWN} more" if len(shared) > WORDS_SHOWN else ""
    return "also " + ", ".join(shared[:WORDS_SHOWN]) + more


def _digest_worth(node: Node, hardware: str) -> str:
    if not node.works:
        return f"distilled from failures at {node.stage}: to be avoided"
    if not is_fast_evidence(node, hardware):
        return f"distilled on {node.hardware}, its times say nothing here" if hardware else "distilled"
    return f"distilled here: {node.step_ratio:.2f}x ({node.label})"


def _here(node: Node, hardware: str) -> bool:
    return bool(hardware) and node.hardware == hardware


def _worth(node: Node, hardware: str) -> str:
    if node.kind == "digest":
        return _digest_worth(node, hardware)
    if node.verdict == Verdict.FAILED.value:
        return f"failed at {node.stage}: to be avoided"
    state = "verified" if node.works else "right on small cases"
    if not node.label:
        return state
    if not is_fast_evidence(node, hardware):
        return f"{state}; ran on {node.hardware}, its time says nothing here" if hardware else state
    return f"{state}, {node.step_ratio:.2f}x its parent here ({node.label})"
