"""Where the tokens of prompts went: the ledgers kept with attempts, summed per session and role.

What a ledger line says is context's business.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kope.memory.encode import unpack

_PROMPTED = """
    SELECT a.session_id, p.template, a.tokens, t.details FROM attempts AS a
    JOIN prompts AS p ON p.id = a.prompt_id JOIN attempt_texts AS t ON t.attempt_id = a.id
    WHERE ?1 IS NULL OR a.session_id = ?1 ORDER BY a.seq
"""
_TIERS = ("hot", "warm", "cold")


@dataclass
class PromptSum:
    """The prompts of one role (draft, repair_compile, refine, ...) in one session.

    hot, warm, cold: tokens of what was in them; left_out: of what was offered and not in them. charged: what the
    attempts were charged, replies and further turns included; 0 where nobody said.
    """

    session_id: str
    role: str
    prompts: int = 0
    hot: int = 0
    warm: int = 0
    cold: int = 0
    left_out: int = 0
    charged: int = 0


def prompt_sums(connection: sqlite3.Connection, session_id: str | None) -> tuple[PromptSum, ...]:
    """Return the sums of a session, or of all, in the order of their first prompts."""
    sums: dict[tuple[str, str], PromptSum] = {}
    for session, template, charged, details in connection.execute(_PROMPTED, (session_id,)):
        role = str(template).rpartition("/")[2]
        row = sums.setdefault((session, role), PromptSum(session, role))
        row.prompts += 1
        row.charged += charged
        for line in json.loads(unpack(details)).get("ledger", ()):
            _take(row, line)
    return tuple(sums.values())


def _take(row: PromptSum, line: Mapping[str, Any]) -> None:
    tokens = int(line.get("tokens", 0))
    if not line.get("included"):
        row.left_out += tokens
    elif line.get("tier") in _TIERS:
        setattr(row, line["tier"], getattr(row, line["tier"]) + tokens)
