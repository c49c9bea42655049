"""What the stand-in programs share: where their toolkit is, what a test told them, and how they refuse.

They behave as the vendor's documentation says the real ones do, and refuse every option it does not name. They are not
the vendor's programs: kernels run on the twin, and times are its model's.
"""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

HOME = Path(os.environ["ASCEND_HOME_PATH"])
FOLDER = HOME / "standin"


def config() -> dict[str, Any]:
    """How this toolkit was installed."""
    return dict(json.loads((FOLDER / "config.json").read_text()))


def told(program: str) -> dict[str, Any]:
    """What a test told a program to do instead of working; {} for nothing."""
    path = FOLDER / "told.json"
    return dict(json.loads(path.read_text()).get(program, {})) if path.exists() else {}


def obey(program: str) -> None:
    """Print and end as a test told the program to, when it did."""
    orders = told(program)
    sys.stdout.write(orders.get("stdout", ""))
    sys.stderr.write(orders.get("stderr", ""))
    sys.stdout.flush()
    if "sleep_s" in orders:
        time.sleep(orders["sleep_s"])
    if "status" in orders:
        raise SystemExit(orders["status"])


def refuse(program: str, words: str) -> NoReturn:
    """End as a program does that was called wrongly."""
    print(f"{program}: error: {words}", file=sys.stderr)
    raise SystemExit(1)


def split(
    program: str, arguments: Sequence[str], known: Mapping[str, Sequence[str]]
) -> tuple[dict[str, str], list[str]]:
    """Split options from the program to run; known: option -> values it takes, () for any."""
    options = {}
    rest = list(arguments)
    while rest and rest[0].startswith("--"):
        name, _, value = rest.pop(0)[2:].partition("=")
        if name not in known:
            refuse(program, f"unrecognized option --{name}")
        if known[name] and value not in known[name]:
            refuse(program, f"--{name}={value} is not one of {', '.join(known[name])}")
        options[name] = value
    if "application" in options:
        if rest:
            refuse(program, "--application and a program cannot be given both")
        rest = options.pop("application").split()
    if not rest:
        refuse(program, "no program to run")
    return options, rest


def check_output(program: str, folder: Path) -> None:
    """Refuse an output folder that others may write, or that is reached through a link."""
    for place in (folder, folder.parent):
        if place.is_symlink() or place.resolve() != place or stat.S_IMODE(place.stat().st_mode) & 0o022:
            refuse(program, f"{place} must not be a link, nor writable by group or others")


def launches(program: Sequence[str], folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Run a program and return its status and every kernel it launched, in order, each with when it ran."""
    environment = {**os.environ, "KOPE_STANDIN_TRACE": str(folder)}
    done = subprocess.run(list(program), env=environment, check=False)
    trace = folder / "launches.jsonl"
    found = []
    noise = random.Random(told("noise").get("seed", 0))
    sigma = told("noise").get("sigma", 0.0)
    for line in trace.read_text().splitlines() if trace.exists() else ():
        entry = json.loads(line)
        for number, launch in enumerate(entry["launches"]):
            launch["start_us"] = int(entry["nonce"]) + number
            launch["duration_us"] *= noise.lognormvariate(0.0, sigma) if sigma else 1.0
            found.append(launch)
    trace.unlink(missing_ok=True)
    return done.returncode, found


def stamp() -> str:
    """A time as in the names of the profilers' files."""
    return time.strftime("%Y%m%d%H%M%S")
