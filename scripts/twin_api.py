"""The list of Ascend C functions the twin has, read from its headers: name, forms, and the types their messages name.

`scripts/docs` writes it to docs/twin-api.md; a test keeps it current. It reads text, so a macro that makes functions is
followed where it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
INCLUDE = ROOT / "kope" / "target" / "twin" / "include" / "kope_twin"
DOCUMENT = ROOT / "docs" / "twin-api.md"
GROUPS = {
    "Moving data": ("copy.h",),
    "Queues, buffers and pools": ("pipe.h", "pool.h"),
    "Tensors": ("tensor.h", "tensor_list.h"),
    "Vector arithmetic": ("vector_arith.h", "vector_mixed.h"),
    "Comparing and selecting": ("vector_compare.h",),
    "Filling, copying, gathering, masks": ("vector_fill.h", "broadcast.h"),
    "Reductions": ("vector_reduce.h",),
    "Sorting": ("sort.h",),
    "Transposing": ("transpose.h",),
    "Library: mathematics and activations": ("library_math.h",),
    "Library: softmax, sums, normalisation": ("library_rows.h",),
    "Library: quantisation": ("library_quant.h",),
    "Synchronisation and position": ("sync.h",),
    "Printing and asserting": ("debug.h",),
    "Older names": ("legacy.h",),
}
NOT_FUNCTIONS = {"Inside", "LocalTensor", "GlobalTensor", "TPipe", "LocalElement", "GlobalElement"}
HEAD = """# Ascend C in the twin

Made by `scripts/docs` from the twin's headers; a test keeps it current. A function that is not here does not compile,
and neither does a type or form it does not take: the message says what it takes. *Forms* counts the ways to call it.

"""
_DEFINE = re.compile(r"^#define (KOPE_TWIN_\w+)\((\w+)[^)]*\)((?:.*\\\n)*.*)", re.MULTILINE)
_MADE = re.compile(r"^(KOPE_TWIN_\w+)\((\w+)([^;\n]*)\)", re.MULTILINE)
_FUNCTION = re.compile(
    r"KOPE_TWIN_(?:API|INLINE)\s+(?:static\s+)?(?:inline\s+)?(?:constexpr\s+)?[\w:<>*& ]+?[\s*&](\w+)\("
)
_WORDS = re.compile(r'static_assert\([^"]*?((?:NAME )?"[^"]+"(?:\s*"[^"]+")*)', re.DOTALL)


def functions(text: str) -> dict[str, tuple[int, str]]:
    """Return every function of a header: how many forms it has, and what its message says about types."""
    makers = {match[1]: match[3] for match in _DEFINE.finditer(text)}
    found: dict[str, tuple[int, str]] = {}

    def add(name: str, forms: int, words: str) -> None:
        before, said = found.get(name, (0, ""))
        found[name] = (before + forms, said or words)

    plain = _DEFINE.sub("", text)
    for match in _MADE.finditer(plain):
        body = resolve(makers, match[1])
        count = len(re.findall(r"\bNAME\(const|\bNAME\(", re.sub(r"NAME<[^(]*\(", "", body)))
        requirement = next((makers[word] for word in re.findall(r"KOPE_TWIN_\w+", match[3]) if word in makers), body)
        add(match[2], max(1, count), spoken(requirement) or helped(plain, body))
    for piece in re.split(r"(?=^[ ]{0,4}(?:template <|KOPE_TWIN_(?:API|INLINE) ))", plain, flags=re.MULTILINE):
        named = _FUNCTION.search(piece)
        if named and not named[1].startswith("KOPE"):
            used = next((makers[word] for word in re.findall(r"KOPE_TWIN_\w+(?=\()", piece) if word in makers), piece)
            add(named[1], 1, spoken(used) or helped(plain, piece))
    return found


def helped(text: str, piece: str) -> str:
    """Return what the helper says that a function leaves its arguments to."""
    called = re.search(r"kope_twin::(run_\w+)\(", piece)
    defined = (
        re.search(rf"KOPE_TWIN_INLINE void {called[1]}\(.*?^}}", text, re.DOTALL | re.MULTILINE) if called else None
    )
    return spoken(defined[0]) if defined else ""


def resolve(makers: dict[str, str], name: str) -> str:
    """Return a macro's body, through macros that only pass on."""
    body = makers.get(name, "")
    inner = re.fullmatch(r"\s*(KOPE_TWIN_\w+)\(.*\)\s*", body)
    return resolve(makers, inner[1]) if inner and inner[1] != name else body


def spoken(text: str) -> str:
    """Return what a type requirement tells a user, "" when there is none."""
    match = _WORDS.search(text.replace("\\\n", " "))
    if not match:
        return ""
    words = " ".join(part for part in re.findall(r'"([^"]*)"', match[1]))
    return re.sub(r"\s+", " ", re.sub(r"^\w*:? ?(takes|makes|writes|converts|reads)", r"\1", words)).strip(" ;:")


def document() -> str:
    """Return docs/twin-api.md as it should be."""
    return HEAD + "\n".join(sections())


def sections() -> Iterator[str]:
    """Yield a table per group."""
    for title, names in GROUPS.items():
        found: dict[str, tuple[int, str]] = {}
        for name in names:
            found |= functions((INCLUDE / name).read_text("utf-8"))
        rows = [f"| `{name}` | {forms} | {words} |" for name, (forms, words) in sorted(found.items()) if public(name)]
        yield "\n".join([f"## {title}", "", "| name | forms | types |", "|---|---|---|", *rows, ""])


def public(name: str) -> bool:
    """Whether a name is one of the API: AscendC names begin with a capital letter, older ones are listed."""
    return (name[0].isupper() and len(name) > 1 and name not in NOT_FUNCTIONS) or name in {
        "printf",
        "set_flag",
        "wait_flag",
        "pipe_barrier",
        "vcadd",
        "get_block_idx",
    }
