"""Builds candidates for the twin: the runtime once per machine and compiler, each candidate once per content.

Text checks are `source`'s, symbol checks `symbols`', reading compiler output `compilelog`'s; here is their order.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from kope import sandbox
from kope.errors import ToolError
from kope.model import Built, Diagnostic
from kope.target.twin import compilelog, refusals, source, symbols
from kope.target.twin.cache import BuildCache, digest
from kope.target.twin.compiler import Compiler, machine_flags
from kope.target.twin.launches import rewrite_launches

Progress = Callable[[str], None]

_FORMAT = "3"
"""Counts changes to how things are built that no flag or source file shows."""
_COMMON_FLAGS = ("-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-fdiagnostics-color=never")
_RUNTIME_FLAGS = (*_COMMON_FLAGS, "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math")
_CANDIDATE_FLAGS = (*_COMMON_FLAGS, "-O1", "-g1")
_COUNT_FLAGS = {"gcc": "-fsanitize-coverage=trace-pc", "clang": "-fsanitize-coverage=trace-pc,no-prune"}
"""What makes a candidate count its basic blocks; without no-prune, clang leaves out those it can infer."""
_FAMILY_FLAGS: Mapping[str, tuple[str, ...]] = {
    "gcc": ("-fmax-errors=20", "-fno-diagnostics-show-option"),
    "clang": (
        "-ferror-limit=20",
        "-fno-diagnostics-show-option",
        "-Wno-unknown-attributes",
        "-fno-sanitize=undefined",
        "-fno-finite-loops",
    ),
}
_SOURCES = (".h", ".hpp", ".cpp", ".inc")

_EMPTY = """\
#include "kernel_operator.h"
#include "kope_candidate.h"
extern "C" int kope_entry(const KopeCall*) { return 1; }
"""
_COMPILE_LIMITS = sandbox.Limits(wall_s=120.0, memory_bytes=2 << 30, file_bytes=256 << 20, output_bytes=1 << 20)
_RUNTIME_LIMITS = sandbox.Limits(wall_s=1800.0, memory_bytes=3 << 30, file_bytes=1 << 30)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The built runtime. folder: its objects. owned: names no candidate may define."""

    folder: Path
    owned: frozenset[str]


