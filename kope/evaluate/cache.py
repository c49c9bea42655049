"""A bounded folder of finished entries, addressed by content: inputs and reference outputs of cases.

Safe for several processes: an entry appears by one rename and is never changed. Knows nothing about what is in one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kope.errors import MachineError

_FRESH_S = 600
"""An entry used this recently is not evicted: another process may be about to open its files."""
_STALE_S = 86_400
_MARK = ".used"


class ContentCache:
    """Entries are folders named by a key; the least recently used go first when `limit_bytes` is exceeded."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes

    def find(self, key: str) -> Path | None:
        """Return the entry's folder and note the use, or None."""
        entry = self.folder / key
        try:
            os.utime(entry / _MARK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:  # a shared cache that only its owner may write still serves
            return entry
        return entry

    @contextlib.contextmanager
    def stage(self) -> Iterator[Path]:
        """Yield an empty folder on the same file system; what is not published from it is removed.

        Raises MachineError when the disk is full or the folder cannot be written.
        """
        staging: Path | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(prefix="staging-", dir=self.folder))
            yield staging
        except OSError as error:
            raise MachineError(
                f"{self.folder}: {error.strerror or error}; free space or set another cache folder"
            ) from error
        finally:
            if staging is not None:
                shutil.rmtree(staging, ignore_errors=True)

    def publish(self, prepared: Path, key: str) -> Path:
        """Move a prepared folder to its key. When another process was first, its entry is returned."""
        entry = self.folder / key
        (prepared / _MARK).touch()
        try:
            prepared.rename(entry)
        except OSError:
            if not entry.is_dir():
                raise
        return entry

    def drop(self, key: str) -> None:
        """Remove an entry, which must not be trusted any more."""
        self._remove(self.folder / key)

    def evict(self) -> None:
        """Remove least recently used entries until the limit holds, and staging folders that were left behind."""
        now = time.time()
        entries: list[tuple[float, int, Path]] = []
        for folder in self.folder.iterdir() if self.folder.is_dir() else ():
            with contextlib.suppress(OSError):  # it may vanish under another process's eviction
                if folder.name.startswith(("staging-", "gone-")):
                    if now - folder.stat().st_mtime > _STALE_S:
                        shutil.rmtree(folder, ignore_errors=True)
                    continue
                size = sum(file.stat().st_size for file in folder.iterdir())
                entries.append(((folder / _MARK).stat().st_mtime, size, folder))
        total = sum(size for _, size, _ in entries)
        for used, size, folder in sorted(entries):
            if total <= self.limit_bytes or now - used < _FRESH_S:
                break
            self._remove(folder)
            total -= size

    def _remove(self, entry: Path) -> None:
        """Rename first, so that nobody finds half an entry."""
        gone = entry.with_name(f"gone-{entry.name}-{os.getpid()}-{time.monotonic_ns()}")
        with contextlib.suppress(OSError):
            entry.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
