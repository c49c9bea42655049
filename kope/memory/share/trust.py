"""A person's word on whom attempts are believed from.

Honouring it is recall's business: quarantined ones are quoted and rank last, distrusted ones are not recalled.
"""

from __future__ import annotations

from kope.errors import NotFound, StoreError
from kope.memory import digests
from kope.memory.database import Database, new_generation
from kope.memory.sessions import prefix_range
from kope.memory.share.claimed import CONFLICT
from kope.memory.share.origins import Source, sources

_NAMED = "SELECT id, label, trust FROM origins WHERE (id >= ?1 AND id < ?2) OR label = ?3"
_TRUST = "UPDATE origins SET trust = ? WHERE id = ?"
_TOUCHED = "UPDATE nodes SET revision = (SELECT max(revision) + 1 FROM nodes) WHERE origin_id = ?"


def set_trust(database: Database, name: str, trust: str) -> Source:
    """Say what an origin is believed from now on; name: its id, the beginning of it, or its label.

    Raises NotFound, and StoreError for one that cannot be changed.
    """
    with database.write() as connection:
        rows = connection.execute(_NAMED, (*prefix_range(name), name)).fetchall()
        if len(rows) != 1:
            what = "several origins are" if rows else "no origin is"
            raise NotFound(f"{what} called {name!r}; kope db info lists them")
        found, _, before = rows[0]
        if before == "own":
            raise StoreError("what was tried here is believed as it is; kope db forget removes what is not wanted")
        if found == CONFLICT:
            raise StoreError("files disagree on these attempts, so none is believed; kope db forget removes them")
        connection.execute(_TRUST, (trust, found))
        connection.execute(_TOUCHED, (found,))
        digests.rebuild(connection)
        new_generation(connection)
        return next(source for source in sources(connection) if source.id == found)
