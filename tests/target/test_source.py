"""Candidate source: what is refused by name, and the line-for-line rewrite of launches."""

from __future__ import annotations

import pytest

from kope.target.twin import refusals, source
from kope.target.twin.launches import rewrite_launches

HEAD = '#include "kernel_operator.h"\n#include "kope_candidate.h"\n'
ENTRY = 'extern "C" int kope_entry(const KopeCall* call) { return 0; }\n'


def kinds(text: str) -> list[tuple[str, int]]:
    return [(found.kind, found.line) for found in refusals.findings(text)]


def test_plain_candidate_is_accepted() -> None:
    assert refusals.findings(HEAD + ENTRY) == ()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("#include <fstream>", "forbidden-include"),
        ("#include <thread>", "forbidden-include"),
        ('#include "/etc/passwd"', "forbidden-include"),
        ('#include "lib/../../secret.h"', "forbidden-include"),
        ('# include "kope_twin/control.h"', "forbidden-include"),
        ("%: include <sys/socket.h>", "forbidden-include"),
        ("#define H <fstream>\n#include H", "forbidden-include"),
        ("#include_next <cmath>", "forbidden-directive"),
        ('#line 7 "other.cpp"', "forbidden-directive"),
        ("#pragma GCC optimize(3)", "forbidden-directive"),
        ("#if __has_include(<fstream>)\n#endif", "forbidden-name"),
        ('void f() { asm("nop"); }', "forbidden-name"),
        ("void* f() { return __builtin_frame_address(0); }", "forbidden-name"),
        ("unsigned long f() { return __builtin_readcyclecounter(); }", "forbidden-name"),
        ("__global__ void CannBenchWarmup() {}", "reserved-name"),
        ('void f() { __asm__ volatile("nop"); }', "forbidden-name"),
        ("void f() { kope_twin::control::end_case(); }", "forbidden-name"),
        ('extern "C" void __sanitizer_cov_trace_pc() {}', "forbidden-name"),
        ("__attribute__((no_sanitize_coverage)) void f() {}", "forbidden-name"),
        ('__attribute__((__no_sanitize__("coverage"))) void f() {}', "forbidden-name"),
        ("typedef float V __attribute__((vector_size(32)));", "forbidden-name"),
        ("[[gnu::optimize(3)]] void f() {}", "forbidden-name"),
        ('__attribute__((target("avx2"))) void f() {}', "forbidden-name"),
        ("__attribute__((constructor)) void f() {}", "forbidden-name"),
        ("thread_local int x;", "forbidden-name"),
        ("KOPE_TWIN_API void f() {}", "forbidden-name"),
        ("<:<: gnu::optimize(3) :>:> void f() {}", "forbidden-name"),
        ("[ [gnu::target(1)] ] void f() {}", "forbidden-name"),
        ("void f() { uint32_t block_idx = 0; }", "reserved-name"),
        ("void f() { const auto& block_idx{0}; }", "reserved-name"),
    ],
)
def test_is_refused_by_name(line: str, kind: str) -> None:
    found = kinds(HEAD + line + "\n" + ENTRY)
    assert found and found[0][0] == kind
    assert found[0][1] == 3 + line.count("\n") if "#define" in line else found[0][1] == 3


@pytest.mark.parametrize(
    "line",
    [
        "// #include <fstream> asm block_idx",
        '/* kope_twin::control */ const char* s = "asm no_sanitize __has_include";',
        'const char* r = R"x(asm " #include <fstream>)x";',
        "uint32_t f() { return block_idx; }",
        "int optimize(int constructor) { return constructor; }",
        "int g(bool a) { return a ? block_idx : 1'000; }",
        "#pragma once",
        "#include <algorithm>",
        '#include "lib/math/kfc/sum.h"',
    ],
)
def test_is_accepted(line: str) -> None:
    assert kinds(HEAD + line + "\n" + ENTRY) == []


def test_name_cut_by_a_line_splice_is_found_where_it_starts() -> None:
    text = HEAD + "int a;\n__attribute__((no_sani\\\ntize_coverage)) void f() {}\n" + ENTRY
    assert kinds(text) == [("forbidden-name", 4)]


@pytest.mark.parametrize("cut", ["#inc\\\nlude <fstream>", "#include <fst\\\nream>", "#\\\n\\\ninclude <fstream>"])
def test_directive_cut_by_line_splices_is_found(cut: str) -> None:
    assert kinds(HEAD + cut + "\n" + ENTRY + "void f() { asm(); }\n") == [
        ("forbidden-include", 3),
        ("forbidden-name", 5 + cut.count("\n")),
    ]


LARGE = source.MAX_SOURCE_BYTES // 2


