"""The user's own documentation in the database: passages, found by the words of a question.

How files become passages is knowledge's business. Nothing here is experience, and none of it leaves the file.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from kope.errors import NotFound
from kope.memory.database import Database
from kope.memory.encode import clean, pack, unpack
from kope.memory.sessions import now
from kope.memory.words import indexed, terms_of
from kope.model import Passage

_KNOWN = "SELECT digest FROM documents WHERE name = ?"
_DOCUMENT = "INSERT INTO documents (name, digest, size_bytes, added_at) VALUES (?, ?, ?, ?)"
_PASSAGE = "INSERT INTO passages (document, position, heading, text) VALUES (?, ?, ?, ?)"
_WORDS = "INSERT INTO passage_words (rowid, heading, text) VALUES (?, ?, ?)"
_FORGET_WORDS = "DELETE FROM passage_words WHERE rowid IN (SELECT seq FROM passages WHERE document = ?)"
_FORGET = "DELETE FROM documents WHERE name = ?"
_ALL = """
    SELECT d.name, d.digest, d.size_bytes, d.added_at, count(p.seq)
    FROM documents AS d LEFT JOIN passages AS p ON p.document = d.name GROUP BY d.name ORDER BY d.name
"""
_FIND = """
    SELECT p.document, p.position, p.heading, p.text, w.score
    FROM (SELECT rowid, bm25(passage_words, 4.0, 1.0) AS score FROM passage_words
          WHERE passage_words MATCH ? ORDER BY score LIMIT ?) AS w
    JOIN passages AS p ON p.seq = w.rowid ORDER BY w.score
"""
_MOST_TERMS = 40


@dataclass(frozen=True, slots=True)
class Listed:
    """A document in the database."""

    name: str
    digest: str
    size_bytes: int
    added_at: str
    passage_count: int


class Documents:
    """The documents of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, digest: str, size_bytes: int, passages: Sequence[tuple[str, str]]) -> bool:
        """Keep a document as (heading, text) passages in one transaction; one of the same name is replaced.

        Returns False when it is there already, byte for byte.
        """
        name = clean(name)
        row = self._database.row(_KNOWN, (name,))
        if row is not None and row[0] == digest:
            return False
        with self._database.write() as connection:
            _drop(connection, name)
            connection.execute(_DOCUMENT, (name, digest, size_bytes, now()))
            for position, (heading, text) in enumerate(passages):
                heading, text = clean(heading), clean(text)
                seq = connection.execute(_PASSAGE, (name, position, heading, pack(text))).lastrowid
                connection.execute(_WORDS, (seq, indexed(f"{name} {heading}"), indexed(text)))
        return True

    def remove(self, name: str) -> None:
        """Forget a document. Raises NotFound."""
        if self._database.row(_KNOWN, (name,)) is None:
            raise NotFound(f"there is no document {name!r}; kope docs list shows them")
        with self._database.write() as connection:
            _drop(connection, name)

    def listed(self) -> tuple[Listed, ...]:
        """Return every document by name."""
        return tuple(Listed(*row) for row in self._database.rows(_ALL))

    def search(self, question: str, limit: int) -> tuple[Passage, ...]:
        """Return the passages that fit a question best; its words are never read as query syntax."""
        terms = terms_of(question)[:_MOST_TERMS]
        if not terms or limit <= 0:
            return ()
        match = " OR ".join(f'"{term}"' for term in terms)
        return tuple(
            Passage(_id(document, position), document, heading, unpack(text), -score)
            for document, position, heading, text, score in self._database.rows(_FIND, (match, limit))
        )


def _drop(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(_FORGET_WORDS, (name,))
    connection.execute(_FORGET, (name,))


def _id(document: str, position: int) -> str:
    return hashlib.sha256(f"{document}\0{position}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
