"""Building candidates: the cache, the symbol check, compiler errors as data."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kope import resources
from kope.errors import ToolError, ToolMissing
from kope.target.twin import build as build_module
from kope.target.twin.build import TwinBuilder
from kope.target.twin.cache import BuildCache
from kope.target.twin.compiler import Compiler, find_compiler

HEAD = "".join(
    f"#include {name}\n" for name in ('"kernel_operator.h"', '"kope_candidate.h"', "<cmath>", "<cstdio>", "<vector>")
)
COPY = (
    HEAD
    + """\
__global__ __aicore__ void copy_kernel(GM_ADDR y, GM_ADDR x, uint64_t bytes) { AscendC::Copy(y, x, bytes); }
extern "C" int kope_entry(const KopeCall* call)
{
    const uint64_t bytes = call->inputs[0].numel * kope_dtype_bytes(call->inputs[0].dtype);
    copy_kernel<<<2, nullptr, call->stream>>>(static_cast<GM_ADDR>(call->outputs[0].data),
                                              static_cast<GM_ADDR>(call->inputs[0].data), bytes);
    return 0;
}
"""
)


def entry(body: str, before: str = "") -> str:
    return f'{HEAD}{before}\nextern "C" int kope_entry(const KopeCall* call)\n{{\n{body}\n}}\n'


def test_candidate_is_compiled_once_per_content(tiny: TwinBuilder, tmp_path: Path) -> None:
    first = tiny.build(COPY, tmp_path / "a")
    assert first.diagnostics == () and first.executable and first.executable.exists()
    assert [step["returncode"] for step in first.steps] == [0, 0]
    again = tiny.build(COPY, tmp_path / "b")
    assert again == first
    assert not (tmp_path / "b").exists()
    other = tiny.build(COPY + "// other\n", tmp_path / "c")
    assert other.executable != first.executable


def test_compiler_error_is_data_and_is_remembered(tiny: TwinBuilder, tmp_path: Path) -> None:
    text = entry("    return call->inptus[0].numel;")
    built = tiny.build(text, tmp_path / "a")
    assert built.executable is None
    (found,) = built.diagnostics
    assert (found.kind, found.file, found.line) == ("compile-error", "candidate.asc", 9)
    assert "inptus" in found.message and found.message in built.log
    assert tiny.build(text, tmp_path / "b") == built
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("body", "name", "declaration"),
    [
        ('    return fopen("/tmp/x", "w") != nullptr;', "fopen", ""),
        ('    return std::remove("launch.txt");', "remove", ""),
        ('    return std::getenv("HOME") != nullptr;', "getenv", "#include <cstdlib>"),
        ('    return std::system("true");', "system", "#include <cstdlib>"),
        ("    return fork();", "fork", 'extern "C" int fork();'),
        ("    return socket(2, 1, 0);", "socket", 'extern "C" int socket(int, int, int);'),
        ("    return times(nullptr);", "times", 'extern "C" long times(void*);'),
        ("    return thrd_create(nullptr, nullptr, nullptr);", "thrd_create", 'extern "C" int thrd_create(...);'),
        ('    return dlopen("libc.so.6", 1) != nullptr;', "dlopen", 'extern "C" void* dlopen(const char*, int);'),
        ("    std::exit(0);", "exit", "#include <cstdlib>"),
        ("    return aclrtMemcpy(nullptr, 0, nullptr);", "aclrtMemcpy", 'extern "C" int aclrtMemcpy(...);'),
        ("    return aclnnAdd();", "aclnnAdd", 'extern "C" int aclnnAdd();'),
        ("    return mystery();", "mystery", 'extern "C" int mystery();'),
    ],
)
def test_what_a_kernel_must_not_use_is_named(
    tiny: TwinBuilder, tmp_path: Path, body: str, name: str, declaration: str
) -> None:
    built = tiny.build(entry(body, declaration), tmp_path)
    assert built.executable is None
    assert [found.kind for found in built.diagnostics] == ["forbidden-symbol"], built.log
    assert name in built.diagnostics[0].message and built.diagnostics[0].remedy


def test_runtime_internals_cannot_be_reached_by_redeclaring_them(tiny: TwinBuilder, tmp_path: Path) -> None:
    text = entry("    end();\n    return 0;", 'void end() __asm__("x");')
    assert [found.kind for found in tiny.build(text, tmp_path).diagnostics] == ["forbidden-name"]
    glued = "#define GLUE(a, b) a##b\nnamespace GLUE(kope_, twin) { namespace control { void end(); } }"
    built = tiny.build(entry("    GLUE(kope_, twin)::control::end();\n    return 0;", glued), tmp_path)
    assert [(found.kind, found.line) for found in built.diagnostics] == [("forbidden-name", 7), ("forbidden-name", 10)]


@pytest.mark.parametrize(
    "trick",
    [
        "#define L [\nL L gnu::optimize(3)]] void f() {}",
        "#define F __attri\\\nbute__\n#define G(x) no_##x\nF((G(sanitize_coverage))) void f() {}",
        '%:define P _Prag\\\nma\nP("GCC optimize(3)")',
    ],
)
def test_macros_do_not_hide_words(tiny: TwinBuilder, tmp_path: Path, trick: str) -> None:
    built = tiny.build(entry("    return 0;", trick), tmp_path)
    assert [found.kind for found in built.diagnostics] == ["forbidden-name"]


def test_a_kernel_with_macros_is_launched(tiny: TwinBuilder, tmp_path: Path) -> None:
    kernel = "#define BLOCKS 2\n__global__ __aicore__ void copy(void*) {}"
    built = tiny.build(entry("    copy<<<BLOCKS, nullptr, call->stream>>>(nullptr);\n    return 0;", kernel), tmp_path)
    assert (built.diagnostics, built.executable is not None) == ((), True), built.log


@pytest.mark.parametrize(
    "definition",
    [
        'extern "C" void* memcpy(void* a, const void*, size_t) { return a; }',
        'extern "C" long write(int, const void*, size_t n) { return n; }',
        'extern "C" float expf(float x) { return x; }',
        "void operator delete(void*) noexcept {}",
        "__attribute__((weak)) void operator delete(void*) noexcept {}",
        "__attribute__((weak)) void* operator new[](size_t) { return nullptr; }",
        'extern "C" __attribute__((weak)) long write(int, const void*, size_t n) { return n; }',
        "namespace std { __attribute__((weak)) void __throw_length_error(const char*) { for (;;) { } } }",
        "void* operator new(size_t) { return nullptr; }",
    ],
)
def test_library_functions_cannot_be_replaced(tiny: TwinBuilder, tmp_path: Path, definition: str) -> None:
    if "__throw_length_error" in definition and tiny.compiler.packaged:
        pytest.skip("the packaged compiler's library has no such function")
    built = tiny.build(entry("    return 0;", definition), tmp_path)
    assert built.executable is None
    assert "reserved-name" in [found.kind for found in built.diagnostics]


def test_plain_cpp_is_allowed(tiny: TwinBuilder, tmp_path: Path) -> None:
    body = """\
    std::vector<float> v(call->input_count);
    for (auto& x : v) { x = std::exp(static_cast<float>(call->attr_count)) + std::abs(v[0]); }
    std::printf("%zu\\n", v.size());
    return static_cast<int>(v[0] + static_cast<float>(call->workspace_bytes) / 3);"""
    assert tiny.build(entry(body), tmp_path).diagnostics == ()


def test_missing_definition_is_named_as_it_is_written(tiny: TwinBuilder, tmp_path: Path) -> None:
    built = tiny.build(entry("    return ns::helper(3);", "namespace ns { int helper(int); }"), tmp_path)
    assert [found.kind for found in built.diagnostics] == ["forbidden-symbol"]
    assert "ns::helper" in built.diagnostics[0].message


def test_a_log_of_50_mb_is_cut_and_its_error_found(tiny: TwinBuilder, tmp_path: Path) -> None:
    flood = f'[[deprecated("{"x" * 2000}")]] int f();\n' + "int g() {\n" + "f();\n" * 7_500 + "return nope; }\n"
    built = tiny.build(entry("    return 0;", flood), tmp_path)
    assert built.executable is None
    assert [(found.kind, found.line) for found in built.diagnostics] == [("compile-error", 7_508)]
    assert 100_000 < len(built.log) < 300_000 and "left out" in built.log


def test_broken_runtime_is_an_error_of_kope(tiny_root: Path, tmp_path: Path) -> None:
    root = tmp_path / "twin"
    shutil.copytree(tiny_root, root)
    (root / "src" / "broken.cpp").write_text("int x = ;\n", "utf-8")
    cache = BuildCache(tmp_path / "cache")
    heard: list[str] = []
    builder = TwinBuilder(find_compiler(), cache, progress=heard.append, root=root)
    with pytest.raises(ToolError, match="cannot build the twin's runtime"):
        builder.build(COPY, tmp_path / "work")
    assert heard[0].startswith("building the twin's runtime with ")
    assert not (tmp_path / "cache" / "runtime").exists()
    assert list((tmp_path / "cache" / "scratch").iterdir()) == []


def test_no_compiler_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    find_compiler.cache_clear()
    try:
        packaged = re.escape(resources.install("compiler"))
        with pytest.raises(ToolMissing, match=rf"no C\+\+ compiler found; install g\+\+ 12 or newer .*{packaged}"):
            find_compiler()
    finally:
        find_compiler.cache_clear()


@pytest.mark.skipif(shutil.which("g++") is None, reason="the wrapper stands for a g++")
def test_a_compiler_installed_anywhere_is_readable(tiny_root: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "opt" / "gcc"
    for name in ("bin", "lib", "x86_64-linux-gnu", "private"):
        (prefix / name).mkdir(parents=True)
    (prefix / "lib" / "options").write_text("-O1\n")
    wrapper = prefix / "bin" / "g++"
    wrapper.write_text(
        f'#!/bin/sh\nset -e\ntest "$1" = --version || test ! -e {prefix}/private\n'
        f'exec g++ $(cat {prefix}/lib/options) "$@"\n'
    )
    wrapper.chmod(0o755)
    found = find_compiler(str(wrapper))
    assert found.folders == (prefix / "bin", prefix / "lib", prefix / "x86_64-linux-gnu")
    builder = TwinBuilder(found, BuildCache(tmp_path / "cache"), root=tiny_root)
    assert builder.build(COPY, tmp_path).executable is not None


@pytest.mark.parametrize(
    ("banner", "found"),
    [
        ("g++ (Debian 12.2.0-14) 12.2.0\nCopyright (C) 2022 Free Software Foundation, Inc.", ("gcc", "12.2.0")),
        ("g++ (GCC) 11.4.0\nCopyright (C) 2021 Free Software Foundation, Inc.", None),
        (
            "g++-14 (Ubuntu 14.2.0-4ubuntu2) 14.2.0\nCopyright (C) 2024 Free Software Foundation, Inc.",
            ("gcc", "14.2.0"),
        ),
        ("Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu", None),
        ("Ubuntu clang version 18.1.3 (1ubuntu1)\nTarget: x86_64-pc-linux-gnu", ("clang", "18.1.3")),
        ("tcc version 0.9.27", None),
    ],
)
def test_compilers_are_told_apart_by_their_own_words(banner: str, found: tuple[str, str] | None) -> None:
    from kope.target.twin import compiler

    made = compiler._identify("/usr/bin/x", banner)
    assert (None if made is None else (made.family, made.version)) == found


def test_key_depends_on_compiler_and_sources(tiny: TwinBuilder, tiny_root: Path, tiny_cache: BuildCache) -> None:
    other = TwinBuilder(Compiler(("/usr/bin/g++",), "gcc", "99.1"), tiny_cache, root=tiny_root)
    assert other.source_digest == tiny.source_digest
    assert other.runtime_key != tiny.runtime_key
    assert build_module._FORMAT
