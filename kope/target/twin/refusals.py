"""What the text of a candidate must not contain: includes, directives, names of the runtime and of the machine.

It reads text only. What the object may link to is decided in `symbols`, what the compiler says in `compilelog`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice

from kope.model import Diagnostic
from kope.target.twin.source import SOURCE_NAME, mask, refuse, words

MAX_FINDINGS = 20

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

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE = re.compile(r"^[ \t]*(?:\#|%:)[ \t]*(\w+)[ \t]*(.*)$", re.MULTILINE)
_INCLUDE = re.compile(r'[<"]([^>"\n]+)[>"]')

_RUNTIME_WORDS = re.compile(
    r"(?i:kope_twin)\w*|__sanitizer\w*|__wrap_\w+|__real_\w+|no_sanitize\w*|no_profile\w*|no_instrument_function"
    r"|disable_sanitizer_instrumentation|init_priority"
)
_MACHINE_WORDS = re.compile(
    r"asm|__asm|__asm__|vector_size|__vector_size__|ext_vector_type|__builtin_ia32\w*|__builtin_neon\w*"
    r"|__builtin_shuffle\w*|_mm\d*_\w+|target_clones|_Pragma|__has_include\w*|__has_embed|thread_local|__thread"
    r"|__builtin_(?:frame_address|return_address|extract_return_addr|frob_return_addr|dwarf_cfa|eh_\w+|apply\w*)"
    r"|__builtin_(?:longjmp|setjmp|read\w*counter|arm_\w+|get_device_side_mangled_name)|_?_rdtscp?"
)
_WARM_UP_WORDS = re.compile(r"CannBench(?:Warmup|CacheClean)\w*|MatMulV3")
"""Kernels that a benchmark's timer leaves out, by name."""
_ATTRIBUTES = re.compile(r"optimize|ifunc|constructor|destructor|simd|target|alias|weakref")
"""Ordinary words that mean something only inside an attribute."""
_ATTRIBUTE = re.compile(r"\b__attribute(?:__)?\s*\(|(?:\[|<:)\s*(?:\[|<:)")
_BRACKET = re.compile(r"[()\[\]{}]")
_PAIRS = {"(": ")", "[": "]", "{": "}"}

_NOT_A_TYPE = words("return case else throw new delete goto sizeof typename using namespace co_return not and or")
_RESERVED = ("block_idx", "block_num")
_RESERVED_DECLARATION = re.compile(
    r"(?<![\w:])([A-Za-z_][\w:]*)(?:\s*<[^<>;{}()]*>)?(?:\s*[&*]+\s*|\s+)("
    + "|".join(_RESERVED)
    + r")\s*(?:=(?!=)|;|\{|\[)"
)


class _Text:
    """A source with its line splices undone (they may cut any word in two), that still knows its lines."""

    def __init__(self, source: str) -> None:
        self.plain = _SPLICE.sub("", source)
        self.code = mask(self.plain)
        self._newlines = [match.start() for match in re.finditer("\n", self.plain)]
        removed = 0
        self._splices = []
        for match in _SPLICE.finditer(source):
            self._splices.append(match.start() - removed)
            removed += match.end() - match.start()

    def line(self, offset: int) -> int:
        return bisect_left(self._newlines, offset) + bisect_right(self._splices, offset) + 1


def findings(source: str) -> tuple[Diagnostic, ...]:
    """Return what in the text is refused before any compiler sees it, in line order, at most MAX_FINDINGS of a sort."""
    text = _Text(source)
    found = list(_missing(text))
    for search in (_directives, _words, _reserved):
        found += islice(search(text), MAX_FINDINGS)
    return tuple(sorted(found, key=lambda finding: finding.line))


def _missing(text: _Text) -> Iterator[Diagnostic]:
    named = (_INCLUDE.match(text.plain, match.start(2), match.end(2)) for match in _DIRECTIVE.finditer(text.code))
    included = {match.group(1).strip() for match in named if match}
    for header in ("kernel_operator.h", "kope_candidate.h"):
        if header not in included:
            message = f"the source does not include {header}"
            yield refuse("missing-include", message, f'add #include "{header}" at its top', 0)
    if not re.search(r"\bkope_entry\b", text.code):
        remedy = 'define extern "C" int kope_entry(const KopeCall* call) and launch the kernel in it'
        yield refuse("no-entry", "the source does not define kope_entry", remedy, 0)


