"""What bisheng, its back end and its linker print: file, line, kind; two passes count once; wrapped lines join."""

from __future__ import annotations

import pytest

from kope.target.ascend.compilelog import diagnostics, environment_problem

Expected = tuple[str, str, int]


def seen(text: str) -> list[Expected]:
    return [(found.kind, found.file, found.line) for found in diagnostics(text)]


UNSUPPORTED = """\
In file included from candidate.asc:2:
/cann/impl/kernel_operator_vec_vconv_impl.h:450:5: error: no matching function for call to 'CastIntrinsicsImpl'
    CastIntrinsicsImpl(dst, src);
    ^~~~~~~~~~~~~~~~~~
candidate.asc:57:9: note: in instantiation of function template specialization 'Cast<half, int8_t>' requested here
        Cast(a, b, RoundMode::CAST_NONE, n);
        ^
/cann/impl/kernel_operator_vec_vconv_impl.h:20:1: note: candidate function not viable: no known conversion from \
'__ubuf__ half *' to '__ubuf__ int8_t *' for 1st argument
1 error generated.
"""
EXAMPLES: list[tuple[str, list[Expected]]] = [
    (UNSUPPORTED, [("unsupported-type", "candidate.asc", 57)]),
    (
        "candidate.asc:42:97: error: use of undeclared identifier 'cid_'\n  x = cid_;\n      ^\n1 error generated.\n",
        [("undeclared-name", "candidate.asc", 42)],
    ),
    (
        "candidate.asc:9:3: error: no matching function for call to 'Cast'\ncann.h:3:1: note: candidate template "
        "ignored: invalid explicitly-specified argument for template parameter 'dstN'\n2 errors generated.\n",
        [("template-argument", "candidate.asc", 9)],
    ),
    (
        "/cann/min.h:24:5: error: static assertion failed due to requirement 'Std::is_same<int, long>::value': "
        "Only support compare with same type!\nFatal Err: A fatal error occurred in a process\n",
        [("static-assert", "min.h", 24)],
    ),
    (
        "candidate.asc:12:5: error: no matching function for call to 'DataCopyPad'\ncann.h:1:1: note: candidate "
        "function template not viable: requires 4 arguments, but 3 were provided\n",
        [("no-matching-call", "candidate.asc", 12)],
    ),
    (
        "candidate.asc:3:1: error: no matching constructor for initialization of 'FixpipeParamsV220'\n",
        [("no-constructor", "candidate.asc", 3)],
    ),
    (
        "[ERROR] [ascend910b] PowerCustom_0 error: out of jump/jumpc imm range\n",
        [("jump-range", "", 0)],
    ),
    (
        "error: stack frame size (16024) exceeds limit (16000) in function '_ZN7AscendC3AddE'\n",
        [("stack-size", "", 0)],
    ),
    ("ld.lld: error: InputSection too large for range extension thunk\n", [("link-error", "", 0)]),
    ("/usr/bin/ld: a.o: in function `f': undefined reference to `my_helper'\n", [("link-error", "", 0)]),
    ("ld.lld: error: undefined symbol: my_helper\n", [("link-error", "", 0)]),
    ("clang++: error: unable to execute command: Aborted (core dumped) due to signal\n", [("compiler-crash", "", 0)]),
    ("candidate.asc:7:13: error: expected ';' at end of declaration\n", [("compile-error", "candidate.asc", 7)]),
]


@pytest.mark.parametrize(("text", "expected"), EXAMPLES, ids=[text[:40] for text, _ in EXAMPLES])
def test_every_form_of_error_has_its_kind_and_place(text: str, expected: list[Expected]) -> None:
    assert seen(text) == expected
    assert all(found.remedy for found in diagnostics(text))


def test_what_the_host_and_the_device_pass_both_say_counts_once() -> None:
    line = "candidate.asc:42:7: error: use of undeclared identifier 'cid_'\n    ^\n1 error generated.\n"
    (found,) = diagnostics(line + line)
    assert (found.count, found.message) == (1, "use of undeclared identifier 'cid_'")


def test_colours_and_wrapped_lines_do_no_harm() -> None:
    text = (
        "\x1b[1mcandidate.asc:42:7: \x1b[0;1;31merror: \x1b[0muse of undeclared\nidentifier 'cid_'\n"
        "candidate.asc:50:1: error: expected '}'\n"
    )
    assert [(found.line, found.message) for found in diagnostics(text)] == [
        (42, "use of undeclared identifier 'cid_'"),
        (50, "expected '}'"),
    ]


def test_warnings_and_lone_notes_are_no_errors() -> None:
    assert diagnostics("candidate.asc:1:2: warning: unused variable 'x'\ncandidate.asc:1:2: note: here\n") == ()


def test_a_type_the_toolkit_renamed_is_named_and_its_guess_not_taken_for_safe() -> None:
    text = (
        "Command excution failed\nOutput of ascend_compiler: candidate.asc:357:9: error: use of undeclared identifier "
        "'X_half'; did you mean 'X___cce_half'?\n"
    )
    (found,) = diagnostics(text)
    assert (found.kind, found.file, found.line) == ("renamed-type", "candidate.asc", 357)
    assert "did you mean 'X___cce_half'?" in found.message
    assert "not safe" in found.remedy


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ('loc("m.mlir":2:3): error: ub overflow, requires 1966848 bits while 1572864 bits avaliable!', "m.mlir"),
        ("error: ub overflow, requires 1966848 bits while 1572864 bits available", ""),
        ("ub overflow, requires 1966848 bits while 1572864 bits avaliable! (possible reason: large tile)", ""),
    ],
)
def test_an_overflow_counted_in_bits_is_told_in_bytes(line: str, file: str) -> None:
    (found,) = diagnostics(line + "\n")
    assert (found.kind, found.file) == ("ub-overflow", file)
    assert "(245856 of 196608 bytes)" in found.message


def test_a_variable_called_block_idx_is_a_reserved_name() -> None:
    (found,) = diagnostics("candidate.asc:5:9: error: cannot assign to variable 'block_idx' with const type\n")
    assert (found.kind, found.line) == ("reserved-name", 5)


@pytest.mark.parametrize(
    "text",
    [
        "candidate.asc:1:10: fatal error: 'kernel_operator.h' file not found\n",
        "main.cpp:3:10: fatal error: 'acl/acl.h' file not found\n",
        "ld.lld: error: unable to find library -lascendcl\n",
        "bisheng: error: unknown argument: '--npu-arch=dav-2201'\n",
        "error: unable to open output file: No space left on device\n",
    ],
)
def test_what_is_missing_in_the_installation_is_not_the_candidates_fault(text: str) -> None:
    assert environment_problem(text) != ""


def test_a_missing_header_of_the_candidates_own_is_its_fault() -> None:
    text = "candidate.asc:4:10: fatal error: 'my_header.h' file not found\n"
    assert environment_problem(text) == ""
    assert seen(text) == [("compile-error", "candidate.asc", 4)]
