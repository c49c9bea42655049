"""Turns what bisheng, its back end and its linker print into diagnostics. Pure functions on text.

The text itself is kept verbatim by the caller; nothing here rewords a compiler's message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from kope.model import Diagnostic
from kope.target.twin.source import SOURCE_NAME

MAX_DIAGNOSTICS = 20

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PLACE = r"(?P<file>[^\s:<>|\"']+\.\w+):(?P<line>\d+):(?:(?P<column>\d+):)?"
_MESSAGE = re.compile(_PLACE + r"\s*(?P<severity>fatal error|error|warning|note|remark): ?(?P<text>.*)$")
_LOC = re.compile(
    r"(?:loc\(\"(?P<file>[^\"]+)\":(?P<line>\d+):(?P<column>\d+)\): )?(?:error: )?(?P<text>ub overflow, requires .*)$"
)
_INCLUDED = re.compile(r"^(?:In file included|\s+)\s*from (?P<file>[^:\n]+):(?P<line>\d+)[:,]")
_UB_BITS = re.compile(r"requires (\d+) bits while (\d+) bits")
_BARE = re.compile(r"(?:^|\s)(?:error|fatal error): (?P<text>.+)$")
_LINKER = re.compile(
    r"(?:ld\.lld: error: |ld\.lld: |/ld: )?(?P<text>(?:undefined reference to |multiple definition of "
    r"|undefined symbol: |duplicate symbol: |InputSection too large|unable to find library ).*)$"
)
_CRASH = re.compile(r"PLEASE submit a bug report|Stack dump:|clang(?:\+\+)?: error: .*(?:signal|crash)|LLVM ERROR")
_END = re.compile(r"^\s*(?:\d+\s*\|)?\s*[\^~]+|^\s*\d+ (?:error|warning)s?\b.* generated|^\s*\d+\s*\|")

_KINDS: tuple[tuple[str, str, str], ...] = (
    (
        r"undeclared identifier .*; did you mean '\w*__cce_\w+'|undeclared identifier '\w+_(?:half|bfloat16)",
        "renamed-type",
        "this toolkit renamed the type; use the AscendC name (half, bfloat16_t), the compiler's guess is not safe",
    ),
    (
        r"no known conversion from '__ubuf__|IntrinsicsImpl'",
        "unsupported-type",
        "the API does not take this data type on this chip; cast to one it takes",
    ),
    (
        r"static assertion failed|static_assert",
        "static-assert",
        "the API does not take this type; the message says which",
    ),
    (
        r"use of undeclared identifier|unknown type name",
        "undeclared-name",
        "declare it, or write AscendC:: in front of it",
    ),
    (
        r"invalid explicitly-specified argument|no matching function template|template argument",
        "template-argument",
        "compare the template arguments with the API's signature; the notes in the log list the candidates",
    ),
    (
        r"no matching constructor|excess elements in|too many initializers",
        "no-constructor",
        "the struct has other fields on this chip or in this version; look at its definition",
    ),
    (
        r"no matching (?:member )?function|too (?:few|many) arguments",
        "no-matching-call",
        "compare the number and types of arguments with the API's signature; the notes in the log list the candidates",
    ),
    (
        r"out of jump/jumpc imm range",
        "jump-range",
        "the kernel's code is too long for one jump: unroll less, or split the kernel",
    ),
    (r"stack frame size", "stack-size", "keep large arrays out of device functions: use buffers in UB"),
    (r"ub overflow", "ub-overflow", "make tiles smaller or buffer less; double buffering counts twice"),
    (
        r"'block_idx'|'block_num'",
        "reserved-name",
        "block_idx and block_num are names of the compiler; rename the variable",
    ),
)
"""Pattern in a message (and its notes) -> kind, remedy; the first that matches."""

ENVIRONMENT = (
    (r"'(?:kernel_operator|acl/acl|kope_candidate)\.h' file not found", "a header of the toolkit is missing"),
    (r"unable to find library -l(?:ascendcl|runtime|\w*acl\w*)|cannot find -l", "a library of the toolkit is missing"),
    (
        r"(?:unknown argument|unsupported option|unrecognized).*--?(?:npu-arch|cce-[\w-]+|run-mode)",
        "the compiler refuses an option",
    ),
    (r"No space left on device", "the disk is full"),
)
"""Pattern -> what is wrong with the installation: never the candidate's fault."""


@dataclass(slots=True)
class _Entry:
    """One message with the notes that follow it."""

    file: str
    line: int
    column: int
    severity: str
    text: str
    notes: str = ""
    included_at: int = 0
    led_from: int = 0