@pytest.mark.parametrize(
    "text",
    [
        "a" * LARGE,
        "a " * (LARGE // 2),
        "a" + " " * LARGE + "b",
        "a::" * (LARGE // 3),
        "a<" * (LARGE // 2),
        "a><<<" * (LARGE // 5),
        "k<<<(" * (LARGE // 5),
        "[[" * (LARGE // 2),
        "[[" * (LARGE // 4) + "]]" * (LARGE // 4),
        "__attribute__((a)) " * (LARGE // 19),
        "asm " * (LARGE // 4),
        "#define\n" * (LARGE // 8),
        "#include <x>\n" * (LARGE // 13),
        "a\\\n" * (LARGE // 3),
        '"' * LARGE,
        "/*" * (LARGE // 2),
        'R"(' * (LARGE // 3),
        "int block_idx;" * (LARGE // 14),
    ],
    ids=lambda text: text[:12],
)
def test_odd_text_of_full_size_is_read_in_bearable_time(text: str) -> None:
    assert len(refusals.findings(text)) <= 3 * refusals.MAX_FINDINGS + 3
    assert rewrite_launches(text).count("\n") == text.count("\n")


def test_glued_tokens_are_found_after_preprocessing() -> None:
    text = HEAD + "#define GLUE(a, b) a##b\n__attribute__((GLUE(no_sani, tize))) void f() {}\n" + ENTRY
    assert refusals.findings(text) == ()
    assert refusals.has_macros(text) and not refusals.has_macros(HEAD + ENTRY)
    output = '# 1 "kernel_operator.h" 1\nno_sanitize header text\n# 4 "candidate.asc"\n'
    output += "__attribute__((no_sanitize)) void f() {}\n"
    assert [(found.kind, found.line) for found in refusals.preprocessed_findings(output)] == [("forbidden-name", 4)]


def test_missing_headers_are_named() -> None:
    assert kinds(ENTRY) == [("missing-include", 0)] * 2
    assert kinds("#include <kernel_operator.h> // the toolkit\n" + ENTRY) == [("missing-include", 0)]


def test_missing_entry_is_named() -> None:
    assert kinds(HEAD) == [("no-entry", 0)]
    assert kinds(HEAD + "// kope_entry\n") == [("no-entry", 0)]


def test_source_that_is_no_text_is_one_diagnostic() -> None:
    assert source.encode("int a;\nint \udce9;\n")[1].line == 2  # type: ignore[union-attr]
    assert source.encode("int a;\0")[1].kind == "not-utf8"  # type: ignore[union-attr]
    assert source.encode(" " * (source.MAX_SOURCE_BYTES + 1))[1].kind == "source-too-large"  # type: ignore[union-attr]
    assert source.encode("// é") == ("// é".encode(), None)


@pytest.mark.parametrize(
    ("launch", "rewritten"),
    [
        ("k<<<8, nullptr, s>>>(x, y);", '::kope_twin::launch("k", k, 8, nullptr, s)(x, y);'),
        ("ns::k<float, 2><<<n, 0, s>>>(x);", '::kope_twin::launch("ns::k<float, 2>", ns::k<float, 2>, n, 0, s)(x);'),
        ("k<A<B>><<<f(a, b), {}, c->s>>>();", '::kope_twin::launch("k<A<B>>", k<A<B>>, f(a, b), {}, c->s)();'),
        ("k<(a > b)><<<1, 0, s>>>(x);", '::kope_twin::launch("k<(a > b)>", k<(a > b)>, 1, 0, s)(x);'),
        ("::k <<<n >> 1, 0, s>>> (x);", '::kope_twin::launch("::k", ::k , n >> 1, 0, s) (x);'),
        ("if (a < b) k<<<g<int>(), 0, s>>>(x);", 'if (a < b) ::kope_twin::launch("k", k, g<int>(), 0, s)(x);'),
    ],
)
def test_launch_is_rewritten(launch: str, rewritten: str) -> None:
    assert rewrite_launches(launch) == rewritten


def test_rewrite_keeps_lines_comments_and_strings() -> None:
    text = '// k<<<1, 0, s>>>(x)\nauto t = "k<<<1>>>(x)";\n'
    text += "k<T,\n  U><<<1,\n  0 /* >>>( */,\n  s>>>(\n  x);\n/* <<< */ int z;\n"
    done = rewrite_launches(text)
    assert done.count("\n") == text.count("\n")
    assert done.splitlines()[:2] == text.splitlines()[:2]
    assert done.splitlines()[2] == '::kope_twin::launch("k<T, U>", k<T,'
    assert done.splitlines()[4:] == ["  0 /* >>>( */,", "  s)(", "  x);", "/* <<< */ int z;"]


@pytest.mark.parametrize("broken", ["k<<<1, 0, s", "<<<1>>>(x)", "k<<<1; 2>>>(x)", "k<<<1)>>>(x)", "(a) <<<1>>>(x)"])
def test_launch_that_is_none_is_left_to_the_compiler(broken: str) -> None:
    assert rewrite_launches(broken) == broken
