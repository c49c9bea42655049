"""Whose rows come in under which origin: a file can claim any.

What an origin is believed is a person's to say, see trust.
"""

from __future__ import annotations

import hashlib
import sqlite3

from kope.memory.sessions import now

CONFLICT = "c0" * 16
"""Origin of attempts that files disagree on: no file's, and never trusted."""
_DISAGREEING = "INSERT INTO origins VALUES (?, 'disagreeing files', 'quarantined', ?) ON CONFLICT DO NOTHING"


def disagreeing(connection: sqlite3.Connection) -> str:
    """Return the origin of attempts that files disagree on, made where there is none yet."""
    connection.execute(_DISAGREEING, (CONFLICT, now()))
    return CONFLICT


class Origins:
    """Whose rows come in under which origin here.

    A file can claim any origin. What claims to be our own, or one that is trusted, and is not here, comes in under an
    origin derived from that claim, in quarantine like all that is new.
    """

    def __init__(self, connection: sqlite3.Connection, claimed: dict[str, str], *, trusted: bool) -> None:
        self._connection = connection
        self._claimed = claimed
        self._trusted = trusted
        self._here: dict[str, str] = {}
        self._trusts: dict[str, str] = {}

    def of(self, claimed: str) -> str:
        """Return the origin under which rows of an origin are kept, made where it is new."""
        if claimed not in self._here:
            self._here[claimed] = self._resolved(claimed)
        return self._here[claimed]

    def trust(self, claimed: str) -> str:
        """Return what an origin is believed."""
        if claimed not in self._trusts:
            self._trusts[claimed] = self._trust_of(self.of(claimed)) or "quarantined"
        return self._trusts[claimed]

    def _trust_of(self, name: str) -> str | None:
        row = self._connection.execute("SELECT trust FROM origins WHERE id = ?", (name,)).fetchone()
        return row[0] if row is not None else None

    def _resolved(self, claimed: str) -> str:
        if claimed == CONFLICT:
            return disagreeing(self._connection)
        trust, label = self._trust_of(claimed), self._claimed.get(claimed, "")
        if trust in ("own", "trusted") and not self._trusted:
            label = f"claims to be {label or claimed[:8]}"
            claimed = hashlib.sha256(f"claimed {claimed}".encode()).hexdigest()[:32]
            trust = self._trust_of(claimed)
        if trust is None:
            new = "trusted" if self._trusted else "quarantined"
            self._connection.execute("INSERT INTO origins VALUES (?, ?, ?, ?)", (claimed, label, new, now()))
        elif trust == "quarantined" and self._trusted:
            self._connection.execute("UPDATE origins SET trust = 'trusted' WHERE id = ?", (claimed,))
        return claimed
