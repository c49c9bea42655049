"""Embedded stores behind one small interface, each used as its documentation says, on the same texts and vectors.

Every add is durable when it returns; every search answers with ids of records that were read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

Item = tuple[str, str, list[float]]
FOUND = 8


class Peer(Protocol):
    """A store under measurement."""

    def add_many(self, items: Sequence[Item]) -> None:
        """Add items at once."""

    def add(self, name: str, text: str, vector: list[float]) -> None:
        """Add one; it is on disk when this returns."""

    def search(self, text: str, vector: list[float]) -> list[str]:
        """Return the ids of the best eight, records read."""


class Kope:
    """KOPE's own: full text, vectors and the outcome, fused."""

    def __init__(self, folder: Path) -> None:
        from filled import Quick

        from kope.memory import Store

        self._quick = Quick()
        self._given: dict[str, list[float]] = {}
        self._quick.embed = self._vectors  # type: ignore[method-assign]
        self._store = Store.open(folder / "kope.db", embedder=self._quick)
        from filled import task_number

        self._task = task_number(0)
        self._store.add_task(self._task)
        self._session = self._store.begin_session("peers", session_id="peers").id
        self._number = 0

    def _vectors(self, texts: Sequence[str]) -> Any:
        import numpy as np

        known = next(iter(self._given.values()))
        return np.array([self._given.get(text, known) for text in texts], np.float32)

    def add_many(self, items: Sequence[Item]) -> None:
        """Add items one by one; there is no other way to record attempts."""
        for item in items:
            self.add(*item)

    def add(self, name: str, text: str, vector: list[float]) -> None:
        """Record an attempt whose reason is the text."""
        from filled import HERE

        from kope.model import Attempt, Candidate, Outcome, Proposal, Stage, Verdict

        self._given = {text: vector}
        self._store._vectors.clear()
        self._number += 1
        source = f"// {name}\n"
        self._store.record(
            Attempt(
                name,
                self._session,
                self._number,
                self._task.name,
                self._task.digest,
                Candidate.of(source),
                Proposal(source, "edit", text),
                Outcome(Stage.PROFILE, Verdict.SCREENED),
                HERE,
                "search",
            )
        )

    def search(self, text: str, vector: list[float]) -> list[str]:
        """Recall by words, meaning and outcome."""
        from kope.memory import RecallQuery

        self._given = {text: vector}
        found = self._store.recall(RecallQuery(text=text, moves=False, limit=FOUND))
        return [item.experience.attempt_id or "" for item in found.items]


class Chroma:
    """chromadb, persistent client; vectors alone."""

    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        self._items = client.get_or_create_collection("items", embedding_function=None)

    def add_many(self, items: Sequence[Item]) -> None:
        """Add items in the batches it takes."""
        for start in range(0, len(items), 1000):
            batch = items[start : start + 1000]
            self._items.add(
                ids=[name for name, _, _ in batch],
                documents=[text for _, text, _ in batch],
                embeddings=[vector for _, _, vector in batch],
            )

    def add(self, name: str, text: str, vector: list[float]) -> None:
        """Add one."""
        self._items.add(ids=[name], documents=[text], embeddings=[vector])

    def search(self, text: str, vector: list[float]) -> list[str]:
        """Search by vector, documents returned."""
        return list(self._items.query(query_embeddings=[vector], n_results=FOUND)["ids"][0])


class Lance:
    """lancedb, a table without an index, which searches exactly; vectors alone."""

    def __init__(self, folder: Path) -> None:
        import lancedb

        self._database = lancedb.connect(str(folder))
        self._table: Any = None

    def add_many(self, items: Sequence[Item]) -> None:
        """Add items at once."""
        rows = [{"id": name, "text": text, "vector": vector} for name, text, vector in items]
        self._table = self._database.create_table("items", rows)

    def add(self, name: str, text: str, vector: list[float]) -> None:
        """Add one."""
        self._table.add([{"id": name, "text": text, "vector": vector}])

    def search(self, text: str, vector: list[float]) -> list[str]:
        """Search by vector, rows returned."""
        return [row["id"] for row in self._table.search(vector).limit(FOUND).to_list()]


class AgentRecall:
    """agentrecall-db; words alone, since it makes its vectors itself by a model it would have to download."""

    def __init__(self, folder: Path) -> None:
        from agentrecall import Memory

        self._memory = Memory(str(folder / "memory.db"), embeddings=False)
        self._names: dict[Any, str] = {}

    def add_many(self, items: Sequence[Item]) -> None:
        """Add items one by one; there is no other way."""
        for item in items:
            self.add(*item)

    def add(self, name: str, text: str, vector: list[float]) -> None:
        """Add one."""
        self._names[text] = name
        self._memory.add(text)

    def search(self, text: str, vector: list[float]) -> list[str]:
        """Search by words."""
        return [self._names.get(found.record.content, "") for found in self._memory.search(text, k=FOUND)]


STORES = {"kope": Kope, "chromadb": Chroma, "lancedb": Lance, "agentrecall": AgentRecall}
