"""Prepares candidate source for the twin: refuses what must not be compiled, rewrites `<<<>>>` launches line for line.

It reads text only. What the object may link to is decided in `symbols`, what the compiler says in `compilelog`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kope.model import Diagnostic

MAX_SOURCE_BYTES = 1 << 20
SOURCE_NAME = "candidate.asc"
"""The name under which compiler and runtime speak of the candidate."""


def words(text: str) -> frozenset[str]:
    """Return the blank-separated words of a text."""
    return frozenset(text.split())


ALLOWED_HEADERS = words(
    """
    kernel_operator.h kope_candidate.h acl/acl.h tiling/tiling_api.h kernel_tiling/kernel_tiling.h
    algorithm array bitset cassert cfloat cinttypes climits cmath cstddef cstdint cstdio cstdlib cstring functional
    initializer_list iterator limits map memory numeric optional set string string_view tuple type_traits
    unordered_map unordered_set utility variant vector
    assert.h float.h inttypes.h limits.h math.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h
    """
)
_ALLOWED_HEADER_FOLDERS = ("lib/", "adv_api/", "basic_api/", "kernel_tiling/")

_LEX = re.compile(
    r"""
      (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
    | (?P<raw> \b(?:u8|u|U|L)?R"(?P<tag>[^()\\\s]{0,16})\(.*?(?:\)(?P=tag)"|\Z) )
    | (?P<string> "(?:\\.|[^"\\\n])*"? )
    | (?P<number> \b\d(?:[\w.]|'(?=\w))* )
    | (?P<char> '(?:\\.|[^'\\\n])*'? )
    """,
    re.VERBOSE | re.DOTALL,
)
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE = re.compile(r"^[ \t]*(?:\#|%:)[ \t]*(\w+)[ \t]*(.*)$", re.MULTILINE)
_INCLUDE = re.compile(r'[<"]([^>"\n]+)[>"]')

_RUNTIME_WORDS = re.compile(
    r"(?i:kope_twin)\w*|__sanitizer\w*|__wrap_\w+|__real_\w+|no_sanitize\w*|no_profile\w*|no_instrument_function"
    r"|disable_sanitizer_instrumentation|ifunc|constructor|destructor|init_priority"
)
_MACHINE_WORDS = re.compile(
    r"asm|__asm|__asm__|vector_size|__vector_size__|ext_vector_type|__builtin_ia32\w*|__builtin_neon\w*"
    r"|__builtin_shuffle\w*|_mm\d*_\w+|optimize|__optimize__|target_clones|simd|__simd__|_Pragma"
    r"|__has_include\w*|__has_embed|thread_local|__thread"
)
_ATTRIBUTE_ONLY = frozenset({"optimize", "ifunc", "constructor", "destructor", "simd"})
"""Ordinary words that mean something only inside an attribute."""

_NOT_A_TYPE = words("return case else throw new delete goto sizeof typename using namespace co_return not and or")
_RESERVED = ("block_idx", "block_num")
_RESERVED_DECLARATION = re.compile(
    r"([A-Za-z_][\w:]*)(?:\s*<[^<>;{}()]*>)?(?:\s*[&*]+\s*|\s+)(" + "|".join(_RESERVED) + r")\s*(?:=(?!=)|;|\{|\[)"
)


def encode(source: str) -> tuple[bytes, Diagnostic | None]:
    """Return the UTF-8 bytes of a candidate, or why it is no usable text."""
    try:
        data = source.encode("utf-8")
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        return b"", _refuse(
            "not-utf8", "the source is not valid UTF-8", "save the file as UTF-8 and submit it again", line
        )
    if len(data) > MAX_SOURCE_BYTES:
        text = f"the source has {len(data)} bytes, the limit is {MAX_SOURCE_BYTES}"
        return b"", _refuse("source-too-large", text, "submit the kernel without generated tables", 0)
    if b"\0" in data:
        line = source.count("\n", 0, source.index("\0")) + 1
        return b"", _refuse("not-utf8", "the source holds a NUL byte", "save the file as UTF-8 text", line)
    return data, None


def mask(source: str) -> str:
    """Blank comments and the insides of string and character literals; every offset and line stays where it was."""
    return _LEX.sub(_blank, source)


def _blank(match: re.Match[str]) -> str:
    text = match.group()
    if match.lastgroup == "number":
        return text
    if match.group("comment") is not None:
        return re.sub(r"[^\r\n]", " ", text)
    if len(text) < 2:
        return text
    return text[0] + re.sub(r"[^\r\n]", " ", text[1:-1]) + text[-1]


def findings(source: str) -> tuple[Diagnostic, ...]:
    """Return what in the text is refused before any compiler sees it, in line order."""
    masked = mask(source)
    found = [*_includes(source, masked), *_words(masked), *_reserved(masked)]
    found += _missing_headers(source, masked)
    if not re.search(r"\bkope_entry\b", masked):
        found.append(_refuse("no-entry", "the source does not define kope_entry", _ENTRY_REMEDY, 0))
    return tuple(sorted(found, key=lambda finding: finding.line))


def _missing_headers(source: str, masked: str) -> Iterator[Diagnostic]:
    """The twin compiles with both headers already read; bisheng would not find their names."""
    named = (_INCLUDE.match(source[match.start(2) : match.end(2)]) for match in _DIRECTIVE.finditer(masked))
    included = {match.group(1).strip() for match in named if match}
    for header in ("kernel_operator.h", "kope_candidate.h"):
        if header not in included:
            yield _refuse(
                "missing-include", f"the source does not include {header}", f'add #include "{header}" at its top', 0
            )


_ENTRY_REMEDY = 'define extern "C" int kope_entry(const KopeCall* call) and launch the kernel in it'


def needs_preprocessing(source: str) -> bool:
    """Whether macros may put words together that the text alone does not show."""
    return any(match.group(1) == "define" for match in _DIRECTIVE.finditer(mask(source)))


def preprocessed_findings(text: str) -> tuple[Diagnostic, ...]:
    """Return refused words in preprocessor output, looking only at lines that come from the candidate."""
    own: list[str] = []
    inside = False
    for line in text.splitlines():
        marker = re.match(r'# (\d+) "([^"]*)"', line)
        if marker:
            inside = marker.group(2).endswith(SOURCE_NAME)
            if inside:
                own.extend([""] * (int(marker.group(1)) - 1 - len(own)))
        elif inside:
            own.append(line)
    return tuple(_words(mask("\n".join(own))))


def _includes(source: str, masked: str) -> Iterator[Diagnostic]:
    for match in _DIRECTIVE.finditer(masked):
        word, line = match.group(1), masked.count("\n", 0, match.start(1)) + 1
        if word == "include":
            named = _INCLUDE.match(source[match.start(2) : match.end(2)])
            header = named.group(1).strip() if named else ""
            if not _header_allowed(header):
                shown = header or match.group(2).strip()
                yield _refuse(
                    "forbidden-include",
                    f"#include of {shown!r} is not allowed",
                    "use kernel_operator.h, kope_candidate.h and the plain C++ headers listed in docs/candidate.md",
                    line,
                )
        elif word in ("include_next", "import", "embed", "line"):
            yield _refuse("forbidden-directive", f"#{word} is not allowed in a candidate", "remove the directive", line)
        elif word == "pragma" and re.match(r"(GCC|clang|omp|weak|redefine_extname)\b", match.group(2)):
            text = f"#pragma {match.group(2).strip()} is not allowed"
            yield _refuse(
                "forbidden-directive", text, "remove it: bisheng does not know it and times would not hold", line
            )


def _header_allowed(header: str) -> bool:
    if header in ALLOWED_HEADERS:
        return True
    parts = header.split("/")
    return header.startswith(_ALLOWED_HEADER_FOLDERS) and not {"..", "."} & set(parts)


def _words(masked: str) -> Iterator[Diagnostic]:
    glued = _SPLICE.sub("", masked)  # a line splice may cut a word in two
    spans = list(_attribute_spans(glued))
    for match in _WORD.finditer(glued):
        word = match.group()
        in_attribute = any(start <= match.start() < end for start, end in spans)
        if in_attribute:
            word = word.strip("_")
        if word in _ATTRIBUTE_ONLY and not in_attribute:
            continue
        line = _line_at(masked, glued, match.start())
        if _RUNTIME_WORDS.fullmatch(word):
            yield _refuse("forbidden-name", f"{word} is internal to the toolkit", "use the AscendC API instead", line)
        elif _MACHINE_WORDS.fullmatch(word) or (in_attribute and word in ("target", "alias", "weakref")):
            text = f"{word} is not allowed in a candidate"
            yield _refuse("forbidden-name", text, "write the kernel with the AscendC API and plain C++17", line)


def _line_at(masked: str, glued: str, offset: int) -> int:
    if "\\" not in masked:
        return glued.count("\n", 0, offset) + 1
    kept = 0
    position = 0
    for splice in _SPLICE.finditer(masked):
        if kept + splice.start() - position > offset:
            break
        kept += splice.start() - position
        position = splice.end()
    return masked.count("\n", 0, position + offset - kept) + 1


def _attribute_spans(text: str) -> Iterator[tuple[int, int]]:
    for match in re.finditer(r"\b__attribute(?:__)?\s*\(|(?:\[|<:)\s*(?:\[|<:)", text):
        opening = match.end() - 1
        end = closing(text, opening) if text[opening] in "([" else -1
        yield opening, end if end >= 0 else len(text)


def _reserved(masked: str) -> Iterator[Diagnostic]:
    for match in _RESERVED_DECLARATION.finditer(masked):
        if match.group(1) in _NOT_A_TYPE:
            continue
        name, line = match.group(2), masked.count("\n", 0, match.start(2)) + 1
        text = f"{name} is a name of the Ascend C compiler and cannot be declared"
        yield _refuse("reserved-name", text, f"rename it, e.g. my_{name}", line)


def closing(text: str, opening: int) -> int:
    """Return the offset just after the bracket that closes text[opening], -1 when there is none."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    stack: list[str] = []
    for offset in range(opening, len(text)):
        char = text[offset]
        if char in pairs:
            stack.append(pairs[char])
        elif stack and char in ")]}":
            if char != stack.pop():
                return -1
            if not stack:
                return offset + 1
    return -1


def rewrite_launches(source: str) -> str:
    """Turn `k<T><<<blocks, ub, stream>>>(args)` into `::kope_twin::launch("k<T>", k<T>, blocks, ub, stream)(args)`.

    The text around stays byte for byte the same, so that lines keep their numbers. A launch that cannot be understood
    is left as it is: the compiler then names its line.
    """
    masked = mask(source)
    pieces: list[str] = []
    done = 0
    for match in re.finditer(r"<<<", masked):
        start = _callee_start(masked, match.start())
        end = _configuration_end(masked, match.end())
        if start < done or start < 0 or end < 0:
            continue
        callee = source[start : match.start()].rstrip()
        name = " ".join(callee.split()).replace("\\", "").replace('"', "'")
        gap = source[start + len(callee) : match.start()]
        pieces += [source[done:start], f'::kope_twin::launch("{name}", {callee}{gap}, ', source[match.end() : end], ")"]
        done = end + 3
    pieces.append(source[done:])
    return "".join(pieces)


def _callee_start(masked: str, end: int) -> int:
    """Return where the kernel's name before `<<<` begins, -1 when there is no name."""
    position = _skip_blanks_back(masked, end)
    if position and masked[position - 1] == ">":
        position = _angle_start(masked, position - 1)
        if position < 0:
            return -1
        position = _skip_blanks_back(masked, position)
    match = re.search(r"(?:::\s*)?(?:[A-Za-z_]\w*\s*::\s*)*[A-Za-z_]\w*$", masked[:position])
    return match.start() if match else -1


def _skip_blanks_back(masked: str, end: int) -> int:
    while end and masked[end - 1] in " \t\r\n":
        end -= 1
    return end


def _angle_start(masked: str, closing_angle: int) -> int:
    angles, brackets = 0, 0
    for offset in range(closing_angle, -1, -1):
        char = masked[offset]
        if char in ")]}":
            brackets += 1
        elif char in "([{":
            brackets -= 1
            if brackets < 0:
                return -1
        elif char == ">" and not brackets and masked[offset - 1 : offset] != "-":
            angles += 1
        elif char == "<" and not brackets:
            angles -= 1
            if not angles:
                return offset
        elif char == ";":
            return -1
    return -1


def _configuration_end(masked: str, start: int) -> int:
    """Return where the `>>>` stands that ends a launch configuration, -1 when there is none."""
    depth = 0
    for offset in range(start, len(masked)):
        char = masked[offset]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                return -1
        elif char == ";" and not depth:
            return -1
        elif char == ">" and not depth and re.match(r">>>\s*\(", masked[offset : offset + 200]):
            return offset
    return -1


def _refuse(kind: str, message: str, remedy: str, line: int) -> Diagnostic:
    return Diagnostic(kind=kind, message=message, remedy=remedy, file=SOURCE_NAME, line=line)
