"""The hash over what a database knows: equal for equal knowledge, whatever order it came in and however it is stored.

Over evidence alone: what is derived from it, what is local, and from whom it came do not count.
"""

from __future__ import annotations

import hashlib
import sqlite3

_LINES = """
    SELECT id, content_digest FROM attempts WHERE id NOT IN (SELECT attempt_id FROM conflicts)
    UNION ALL
    SELECT attempt_id, content_digest FROM conflicts
    ORDER BY 1, 2
"""


def content_hash(connection: sqlite3.Connection) -> str:
    """Return the sha256 (hex) over one line per version of an attempt, sorted: id, tab, digest, line feed.

    The digest covers all of an attempt: task, source and prompt by their hashes, texts, plan, outcome, every sample.
    """
    total = hashlib.sha256()
    for name, digest in connection.execute(_LINES):
        total.update(f"{name}\t{digest}\n".encode("utf-8", "surrogatepass"))
    return total.hexdigest()
