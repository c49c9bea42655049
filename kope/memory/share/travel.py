"""What travels between databases, table by table: the one place that says so, read by export and import alike.

Evidence is taken over, once it is checked. What is derived from evidence (experiences, lineage, scores, labels,
journals) is in an export for other tools to read; an import makes it anew and never believes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kope.memory.share.values import (
    Digest,
    Integer,
    Json,
    Kind,
    PackedJson,
    PackedText,
    Real,
    Replace,
    Text,
)

_STAGES = ("propose", "compile", "run", "verify", "profile")
_LABELS = ("", "effective", "partial", "ineffective", "negative")


@dataclass(frozen=True)
class Name(Text):
    """An identifier that other rows point to. Where it holds what must not leave, a hash of it takes its place."""

    limit: int = 1000
    least: int = 1
    one_line: bool = True

    def replaced(self, value: Any, replace: Replace) -> Any:
        """See Kind."""
        if value is None or replace(value) == value:
            return value
        return f"id-{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


@dataclass(frozen=True)
class Vector:
    """float16, little-endian; left out of JSON, and taken over only when it has the length of a unit."""

    def check(self, value: Any) -> None:
        """See Kind. Its numbers are looked at where they are taken over."""

    def plain(self, value: Any) -> Any:
        """See Kind."""
        return None

    def texts(self, value: Any) -> list[str]:
        """See Kind."""
        return []

    def replaced(self, value: Any, replace: Replace) -> Any:
        """See Kind."""
        return value


_SHORT = Text(1000, one_line=True)
_TIME = Text(40)


@dataclass(frozen=True)
class Table:
    """A travelling table. columns: what each holds. local: columns that stay behind.

    chosen: condition under which a row belongs to the attempts that leave, whose ids are in temp.chosen, and those of
    their nodes in temp.chosen_nodes; "" for all rows. all: the condition
    when every attempt leaves, which is quicker.
    evidence: an import reads it; otherwise it is derived.
    """

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, Kind]
    local: tuple[str, ...] = ()
    chosen: str = ""
    all: str = ""
    evidence: bool = True


_OF_ATTEMPT = "attempt_id IN (SELECT id FROM temp.chosen)"
_NODES = "SELECT id FROM temp.chosen_nodes"
_LESSONS = "SELECT id FROM main.nodes WHERE kind <> 'attempt'"

TABLES: tuple[Table, ...] = (
    Table(
        "origins",
        ("id",),
        {
            "id": Digest(32),
            "label": _SHORT,
            "trust": Text(choices=("own", "trusted", "quarantined", "distrusted")),
            "created_at": _TIME,
        },
    ),
    Table(
        "sessions",
        ("id",),
        {
            "id": Name(),
            "origin_id": Digest(32),
            "settings_key": Name(limit=4000, least=0),
            "info": Json(dict),
            "kope_version": Text(100),
            "started_at": _TIME,
            "ended_at": Text(40, nullable=True),
            "end_reason": Text(1000, nullable=True),
        },
        local=("process",),
        chosen="id IN (SELECT session_id FROM main.attempts WHERE id IN (SELECT id FROM temp.chosen))",
        all="id IN (SELECT session_id FROM main.attempts)",
    ),
    Table(
        "tasks",
        ("digest",),
        {
            "digest": Name(),
            "origin_id": Digest(32),
            "name": Name(),
            "text": Text(),
            "tags": Json(list),
            "definition": Json(dict),
            "created_at": _TIME,
        },
        chosen="digest IN (SELECT task_digest FROM main.attempts WHERE id IN (SELECT id FROM temp.chosen))",
        all="digest IN (SELECT task_digest FROM main.attempts)",
    ),
    Table(
        "candidates",
        ("id",),
        {"id": Digest(), "size_bytes": Integer(0), "source": PackedText()},
        chosen="id IN (SELECT candidate_id FROM main.attempts WHERE id IN (SELECT id FROM temp.chosen))",
        all="id IN (SELECT candidate_id FROM main.attempts)",
    ),
    Table(
        "prompts",
        ("id",),
        {"id": Digest(), "template": _SHORT, "tokens": Integer(0), "text": PackedText()},
        chosen="id IN (SELECT prompt_id FROM main.attempts WHERE id IN (SELECT id FROM temp.chosen))",
        all="id IN (SELECT prompt_id FROM main.attempts)",
    ),
    Table(
        "attempts",
        ("id",),
        {
            "id": Name(),
            "session_id": Name(),
            "iteration": Integer(),
            "task_digest": Name(),
            "task_name": Name(),
            "candidate_id": Digest(nullable=True),
            "parent_id": Name(nullable=True),
            "prompt_id": Digest(nullable=True),
            "proposer": _SHORT,
            "move": Text(100_000),
            "traits": Json(list, 100_000),
            "used": Json(list, 1_000_000),
            "tokens": Integer(),
            "stage": Text(choices=_STAGES),
            "verdict": Text(choices=("failed", "screened", "verified")),
            "time_kind": Text(choices=("modelled", "measured")),
            "typical_us": Real(0.0, nullable=True),
            "speedup": Real(0.0, nullable=True),
            "step_ratio": Real(0.0),
            "promoted": Integer(0, 1),
            "repeated": Integer(0, 1),
            "wall_s": Real(),
            "target": _SHORT,
            "hardware": _SHORT,
            "toolchain": _SHORT,
            "evaluator": _SHORT,
            "created_at": _TIME,
            "origin_id": Digest(32),
            "content_digest": Digest(),
            "original_digest": Digest(nullable=True),
        },
        local=("seq",),
        chosen="id IN (SELECT id FROM temp.chosen)",
    ),
    Table(
        "attempt_texts",
        ("attempt_id",),
        {
            "attempt_id": Name(),
            "thought": Text(),
            "plan": Json(dict),
            "diagnostics": Json(list),
            "details": PackedJson(),
        },
        chosen=_OF_ATTEMPT,
    ),
    Table(
        "case_results",
        ("attempt_id", "position"),
        {
            "attempt_id": Name(),
            "position": Integer(0, 100_000),
            "case_id": Text(10_000),
            "passed": Integer(0, 1, nullable=True),
            "error_ratio": Real(infinite=True, nullable=True),
            "bound_us": Real(nullable=True),
            "duration_us": Json(list),
        },
        chosen=_OF_ATTEMPT,
    ),
    Table(
        "conflicts",
        ("attempt_id", "content_digest"),
        {
            "attempt_id": Name(),
            "content_digest": Digest(),
            "origin_id": Digest(32),
            "document": PackedJson(),
        },
        chosen=_OF_ATTEMPT,
    ),
    Table(
        "nodes",
        ("id",),
        {
            "id": Name(),
            "origin_id": Digest(32),
            "kind": Text(choices=("attempt", "digest", "fact")),
            "attempt_id": Name(nullable=True),
            "task_name": Name(),
            "move": Text(100_000),
            "traits": Json(list, 100_000),
            "stage": Text(choices=_STAGES),
            "works": Integer(0, 1),
            "label": Text(choices=_LABELS),
            "speedup": Real(0.0, nullable=True),
            "step_ratio": Real(0.0),
            "downstream": Real(),
            "confidence": Real(0.0),
            "hardware": _SHORT,
            "bottleneck": Text(200, one_line=True),
            "created_at": _TIME,
            "embedder": Text(300, nullable=True),
            "embedding": Vector(),
        },
        local=("seq", "revision", "retired"),
        chosen=_OF_ATTEMPT,
        all="kind = 'attempt'",
        evidence=False,
    ),
    Table(
        "node_texts",
        ("node_id",),
        {"node_id": Name(), "title": Text(), "decision": Text(), "lesson": Text()},
        chosen=f"node_id IN ({_NODES})",
        all=f"node_id NOT IN ({_LESSONS})",
        evidence=False,
    ),
    Table(
        "edges",
        ("id",),
        {
            "id": Name(),
            "origin_id": Digest(32),
            "src": Name(),
            "dst": Name(),
            "kind": Text(choices=("led_to", "used", "contrasts", "contradicts", "distilled_from", "rewound")),
            "embedder": Text(300, nullable=True),
            "embedding": Vector(),
        },
        local=("seq", "propensity"),
        # The plus signs keep SQLite from trying every pair of nodes in the index over both.
        chosen=f"+src IN ({_NODES}) AND +dst IN ({_NODES}) AND +kind IN ('led_to', 'used', 'rewound')",
        all=f"kind = 'led_to' OR kind IN ('used', 'rewound') AND src NOT IN ({_LESSONS}) AND dst NOT IN ({_LESSONS})",
        evidence=False,
    ),
    Table(
        "edge_texts",
        ("edge_id",),
        {"edge_id": Name(), "text": Text()},
        chosen="edge_id IN (SELECT id FROM out.edges)",
        all="edge_id NOT IN (SELECT id FROM main.edges WHERE kind NOT IN ('led_to', 'used', 'rewound'))",
        evidence=False,
    ),
    Table(
        "journals",
        ("attempt_id",),
        {"attempt_id": Name(), "markdown": Text()},
        local=("seq",),
        chosen=_OF_ATTEMPT,
        evidence=False,
    ),
)
BY_NAME: Mapping[str, Table] = {table.name: table for table in TABLES}

META = ("created_by", "written_by", "origin")
"""Entries of `meta` that leave with an export; what KOPE adds to them says how it was made."""
