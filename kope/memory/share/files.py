"""Export, import, merge and trust, by the names of files. What happens in each is another module's."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from kope.errors import MachineError, StoreError
from kope.memory.database import Database
from kope.memory.share.content import content_hash
from kope.memory.share.foreign import opened
from kope.memory.share.leave import Choice, Form, Left, leave, look_at_place
from kope.memory.share.look import Taken, look
from kope.memory.share.origins import Source
from kope.memory.share.signature import Signatures, look_at_signature
from kope.memory.share.take import take
from kope.memory.share.trust import set_trust
from kope.memory.share.unproven import Claim, best_claims
from kope.memory.snapshot import default_place, write_snapshot

Progress = Callable[[str, int, int], None]


_ANY = Signatures()


def silent(_what: str, _done: int, _all: int) -> None:
    """Show nothing."""


def export_file(db: Path, place: Path | None, choice: Choice, form: Form, progress: Progress = silent) -> Left:
    """Write what leaves of a database into a new file; place None: only say what would.

    Raises NotFound (no such database, or nothing meets the choice), StoreError (the place is taken), MachineError.
    """
    with Database.open(db, create=False, read_only=False) as database:
        return leave(database, place, choice, form, progress)


def import_file(
    db: Path,
    file: Path,
    *,
    trusted: bool = False,
    signatures: Signatures = _ANY,
    progress: Progress = silent,
) -> Taken:
    """Take a file into a database, made when there is none. Whatever is raised, the database is as it was.

    Raises StoreError, SchemaError, Corrupt or NotFound for a file that is not taken.
    """
    if db.exists() and file.exists() and db.samefile(file):
        raise StoreError(f"{file} is the database itself; name another file to take in")
    with opened(file) as found:
        signer, note = look_at_signature(file, found.copy, signatures)
        looked = look(found, progress)
        looked.taken.signer = signer
        looked.taken.notes += [note] if note else []
        made = not db.exists()
        try:
            with Database.open(db, create=True, read_only=False) as database:
                return take(database, looked, trusted=trusted, progress=progress)
        except BaseException:
            if made:
                db.unlink(missing_ok=True)
            raise


def merge_files(
    files: Sequence[Path],
    place: Path,
    *,
    trusted: bool = False,
    signatures: Signatures = _ANY,
    progress: Progress = silent,
) -> tuple[tuple[Taken, ...], str]:
    """Make a new database of several files; returns what came of each, and the content hash of the result.

    The files are read only. The order they are named in makes no difference to what is in the result.
    """
    look_at_place(place)
    try:
        scratch = tempfile.TemporaryDirectory(prefix=".kope-merge-", dir=place.parent)
    except OSError as refused:
        raise MachineError(f"nothing can be written to {place.parent} ({refused.strerror})") from refused
    with scratch as folder:
        built = Path(folder) / "merged.db"
        taken = tuple(
            import_file(built, file, trusted=trusted, signatures=signatures, progress=progress) for file in files
        )
        with Database.open(built, create=False, read_only=True) as database, database.reading() as connection:
            found = content_hash(connection)
        built.replace(place)
    return taken, found


def trust_origin(db: Path, name: str, trust: str) -> Source:
    """Say what an origin is believed from now on: trusted, quarantined or distrusted."""
    with Database.open(db, create=False, read_only=False) as database:
        return set_trust(database, name, trust)


def snapshot_file(db: Path, place: Path | None = None) -> Path:
    """Write a whole copy of a database as it is now, whoever is writing it; returns where.

    place None: beside it, with the time in its name. Raises StoreError when the place is taken.
    """
    with Database.open(db, create=False, read_only=False) as database, database.lock:
        place = default_place(database.path, datetime.now(UTC)) if place is None else place.absolute()
        write_snapshot(database.connection, place)
    return place


def claims_of(db: Path, hardware: str, *, task: str = "", count: int = 1) -> tuple[Claim, ...]:
    """Return the best kernels that came from elsewhere and were not judged on this hardware yet."""
    with Database.open(db, create=False, read_only=False) as database, database.reading() as connection:
        return best_claims(connection, task, hardware, count)
