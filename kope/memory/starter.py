"""The starter memory that comes with KOPE: what its own searches on the twin found out, for whoever has none yet.

An export made by scripts/starter, unpacked into the cache when it is first asked for. It is read beside the user's own
database and never written into it.
"""

from __future__ import annotations

import hashlib
import lzma
import tempfile
from pathlib import Path

from kope.errors import ConfigError
from kope.memory.share.files import import_file
from kope.memory.store import Store
from kope.model import Embedder

LABEL = "starter"
PACKED = Path(__file__).with_name("starter.db.xz")


def open_starter(cache: Path, embedder: Embedder | None = None) -> Store:
    """Return the starter memory, read-only. Raises ConfigError when the installation lacks it."""
    try:
        packed = PACKED.read_bytes()
    except OSError as missing:
        raise ConfigError(f"KOPE's starter memory is missing ({PACKED.name}); install KOPE again") from missing
    place = cache / f"starter-{hashlib.sha256(packed).hexdigest()[:12]}.db"
    if not place.exists():
        _unpack(packed, place)
    return Store.open(place, embedder=embedder, create=False, read_only=True)


def _unpack(packed: bytes, place: Path) -> None:
    """Build the database under another name; several programs may do so at once, and all come to the same."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".starter-", dir=place.parent) as folder:
        export, built = Path(folder) / "export.db", Path(folder) / "starter.db"
        export.write_bytes(lzma.decompress(packed))
        import_file(built, export, trusted=True)
        built.replace(place)
