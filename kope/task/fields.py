"""One table of a task.toml, read strictly: what is absent, unknown or of the wrong type is one TaskError line.

Knows nothing about tasks; which keys a table has and what they mean is native.py's and cases.py's business.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from kope.errors import TaskError

_MISSING: Any = object()


def nearest(word: str, known: Iterable[str]) -> str:
    """Return 'did you mean "x"?' for the closest known word, else the list of all of them."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f'did you mean "{close[0]}"?'
    return "known: " + ", ".join(names) if names else "nothing is known here"


class Fields:
    """A TOML table with its place in the file, so that every complaint can name both."""

    def __init__(self, table: Mapping[str, Any], file: Path, place: str = "") -> None:
        self.table = table
        self.file = file
        self.place = place

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise TaskError for a key of this table; `problem` ends in the next step."""
        where = f"{self.place}.{key}" if self.place and key else self.place or key
        raise TaskError(f"{self.file}: {where}: {problem}" if where else f"{self.file}: {problem}")

    def only(self, *known: str) -> None:
        """Refuse keys that are not known, naming the nearest one that is."""
        for key in self.table:
            if key not in known:
                self.fail(key, f"unknown key; {nearest(key, known)}")

    def text(self, key: str, default: str = _MISSING) -> str:
        """Return a non-empty string."""
        value = self._get(key, default)
        if not isinstance(value, str) or not (value.strip() or value is default):
            self.fail(key, f'{value!r} is not a text; write {key} = "..."')
        return value.strip()

    def words(self, key: str, default: tuple[str, ...] = _MISSING) -> tuple[str, ...]:
        """Return a list of strings as a tuple."""
        if key not in self.table and default is not _MISSING:
            return default
        value = self._get(key, _MISSING)
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            self.fail(key, f'{value!r} is not a list of words; write {key} = ["..."]')
        return tuple(value)

    def child(self, key: str) -> Fields | None:
        """Return a sub-table, or None when it is absent."""
        value = self.table.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.fail(key, f"{value!r} is not a table; write {key} = {{ ... }}")
        return Fields(value, self.file, f"{self.place}.{key}" if self.place else key)

    def number(self, key: str, default: float = _MISSING, *, low: float = -math.inf) -> float:
        """Return a finite number that is at least `low`."""
        value = self._get(key, default)
        if not is_number(value) or not math.isfinite(value) or value < low:
            least = f" of at least {low:g}" if low > -math.inf else ""
            self.fail(key, f"{value!r} is not a finite number{least}; write {key} = 1e-3")
        return float(value)

    def _get(self, key: str, default: Any) -> Any:
        value = self.table.get(key, default)
        if value is _MISSING:
            self.fail(key, f"missing; add {key} = ... (docs/tasks.md shows a complete file)")
        return value


def is_number(value: Any) -> bool:
    """Whether a TOML value is an integer or float (a bool is neither)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
