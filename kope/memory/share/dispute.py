"""Attempts that files disagree on: every version is kept, and none is believed.

The rules are symmetric in the versions, so that the order in which files are taken in does not matter.
"""

from __future__ import annotations

import sqlite3

from kope.memory.encode import pack, to_json, unpack
from kope.memory.share import unit as units
from kope.memory.share.claimed import Origins, disagreeing
from kope.memory.share.look import Taken
from kope.memory.share.rebuild import set_aside
from kope.memory.share.unit import Unit
from kope.memory.share.values import parsed

_IN_PLACE = "SELECT content_digest FROM attempts WHERE id = ?"
_VERSIONS = "SELECT content_digest, origin_id, document FROM conflicts WHERE attempt_id = ?"
_NEW_VERSION = """
    INSERT INTO conflicts (attempt_id, content_digest, origin_id, document) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_NO_VERSION = "DELETE FROM conflicts WHERE attempt_id = ? AND content_digest = ?"
_DISPUTED = (
    "UPDATE attempts SET origin_id = ? WHERE id = ?",
    "UPDATE nodes SET origin_id = ?, revision = (SELECT max(revision) + 1 FROM nodes) WHERE attempt_id = ?",
)


def dispute(connection: sqlite3.Connection, unit: Unit, origins: Origins, taken: Taken) -> None:
    """Keep every version of an attempt that files disagree on, and believe none.

    In place stays our own version, else the one whose claim sorts first. Of two copies of a version the fuller counts.
    """
    if origins.trust(unit.origin_id) == "distrusted":
        taken.distrusted += 1
        return
    versions = [unit, *_known_versions(connection, unit.id)]
    own = {row[0] for row in connection.execute("SELECT id FROM origins WHERE trust = 'own'")}
    best: dict[str, Unit] = {}
    for version in sorted(versions, key=lambda each: each.rank):
        best.setdefault(version.claim, version)
    for version in versions:
        kept = best[version.claim] is version
        origin_id = version.origin_id if version is not unit else origins.of(unit.origin_id)
        if kept:
            document = pack(to_json({**version.document(), "origin_id": origin_id}))
            connection.execute(_NEW_VERSION, (unit.id, version.content_digest, origin_id, document))
        else:
            connection.execute(_NO_VERSION, (unit.id, version.content_digest))
    in_place = min(best.values(), key=lambda each: (each is unit or each.origin_id not in own, each.claim))
    conflict = disagreeing(connection)
    here = connection.execute(_IN_PLACE, (unit.id,)).fetchone()
    if here[0] != in_place.content_digest:
        set_aside(connection, (unit.id,))
        units.replace(connection, in_place, conflict)
    for statement in _DISPUTED:
        connection.execute(statement, (conflict, unit.id))
    taken.conflicts.append(unit.id)


def _known_versions(connection: sqlite3.Connection, attempt_id: str) -> list[Unit]:
    """Return the versions that are here: those on record, else the one in place, with the origins they came from."""
    found = []
    for _, _, document in connection.execute(_VERSIONS, (attempt_id,)):
        found.append(Unit.of_document(parsed(unpack(document))))
    if not found:
        here = units.read_one(connection, attempt_id)
        assert here is not None
        found.append(here)
    return found
