"""What a cheating candidate is: its source, and what has to be said about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cheat:
    """A candidate that has to be refused. check: by which check. kinds: what its first error may be."""

    name: str
    task: str
    check: str
    kinds: tuple[str, ...]
    source: str
