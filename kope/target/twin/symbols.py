"""Reads the symbol table of a candidate's object file and refuses what a kernel has no business linking to.

It decides by name alone. Which names the runtime offers is read from the runtime's own objects, not listed here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kope.model import Diagnostic
from kope.target.twin.source import SOURCE_NAME, words

_SHT_SYMTAB = 2
_STB_LOCAL, _STB_GLOBAL, _STB_WEAK = 0, 1, 2
_SHN_UNDEF = 0


@dataclass(frozen=True, slots=True)
class Symbols:
    """Names a relocatable object asks for and offers to others. weak: offered, but gives way to another definition."""

    undefined: frozenset[str]
    defined: frozenset[str]
    weak: frozenset[str]


def read(path: Path) -> Symbols:
    """Read a 64-bit little-endian ELF relocatable. Raises ValueError when the file is something else."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian ELF object")
    section_offset = struct.unpack_from("<Q", data, 0x28)[0]
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, section_offset + i * entry_size) for i in range(count)]
    undefined: set[str] = set()
    defined: set[str] = set()
    weak: set[str] = set()
    for section in sections:
        if section[1] != _SHT_SYMTAB:
            continue
        offset, size, link, item_size = section[4], section[5], section[6], section[9]
        names_offset = sections[link][4]
        for position in range(offset, offset + size, item_size):
            name_at, info, _, index = struct.unpack_from("<IBBH", data, position)
            name = _name(data, names_offset + name_at)
            binding = info >> 4
            if not name or binding == _STB_LOCAL:
                continue
            if index == _SHN_UNDEF:
                undefined.add(name)
            else:
                (weak if binding == _STB_WEAK else defined).add(name)
    return Symbols(frozenset(undefined), frozenset(defined), frozenset(weak))


