"""Watches a confined program to its end: memory of the whole tree, number of processes, growth of its folder.

Limits of a single process are the kernel's business; here is what the kernel does not add up.
"""

from __future__ import annotations

import os
import signal
import time

from kope.confine.spec import Spec

_FIRST_LOOK_S, _LOOK_EVERY_S, _DISK_EVERY_S = 0.02, 0.1, 0.5
_MAX_FILES = 20_000


class End:
    """How the program ended. status: as wait() gives it; peak_kb: most memory seen, of one process or of the tree."""

    def __init__(self, status: int, peak_kb: int, cpu_s: float, stopped: str) -> None:
        self.status = status
        self.peak_kb = peak_kb
        self.cpu_s = cpu_s
        self.stopped = stopped


def until_end(child: int, spec: Spec, *, alone: bool) -> End:
    """Wait for `child`, reaping everything else. SIGCHLD must be blocked.

    alone: /proc shows the program's tree and nobody else.
    """
    peak_kb, stopped = 0, ""
    grown = _Growth(spec) if spec.disk_bytes else None
    pause_s, next_disk_s = _FIRST_LOOK_S, time.monotonic() + _DISK_EVERY_S
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == child:
            used_s = usage.ru_utime + usage.ru_stime
            peak_kb = max(peak_kb, usage.ru_maxrss)
            return End(status, peak_kb, used_s, stopped or _by_signal(status, used_s >= spec.cpu_s))
        if pid:
            continue
        if signal.sigtimedwait([signal.SIGCHLD], pause_s):
            continue
        pause_s = min(2 * pause_s, _LOOK_EVERY_S)
        if not stopped:
            tree_kb, tasks = look(alone)
            peak_kb = max(peak_kb, tree_kb)
            stopped = "memory" if tree_kb > spec.memory_bytes >> 10 else "processes" if tasks >= spec.processes else ""
        if not stopped and grown and time.monotonic() >= next_disk_s:
            stopped = "disk" if grown.too_far() else ""
            next_disk_s = time.monotonic() + _DISK_EVERY_S
        if stopped:
            os.kill(child, signal.SIGKILL)


def look(alone: bool) -> tuple[int, int]:
    """Return resident kB and number of tasks of everything confined below this process."""
    total_kb, tasks = 0, 0
    for pid in _others() if alone else descendants():
        try:
            with open(f"/proc/{pid}/status", "rb") as lines:
                fields = dict(line.split(b":", 1) for line in lines if b":" in line)
        except (OSError, ValueError):
            continue  # gone meanwhile
        # Pages of mapped files are the page cache's, not the program's.
        total_kb += sum(int(fields[name].split()[0]) for name in (b"RssAnon", b"RssShmem") if name in fields)
        tasks += int(fields.get(b"Threads", b"1"))
    return total_kb, tasks


def _others() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def descendants() -> list[int]:
    """Return all processes below this one, nearest first, by the numbers that /proc shows; [] without a /proc."""
    children: dict[int, list[int]] = {}
    try:
        root = int(os.readlink("/proc/self"))  # not getpid(): /proc may be that of an outer pid namespace
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as text:
                    parent = int(text.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(root, ()))
    for pid in found:  # grows while it is walked
        found += children.get(pid, ())
    return found


def sweep(limit_s: float = 1.5) -> None:
    """Kill everything below this process, which must be a subreaper, until nothing is left."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        for action in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that nothing forks away meanwhile
            for pid in descendants():
                try:
                    os.kill(pid, action)
                except ProcessLookupError:
                    pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _by_signal(status: int, used_up: bool) -> str:
    """Tell which of the kernel's limits ended a program. used_up: it had its processor time, then comes SIGKILL."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number == signal.SIGXCPU or (number == signal.SIGKILL and used_up):
        return "cpu"
    return "file-size" if number == signal.SIGXFSZ else ""


class _Growth:
    """How much the writable folders have grown since the start."""

    def __init__(self, spec: Spec) -> None:
        self._folders = [spec.workdir, *spec.writable]
        self._allowed_bytes = spec.disk_bytes
        self._before = self._used()

    def _used(self) -> tuple[int, int]:
        used_bytes, files = 0, 0
        waiting = list(self._folders)
        while waiting and files < 4 * _MAX_FILES:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        files += 1
                        used_bytes += 512 * entry.stat(follow_symlinks=False).st_blocks
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
            except OSError:
                continue
        return used_bytes, files

    def too_far(self) -> bool:
        used_bytes, files = self._used()
        return used_bytes - self._before[0] > self._allowed_bytes or files - self._before[1] > _MAX_FILES
