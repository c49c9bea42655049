"""Values as the database keeps them: JSON, compressed text, vectors; and texts cut to a size, head and tail.

What goes into which column is rows' business.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kope.errors import StoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LEVEL = 4


def to_json(value: Any) -> str:
    """Return compact JSON. Numbers that JSON lacks become the texts "nan", "inf" and "-inf".

    Raises StoreError for what JSON cannot hold.
    """
    try:
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)
        except ValueError:
            text = json.dumps(_without_nan(value), separators=(",", ":"), ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as unusable:
        raise StoreError(f"an attempt holds something that JSON cannot ({unusable}); nothing was written") from unusable
    return text if text.isascii() else clean(text)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "item"):  # a NumPy scalar
        return value.item()
    raise TypeError(f"a {type(value).__name__}")


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value


def clean(text: str) -> str:
    """Return text that SQLite takes: lone surrogates (bytes that were no UTF-8) escaped, NUL shown as its picture."""
    if "\0" in text:
        text = text.replace("\0", "\N{SYMBOL FOR NULL}")
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def finite(value: float | None) -> float | None:
    """Return a number SQLite can hold, None for NaN and the infinities."""
    return float(value) if value is not None and math.isfinite(value) else None


def pack(text: str) -> bytes:
    """Return text compressed. Lone surrogates survive."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), _LEVEL)


def unpack(data: bytes) -> str:
    """Return what `pack` was given. Raises ValueError for anything else."""
    try:
        return zlib.decompress(data).decode("utf-8", "surrogatepass")
    except zlib.error as broken:
        raise ValueError(str(broken)) from broken


def cut(text: str, limit: int) -> str:
    """Return text of at most about `limit` characters: its head and its tail, and between them how much is missing."""
    if len(text) <= limit:
        return text
    head = limit // 2
    tail = limit - head
    return f"{text[:head]}\n[... {len(text) - limit} characters cut ...]\n{text[-tail:]}"


def cut_within(value: Any, limit: int) -> Any:
    """Return a JSON-able value with every text in it cut to `limit`."""
    if isinstance(value, str):
        return cut(value, limit)
    if isinstance(value, Mapping):
        return {key: cut_within(item, limit) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cut_within(item, limit) for item in value]
    return value


def vector_bytes(vector: NDArray[np.float32]) -> bytes | None:
    """Return a vector as float16, little-endian, unit length; None for one that has no direction (zero, NaN)."""
    import numpy as np

    length = float(np.linalg.norm(vector))
    if not math.isfinite(length) or length < 1e-6:
        return None
    return bytes((vector / length).astype("<f2").tobytes())