class TwinBuilder:
    """Compiles candidates against the twin's headers and runtime.

    progress hears one line per slow step of building the runtime. root: folder with include, src and harness of a twin.
    """

    def __init__(
        self, compiler: Compiler, cache: BuildCache, *, progress: Progress | None = None, root: Path | None = None
    ) -> None:
        self.compiler = compiler
        self._root = root or Path(str(files("kope.target.twin")))
        self._candidate_include = Path(str(files("kope.target"))) / "include"
        self._cache = cache
        self._progress = progress or (lambda text: None)

    @cached_property
    def source_digest(self) -> str:
        """Hash of headers, runtime and harness as shipped."""
        parts: list[bytes | str] = [_FORMAT]
        for path in self._shipped():
            parts += [path.name, path.read_bytes()]
        return digest(parts)

    @cached_property
    def runtime_key(self) -> str:
        """Hash of everything that decides what is built: sources, compiler, flags, processor type."""
        calls = [*self.runtime_argv(), *self.candidate_argv(), *self.link_argv(Path("runtime"))]
        return digest([self.source_digest, self.compiler.label, machine_flags(), *calls])

    @cached_property
    def runtime(self) -> Runtime:
        """Return the runtime, building it when this machine has not done so yet.

        Raises ToolError when it cannot be built: that is KOPE's or the compiler's fault, never a candidate's.
        """
        folder = self._cache.make("runtime", self.runtime_key[:32], self._build_runtime)
        return Runtime(folder, frozenset((folder / "owned.txt").read_text("utf-8").split()))

    def _shipped(self) -> list[Path]:
        names = ("include", "src", "harness", "foreign/src", "foreign/include/acl")
        folders = (*(self._root / name for name in names), self._candidate_include)
        found = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in _SOURCES]
        if not found:
            raise ToolError(f"the twin's sources are missing below {self._root}; reinstall kope")
        return found

    def build(self, text: str, workdir: Path) -> Built:
        """Compile and link a candidate in workdir, or answer from the cache. What is wrong with it is data."""
        data, unusable = source.encode(text)
        if unusable:
            return Built(None, (unusable,), "")
        refused = refusals.findings(text)
        if refused:
            return Built(None, refused, "")
        key = digest([self.runtime_key, data])
        folder = self._cache.find("candidate", key)
        if folder is None:
            work = workdir / "build"
            work.mkdir(parents=True, exist_ok=True)
            built = _Compilation(self, text, work).run()
            if built.executable is None and built.transient:
                return built.result(None)
            folder = self._cache.make("candidate", key, built.store)
            self._cache.prune("candidate")
            return built.result(folder / "candidate" if built.executable else None)
        return _load(folder)

    def _build_runtime(self, folder: Path) -> None:
        self._progress(f"building the twin's runtime with {self.compiler.label} (once per machine)")
        places = ("src", "harness", "foreign/src")
        sources = [path for place in places for path in sorted((self._root / place).glob("*.cpp"))]
        total = len(sources) + 1
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            for done, name in enumerate(pool.map(lambda path: self._compile(path, folder), sources), 1):
                self._progress(f"  {done}/{total} {name}")
        self._join(folder)
        self._try_out(folder)
        self._progress(f"  {total}/{total} linked")

    def _compile(self, path: Path, folder: Path) -> str:
        below = path.relative_to(self._root).parts[0]
        kind = {"src": "runtime", "harness": "harness", "foreign": "program"}[below]
        self._must([*self.runtime_argv(), "-c", str(path), "-o", str(folder / f"{kind}-{path.stem}.o")], folder)
        return path.name

    def confined(
        self, argv: Sequence[str], workdir: Path, limits: sandbox.Limits, more: Sequence[Path] = ()
    ) -> sandbox.Finished:
        """Run compiler or linker in the sandbox: it reads shipped headers, runtime and `more`, and writes workdir."""
        readable = [self._root, self._candidate_include, self._cache.root, *self.compiler.folders, *more]
        env = {}
        if self.compiler.packaged:
            env = {"ZIG_GLOBAL_CACHE_DIR": str(self.zig_cache), "ZIG_LOCAL_CACHE_DIR": str(self.zig_cache)}
        writable = [self.zig_cache] if self.compiler.packaged else []
        return sandbox.run(argv, workdir=workdir, limits=limits, readable=readable, writable=writable, env=env)

    @property
    def zig_cache(self) -> Path:
        """Where the packaged compiler keeps the C++ library it builds on first use."""
        folder = self._cache.root / "zig"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def runtime_argv(self) -> list[str]:
        """Return the call that compiles a file of runtime or harness, up to its input."""
        names = ("include", "src", "harness", "foreign/include")
        folders = [*(self._root / name for name in names), self._candidate_include]
        flags = [*_RUNTIME_FLAGS, *_FAMILY_FLAGS[self.compiler.family]]
        return [*self.compiler.argv, *flags, *(f"-I{folder}" for folder in folders)]

    def candidate_argv(
        self, *, preprocess: bool = False, name: str = source.SOURCE_NAME, folders: Sequence[Path] = ()
    ) -> list[str]:
        """Return the command that compiles a source in its own folder. folders: searched before the shipped headers."""
        family = self.compiler.family
        flags = [*_CANDIDATE_FLAGS, _COUNT_FLAGS[family], *_FAMILY_FLAGS[family]]
        includes = [f"-I{folder}" for folder in (*folders, self._root / "include", self._candidate_include)]
        last = ["-E"] if preprocess else ["-c"]
        return [*self.compiler.argv, *flags, *includes, *last, "-x", "c++", name]

    @property
    def foreign_include(self) -> Path:
        """Folder of the headers that only foreign sources see: the host runtime, tiling, operator projects."""
        return self._root / "foreign" / "include"

    @property
    def include(self) -> tuple[Path, Path]:
        """Folders of the headers every source sees."""
        return self._root / "include", self._candidate_include

    def link_argv(
        self, runtime: Path, objects: Sequence[str] = ("candidate.o",), *, program: bool = False
    ) -> list[str]:
        """Return the command that links objects in their own folder to `candidate`.

        The runtime comes first: of an inline function that both hold, its own compilation is kept. program: the objects
        hold a main of their own.
        """
        frame = sorted(runtime.glob("harness-*.o"))
        wrapped = [f"-Wl,--wrap={name}" for name in symbols.WRAPPED]
        if program:
            frame = [*sorted(runtime.glob("program-*.o")), *(path for path in frame if path.stem != "harness-main")]
            wrapped.append("-Wl,--wrap=main")
        shipped = [*frame, runtime / "runtime.o"]
        return [*self.compiler.argv, *map(str, shipped), *objects, *wrapped, "-o", "candidate"]

    def _try_out(self, runtime: Path) -> None:
        """Build a candidate that does nothing: proves the runtime, and lets the packaged compiler fill its cache."""
        with self._cache.scratch() as folder:
            (folder / source.SOURCE_NAME).write_text(_EMPTY, "utf-8")
            self._must([*self.candidate_argv(), "-o", "candidate.o"], folder)
            self._must(self.link_argv(runtime), folder)

    def _join(self, folder: Path) -> None:
        """Join the runtime's objects; a relocatable link needs no `ar`, which the packaged compiler lacks."""
        objects = sorted(folder.glob("runtime-*.o"))
        self._must(
            [*self.compiler.argv, "-r", "-nostdlib", *map(str, objects), "-o", str(folder / "runtime.o")], folder
        )
        read = [symbols.read(path) for path in (*objects, *sorted(folder.glob("harness-*.o")))]
        (folder / "owned.txt").write_text("\n".join(sorted(symbols.owned_by(read))), "utf-8")
        for path in objects:
            path.unlink()

    def _must(self, argv: Sequence[str], folder: Path) -> None:
        done = self.confined(argv, folder, _RUNTIME_LIMITS)
        if done.returncode != 0:
            words = ("error: ", "undefined reference", "undefined symbol", "multiple definition")
            telling = (line for line in done.output.splitlines() if any(word in line for word in words))
            first = next(telling, done.output[-200:] or f"status {done.returncode}")
            raise ToolError(
                f"{self.compiler.label} cannot build the twin's runtime ({first.strip()}); try another compiler", argv
            )


