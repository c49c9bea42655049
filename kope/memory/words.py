"""Text as the full-text index sees it, and questions in the index's own language.

Identifiers are split (DataCopyPad is also found by "copy"), Chinese is cut into pairs of characters. Nothing a user
types reaches the index as syntax.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

TEXT_LIMIT = 20_000
"""Characters of one column that are indexed."""
_MOST_TERMS = 14
_FEW_TERMS = 3
_COMMON_SHARE = 0.5
_MOST_HITS = 8_000
"""How many entries of the index one question may touch: ranking costs as much as there are, however rare the answer."""

_REMEMBERED = 60
"""Characters of a word; what is longer hardly comes again."""
_WORDS_REMEMBERED = 1 << 15

_TOKEN = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_STOP_TEXT = """
a an and are as at be been but by can do does for from had has have how if in into is it its no not of on or so such
than that the their then there these they this to was we were what when where which while who will with would you your
"""
_STOP = frozenset(_STOP_TEXT.split())


def indexed(text: str) -> str:
    """Return prose as it is indexed: words, the parts of identifiers, pairs of Chinese characters."""
    return " ".join(_words(text[:TEXT_LIMIT]))


def indexed_code(source: str) -> str:
    """Return code as it is indexed: each identifier once, and its parts. How often a name occurs says little."""
    names = dict.fromkeys(_IDENTIFIER.findall(source))
    return " ".join(dict.fromkeys(chain.from_iterable(map(_words_of_name.__getitem__, names))))[:TEXT_LIMIT]


def _words(text: str) -> list[str]:
    return list(chain.from_iterable(map(_parts.__getitem__, _TOKEN.findall(text))))


def _split(token: str) -> tuple[str, ...]:
    """Return a word and its parts."""
    if not token.isascii():
        return tuple(_split_chinese(token))
    humps = _HUMPS.findall(token) if not token.islower() else ()
    return (token, *humps) if len(humps) > 1 else (token,)


class _Remembering(dict[str, Sequence[str]]):
    """What a function makes of words: the same few thousand make up nearly all text. Forgets all when it is full.

    A lookup costs a third of functools.lru_cache's, and there are a hundred words to an attempt.
    """

    def __init__(self, made: Callable[[str], Sequence[str]]) -> None:
        super().__init__()
        self._made = made

    def __missing__(self, word: str) -> Sequence[str]:
        found = self._made(word)
        if len(word) <= _REMEMBERED:
            if len(self) == _WORDS_REMEMBERED:
                self.clear()
            self[word] = found
        return found


_parts = _Remembering(_split)
_words_of_name = _Remembering(_words)


def _split_chinese(token: str) -> Iterator[str]:
    at = 0
    for run in _CJK.finditer(token):
        if run.start() > at:
            yield token[at : run.start()]
        characters = run.group()
        if len(characters) == 1:
            yield characters
        yield from (characters[place : place + 2] for place in range(len(characters) - 1))
        at = run.end()
    if at < len(token):
        yield token[at:]


def terms_of(text: str) -> list[str]:
    """Return the distinct words of a question, lower case, in order, without those that say nothing."""
    words = dict.fromkeys(word.lower() for word in _words(text[:TEXT_LIMIT]))
    return [word for word in words if word not in _STOP and (len(word) > 1 or not word.isascii())]


@dataclass(frozen=True, slots=True)
class Question:
    """A question put to the index: its most telling words, joined by OR.

    Words that half of all experiences have decide nothing and cost most, so they go; of the rest the rarest stay. When
    there are no others, three of them do.
    """

    terms: tuple[str, ...]

    @classmethod
    def of(cls, text: str, counts: Mapping[str, int], document_count: int) -> Question:
        """Choose the words. counts: in how many experiences each word of the text occurs."""
        known = sorted((term for term in terms_of(text) if counts.get(term, 0) > 0), key=counts.__getitem__)
        telling = [term for term in known if counts[term] <= max(1.0, _COMMON_SHARE * document_count)]
        chosen: list[str] = []
        hits = 0
        for term in telling[:_MOST_TERMS] or known[:_FEW_TERMS]:
            hits += counts[term]
            if chosen and hits > _MOST_HITS:
                break
            chosen.append(term)
        return cls(tuple(chosen))

    @property
    def match(self) -> str:
        """The right side of MATCH: quoted words, which have no syntax of their own. "" when nothing is left to ask."""
        return " OR ".join(f'"{term}"' for term in self.terms)


_VOCABULARY = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.known_words USING fts5vocab(main, node_words, row)"
_ASKED = """
    CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked
    USING fts5(word, content = '', tokenize = 'porter unicode61 remove_diacritics 2')
"""
_ASKED_STEMS = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked_stems USING fts5vocab(temp, asked, instance)"


class Vocabulary:
    """In how many experiences each word occurs; counted again when there are a tenth more of them."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._documents = 0

    def counts(self, connection: sqlite3.Connection, text: str, document_count: int) -> Mapping[str, int]:
        """Return the count of every word of a text."""
        if not self._documents <= document_count <= 1.1 * self._documents:
            self._counts, self._documents = {}, document_count
        fresh = [term for term in terms_of(text) if term not in self._counts]
        if fresh:
            # A word that is nowhere yet may come with the next attempt, so only what was found is kept.
            self._counts |= {term: count for term, count in _counted(connection, fresh).items() if count}
        return self._counts


def _counted(connection: sqlite3.Connection, words: Sequence[str]) -> dict[str, int]:
    """Count words in the index. It stems them; a small index of these words alone tells what it makes of each."""
    for statement in (_VOCABULARY, _ASKED, _ASKED_STEMS):
        connection.execute(statement)
    connection.execute("INSERT INTO temp.asked(asked) VALUES ('delete-all')")
    connection.executemany("INSERT INTO temp.asked(rowid, word) VALUES (?, ?)", enumerate(words))
    counts = dict.fromkeys(words, 0)
    for place, stem in connection.execute("SELECT doc, term FROM temp.asked_stems").fetchall():
        row = connection.execute("SELECT doc FROM temp.known_words WHERE term = ?", (stem,)).fetchone()
        counts[words[place]] = row[0] if row is not None else 0
    return counts