def _name(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode("utf-8", "replace")


_LIBM = words(
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc"
    " floor ceil round trunc rint nearbyint fabs lround llround lrint llrint"
    " pow atan2 fmod hypot fmax fmin fdim copysign fma sincos"
)
WRAPPED = tuple(
    sorted(
        {name + suffix for name in _LIBM for suffix in ("", "f")}
        | words("memcpy memmove memset memcmp malloc calloc realloc _Znwm _Znam")
    )
)
"""Library functions that are linked through the runtime (`--wrap`), so that their use in device code is costed."""

_LIBC = words(
    """
    abs labs llabs div ldiv lldiv atoi atol atoll atof strtol strtoll strtoul strtoull strtof strtod
    memchr strcat strchr strcmp strcpy strlen strncat strncmp strncpy strrchr strstr
    bcmp free abort
    isalnum isalpha isdigit islower isspace isupper isxdigit tolower toupper
    printf puts putchar fprintf fwrite fputs fputc vprintf vfprintf snprintf vsnprintf sprintf stdout stderr fflush
    __printf_chk __fprintf_chk __snprintf_chk __vsnprintf_chk __sprintf_chk __memcpy_chk __memset_chk __memmove_chk
    __assert_fail __errno_location __stack_chk_fail __stack_chk_guard __tls_get_addr __dso_handle
    _GLOBAL_OFFSET_TABLE_ __gxx_personality_v0 _Unwind_Resume __sanitizer_cov_trace_pc
    """
) | frozenset(WRAPPED)

_ALLOWED_PATTERNS = re.compile(
    r"_ZN9kope_twin3api\w+|_ZNK9kope_twin3api\w+"  # what the AscendC headers call
    r"|__cxa_(?!thread_atexit)\w+|_Zd[la]\w+"  # exceptions, static guards, operator delete
    r"|_Z(?:N|NK)?S\w+|_ZT[ISVT]\w+|_ZG[VR]\w+"  # the C++ library, type information; looked at more closely below
    r"|__(?:add|sub|mul|div|neg|trunc|extend|fix|float|eq|ne|lt|le|gt|ge|mod|udiv|umod|pow|ash|lsh|clz|ctz|ffs|popcount"
    r"|unord|cmp)\w*[0-9df]"  # arithmetic support of the compiler
    r"|__gnu_\w+|__aarch64_\w+"
)
_FORBIDDEN_CPP = re.compile(
    r"basic_fstream|basic_ifstream|basic_ofstream|basic_filebuf|basic_file|[St]6thread|condition_variable"
    r"|6chrono|10filesystem|13random_device|11this_thread|5mutex|13__future_base|6locale"
)

_REPLACEABLE = re.compile(
    r"_Zn[wa]m(St11align_val_t)?(RKSt9nothrow_t)?|_Zd[la]Pv(m)?(St11align_val_t)?(RKSt9nothrow_t)?"
)
"""operator new and delete, which C++ lets every program replace, for all of it."""

_FAMILIES = (
    (
        "files",
        re.compile(
            r"f?open(at|64)?|creat|read|write|p(read|write)\w*|fread|fgets|fscanf|fopen\w*|remove|unlink\w*|rename|mkdir"
            r"|stat\w*|l?seek|mmap\w*|munmap|mprotect|shm_open|sendfile|readlink|opendir|readdir|chmod|f?truncate|tmpfile"
        ),
    ),
    (
        "the network",
        re.compile(r"socket|connect|bind|listen|accept\w*|send\w*|recv\w*|getaddrinfo|gethostby\w*|inet_\w+"),
    ),
    ("threads", re.compile(r"pthread_\w+|thrd_\w+|sem_\w+|_ZNSt6thread\w*")),
    (
        "processes and signals",
        re.compile(
            r"v?fork|clone\w*|exec\w*|system|popen|posix_spawn\w*|wait\w*|kill|raise|_?exit|quick_exit|ptrace|prctl|sig\w+"
            r"|setrlimit|syscall|dl\w+|atexit|_?longjmp|\w*setjmp"
        ),
    ),
    ("the environment", re.compile(r"getenv|secure_getenv|setenv|putenv|(__)?environ")),
    ("clocks", re.compile(r"time|clock\w*|gettimeofday|nanosleep|u?sleep|times|getrusage|_ZNSt6chrono\w*")),
    ("the host runtime", re.compile(r"acl\w+")),
)


def findings(symbols: Symbols, owned: frozenset[str]) -> tuple[Diagnostic, ...]:
    """Return one diagnostic per symbol the candidate must not use or define, and for a missing entry.

    owned: what `owned_by` returned for the runtime's objects.
    """
    found = [_forbidden(name) for name in sorted(symbols.undefined) if not _allowed(name)]
    found += [_taken(name) for name in sorted(symbols.defined | symbols.weak) if _steals(name, symbols, owned)]
    if "kope_entry" not in symbols.defined:
        found.append(
            Diagnostic(
                "no-entry",
                "the object does not export kope_entry with C linkage",
                remedy='write extern "C" int kope_entry(const KopeCall* call)',
                file=SOURCE_NAME,
            )
        )
    return tuple(found)


def denied(symbols: Symbols, known_good: frozenset[str]) -> tuple[Diagnostic, ...]:
    """Return one diagnostic per symbol no candidate must use, for objects of a compiler whose own needs are unknown.

    known_good: what an object of the same compiler asks for that is known to be good. Only what has a name for its own
    mischief is refused: files, network, threads, processes, environment, clocks, the host runtime.
    """
    asked = sorted(symbols.undefined - known_good - _LIBC)
    found = [_forbidden(name) for name in asked if _is_of_a_family(name) or _FORBIDDEN_CPP.search(name)]
    return (*found, *(_taken(name) for name in ("main",) if name in symbols.defined))


def _is_of_a_family(name: str) -> bool:
    return any(pattern.fullmatch(name) for _, pattern in _FAMILIES)


def _allowed(name: str) -> bool:
    if name in _LIBC:
        return True
    if not _ALLOWED_PATTERNS.fullmatch(name):
        return False
    if name.startswith(("_ZN9kope_twin3api", "_ZNK9kope_twin3api")):
        return True
    return "kope_twin" not in name and not _FORBIDDEN_CPP.search(name)


def _steals(name: str, symbols: Symbols, owned: frozenset[str]) -> bool:
    if name in ("kope_entry", "kope_workspace_bytes"):
        return False
    if name in owned or name == "main" or _REPLACEABLE.fullmatch(name):
        return True
    return name not in symbols.weak and (name in _LIBC or name.startswith("__"))


def _forbidden(name: str) -> Diagnostic:
    for family, pattern in _FAMILIES:
        if pattern.fullmatch(name):
            return Diagnostic(
                "forbidden-symbol",
                f"the candidate uses {name}: {family} are not available to a candidate",
                remedy="compute tiling from the call's shapes and attributes, and do the work in the kernel",
                file=SOURCE_NAME,
            )
    return Diagnostic(
        "forbidden-symbol",
        f"the candidate links to {readable(name)}, which is neither AscendC nor plain C++",
        remedy="declare and define every function you use; docs/candidate.md lists what may be linked",
        file=SOURCE_NAME,
    )


def readable(name: str) -> str:
    """Return the qualified name inside a mangled C++ name, other names unchanged. Template arguments are left out."""
    match = re.match(r"_ZN?K?(?=\d)", name)
    if not match:
        return name
    parts: list[str] = []
    position = match.end()
    while digits := re.compile(r"\d+").match(name, position):
        position = digits.end() + int(digits.group())
        parts.append(name[digits.end() : position])
        if match.group() == "_Z":
            break
    return "::".join(parts)


def _taken(name: str) -> Diagnostic:
    return Diagnostic(
        "reserved-name",
        f"{readable(name)} is already the name of a C library or runtime function",
        remedy='rename it, or drop extern "C" from the kernel',
        file=SOURCE_NAME,
    )


def owned_by(runtime: Iterable[Symbols]) -> frozenset[str]:
    """Return the names the runtime's objects define or take from the C library.

    A candidate that defined one of them would replace it in the executable.
    """
    taken: set[str] = set()
    shared: set[str] = set()
    for symbols in runtime:
        taken |= symbols.defined | symbols.undefined
        shared |= symbols.weak  # inline functions: linked first, the runtime's own copy is kept
    return frozenset(taken - shared) - {"kope_entry", "kope_workspace_bytes"}