def has_macros(source: str) -> bool:
    """Whether macros may put words together that the text alone does not show."""
    return any(match.group(1) == "define" for match in _DIRECTIVE.finditer(_Text(source).code))


def preprocessed_findings(text: str) -> tuple[Diagnostic, ...]:
    """Return refused words in preprocessor output, looking only at lines that come from the candidate."""
    own: list[str] = []
    inside = False
    for line in text.splitlines():
        marker = re.match(r'# (\d+) "([^"]*)"', line)
        if marker:
            inside = marker.group(2).endswith(SOURCE_NAME)
            if inside:  # g++ may end the lines before a marker with an empty one that no source line stands behind
                before = int(marker.group(1)) - 1
                own = own[:before] + [""] * (before - len(own))
        elif inside:
            own.append(line)
    return tuple(islice(_words(_Text("\n".join(own))), MAX_FINDINGS))


def _directives(text: _Text) -> Iterator[Diagnostic]:
    for match in _DIRECTIVE.finditer(text.code):
        word, rest = match.group(1), text.plain[match.start(2) : match.end(2)].strip()
        found = _include(rest) if word == "include" else _directive(word, rest)
        if found:
            yield refuse(*found, text.line(match.start()))


def _include(rest: str) -> tuple[str, str, str] | None:
    named = _INCLUDE.match(rest)
    header = named.group(1).strip() if named else ""
    inside = header.startswith(_ALLOWED_HEADER_FOLDERS) and not {"..", "."} & set(header.split("/"))
    if inside or header in ALLOWED_HEADERS:
        return None
    remedy = "use kernel_operator.h, kope_candidate.h and the plain C++ headers listed in docs/candidate.md"
    return "forbidden-include", f"#include of {header or rest!r} is not allowed", remedy


def _directive(word: str, rest: str) -> tuple[str, str, str] | None:
    if word in ("include_next", "import", "embed", "line"):
        return "forbidden-directive", f"#{word} is not allowed in a candidate", "remove the directive"
    if word == "pragma" and re.match(r"(GCC|clang|omp|weak|redefine_extname)\b", rest):
        remedy = "remove it: bisheng does not know it and times would not hold"
        return "forbidden-directive", f"#pragma {rest} is not allowed", remedy
    return None


def _words(text: _Text) -> Iterator[Diagnostic]:
    attributes = _attributes(text.code)
    starts = [start for start, _ in attributes]
    for match in _WORD.finditer(text.code):
        place = bisect_right(starts, match.start()) - 1
        found = _word(match.group(), in_attribute=place >= 0 and match.start() < attributes[place][1])
        if found:
            yield refuse(*found, text.line(match.start()))


def _word(word: str, *, in_attribute: bool) -> tuple[str, str, str] | None:
    word = word.strip("_") if in_attribute else word
    if _RUNTIME_WORDS.fullmatch(word):
        return "forbidden-name", f"{word} is internal to the toolkit", "use the AscendC API instead"
    if _MACHINE_WORDS.fullmatch(word) or (in_attribute and _ATTRIBUTES.fullmatch(word)):
        return "forbidden-name", f"{word} is not allowed in a candidate", "use the AscendC API and plain C++17"
    if _WARM_UP_WORDS.fullmatch(word):
        return "reserved-name", f"{word} is the name of a kernel that a benchmark does not time", "rename it"
    return None


def _attributes(code: str) -> list[tuple[int, int]]:
    """Where attributes stand: start and end, in order. One that does not end reaches to the end of the text."""
    found = []
    position = 0
    while match := _ATTRIBUTE.search(code, position):
        opening = match.end() - 1
        end = _closing(code, opening) if code[opening] in "([" else -1
        position = end if end >= 0 else len(code)
        found.append((opening, position))
    return found


def _closing(code: str, opening: int) -> int:
    """Return the offset just after the bracket that closes code[opening], -1 when there is none."""
    stack: list[str] = []
    for match in _BRACKET.finditer(code, opening):
        char = match.group()
        if char in _PAIRS:
            stack.append(_PAIRS[char])
        elif not stack or char != stack.pop():
            return -1
        if not stack:
            return match.end()
    return -1


def _reserved(text: _Text) -> Iterator[Diagnostic]:
    for match in _RESERVED_DECLARATION.finditer(text.code):
        if match.group(1) not in _NOT_A_TYPE:
            name = match.group(2)
            message = f"{name} is a name of the Ascend C compiler and cannot be declared"
            yield refuse("reserved-name", message, f"rename it, e.g. my_{name}", text.line(match.start(2)))
