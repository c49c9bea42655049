"""Finds CANN: where it is installed, what its set_env.sh sets, its version, and the programs KOPE calls.

What the programs are called with is `compile`'s and `profilers`' business; cards and chips are `cards`' and `chip`'s.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kope import process
from kope.errors import ToolMissing
from kope.target.ascend import vendor

Form = Literal["asc", "cce"]
"""asc: .asc sources and --npu-arch (CANN 8.5 and newer). cce: -xcce and --cce-aicore-arch."""

_CAPTURE = 'source "$1" >/dev/null 2>&1; env -0'
_CAPTURE_S = 60.0
_GET_ONE = "install CANN, or set ASCEND_HOME_PATH or ascend_home to where it is (see docs/ascend.md)"


@dataclass(frozen=True, slots=True)
class Toolkit:
    """An installation of CANN.

    home: what ASCEND_HOME_PATH names. origin: what led there. version: "" when no file names it. environment: what its
    programs need to be started with. problem: what is odd about it, "" for nothing. programs: where each is, when that
    cannot be looked up here because the toolkit is on another machine. processor: as its folders spell it: x86_64,
    aarch64.
    """

    home: Path
    origin: str
    version: str
    environment: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    programs: Mapping[str, Path] | None = None
    processor: str = field(default_factory=platform.machine)

    @property
    def form(self) -> Form:
        """How this toolkit's compiler is called; one without a version is taken for a new one."""
        numbers = re.findall(r"\d+", self.version)[:2]
        return "cce" if numbers and tuple(map(int, numbers)) < vendor.FIRST_ASC_VERSION else "asc"

    def program(self, name: str) -> Path | None:
        """Return where one of its programs is: its own folders first, then the PATH that its set_env.sh made."""
        if self.programs is not None:
            return self.programs.get(name)
        for place in vendor.COMPILER_PLACES:
            path = self.home / place.format(arch=self.processor) / name
            if os.access(path, os.X_OK):
                return path
        found = shutil.which(name, path=self.environment.get("PATH", os.defpath))
        return Path(found) if found else None

    def needed(self, *names: str) -> Path:
        """Return the first of these programs that is there. Raises ToolMissing naming all of them."""
        for name in names:
            found = self.program(name)
            if found is not None:
                return found
        raise ToolMissing(f"{' or '.join(names)} is not in {self.home}; install the whole toolkit, then `kope doctor`")

    @property
    def compiler(self) -> Path:
        """The compiler. Raises ToolMissing."""
        return self.needed("bisheng") if self.form == "asc" else self.needed("bisheng", "ccec")

    @staticmethod
    def version_in(text: str) -> str:
        """Return the version that the text of one of its files names, "" for none."""
        found = re.search(r"^\s*version\s*=\s*\"?([0-9][\w.+-]*)", text, re.MULTILINE | re.IGNORECASE)
        return found[1] if found else ""

    @property
    def label(self) -> str:
        """What fingerprints and doctor show, e.g. "CANN 9.0.0"."""
        return f"CANN {self.version or 'of unknown version'}"

    @property
    def folders(self) -> tuple[Path, ...]:
        """What its programs read, for a sandbox: the toolkit, where its links lead, the driver's libraries."""
        drivers = (Path(place) for place in vendor.DRIVER_PLACES)
        found = {self.home, self.home.resolve(), *(place for place in drivers if place.exists())}
        for folder in self.environment.get("LD_LIBRARY_PATH", "").split(os.pathsep):
            if folder and Path(folder).is_dir():
                found.add(Path(folder))
        return tuple(sorted(found))


def find(chosen: Path | None, inherited: Mapping[str, str], places: Sequence[str] = vendor.INSTALL_PLACES) -> Toolkit:
    """Return the toolkit to use: the chosen one, else ASCEND_HOME_PATH, else the first that is installed.

    inherited: variables of the environment KOPE runs in. Raises ToolMissing when there is none, saying where it looked.
    """
    looked = []
    for home, origin in _candidates(chosen, inherited, places):
        if home.is_dir():
            return open_toolkit(home, origin, inherited)
        looked.append(str(home))
        if origin in ("ascend_home", vendor.HOME):
            raise ToolMissing(f"{origin} names {home}, which is no folder; correct it or unset it")
    raise ToolMissing(f"CANN was not found (looked at {', '.join(looked)}); {_GET_ONE}")


