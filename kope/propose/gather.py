"""Passive context: the model says what it wants to look up, line by line, and gets it in the next turn.

What is found is a lookup's business; that every turn carries all turns before it is the price of the mode.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kope.confidential import without_secrets
from kope.config import Settings
from kope.context.quote import fence
from kope.model import State
from kope.render import render

ROUNDS = 6
"""Turns of one proposal in which something may be looked up."""
REQUESTS_A_TURN = 4
RESULT_LIMIT = 6_000
"""Characters of one result."""
_REQUEST = re.compile(r"^\W{0,4}(?P<kind>RECALL|SHOW|DOCS)\W{0,3}:[\s*]*(?P<words>\S.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Request:
    """Something to look up. kind: "recall", "show" or "docs"."""

    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Found:
    """What was found: a text, and the ids of the experiences in it."""

    text: str
    used: tuple[str, ...] = ()


Lookup = Callable[[Request, State], Found]


@dataclass(frozen=True, slots=True)
class GatheredPrompt:
    """prompts/gathered: the results of the last requests."""

    results_block: str
    rounds_left: int


@dataclass(frozen=True, slots=True)
class MoreByLine:
    """prompts/more_by_line: how a model without tools asks for more."""

    rounds: int


@dataclass(frozen=True, slots=True)
class MoreByCommand:
    """prompts/more_by_command: how an agent with a shell looks things up."""

    db: str


def ways_to_ask(proposer: str, settings: Settings) -> str:
    """Return what a passive prompt says about getting more."""
    if proposer == "llm":
        return render("prompts/more_by_line", MoreByLine(ROUNDS), own=settings.templates).strip()
    db = shlex.quote(str(settings.db.absolute()))
    return render("prompts/more_by_command", MoreByCommand(db), own=settings.templates).strip()


def requests_in(reply: str) -> tuple[Request, ...]:
    """Return what a reply asks for, () when it is an answer: one that holds code asks for nothing."""
    if "```" in reply or "<<<<<<<" in reply:
        return ()
    found = [Request(match["kind"].lower(), match["words"][:500]) for match in _REQUEST.finditer(reply)]
    return tuple(dict.fromkeys(found))[:REQUESTS_A_TURN]


def gathered(
    requests: tuple[Request, ...], state: State, lookup: Lookup, rounds_left: int, *, own: Path | None = None
) -> Found:
    """Return the next turn's text, and which experiences are in it. own: a folder of templates that go first."""
    blocks: list[str] = []
    used: list[str] = []
    for request in requests:
        found = lookup(request, state)
        text = found.text if len(found.text) <= RESULT_LIMIT else f"{found.text[:RESULT_LIMIT]}\n[... cut ...]"
        blocks.append(fence(without_secrets(f"[{request.kind}: {request.words}]\n{text}")))
        used += found.used
    text = render("prompts/gathered", GatheredPrompt("\n\n".join(blocks), rounds_left), own=own)
    return Found(text, tuple(dict.fromkeys(used)))
