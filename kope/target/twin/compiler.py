"""Finds the C++ compiler the twin uses: g++ or clang++ when recent enough, else the packaged one (ziglang).

It leaves running the compiler on candidates to `build`. The choice comes in as an argument, never from the environment.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kope import process, resources
from kope.errors import ToolError, ToolMissing

OLDEST_GCC = 12
OLDEST_CLANG = 15
_GET_ONE = (
    f"install g++ {OLDEST_GCC} or newer (Debian, Ubuntu: apt install g++), clang++ {OLDEST_CLANG} or newer,"
    f" or the packaged compiler: {resources.install('compiler')}"
)
_NAMES = (
    "g++",
    "c++",
    "g++-14",
    "g++-13",
    "g++-12",
    "clang++",
    "clang++-19",
    "clang++-18",
    "clang++-17",
    "clang++-16",
    "clang++-15",
)
_INSTALLED = re.compile(r"bin|lib\w*|include|sysroot|.+-linux-.+")
"""Folders of a compiler's prefix. Not all of the prefix: it may be somebody's ~/.local."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A usable compiler. argv: how to call it. family: "gcc" or "clang" (decides flags and the form of its messages).

    packaged: it is ziglang from PyPI, which builds its own C++ library on first use and caches it.
    """

    argv: tuple[str, ...]
    family: str
    version: str
    packaged: bool = False

    @property
    def label(self) -> str:
        """What fingerprints and doctor show, e.g. "g++ 12.2.0"."""
        name = "ziglang clang++" if self.packaged else {"gcc": "g++", "clang": "clang++"}[self.family]
        return f"{name} {self.version}"

    @property
    def folders(self) -> tuple[Path, ...]:
        """What has to be readable to run it, besides the system's own folders: where it is installed."""
        program = Path(self.argv[0]).resolve()
        if self.packaged:
            return (program.parent,)
        prefix = program.parents[1]
        if prefix in (Path("/"), Path("/usr"), Path("/usr/local")):
            return ()
        return tuple(sorted(entry for entry in prefix.iterdir() if entry.is_dir() and _INSTALLED.fullmatch(entry.name)))


@lru_cache(maxsize=8)
def find_compiler(choice: str = "auto") -> Compiler:
    """Return the compiler to use.

    choice: "auto", "zig", a program name or a path. Raises ToolMissing with the remedy when there is none, or when the
    chosen one is too old.
    """
    if choice == "zig":
        return _packaged()
    if choice != "auto":
        found = _probe(choice)
        if found is None:
            raise ToolMissing(f"compiler {choice!r} cannot be used: not found, or too old; {_GET_ONE}", (choice,))
        return found
    for name in _NAMES:
        found = _probe(name)
        if found:
            return found
    if importlib.util.find_spec("ziglang") is not None:
        return _packaged()
    raise ToolMissing(f"no C++ compiler found; {_GET_ONE}")


def _probe(name: str) -> Compiler | None:
    """Ask a program what it is; None when it is missing, foreign or too old."""
    path = shutil.which(name)
    if path is None:
        return None
    try:
        answer = process.run([path, "--version"], timeout_s=30.0)
    except ToolError:
        return None
    return _identify(path, answer.stdout) if answer.returncode == 0 else None


def _identify(path: str, text: str) -> Compiler | None:
    clang = re.search(r"clang version (\d+)(\.[\d.]+)?", text)
    if clang:
        usable = int(clang[1]) >= OLDEST_CLANG
        return Compiler((path,), "clang", clang[1] + (clang[2] or "")) if usable else None
    gcc = re.search(r"^\S+ .*?\)? (\d+)(\.\d+(?:\.\d+)?)", text)
    if gcc and "Free Software Foundation" in text:
        return Compiler((path,), "gcc", gcc[1] + gcc[2]) if int(gcc[1]) >= OLDEST_GCC else None
    return None


def _packaged() -> Compiler:
    found = importlib.util.find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise ToolMissing(f"the packaged compiler (ziglang) is not installed: {resources.install('compiler')}")
    program = Path(found.submodule_search_locations[0]).resolve() / "zig"
    if not program.exists():
        raise ToolMissing(f"{program} is missing: pip install --force-reinstall ziglang", (str(program),))
    try:
        number = version("ziglang")
    except PackageNotFoundError:
        number = "of unknown version"
    return Compiler((str(program), "c++"), "clang", number, packaged=True)


def machine_flags() -> str:
    """Identify the processor type that locally tuned code was built for."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
            for line in info:
                if line.startswith(("flags", "Features")):
                    return f"{platform.machine()} {' '.join(sorted(set(line.split(':', 1)[1].split())))}"
    except OSError:
        pass
    return platform.machine()