def environment_problem(text: str) -> str:
    """Return what in a compiler's output is the installation's fault, "" for nothing."""
    clean = _COLOUR.sub("", text)
    for pattern, meaning in ENVIRONMENT:
        found = re.search(pattern, clean)
        if found:
            return f"{meaning} ({found.group()})"
    return ""


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """Return the errors in a compiler's output, in order; what the host and the device pass both say counts once.

    An error inside a header of the toolkit is reported at the candidate's line that led to it, when the compiler names
    one.
    """
    merged: dict[tuple[str, int, int, str], Diagnostic] = {}
    for entry in _entries(_COLOUR.sub("", text).splitlines()):
        if entry.severity in ("error", "fatal error"):
            merged.setdefault((entry.file, entry.line, entry.column, entry.text), _diagnostic(entry))
    return tuple(merged.values())[:MAX_DIAGNOSTICS]


def _entries(lines: list[str]) -> Iterator[_Entry]:
    """Read messages; a note goes to the error before it, and a message may be wrapped over lines."""
    current: _Entry | None = None
    wrapping = False
    included_at = 0
    for line in lines:
        found = _MESSAGE.search(line)
        if found is None:
            bare = _without_place(line)
            if bare is not None:
                if current is not None:
                    yield current
                current, wrapping = bare, False
            elif included := _INCLUDED.match(line):
                included_at = int(included["line"]) if _own(included["file"]) else included_at
                wrapping = False
            elif current is not None and wrapping and line.strip() and not _END.match(line):
                current.text += " " + line.strip()
                wrapping = False
            else:
                wrapping = False
            continue
        if found["severity"] in ("note", "remark"):
            if current is not None:
                current.notes += found["text"] + "\n"
                if _own(found["file"]) and not current.led_from:
                    current.led_from = int(found["line"])
            wrapping = False
            continue
        if current is not None:
            yield current
        column = int(found["column"] or 0)
        text = found["text"].strip()
        current = _Entry(found["file"], int(found["line"]), column, found["severity"], text, included_at=included_at)
        included_at, wrapping = 0, True
    if current is not None:
        yield current


def _without_place(line: str) -> _Entry | None:
    """Read a line of the back end, the linker or another front end."""
    if found := _LOC.search(line):
        return _Entry(found["file"] or "", int(found["line"] or 0), int(found["column"] or 0), "error", found["text"])
    if _CRASH.search(line):
        return _Entry("", 0, 0, "error", line.strip(), notes="compiler crash")
    if found := _LINKER.search(line):
        return _Entry("", 0, 0, "error", found["text"], notes="linker")
    if found := _BARE.search(line):
        return _Entry("", 0, 0, "error", found["text"].strip())
    return None


def _own(file: str) -> bool:
    return PurePath(file).name == SOURCE_NAME


def _diagnostic(entry: _Entry) -> Diagnostic:
    kind, remedy = _classify(entry)
    file, line = PurePath(entry.file).name, entry.line
    led_from = entry.led_from or entry.included_at
    if not _own(entry.file) and led_from:
        file, line = SOURCE_NAME, led_from
    message = entry.text
    if kind == "ub-overflow" and (bits := _UB_BITS.search(entry.text)):
        message += f" ({int(bits[1]) // 8} of {int(bits[2]) // 8} bytes)"
    return Diagnostic(kind, message, remedy=remedy, file=file, line=line)


_MARKS: Mapping[str, tuple[str, str]] = {
    "compiler crash": ("compiler-crash", "simplify the kernel; the compiler itself gave up"),
    "linker": ("link-error", "define the function in the candidate, or use one that the AscendC API has"),
}


def _classify(entry: _Entry) -> tuple[str, str]:
    if entry.notes in _MARKS:
        return _MARKS[entry.notes]
    for text in (entry.text, entry.notes):
        for pattern, kind, remedy in _KINDS:
            if text and re.search(pattern, text) and not (text is entry.text and _vague(entry, kind)):
                return kind, remedy
    return "compile-error", "fix the line the compiler names; the log holds its notes"


def _vague(entry: _Entry, kind: str) -> bool:
    """Whether the notes say more than the message: a call that fits no overload because of its type, not its arity."""
    return kind == "no-matching-call" and any(
        re.search(pattern, entry.notes)
        for pattern, more, _ in _KINDS
        if more in ("unsupported-type", "template-argument")
    )
