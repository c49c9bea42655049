"""A program that takes files into databases one after the other and prints what became of each.

Each gets five seconds of processor time; the memory used so far is told with each.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from kope.errors import KopeError
from kope.memory.share import import_file

SECONDS = 5.0


def peak_kb() -> int:
    """Return the most memory this process had; getrusage would count what its parent had when it began."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    """Take in what standard input names: on each line a database, a tab, and the file that is to come into it."""
    for line in sys.stdin.read().splitlines():
        own, file = map(Path, line.split("\t"))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        told: dict[str, object] = {"file": file.name}
        try:
            taken = import_file(own, file)
            reasons = [f"{row}: {why}" for row, why in taken.reasons]
            told |= {"taken": taken.new, "refused": taken.refused, "says": " ".join([*reasons, *taken.notes])}
        except KopeError as error:
            told |= {"says": str(error)}
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        told["peak_mb"] = peak_kb() // 1024
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
