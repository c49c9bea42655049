"""The starter memory that comes with KOPE: what its own searches on the twin found out, for whoever has none yet.

An export made by scripts/starter, unpacked into the cache when it is first asked for. It is read beside the user's own
database and never written into it.
"""

from __future__ import annotations

import hashlib
import lzma
import tempfile
from pathlib import Path

from kope.errors import ConfigError, Corrupt, MachineError, SchemaError
from kope.memory.share.files import import_file
from kope.memory.store import Store
from kope.model import Embedder

LABEL = "starter"
PACKED = Path(__file__).with_name("starter.db.xz")


def open_starter(cache: Path, embedder: Embedder | None = None) -> Store:
    """Return the starter memory, read-only, with vectors of the embedder.

    Raises ConfigError when the installation lacks it, MachineError when the cache cannot be written.
    """
    try:
        packed = PACKED.read_bytes()
    except OSError as missing:
        raise ConfigError(f"KOPE's starter memory is missing ({PACKED.name}); install KOPE again") from missing
    named = hashlib.sha256(packed + (embedder.name if embedder is not None else "").encode())
    place = cache / f"starter-{named.hexdigest()[:12]}.db"
    try:
        if place.exists():
            return _opened(place, embedder)
    except (SchemaError, Corrupt):
        pass  # A cache may be lost or damaged; it is made again.
    try:
        _unpack(packed, place, embedder)
    except OSError as refused:
        why = refused.strerror or refused
        raise MachineError(f"the starter memory cannot be unpacked into {cache} ({why}); set KOPE_CACHE") from refused
    return _opened(place, embedder)


def _opened(place: Path, embedder: Embedder | None) -> Store:
    return Store.open(place, embedder=embedder, create=False, read_only=True)


def _unpack(packed: bytes, place: Path, embedder: Embedder | None) -> None:
    """Build the database under another name; several programs may do so at once, and all come to the same."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".starter-", dir=place.parent) as folder:
        export, built = Path(folder) / "export.db", Path(folder) / "starter.db"
        export.write_bytes(lzma.decompress(packed))
        import_file(built, export, trusted=True)
        if embedder is not None:
            with Store.open(built, embedder=embedder) as store:
                store.reembed()  # lessons, which are made anew; of another model everything
        built.replace(place)
