"""How fast databases are shared: export with and without redaction, import, merge of two with half in common, check.

    scripts/bench share [--nodes 100000] [--folder DIR]

Each in a process of its own; seconds of the wall and of the processor, and the most memory it had. On a machine with
other work only the processor's seconds say something.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from filled import filled


def export(folder: Path, *, redact: bool) -> None:
    """Export all of a database."""
    from kope.memory.share import Choice, Form, Redactor, export_file, names_here

    place = folder / ("redacted.db" if redact else "export.db")
    export_file(folder / "own.db", place, Choice(), Form(redactor=Redactor(names_here()) if redact else None))
    print(
        f"{place.stat().st_size / 1e6:.0f} MB, of a database of {(folder / 'own.db').stat().st_size / 1e6:.0f} MB",
        end="; ",
    )


def take_in(folder: Path) -> None:
    """Import an export into an empty database."""
    from kope.memory.share import import_file

    print(f"{import_file(folder / 'taken.db', folder / 'export.db').new} new", end="; ")


def merge(folder: Path) -> None:
    """Take a file in of which half is known, into a database that is there: what a merge of two adds to the first."""
    from kope.memory.share import import_file

    taken = import_file(folder / "merged.db", folder / "export.db")
    print(f"{taken.new} new, {taken.known} known", end="; ")


def check(folder: Path) -> None:
    """Check a database."""
    from kope.memory import Store

    with Store.open(folder / "own.db", create=False) as store:
        print(f"{len(store.check())} problems", end="; ")


STEPS: dict[str, Callable[[Path], None]] = {
    "export": lambda folder: export(folder, redact=False),
    "export, redacted": lambda folder: export(folder, redact=True),
    "import": take_in,
    "merge, half in common": merge,
    "check": check,
}


def make_room(name: str, folder: Path) -> None:
    """Remove what a step wrote before, and put what it adds to in its place."""
    made = {"export": "export.db", "export, redacted": "redacted.db", "import": "taken.db"}.get(name)
    if made is not None:
        (folder / made).unlink(missing_ok=True)
    if name == "merge, half in common":
        shutil.copy(folder / "half.db", folder / "merged.db")


def prepare(folder: Path, nodes: int) -> None:
    """Make the database that is exported, and one that has half of its attempts."""
    filled(folder / "own.db", nodes)
    if not (folder / "half.db").exists():
        filled(folder / "half.db", nodes // 2)


def peak_mb() -> float:
    """Return the most memory this process had; getrusage would count what its parent had when it began."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measured(name: str, folder: Path) -> None:
    """Do one step and print what it cost."""
    make_room(name, folder)
    began, idle = time.perf_counter(), time.process_time()
    print(f"{name:<22}", end=" ")
    STEPS[name](folder)
    wall, busy = time.perf_counter() - began, time.process_time() - idle
    print(f"{wall:.1f} s wall, {busy:.1f} s processor, {peak_mb():.0f} MB")


def main() -> None:
    """Run every step in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=Path(".benchmarks"))
    parser.add_argument("--step", choices=STEPS)
    given = parser.parse_args()
    folder = given.folder / f"share-{given.nodes}"
    if given.step:
        measured(given.step, folder)
        return
    prepare(folder, given.nodes)
    for step in STEPS:
        sys.stdout.flush()
        argv = [sys.executable, __file__, "--nodes", str(given.nodes), "--folder", str(given.folder), "--step", step]
        subprocess.run(argv, check=True)


if __name__ == "__main__":
    main()
