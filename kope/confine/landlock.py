"""Landlock: an allow-list of files by right, and no TCP. It leaves mounts and namespaces to `filesystem` and `launch`.

Works without any privilege since Linux 5.13, so it is what remains where namespaces are forbidden.
"""

from __future__ import annotations

import os
import stat
import struct

from kope.confine import kernel

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL_V1 = (1 << 13) - 1
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_READ = EXECUTE | READ_FILE | READ_DIR
_NET_TCP = 0b11
_SCOPE_ALL = 0b11


def version() -> int:
    """Return the kernel's Landlock version, 0 when there is none."""
    try:
        return kernel.syscall(kernel.SYS_LANDLOCK_CREATE, 0, 0, 1)
    except OSError:
        return 0


def restrict(readable: list[str], writable: list[str], devices: list[str], driven: list[str]) -> int:
    """Allow reading below `readable`, everything below `writable`, using `devices`; nothing else, for good.

    driven: devices that are controlled too (ioctl), not only read and written.
    Needs no_new_privs. Returns the version in use, 0 when the kernel has no Landlock. Raises OSError.
    """
    level = version()
    if level <= 0:
        return 0
    handled = _ALL_V1 | (REFER if level >= 2 else 0) | (TRUNCATE if level >= 3 else 0)
    handled |= IOCTL_DEV if level >= 5 else 0
    attributes = struct.pack("<Q", handled)
    if level >= 4:
        attributes += struct.pack("<Q", _NET_TCP)
    if level >= 6:
        attributes += struct.pack("<Q", _SCOPE_ALL)
    ruleset = kernel.syscall(kernel.SYS_LANDLOCK_CREATE, attributes, len(attributes), 0)
    for paths, rights in (
        (readable, _READ),
        (devices, READ_FILE | WRITE_FILE),
        (driven, READ_FILE | WRITE_FILE | IOCTL_DEV),
        (writable, handled & ~IOCTL_DEV),
    ):
        for path in paths:
            _allow(ruleset, path, rights & handled)
    kernel.syscall(kernel.SYS_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)
    return level


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(handle).st_mode):
        rights &= _FILE_RIGHTS
    try:
        kernel.syscall(kernel.SYS_LANDLOCK_ADD, ruleset, 1, struct.pack("<Qi", rights, handle), 0)
    finally:
        os.close(handle)
