"""A folder of build products addressed by content: made once, appearing whole, shared by processes, kept below a size.

It knows nothing of compilers. Nothing in it is precious: every entry can be deleted while no program runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kope.errors import MachineError

MAX_BYTES = 1 << 30
_KEEP_S = 3600.0
"""An entry used within this time is never pruned: some process may be running it."""


def digest(parts: Iterable[bytes | str]) -> str:
    """Return the sha256 hex of parts, each framed by its length, so that no two lists collide."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


class BuildCache:
    """Folders `<root>/<kind>/<key>`, each complete or absent.

    Raises MachineError from every method when the disk is full or the folder cannot be written.
    """

    def __init__(self, root: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.root = root.resolve()  # scratch folders lie below it, and compilers name files by their real paths
        self.max_bytes = max_bytes

    def find(self, kind: str, key: str) -> Path | None:
        """Return an entry's folder and mark it as used, or None."""
        folder = self.root / kind / key
        try:
            os.utime(folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            pass  # a shared, read-only cache still serves
        return folder

    def make(self, kind: str, key: str, fill: Callable[[Path], None]) -> Path:
        """Return an entry's folder; when absent let `fill` write one, alone among all processes.

        What `fill` raises passes through, and no entry is left behind.
        """
        found = self.find(kind, key)
        if found:
            return found
        with self._locked(kind, key):
            found = self.find(kind, key)  # another process may have made it while this one waited
            if found:
                return found
            with self.scratch() as scratch:
                fill(scratch)
                target = self.root / kind / key
                with _machine_errors(self.root):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    scratch.chmod(0o755)
                    scratch.rename(target)
        return target

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a fresh folder on the cache's own file system, removed afterwards unless it was renamed away."""
        with _machine_errors(self.root):
            parent = self.root / "scratch"
            parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=parent))
            _let_through(self.root, parent, folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _locked(self, kind: str, key: str) -> Iterator[None]:
        with _machine_errors(self.root):
            locks = self.root / "locks"
            locks.mkdir(parents=True, exist_ok=True)
            handle = os.open(locks / f"{kind}-{key[:2]}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def prune(self, kind: str) -> int:
        """Delete the entries used longest ago until a kind fits into max_bytes; return how many went."""
        entries = []
        for folder in (self.root / kind).glob("*"):
            try:
                entries.append((folder.stat().st_mtime, sum(file.stat().st_size for file in folder.iterdir()), folder))
            except OSError:
                continue  # another process pruned it
        total = sum(size for _, size, _ in entries)
        removed = 0
        for used_at, size, folder in sorted(entries):
            if total <= self.max_bytes or time.time() - used_at < _KEEP_S:
                break
            shutil.rmtree(folder, ignore_errors=True)
            total -= size
            removed += 1
        return removed


def _let_through(*folders: Path) -> None:
    """Let others pass through folders without listing them: the sandbox compiles below them under an id of its own.

    Compilers ask with access(2), which knows nothing of the rights the sandbox has beyond its id.
    """
    for folder in folders:
        mode = folder.stat().st_mode
        if mode & 0o011 != 0o011:
            with suppress(PermissionError):  # somebody else's: whether it serves is for the compiler to say
                folder.chmod(mode | 0o011)


@contextmanager
def _machine_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MachineError(
            f"the build cache {root} cannot be written ({error.strerror}); free space or choose another"
        ) from error
