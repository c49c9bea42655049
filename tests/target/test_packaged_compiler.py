"""The compiler of last resort: with every other one hidden, ziglang builds the runtime, candidates and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.target.twin.build import TwinBuilder
from kope.target.twin.cache import BuildCache
from kope.target.twin.compiler import find_compiler

from .test_build import COPY, entry
from .test_runner import kinds, make_case, run

pytest.importorskip("ziglang", reason="the extra `compiler` is not installed")


@pytest.mark.slow
def test_without_any_other_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_root: Path, twin_cache: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    find_compiler.cache_clear()
    try:
        compiler = find_compiler()
    finally:
        find_compiler.cache_clear()
    assert compiler.packaged and compiler.label.startswith("ziglang clang++ 0.")
    zig = TwinBuilder(compiler, BuildCache(twin_cache), root=tiny_root)
    cases = [make_case(tmp_path, f"case{n}", n) for n in (1, 300)]
    assert kinds(run(zig, COPY, cases, tmp_path, jobs=2)) == ["ok", "ok"]
    built = zig.build(entry("    return call->nope;"), tmp_path / "bad")
    assert [(found.kind, found.line) for found in built.diagnostics] == [("compile-error", 9)]
    built = zig.build(entry("    return system(nullptr);", "#include <cstdlib>"), tmp_path / "forbidden")
    assert [found.kind for found in built.diagnostics] == ["forbidden-symbol"]
