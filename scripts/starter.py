"""Make the starter memory: search all shipped tasks on the twin, export what was tried, pack it into the package.

    scripts/starter [--from DB] [--iterations 12]

DB: a database of finished searches to take instead of running them. The export is what `kope db export` lets out: no
secrets, paths or names of this machine.
"""

from __future__ import annotations

import argparse
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

from kope.memory.starter import LABEL, PACKED
from kope.resources import shipped_tasks

LARGEST_BYTES = 2_000_000


def kope(*argv: str) -> None:
    """Run a command; its output is shown."""
    subprocess.run([sys.executable, "-m", "kope", *argv], check=True)


def main() -> None:
    """Write the file and say how large it is; refuse one that is too large to come with every installation."""
    parser = argparse.ArgumentParser(prog="scripts/starter", description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", type=Path, help="a database of finished searches")
    parser.add_argument("--iterations", type=int, default=12, help="attempts on each task")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database, export = asked.source or Path(folder) / "searched.db", Path(folder) / "export.db"
        if asked.source is None:
            tasks = sorted(place.name for place in shipped_tasks().iterdir() if place.is_dir())
            kope("optimize", *tasks, "--iterations", str(asked.iterations), "--db", str(database))
        kope("db", "export", str(export), "--db", str(database), "--label", LABEL)
        packed = lzma.compress(export.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    if len(packed) > LARGEST_BYTES:
        raise SystemExit(f"{len(packed)} bytes are more than the {LARGEST_BYTES} a starter memory may have")
    PACKED.write_bytes(packed)
    print(f"{PACKED}: {len(packed)} bytes")


if __name__ == "__main__":
    main()
