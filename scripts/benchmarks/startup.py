"""What starting costs: `kope --help`, and a program confined against the same program started plainly."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measure import compare, timed

from kope import process, sandbox


def main() -> None:
    """Measure and print. The first argument is the number of repeats."""
    repeats = int(sys.argv[1]) if sys.argv[1:] else 15
    kope = str(Path(sys.executable).with_name("kope"))
    bare = [sys.executable, "-I", "-S", "-c", "pass"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        limits = sandbox.Limits(wall_s=30.0)
        confined = sandbox.run  # the same program, started by the launcher in a world of its own
        compare(
            {
                "python that does nothing": timed(lambda: process.run(bare, timeout_s=30.0), repeats=repeats),
                "kope --help": timed(lambda: process.run([kope, "--help"], timeout_s=30.0), repeats=repeats),
                "kope doctor": timed(lambda: process.run([kope, "doctor"], timeout_s=60.0), repeats=repeats),
            },
            "python that does nothing",
        )
        true = ["/bin/true"]
        compare(
            {
                "/bin/true": timed(lambda: process.run(true, timeout_s=30.0), repeats=repeats),
                "/bin/true, confined": timed(lambda: confined(true, workdir=folder, limits=limits), repeats=repeats),
            },
            "/bin/true",
        )


if __name__ == "__main__":
    main()
