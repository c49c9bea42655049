"""Who a confined program is: an id that nobody else on the machine has, so that limits by user count it alone.

The kernel never applies the process limit to root; a program started by root therefore becomes someone else.
"""

from __future__ import annotations

import os

from kope.confine import kernel

_FIRST_ID = 1_500_000_000


def spare_id() -> int:
    """Return an id for this launcher's program: unique while it runs where the id range allows, else near the last."""
    ranges = _ranges("uid_map")
    wanted = _FIRST_ID + os.getpid()
    if any(first <= wanted < first + count for first, count in ranges):
        return wanted
    last = max(first + count - 1 for first, count in ranges)
    return last - 1 - os.getpid() % 1000 if last > 2000 else last


def _ranges(name: str) -> list[tuple[int, int]]:
    with open(f"/proc/self/{name}", encoding="ascii") as lines:
        words = [line.split() for line in lines]
    return [(int(first), int(count)) for first, _, count in words]


def map_self(uid: int, gid: int) -> None:
    """Map an ordinary user's ids, as they were outside, into the new user namespace. Raises OSError."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as target:
            target.write(text)


class Mapper:
    """A root helper left outside that maps all ids, each to itself, into the namespace its parent is about to enter."""

    def __init__(self) -> None:
        go, self._go = os.pipe()
        launcher = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._go)
            status = 1
            try:
                if os.read(go, 1):
                    self._map(launcher)
                    status = 0
            finally:
                os._exit(status)
        os.close(go)

    @staticmethod
    def _map(pid: int) -> None:
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as target:
                target.write("".join(f"{first} {first} {count}\n" for first, count in _ranges(name)))

    def finish(self, *, entered: bool) -> bool:
        """Have the map written when the namespace was entered; return whether it was."""
        if entered:
            os.write(self._go, b"1")
        os.close(self._go)
        return os.waitpid(self._pid, 0)[1] == 0


def become(spare: int, capabilities: tuple[int, ...]) -> None:
    """Turn root into `spare`, keeping only these capabilities. Raises OSError."""
    kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(spare, spare, spare)
    os.setresuid(spare, spare, spare)
    kernel.keep_capabilities(capabilities)


def held(capability: int) -> bool:
    """Whether this process may use a capability."""
    with open("/proc/self/status", encoding="ascii") as lines:
        mask = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff"))
    return bool(mask >> capability & 1)


def own_tasks() -> int:
    """Return the number of processes and threads that this user has on the machine."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue  # gone meanwhile
    return count
