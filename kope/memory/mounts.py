"""On what kind of file system a file lies: SQLite's write-ahead log works on local ones only."""

from __future__ import annotations

import re
from pathlib import Path

NETWORK = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs",
        "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.juicefs", "fuse.rclone", "fuse.gcsfuse",
    }
)  # fmt: skip
_MOUNTS = Path("/proc/self/mountinfo")


def file_system_of(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system a file is on, "" when it is not known."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    best, found = -1, ""
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split()
        if not separator or len(fields) < 5:
            continue
        place = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        if len(place.parts) >= best and path.is_relative_to(place):
            best, found = len(place.parts), after.split()[0]
    return found


def warning(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return what a user of a database on a network file system should know, "" on a local one."""
    kind = file_system_of(path, mounts)
    if kind not in NETWORK:
        return ""
    return (
        f"{path.name} lies on a network file system ({kind}), where writing at once can damage it; keep it on a local"
        " disk and put copies there with kope db snapshot"
    )
