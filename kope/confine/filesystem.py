"""The folders a confined program sees: a new root with what it may read, what it may write, and nothing else.

Built by bind mounts in a private mount namespace, everything at its usual path. Rights by path are `landlock`'s.
"""

from __future__ import annotations

import errno
import os
import struct

from kope.confine import kernel

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/localtime",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_STAGE = "/tmp"
"""Only a place to mount on; nothing is written to it."""
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_AT_RECURSIVE = 0x8000


def may_mount() -> bool:
    """Cut the mount namespace off from the outer one; False where mounting is forbidden."""
    try:
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    except PermissionError:
        return False
    return True


def build(readable: list[str], writable: list[str], devices: list[str]) -> bool:
    """Replace the root folder, devices usable in it; return whether it has the /proc of this pid namespace.

    Raises OSError when a mount fails; this process then has no usable root any more.
    """
    shown = _plan(readable, writable)
    kernel.mount("kope", _STAGE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,nr_inodes=4k,mode=755")
    os.mkdir(f"{_STAGE}/old")
    os.mkdir(f"{_STAGE}/new")
    kernel.pivot_root(_STAGE, f"{_STAGE}/old")
    os.chdir("/")
    kernel.mount("/new", "/new", None, kernel.MS_BIND)
    for path, real, may_write in shown:
        _bind(path, real)
        _protect(f"/new{path}", read_only=not may_write)
    for device in (*DEVICES, *(path for path in devices if os.path.exists(path))):
        _bind(device, device)
    with_proc = _mount_proc()
    quiet = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("none", "/new", None, kernel.MS_REMOUNT | kernel.MS_BIND | quiet)
    os.chdir("/new")
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")
    return with_proc


def _plan(readable: list[str], writable: list[str]) -> list[tuple[str, str, bool]]:
    """Return (path, where it really is, may write), outer folders before what lies in them.

    A path that goes through links is shown both as spelled and where it really is; a link in a folder that is shown is
    there already.
    """
    wanted: dict[str, tuple[str, bool]] = {}
    for paths, may_write in ((SYSTEM, False), (readable, False), (writable, True)):
        for path in paths:
            real = os.path.realpath(path)
            if os.path.exists(real):
                wanted[os.path.normpath(path)] = (real, may_write)
                wanted[real] = (real, may_write or wanted.get(real, (real, False))[1])
    plan: list[tuple[str, str, bool]] = []
    for path, (real, may_write) in sorted(wanted.items()):
        outer = next((entry for entry in reversed(plan) if path.startswith(entry[0] + "/")), None)
        if outer is None or (outer[2] != may_write and real == outer[1] + path[len(outer[0]) :]):
            plan.append((path, real, may_write))
    return plan


def _bind(path: str, real: str) -> None:
    """Show the old root's `real` at `path` of the new one."""
    source, target = f"/old{real}", f"/new{path}"
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)


def _protect(target: str, *, read_only: bool) -> None:
    wanted = _ATTR_NOSUID | _ATTR_NODEV | (_ATTR_RDONLY if read_only else 0)
    try:
        attributes = struct.pack("<QQQQ", wanted, 0, 0, 0)
        kernel.syscall(kernel.SYS_MOUNT_SETATTR, -100, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))
    except OSError as failed:
        if failed.errno != errno.ENOSYS:
            raise
        # Before Linux 5.12 only the mount itself can be changed; flags that are already set must be repeated.
        kept = os.statvfs(target).f_flag & (kernel.MS_NOEXEC | 0x1000 | 0x400 | 0x800)
        access = {0x400: 1 << 10, 0x800: 1 << 11, 0x1000: 1 << 21}
        flags = sum(value for bit, value in access.items() if kept & bit) | (kept & kernel.MS_NOEXEC)
        kernel.mount("none", target, None, kernel.MS_REMOUNT | kernel.MS_BIND | wanted | flags)


def _mount_proc() -> bool:
    os.makedirs("/new/proc", exist_ok=True)
    try:
        # Read-only: some files there obey whoever may write them, and the program may write what it is shown.
        quiet = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("proc", "/new/proc", "proc", quiet)
    except OSError:
        return False  # containers that mask parts of /proc forbid a fresh one
    return True
