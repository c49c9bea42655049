"""Compiler text becomes diagnostics: lines of the candidate, equal messages merged, remedies."""

from __future__ import annotations

from kope.model import Diagnostic
from kope.target.twin.compilelog import MAX_DIAGNOSTICS, diagnostics

GCC = """\
candidate.asc: In function 'void k(GM_ADDR)':
candidate.asc:12:14: error: 'Addd' is not a member of 'AscendC'; did you mean 'Add'?
   12 |     AscendC::Addd(z, x, y, n);
      |              ^~~~
      |              Add
candidate.asc:12:14: error: 'Addd' is not a member of 'AscendC'; did you mean 'Add'?
candidate.asc:30:3: warning: unused variable 'q' [-Wunused-variable]
"""


def test_gcc_error_is_merged_and_has_a_remedy() -> None:
    assert diagnostics(GCC) == (
        Diagnostic(
            "compile-error",
            "'Addd' is not a member of 'AscendC'; did you mean 'Add'?",
            remedy="the twin has no such AscendC name: check the spelling, or use one listed in docs/twin.md",
            file="candidate.asc",
            line=12,
            count=2,
        ),
    )


def test_gcc_error_in_a_header_is_reported_at_the_candidate() -> None:
    text = """\
In file included from /x/include/kernel_operator.h:9,
                 from /c/kope_prelude.h:1:
/x/include/vec.h: In instantiation of 'void AscendC::Add(T) [with T = int8_t]':
candidate.asc:21:17:   required from here
/x/include/vec.h:40:5: error: static assertion failed: Add takes half, float, int16_t, int32_t
"""
    (found,) = diagnostics(text)
    assert (found.file, found.line, found.message[:23]) == ("candidate.asc", 21, "static assertion failed")
    assert found.remedy.startswith("the API does not take this data type")


def test_clang_error_in_a_header_is_reported_at_the_candidate() -> None:
    text = """\
/x/include/vec.h:40:5: error: static assertion failed: Add takes half
    static_assert(ok);
    ^
build/candidate.asc:21:17: note: in instantiation of function template specialization 'Add<signed char>' requested here
\x1b[1mcandidate.asc:33:1: \x1b[0m\x1b[31mfatal error: \x1b[0mexpected '}'
"""
    first, second = diagnostics(text)
    assert (first.file, first.line) == ("candidate.asc", 21)
    assert (second.line, second.message, second.remedy) == (33, "expected '}'", "fix the syntax at this line")


def test_linker_errors_are_told_apart() -> None:
    text = """\
/usr/bin/ld: candidate.o: in function `kope_entry':
candidate.asc:44: undefined reference to `helper(int)'
collect2: error: ld returned 1 exit status
ld.lld: error: undefined symbol: other(int)
"""
    found = diagnostics(text)
    assert [(one.kind, one.message, one.line) for one in found] == [
        ("link-error", "undefined reference to `helper(int)'", 44),
        ("link-error", "undefined symbol: other(int)", 0),
    ]


def test_a_flood_of_errors_is_cut() -> None:
    text = "".join(f"candidate.asc:{n}:1: error: bad {n}\n" for n in range(1, 5000))
    assert len(diagnostics(text)) == MAX_DIAGNOSTICS


def test_no_errors_no_diagnostics() -> None:
    assert diagnostics("") == ()
    assert diagnostics("candidate.asc:1:1: warning: odd\nnothing to see: error-free\n") == ()
