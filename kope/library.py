"""Documentation to look things up in: the shipped guide, and what the user added to the database.

Reading files is knowledge's business, finding words memory's; here both become one list.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest
from pathlib import Path

from kope.knowledge import guide
from kope.memory import Store
from kope.model import Passage


class Library:
    """The documents of a store and the guide. Opens an index of the guide in memory at its first use."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._guide: Store | None = None

    def search(self, question: str, limit: int) -> tuple[Passage, ...]:
        """Return the passages that fit a question, the user's and the guide's in turn, the user's first."""
        own = self._store.documents.search(question, limit) if self._store is not None else ()
        shipped = self._shipped().documents.search(question, limit)
        mixed = (passage for passage in chain.from_iterable(zip_longest(own, shipped)) if passage is not None)
        return tuple(_distinct(mixed))[:limit]

    def close(self) -> None:
        """Close the index of the guide."""
        if self._guide is not None:
            self._guide.close()
            self._guide = None

    def _shipped(self) -> Store:
        if self._guide is None:
            store = Store.open(Path(":memory:"))
            for document in guide():
                passages = [(section.heading, section.text) for section in document.sections]
                store.documents.add(document.name, document.digest, document.size_bytes, passages)
            self._guide = store
        return self._guide


def _distinct(passages: Iterable[Passage]) -> list[Passage]:
    """Leave out a passage whose text was there already: the same manual added under two names."""
    seen: dict[str, Passage] = {}
    for passage in passages:
        seen.setdefault(passage.text, passage)
    return list(seen.values())
