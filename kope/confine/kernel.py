"""The few kernel calls that Python does not offer, through ctypes. It leaves what to do with them to its siblings."""

from __future__ import annotations

import ctypes
import os

MACHINE = os.uname().machine
_LIBC = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1 << 5, 1 << 12, 1 << 14, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_SECUREBITS, PR_SET_CHILD_SUBREAPER = 1, 8, 28, 36
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 38, 47
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2

# Numbers from 424 on are the same on all machines.
SYS_MOUNT_SETATTR, SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 442, 444, 445, 446
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(MACHINE, -1)
SYS_CAPSET = {"x86_64": 126, "aarch64": 91}.get(MACHINE, -1)
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}.get(MACHINE, -1)


def syscall(number: int, *arguments: object) -> int:
    """Make a system call; integers go as longs, bytes as pointers. Raises OSError."""
    plain = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(int(_LIBC.syscall(ctypes.c_long(number), *plain)))


def unshare(flags: int) -> None:
    """Leave the parent's namespaces. Raises OSError."""
    _checked(_LIBC.unshare(flags))


def prctl(option: int, *arguments: int) -> None:
    """Set a property of this process. Raises OSError."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    _checked(_LIBC.prctl(option, *(ctypes.c_ulong(value) for value in padded)))


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount. Raises OSError naming the target."""
    where, named = os.fsencode(target), kind.encode() if kind else None
    result = _LIBC.mount(os.fsencode(source), where, named, ctypes.c_ulong(flags), options.encode() or None)
    _checked(result, target)


def detach(target: str) -> None:
    """Unmount as soon as nobody uses it. Raises OSError."""
    _checked(_LIBC.umount2(os.fsencode(target), MNT_DETACH), target)


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root folder and hang the old one at `old`. Raises OSError."""
    syscall(SYS_PIVOT_ROOT, os.fsencode(new), os.fsencode(old))


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. A change of identity undoes it."""
    prctl(PR_SET_PDEATHSIG, 9)


def keep_capabilities(capabilities: tuple[int, ...]) -> None:
    """Keep only these capabilities, across exec too. Raises OSError."""
    mask = sum(1 << number for number in capabilities)
    header = (0x20080522).to_bytes(4, "little") + bytes(4)
    data = b"".join(value.to_bytes(4, "little") for value in (mask, mask, mask, 0, 0, 0))
    syscall(SYS_CAPSET, header, data)
    for number in capabilities:
        prctl(PR_CAP_AMBIENT, 2, number)


def _checked(result: int, path: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