class _Compilation:
    """One candidate on its way through compiler, symbol check and linker."""

    def __init__(self, builder: TwinBuilder, text: str, work: Path) -> None:
        self._builder = builder
        self._text = text
        self._work = work
        self.steps: list[Mapping[str, Any]] = []
        self.log = ""
        self.diagnostics: tuple[Diagnostic, ...] = ()
        self.executable: Path | None = None
        self.transient = False

    def run(self) -> _Compilation:
        if refusals.has_macros(self._text) and not self._preprocess():
            return self
        self._write(rewrite_launches(self._text))
        if not self._step([*self._builder.candidate_argv(), "-o", "candidate.o"]):
            return self
        self.diagnostics = symbols.findings(symbols.read(self._work / "candidate.o"), self._builder.runtime.owned)
        if not self.diagnostics and self._step(self._builder.link_argv(self._builder.runtime.folder)):
            self.executable = self._work / "candidate"
        return self

    def _write(self, text: str) -> None:
        (self._work / source.SOURCE_NAME).write_text(text, "utf-8", newline="")

    def _preprocess(self) -> bool:
        """Look at the words that macros make of the text as it came: rewritten launches hold refused words."""
        self._write(self._text)
        if not self._step([*self._builder.candidate_argv(preprocess=True), "-o", "candidate.ii"]):
            return False
        text = (self._work / "candidate.ii").read_text("utf-8", errors="replace")
        self.diagnostics = refusals.preprocessed_findings(text)
        return not self.diagnostics

    def _step(self, argv: Sequence[str]) -> bool:
        done = self._builder.confined(argv, self._work, _COMPILE_LIMITS)
        self.steps.append(done.step)
        self.log += compilelog.shortened(done.output)
        if done.returncode == 0 and not done.stopped:
            return True
        found = compilelog.diagnostics(done.output) if done.stopped in ("", "output") else ()
        self.diagnostics = found or ((_stopped(done),) if done.stopped else ())
        self.transient = done.stopped == "timeout"
        if not self.diagnostics:
            text = f"the compiler ended with status {done.returncode} and no message"
            self.diagnostics = (Diagnostic("compile-error", text, remedy="see the log", file=source.SOURCE_NAME),)
        return False

    def result(self, executable: Path | None) -> Built:
        return Built(executable, self.diagnostics, self.log, tuple(self.steps))

    def store(self, folder: Path) -> None:
        """Fill a cache entry."""
        if self.executable:
            shutil.move(self.executable, folder / "candidate")
        content = {"log": self.log, "steps": self.steps, "diagnostics": [_plain(found) for found in self.diagnostics]}
        (folder / "built.json").write_text(json.dumps(content), "utf-8")


def _plain(found: Diagnostic) -> dict[str, Any]:
    return {name: getattr(found, name) for name in ("kind", "message", "severity", "remedy", "file", "line", "count")}


def _load(folder: Path) -> Built:
    content = json.loads((folder / "built.json").read_text("utf-8"))
    executable = folder / "candidate"
    found = tuple(Diagnostic(**entry) for entry in content["diagnostics"])
    return Built(executable if executable.exists() else None, found, content["log"], tuple(content["steps"]))


def _stopped(done: sandbox.Finished) -> Diagnostic:
    remedies = {
        "timeout": (
            "compile-timeout",
            f"the compiler was stopped after {done.wall_s:.0f} s",
            "reduce templates and unrolling",
        ),
        "memory": ("compile-memory", "the compiler ran out of memory", "reduce templates and generated tables"),
        "output": ("compile-error", "the compiler printed without end", "start with the first error in the log"),
    }
    kind, message, remedy = remedies.get(
        done.stopped, ("compile-error", f"the compiler was stopped: {done.stopped}", "")
    )
    return Diagnostic(kind, message, remedy=remedy, file=source.SOURCE_NAME)
