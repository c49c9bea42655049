"""Start programs: argv lists, own process group, bounded time and output. The only importer of `subprocess`.

Confinement (namespaces, limits, no network) is `sandbox`'s business; what an exit status means is the caller's.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kope.errors import MachineError, ToolMissing

OUTPUT_LIMIT_BYTES = 1 << 20
FLOOD_FACTOR = 64
"""A program that prints this many times its limit is stopped: it will not end by itself in useful time."""
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended. returncode: negative is the signal. truncated: the middle of its output was dropped.

    flooded: it was stopped because it printed without end.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    wall_s: float
    timed_out: bool = False
    truncated: bool = False
    flooded: bool = False

    @property
    def step(self) -> dict[str, object]:
        """The record kept with an outcome: argv, exit status, wall seconds."""
        return {"argv": list(self.argv), "returncode": self.returncode, "wall_s": round(self.wall_s, 4)}


class _Tail:
    """Keeps the head and the tail of a stream within a limit, however long the stream is."""

    def __init__(self, limit_bytes: int) -> None:
        self._half = max(limit_bytes // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, chunk: bytes) -> None:
        self.total_bytes += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._half:
            del self._tail[: len(self._tail) - self._half]

    @property
    def truncated(self) -> bool:
        return self.total_bytes > 2 * self._half

    def text(self) -> str:
        tail = bytes(self._tail[-self._half :])
        dropped = self.total_bytes - len(self._head) - len(tail)
        middle = f"\n[... {dropped} bytes left out ...]\n".encode() if dropped else b""
        return (bytes(self._head) + middle + tail).decode("utf-8", errors="replace")


def run(
    argv: Sequence[str],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float,
    stdin: bytes | Path | None = None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    pass_fds: Sequence[int] = (),
    on_line: Callable[[str], None] | None = None,
    stop_grace_s: float = 0.0,
) -> Completed:
    """Run a program to its end and return how it ended; a non-zero exit is a value.

    The child leads a session of its own; at `timeout_s` the whole group is killed. stdin: what it reads, or the file it
    reads from. Of each stream the head and the tail within `output_limit_bytes` are kept. on_line sees complete lines
    of stdout as they come. stop_grace_s: the time the child gets between SIGTERM and the end, to bring down what it
    started outside its group; 0 kills at once.
    Raises ToolMissing when there is no such program, MachineError when the machine cannot start one.
    """
    started = time.monotonic()
    child = _start(argv, cwd=cwd, env=env, stdin=stdin, pass_fds=pass_fds)
    try:
        given = stdin if isinstance(stdin, bytes) else None
        streams, timed_out, flooded = _drain(child, given, started + timeout_s, output_limit_bytes, on_line)
        if not timed_out and not flooded:
            timed_out = not _ended(child, max(started + timeout_s - time.monotonic(), 1.0))
    finally:
        if not _ended(child, 0.0) and stop_grace_s:
            os.kill(child.pid, signal.SIGTERM)
            _ended(child, stop_grace_s)
        # Also after a clean exit: what the child left behind in its group must not outlive it.
        kill_group(child.pid)
        child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe:
                pipe.close()
    out, err = streams
    return Completed(
        tuple(argv),
        child.returncode,
        out.text(),
        err.text(),
        time.monotonic() - started,
        timed_out,
        out.truncated or err.truncated,
        flooded,
    )


def _ended(child: subprocess.Popen[bytes], within_s: float) -> bool:
    """Whether the child ends in time. It stays unreaped, so that its group's number still means that group."""
    deadline = time.monotonic() + within_s
    pause_s = 0.001
    while not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.02)
    return True


def kill_group(pid: int) -> None:
    """Kill the process group led by `pid`; nothing happens when it is gone."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _start(
    argv: Sequence[str],
    *,
    cwd: Path | str | None,
    env: Mapping[str, str] | None,
    stdin: bytes | Path | None,
    pass_fds: Sequence[int],
) -> subprocess.Popen[bytes]:
    file = stdin.open("rb") if isinstance(stdin, Path) else None
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=file or (subprocess.DEVNULL if stdin is None else subprocess.PIPE),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    except FileNotFoundError as missing:
        if cwd is not None and not Path(cwd).is_dir():
            raise MachineError(f"the folder {cwd} is gone; run the command again") from missing
        raise _missing(argv) from missing
    except PermissionError as refused:
        if shutil.which(argv[0]) is None:  # a folder of PATH that may not be entered says the same
            raise _missing(argv) from refused
        raise ToolMissing(f"{argv[0]} cannot be executed; check its permissions", argv) from refused
    except OSError as failed:
        message = f"cannot start {argv[0]}: {failed.strerror}; free memory or processes and run again"
        raise MachineError(message) from failed
    finally:
        if file is not None:
            file.close()


def _missing(argv: Sequence[str]) -> ToolMissing:
    return ToolMissing(f"{argv[0]} is not installed or not on PATH; install it or see `kope doctor`", argv)


def _drain(
    child: subprocess.Popen[bytes],
    stdin: bytes | None,
    deadline: float,
    limit_bytes: int,
    on_line: Callable[[str], None] | None,
) -> tuple[tuple[_Tail, _Tail], bool, bool]:
    """Feed stdin and read both streams until they close, the deadline passes or the output floods."""
    out, err = _Tail(limit_bytes), _Tail(limit_bytes)
    assert child.stdout and child.stderr
    pending = memoryview(stdin or b"")
    line = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, out)
        selector.register(child.stderr, selectors.EVENT_READ, err)
        if child.stdin:
            os.set_blocking(child.stdin.fileno(), False)
            selector.register(child.stdin, selectors.EVENT_WRITE, None)
        while selector.get_map():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return (out, err), True, False
            # Bounded waits: a daemon that inherited the pipes keeps them open after the child is gone.
            for key, _ in selector.select(min(left_s, 0.2)):
                if key.data is None:
                    pending = _feed(selector, key.fileobj, pending)  # type: ignore[arg-type]
                elif chunk := os.read(key.fd, _CHUNK_BYTES):
                    key.data.add(chunk)
                    if on_line and key.data is out:
                        line = _lines(line, chunk, on_line)
                else:
                    selector.unregister(key.fileobj)
            if max(out.total_bytes, err.total_bytes) > FLOOD_FACTOR * limit_bytes:
                return (out, err), False, True
            if _ended(child, 0.0) and not selector.select(0):
                break
    return (out, err), False, False


def _feed(selector: selectors.BaseSelector, pipe: IO[bytes], pending: memoryview) -> memoryview:
    try:
        pending = pending[os.write(pipe.fileno(), pending[:_CHUNK_BYTES]) :]
    except BrokenPipeError:
        pending = pending[:0]
    if not pending:
        selector.unregister(pipe)
        pipe.close()
    return pending


def _lines(line: bytearray, chunk: bytes, on_line: Callable[[str], None]) -> bytearray:
    *whole, rest = (bytes(line) + chunk).split(b"\n")
    for each in whole:
        on_line(each.decode("utf-8", errors="replace"))
    return bytearray(rest[-_CHUNK_BYTES:])
