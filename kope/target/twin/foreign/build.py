"""Compiles foreign sources against the twin: one call per unit, then a link; from the cache when nothing has changed.

What the units hold is `glue`'s and `run`'s business. What is wrong with them is data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kope import sandbox
from kope.model import Built, Diagnostic
from kope.target.twin import compilelog
from kope.target.twin.build import TwinBuilder
from kope.target.twin.cache import BuildCache, digest
from kope.target.twin.foreign.includes import Includes

_LIMITS = sandbox.Limits(wall_s=300.0, memory_bytes=3 << 30, file_bytes=512 << 20, output_bytes=2 << 20)
_QUIET = ("-w",)
"""A foreign source is not ours to tidy: errors only."""
_SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g")


@dataclass(frozen=True, slots=True)
class Unit:
    """A file to compile. optional: what is wrong with it is a note, and it is left out."""

    name: str
    text: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """What to build. own: names of the user's files, for messages. folders: searched for includes, in order."""

    units: tuple[Unit, ...]
    includes: Includes
    folders: tuple[Path, ...]
    own: tuple[str, ...]
    defines: tuple[str, ...] = ()
    program: bool = False
    sanitize: bool = False


class ForeignBuilder:
    """Compiles and links foreign sources; `twin` has compiler, headers and runtime."""

    def __init__(self, twin: TwinBuilder, cache: BuildCache) -> None:
        self._twin = twin
        self._cache = cache

    def build(self, order: Order, workdir: Path) -> Built:
        """Build an order, or answer from the cache."""
        key = self._key(order)
        folder = self._cache.find("foreign", key)
        if folder is None:
            built = _Compilation(self._twin, order, workdir / "build")
            built.run()
            folder = self._cache.make("foreign", key, built.store)
            self._cache.prune("foreign")
        return _load(folder)

    def _key(self, order: Order) -> str:
        shipped = sorted(self._twin.foreign_include.rglob("*.h"))
        parts: list[bytes | str] = [self._twin.runtime_key, repr((order.defines, order.program, order.sanitize))]
        for path in (*shipped, *sorted(order.includes.files)):
            parts += [str(path), path.read_bytes()]
        for unit in order.units:
            parts += [unit.name, unit.text]
        stand_ins, texts = sorted(order.includes.stand_ins.items()), sorted(order.includes.texts.items())
        return digest([*parts, repr(stand_ins), repr(texts), repr(order.folders)])


class _Compilation:
    def __init__(self, twin: TwinBuilder, order: Order, work: Path) -> None:
        self._twin = twin
        self._order = order
        self._work = work
        self.log = ""
        self.steps: list[Mapping[str, Any]] = []
        self.diagnostics: list[Diagnostic] = []
        self.linked = False

    def run(self) -> None:
        self._work.mkdir(parents=True, exist_ok=True)
        search = self._order.includes.write(self._work / "stand_ins")
        folders = [*self._order.folders, self._twin.foreign_include, search]
        objects = []
        for unit in self._order.units:
            (self._work / unit.name).write_text(unit.text, "utf-8", newline="")
            argv = self._twin.candidate_argv(name=unit.name, folders=folders)
            flags = [*_QUIET, *self._sanitizing(), *(f"-D{define}" for define in self._order.defines)]
            if self._step([*argv, *flags, "-o", f"{unit.name}.o"], unit):
                objects.append(f"{unit.name}.o")
            elif not unit.optional:
                return
        runtime = self._twin.runtime.folder
        argv = [*self._twin.link_argv(runtime, objects, program=self._order.program), *self._sanitizing()]
        self.linked = self._step(argv, None)

    def _sanitizing(self) -> tuple[str, ...]:
        return _SANITIZE if self._order.sanitize else ()

    def _step(self, argv: Sequence[str], unit: Unit | None) -> bool:
        done = self._twin.confined(argv, self._work, _LIMITS, more=self._order.folders)
        self.steps.append(done.step)
        self.log += compilelog.shortened(done.output)
        if done.returncode == 0 and not done.stopped:
            return True
        found = compilelog.diagnostics(done.output, self._order.own)
        if not found:
            text = f"the compiler ended with status {done.returncode} and no message"
            found = (Diagnostic("compile-error", text, remedy="see the log", file=self._order.own[0]),)
        if unit is not None and unit.optional:
            first = found[0]
            found = (
                Diagnostic(
                    "host-tiling",
                    f"the project's tiling function does not compile: {first.message} ({first.file}:{first.line})",
                    "note",
                    'give "tiling", "blocks" and "tiling_key" in the launch description',
                    self._order.own[0],
                ),
            )
        self.diagnostics += found
        return False

    def store(self, folder: Path) -> None:
        """Fill a cache entry."""
        if self.linked:
            (self._work / "candidate").rename(folder / "candidate")
        content = {"log": self.log, "steps": self.steps, "diagnostics": [asdict(found) for found in self.diagnostics]}
        (folder / "built.json").write_text(json.dumps(content), "utf-8")


def _load(folder: Path) -> Built:
    content = json.loads((folder / "built.json").read_text("utf-8"))
    executable = folder / "candidate"
    found = tuple(Diagnostic(**entry) for entry in content["diagnostics"])
    return Built(executable if executable.exists() else None, found, content["log"], tuple(content["steps"]))
