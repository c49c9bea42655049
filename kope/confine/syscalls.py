"""The system call filter: what no compiler, reference or candidate has any business calling.

Namespaces and Landlock already stop most of it; the filter holds where they are missing, keeps the kernel's rarely
tested corners out of reach, and lets a candidate's attempt be seen instead of silently failing.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from kope.confine import kernel

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_ALLOW, _TRAP, _KILL, _ERRNO = 0x7FFF0000, 0x00030000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16

_CLONE_NEW = 0x7E020000  # every CLONE_NEW* flag
_CLONE_THREAD = 0x00010000
_AF_UNIX = 1

# name: (x86_64, aarch64); -1 where the machine does not have it
_NUMBERS = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "clone": (56, 220),
    "fork": (57, -1), "vfork": (58, -1), "clone3": (435, 435), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "pidfd_getfd": (438, 438), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162),
    "init_module": (175, 105), "delete_module": (176, 106), "finit_module": (313, 273), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116),
    "settimeofday": (164, 170), "adjtimex": (159, 171), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "move_pages": (279, 239),
    "migrate_pages": (256, 238), "mbind": (237, 235), "set_mempolicy": (238, 237), "iopl": (172, -1),
    "ioperm": (173, -1), "modify_ldt": (154, -1), "vhangup": (153, 58),
}  # fmt: skip
_SPECIAL = ("socket", "clone", "fork", "vfork", "clone3", "socketpair")


def _number(name: str) -> int:
    return _NUMBERS[name][0 if kernel.MACHINE == "x86_64" else 1]


def _op(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, when_true, when_false, value)


def program(candidate: bool) -> bytes:
    """Return the filter as BPF. candidate: forbidden calls raise SIGSYS and new processes are forbidden too."""
    refuse = _TRAP if candidate else _ERRNO | errno.EPERM
    lines = [
        _op(_LOAD, _ARCH_AT),
        _op(_EQUAL, _ARCH[kernel.MACHINE], 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _NUMBER_AT),
    ]
    if kernel.MACHINE == "x86_64":
        lines += [_op(_AT_LEAST, _X32_BIT, 0, 1), _op(_RETURN, _KILL)]
    # glibc falls back to clone, whose flags the filter can see, when clone3 is not there.
    lines += _answer("clone3", _ERRNO | errno.ENOSYS)
    for name in _NUMBERS:
        if name not in _SPECIAL and _number(name) >= 0:
            lines += _answer(name, refuse)
    if candidate:
        for name in ("socket", "socketpair", "fork", "vfork"):
            if _number(name) >= 0:
                lines += _answer(name, refuse)
        # A thread is fine, a process is not.
        lines += [_op(_EQUAL, _number("clone"), 0, 3), _op(_LOAD, _FIRST_ARGUMENT_AT)]
        lines += [_op(_ANY_BIT, _CLONE_THREAD, 1, 0), _op(_RETURN, refuse), _op(_LOAD, _NUMBER_AT)]
    else:
        lines += [_op(_EQUAL, _number("socket"), 0, 3), _op(_LOAD, _FIRST_ARGUMENT_AT)]
        lines += [_op(_EQUAL, _AF_UNIX, 1, 0), _op(_RETURN, _ERRNO | errno.EACCES), _op(_LOAD, _NUMBER_AT)]
    lines += [_op(_EQUAL, _number("clone"), 0, 3), _op(_LOAD, _FIRST_ARGUMENT_AT), _op(_ANY_BIT, _CLONE_NEW, 0, 1)]
    lines += [_op(_RETURN, refuse), _op(_RETURN, _ALLOW)]
    return b"".join(lines)


def _answer(name: str, answer: int) -> list[bytes]:
    return [_op(_EQUAL, _number(name), 0, 1), _op(_RETURN, answer)]


def restrict(candidate: bool) -> bool:
    """Install the filter for good; needs no_new_privs. False where it is unknown or the kernel has none."""
    if kernel.MACHINE not in _ARCH:
        return False
    code = program(candidate)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    for flags in (4, 0):  # SPEC_ALLOW: without it kernels before 5.16 slow the program down
        try:
            kernel.syscall(kernel.SYS_SECCOMP, 1, flags, header)
            return True
        except OSError:
            continue
    return False
