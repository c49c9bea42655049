"""What is installed, what every setting resolves to, what is missing and how to get it.

It looks and starts `--version`, nothing more; it never fails because something is missing.
"""

from __future__ import annotations

import importlib.util
import platform
import sqlite3
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from kope import __version__, config, resources, sandbox
from kope.config import Settings
from kope.errors import KopeError, ToolMissing
from kope.memory.embedding import INSTALL, find_embedder
from kope.target.ascend import AscendTarget, health
from kope.target.twin import compiler as compilers

CORE = ("typer", "sqlite-utils", "jinja2", "numpy", "scipy", "ml_dtypes", "tokenizers", "rich")
EXTRAS = {
    "compiler": ("a C++ compiler for machines without one", ("ziglang",)),
    "embed": ("other embedding models, bulk embedding", ("sentence_transformers",)),
    "torch": ("tasks whose reference is PyTorch", ("torch",)),
    "docs": ("documentation in PDF", ("pypdf",)),
    "llm": ("the proposer `llm`", ("httpx2", "tenacity")),
    "mcp": ("memory and evaluator for other agents", ("mcp",)),
    "test": ("the tests", ("pytest", "hypothesis", "jsonschema")),
}
"""Extra -> what for, and the modules that show it is there."""
NEEDED_ON_ASCEND = ("toolkit", "compiler", "profiler", "chip")
"""Without a card the simulator is the profiler, so the driver is not among them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked for. value: what was found; remedy: how to get it when it was not."""

    name: str
    ok: bool
    value: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, what it resolves to and where that comes from."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Examination:
    """All of it, by section."""

    versions: tuple[Finding, ...]
    settings: tuple[Setting, ...]
    compilers: tuple[Finding, ...]
    sandbox: tuple[Finding, ...]
    embedder: Finding
    extras: tuple[Finding, ...]
    ascend: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether kernels can be optimized here: core packages, a sandbox, and what the target in use needs."""
        on_ascend = any((one.name, one.value) == ("target", "ascend") for one in self.settings)
        needed = [*self.versions, *self.sandbox[:1]]
        if not on_ascend:
            return all(finding.ok for finding in (*needed, *self.compilers[:1]))
        found = {finding.name: finding.ok for finding in self.ascend}
        return all(finding.ok for finding in needed) and all(found.get(name) for name in NEEDED_ON_ASCEND)

    def document(self) -> dict[str, Any]:
        """Return it as schema/doctor.json describes it."""
        return {"usable": self.usable, **asdict(self)}


def examine(settings: Settings) -> Examination:
    """Look at this machine and installation."""
    return Examination(
        versions=_versions(),
        settings=tuple(_settings(settings)),
        compilers=_compilers(settings.compiler),
        sandbox=_sandbox(),
        embedder=_embedder(),
        extras=tuple(_extra(name) for name in EXTRAS),
        ascend=_ascend(settings),
        notes=tuple(_notes(settings)),
    )


def _versions() -> tuple[Finding, ...]:
    on_linux = platform.system() == "Linux"
    own = [
        Finding("kope", True, __version__),
        Finding("python", True, f"{platform.python_version()} ({sys.executable})"),
        Finding(platform.system(), on_linux, platform.release(), "" if on_linux else "KOPE needs Linux"),
        Finding("sqlite", True, sqlite3.sqlite_version),
    ]
    return (*own, *(_package(name) for name in CORE))


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, False, "not installed", "pip install kope")


def _settings(settings: Settings) -> Iterable[Setting]:
    for name in config.NAMES:
        value = getattr(settings, name)
        shown = ":".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)
        yield Setting(name, shown, str(settings.origins[name]))


def _compilers(choice: str) -> tuple[Finding, ...]:
    """The one in use first, then every other that was found."""
    try:
        used = compilers.find_compiler(choice)
    except ToolMissing as missing:
        first = Finding("in use", False, "none", str(missing))
    else:
        first = Finding("in use", True, f"{used.label} ({' '.join(used.argv)})")
    return (first, *(_compiler(name) for name in ("g++", "clang++", "zig")))


def _compiler(name: str) -> Finding:
    try:
        return Finding(name, True, compilers.find_compiler(name).label)
    except ToolMissing:
        remedy = {"g++": "apt install g++", "clang++": "apt install clang", "zig": resources.install("compiler")}[name]
        return Finding(name, False, "not found or too old", remedy)


def _sandbox() -> tuple[Finding, ...]:
    try:
        found = sandbox.protections()
    except KopeError as refused:
        return (Finding("confinement", False, str(refused), "allow namespaces or Landlock, or run as another user"),)
    return tuple(Finding(entry.name, entry.active, entry.detail, entry.how_to_enable) for entry in found)


def _embedder() -> Finding:
    found = find_embedder()
    if found is None:
        return Finding("embedder", False, "none: recall works on words and structure", INSTALL)
    return Finding("embedder", True, f"{found.name} ({found.dim} dimensions)")


def _extra(name: str) -> Finding:
    use, modules = EXTRAS[name]
    there = all(importlib.util.find_spec(module) is not None for module in modules)
    return Finding(name, there, use, "" if there else resources.install(name))


def _ascend(settings: Settings) -> tuple[Finding, ...]:
    return tuple(Finding(*fact) for fact in health.facts(AscendTarget.of(settings)))


def _notes(settings: Settings) -> Iterable[str]:
    for variable, near in config.unknown_variables().items():
        yield f"{variable} is no setting; did you mean {near}?"
