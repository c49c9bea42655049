"""The nearest of all vectors of a database: by the signs of their components first, the likeliest then in full.

The signs are 1/16 of the bytes and are read at once (index makes them); of the vectors themselves only those that are
compared are read, and kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from kope.memory.database import Database
from kope.memory.index import RANGED, VECTORS, from_bytes, signs_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_COMPARED = 400
"""Rows compared in full: of 10 nearest of 100,000 the signs bring all among these, of 100 nearest most."""
_CODES = "SELECT last_seq, embedder, dim, seqs, signs FROM codes WHERE part = ? ORDER BY last_seq"
_THESE = {
    part: sql + "n.seq IN (SELECT value FROM json_each(?))" + (" AND e.kind = 'led_to'" if part == "edges" else "")
    for part, sql in VECTORS.items()
}
_ENDLESS = 1 << 62


class Vectors:
    """The vectors of one part (nodes, or the edges that led to them) that one embedder made."""

    def __init__(self, database: Database, part: str) -> None:
        self._database = database
        self._part = part
        self._embedder, self._dim = "", 0
        self._reset()

    def _reset(self) -> None:
        self._last_seq = -1
        self._count = 0
        self._seqs: NDArray[np.int64] | None = None
        self._signs: NDArray[np.uint64] | None = None
        self._slots: NDArray[np.int32] | None = None
        self._rows: NDArray[np.float16] | None = None
        self._held = 0

    def __len__(self) -> int:
        """How many there are; 0 before the first question."""
        return self._count

    def nearest(
        self, vector: NDArray[np.float32], embedder: str, allowed: Collection[int] | None, count: int
    ) -> list[tuple[int, float]]:
        """Return (seq of the node, cosine) of the `count` nearest, best first. allowed: nodes to choose from by seq,
        None for all.

        Of many rows those are compared whose signs differ least; those that are nearest in truth are hardly ever
        missing.
        """
        import numpy as np

        self._catch_up(embedder, len(vector))
        if not self._count:
            return []
        assert self._seqs is not None
        places = self._likely(vector, allowed, max(_COMPARED, 4 * count))
        scores = self._exact(places).astype(np.float32) @ vector
        # Equal scores in the order of arrival, so that the answer does not depend on how the partition fell.
        best = np.lexsort((places, -scores))[:count]
        return [(int(self._seqs[places[at]]), float(scores[at])) for at in best]

    def _likely(self, vector: NDArray[np.float32], allowed: Collection[int] | None, most: int) -> NDArray[np.intp]:
        """Return the rows worth comparing: all when there are few, else those whose signs differ least."""
        import numpy as np

        assert self._signs is not None and self._seqs is not None
        if allowed is None:
            kept, signs = np.arange(self._count), self._signs[: self._count]
        else:
            wanted = np.fromiter(allowed, np.int64, len(allowed))
            kept = np.isin(self._seqs[: self._count], wanted).nonzero()[0]
            signs = self._signs[kept]
        if len(kept) <= most:
            return kept
        differing = np.zeros(len(kept), np.uint16)
        for column in _bits_set(signs ^ signs_of(vector[None, :])).T:  # far faster than a sum over so short an axis
            differing += column
        return np.sort(kept[np.argpartition(differing, most)[:most]])

    def _exact(self, places: NDArray[np.intp]) -> NDArray[np.float16]:
        """Return the vectors at these places; those not held yet are read."""
        assert self._slots is not None and self._seqs is not None
        fresh = places[self._slots[places] < 0]
        if len(fresh):
            seqs = self._seqs[fresh].tolist()
            found = {
                seq: data
                for _, seq, embedder, data in self._database.rows(_THESE[self._part], (json.dumps(seqs),))
                if embedder == self._embedder and len(data) == 2 * self._dim
            }
            nothing = bytes(2 * self._dim)
            self._hold(fresh, [found.get(seq, nothing) for seq in seqs])
        assert self._rows is not None
        return self._rows[self._slots[places]]

    def _hold(self, places: NDArray[np.intp], vectors: Sequence[bytes]) -> None:
        import numpy as np

        assert self._slots is not None
        start, self._held = self._held, self._held + len(vectors)
        self._rows = _grown(self._rows, (self._held, self._dim), np.float16, start)
        self._rows[start : self._held] = from_bytes(vectors, self._dim)
        self._slots[places] = np.arange(start, self._held)

    def _catch_up(self, embedder: str, dim: int) -> None:
        import numpy as np

        if (embedder, dim) != (self._embedder, self._dim):
            self._embedder, self._dim = embedder, dim
            self._reset()
        if self._last_seq < 0:
            seqs, signs = [], []
            for last_seq, made_by, width, coded, bits in self._database.rows(_CODES, (self._part,)):
                self._last_seq = last_seq
                if (made_by, width) == (embedder, dim):
                    seqs.append(np.frombuffer(coded, "<i8"))
                    signs.append(np.frombuffer(bits, "<u8").reshape(len(seqs[-1]), -1))
            if seqs:
                self._grow(np.concatenate(seqs), np.concatenate(signs))
        self._read_on()

    def _read_on(self) -> None:
        """Take in the rows that came since the last time; they are kept whole."""
        import numpy as np

        fresh: list[tuple[int, bytes]] = []
        sql = VECTORS[self._part] + RANGED[self._part]
        for last_seq, seq, embedder, data in self._database.rows(sql, (self._last_seq, _ENDLESS)):
            self._last_seq = last_seq
            if embedder == self._embedder and len(data) == 2 * self._dim:
                fresh.append((seq, data))
        if fresh:
            start, vectors = self._count, [data for _, data in fresh]
            self._grow(np.array([seq for seq, _ in fresh], np.int64), signs_of(from_bytes(vectors, self._dim)))
            self._hold(np.arange(start, self._count), vectors)

    def _grow(self, seqs: NDArray[np.int64], signs: NDArray[np.uint64]) -> None:
        """Take in rows by their signs."""
        import numpy as np

        start, self._count = self._count, self._count + len(seqs)
        self._seqs = _grown(self._seqs, (self._count,), np.int64, start)
        self._signs = _grown(self._signs, (self._count, signs.shape[1]), np.uint64, start)
        self._slots = _grown(self._slots, (self._count,), np.int32, start)
        self._seqs[start : self._count] = seqs
        self._signs[start : self._count] = signs
        self._slots[start : self._count] = -1


def _grown(held: NDArray[Any] | None, shape: tuple[int, ...], dtype: Any, used: int) -> NDArray[Any]:
    """Return the array with room for so many rows, the first `used` as they are. It grows by doubling."""
    import numpy as np

    if held is not None and len(held) >= shape[0]:
        return held
    # Exactly as many at first: a database that is only read, once, is not held twice over.
    room = shape[0] if held is None else max(256, shape[0], 2 * used)
    grown = np.empty((room, *shape[1:]), dtype)
    if held is not None:
        grown[:used] = held[:used]
    return grown


def _bits_set(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return how many bits of each word are set. NumPy has it from 2.0 on."""
    import numpy as np

    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(words), np.uint8)
    octets = words.view(np.uint8).reshape(*words.shape, 8)
    return np.asarray(np.unpackbits(octets, axis=-1).sum(axis=-1), np.uint8)