def platform_file(soc: str, chosen: Path | None, inherited: Mapping[str, str]) -> str:
    """Return what the installed toolkit's platform file says of a SoC, "" where there is none that can be read.

    Runs nothing, so that it can be asked for whenever a chip is needed.
    """
    for home, _ in _candidates(chosen, inherited, vendor.INSTALL_PLACES):
        path = home / vendor.PLATFORM_FILE.format(arch=platform.machine(), soc=soc)
        with contextlib.suppress(OSError):
            return path.read_text("utf-8", "replace")
    return ""


def _candidates(chosen: Path | None, inherited: Mapping[str, str], places: Sequence[str]) -> Iterator[tuple[Path, str]]:
    if chosen is not None:
        yield chosen, "ascend_home"
    elif inherited.get(vendor.HOME):
        yield Path(inherited[vendor.HOME]), vendor.HOME
    else:
        user = inherited.get("HOME", "")
        for place in places:
            if not place.startswith("~") or user:
                yield Path(place.replace("~", user, 1)), "installed"


def open_toolkit(home: Path, origin: str, inherited: Mapping[str, str]) -> Toolkit:
    """Return the toolkit in a folder with the environment its set_env.sh makes, or one made by hand without it."""
    script = next((path for path in (home / "set_env.sh", home.parent / "set_env.sh") if path.is_file()), None)
    problem, captured = "", {}
    if script is not None:
        captured = capture(script, inherited)
        if not captured.get(vendor.HOME) or not Path(captured[vendor.HOME]).is_dir():
            problem = f"{script} did not set {vendor.HOME} to a folder; its variables were made by hand"
            captured = {}
    else:
        problem = f"there is no set_env.sh in {home}; its variables were made by hand"
    environment = captured or by_hand(home, inherited)
    return Toolkit(home, origin, read_version(home), environment, problem)


def capture(script: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return what a set_env.sh sets, found by sourcing it in a shell of its own; {} when that shell ends early.

    The script is written for interactive shells: neither `set -e` nor `set -u` is on, and its status means nothing.
    """
    start = {name: inherited[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if inherited.get(name)}
    shell = shutil.which("bash", path=start.get("PATH"))
    if shell is None:
        return {}
    done = process.run([shell, "-c", _CAPTURE, "bash", str(script)], env=start, timeout_s=_CAPTURE_S)
    pairs = (entry.partition("=") for entry in done.stdout.split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs if name in vendor.TOOLKIT_VARIABLES}


def by_hand(home: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables a toolkit's programs need, as its set_env.sh would set them."""
    folders = [home / place.format(arch=platform.machine()) for place in vendor.COMPILER_PLACES]
    libraries = [home / "lib64", Path("/usr/local/Ascend/driver/lib64"), Path("/usr/local/Ascend/driver/lib64/driver")]
    path = [str(folder) for folder in folders if folder.is_dir()] + [inherited.get("PATH", os.defpath)]
    loaded = [str(folder) for folder in libraries if folder.is_dir()] + [inherited.get("LD_LIBRARY_PATH", "")]
    return {
        vendor.HOME: str(home),
        "ASCEND_TOOLKIT_HOME": str(home),
        "ASCEND_OPP_PATH": str(home / "opp"),
        "PATH": os.pathsep.join(path),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, loaded)),
    }


def read_version(home: Path) -> str:
    """Return the version its files name, e.g. "9.1.0" or "8.3.RC2"; "" when none does."""
    for place in vendor.VERSION_FILES:
        path = home / place.format(arch=platform.machine())
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        if found := Toolkit.version_in(text):
            return found
    return ""
