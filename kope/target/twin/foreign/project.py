"""What a foreign source is: a program, a KOPE candidate or a kernel; its entries, and the operator project around it.

Text only: nothing is compiled here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kope.errors import LaunchError
from kope.target.twin.foreign.includes import read_text
from kope.target.twin.source import mask

Kind = Literal["program", "candidate", "kernel"]

_MAIN = re.compile(r"\bint(?:32_t)?\s+main\s*\(")
_CANDIDATE = re.compile(r"\bkope_entry\s*\(")
_GLOBAL = re.compile(r"\b__global__\b")
_SIGNATURE = re.compile(r"[^;{}()]*?(?:\([^()]*\)[^;{}()]*?)?\bvoid\s+([A-Za-z_]\w*)\s*\(")
_TEMPLATE = re.compile(r"\btemplate\s*<")
_TILING_CLASS = re.compile(r"\bREGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
_TILING_STRUCT = re.compile(r"\bBEGIN_TILING_DATA_DEF\s*\(\s*()(\w+)\s*\)")
_DECLARATION = re.compile(
    r"\bBEGIN_TILING_DATA_DEF\b.*?\bEND_TILING_DATA_DEF\b;?|^[ \t]*(?:static\s+)?constexpr\b[^;{}()]*;",
    re.DOTALL | re.MULTILINE,
)
_NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{")
_OP_PARAM = re.compile(r'\b(Input|Output)\s*\(\s*"(\w+)"\s*\)(.*?)(?=;)', re.DOTALL)
_OP_DTYPES = re.compile(r"\bDataType(?:List)?\s*\(\s*\{(.*?)\}\s*\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel. pointer: it is device memory."""

    type: str
    name: str

    @property
    def pointer(self) -> bool:
        """Whether the argument is an address."""
        return "GM_ADDR" in self.type or "*" in self.type


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel function. template: its template parameters, e.g. ("typename T", "int mode").

    symbol: what the compiled copy calls it; another name where the C library has a function of its own.
    """

    name: str
    parameters: tuple[Parameter, ...]
    template: tuple[str, ...]
    name_offset: int
    line: int
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class OpParam:
    """Input or output of an operator definition, with the ge type names it takes, combination by combination."""

    role: str
    name: str
    dtypes: tuple[str, ...]


@dataclass(slots=True)
class Project:
    """The operator project a kernel belongs to. root: below it headers are looked for.

    tiling_headers: host headers that declare tiling structs. tiling_classes: operator name -> struct. structs: all of
    them. host_sources: the files of its host half with a tiling function. params: the operator's inputs and outputs in
    order.
    """

    root: Path
    tiling_headers: list[Path] = field(default_factory=list)
    tiling_classes: dict[str, str] = field(default_factory=dict)
    structs: list[str] = field(default_factory=list)
    host_sources: list[Path] = field(default_factory=list)
    params: list[OpParam] = field(default_factory=list)

    @property
    def combinations(self) -> int:
        """How many combinations of types the operator's definition lists."""
        return max((len(param.dtypes) for param in self.params), default=0)


def kind_of(text: str) -> Kind:
    """Tell what a source is. Raises LaunchError when it holds no kernel at all."""
    code = mask(text)
    if _MAIN.search(code):
        return "program"
    if _CANDIDATE.search(code):
        return "candidate"
    if _GLOBAL.search(code):
        return "kernel"
    raise LaunchError(
        "the file holds neither a __global__ kernel nor a main nor kope_entry; give the file with the kernel"
    )


def entries(text: str) -> list[Entry]:
    """Return the kernels a text defines (declarations are left out), in order."""
    code = mask(text)
    found = []
    for start in _GLOBAL.finditer(code):
        signature = _SIGNATURE.match(code, start.end())
        if not signature:
            continue
        closing = _closing(code, signature.end() - 1)
        if closing < 0 or not re.match(r"\s*\{", code[closing:]):
            continue
        parameters = tuple(_parameter(part) for part in split(code[signature.end() : closing - 1]) if part.strip())
        template = _template_before(code, start.start())
        line = code.count("\n", 0, signature.start(1)) + 1
        name = signature.group(1)
        found.append(Entry(name, parameters, template, signature.start(1), line, name))
    return found


def split(text: str) -> list[str]:
    """Split at commas that stand in no bracket."""
    parts, depth, begin = [], 0, 0
    for offset, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[begin:offset])
            begin = offset + 1
    return [*parts, text[begin:]]


def _closing(code: str, opening: int) -> int:
    depth = 0
    for offset in range(opening, len(code)):
        if code[offset] == "(":
            depth += 1
        elif code[offset] == ")":
            depth -= 1
            if not depth:
                return offset + 1
    return -1


def _parameter(text: str) -> Parameter:
    words = re.sub(r"=.*", "", " ".join(text.split()))
    match = re.match(r"(.*[\s*&])(\w+)$", words)
    return Parameter(match.group(1).strip(), match.group(2)) if match else Parameter(words, "")


def _template_before(code: str, position: int) -> tuple[str, ...]:
    """Return the parameters of the template head that ends where the declaration at position begins."""
    window = code[max(0, position - 2000) : position]
    last = None
    for match in _TEMPLATE.finditer(window):
        last = match
    if last is None:
        return ()
    depth = 0
    for offset in range(last.end() - 1, len(window)):
        if window[offset] == "<":
            depth += 1
        elif window[offset] == ">":
            depth -= 1
            if not depth:
                between = window[offset + 1 :]
                if re.search(r"[;{}]", between):
                    return ()
                return tuple(" ".join(part.split()) for part in split(window[last.end() : offset]))
    return ()


def find_project(kernel: Path, root: Path | None = None) -> Project:
    """Look at the operator project around a kernel file: `<op>/op_kernel/...` beside `<op>/op_host/...`."""
    kernel = kernel.resolve()
    home = next((parent.parent for parent in kernel.parents if parent.name == "op_kernel"), kernel.parent)
    project = Project(root.resolve() if root else _root_of(home))
    host = [path for folder in ("op_host", "op_graph") for path in sorted((home / folder).rglob("*"))]
    beside = [path for path in sorted(kernel.parent.iterdir()) if path.suffix in (".h", ".hpp")]
    for path in [*host, *beside]:
        if path.suffix not in (".h", ".hpp", ".cpp", ".cc") or not path.is_file():
            continue
        text = read_text(path)
        classes = {match.group(1): _qualified(text, match) for match in _TILING_CLASS.finditer(text)}
        project.tiling_classes.update(classes)
        structs = [_qualified(text, match) for match in _TILING_STRUCT.finditer(mask(text))]
        if (classes or structs) and path.suffix in (".h", ".hpp"):
            project.tiling_headers.append(path)
            project.structs += structs
        if path.suffix in (".cpp", ".cc") and re.search(r"\bSetTiling\s*\(|\bIMPL_OP_OPTILING\b", text):
            project.host_sources.append(path)
        if not project.params:
            project.params = list(op_params(text))
    return project


def _root_of(home: Path) -> Path:
    for parent in [home, *home.parents][:6]:
        if (parent / ".git").exists():
            return parent
    return home.parent.parent if (home / "op_kernel").is_dir() and len(home.parts) > 3 else home


def _qualified(text: str, match: re.Match[str]) -> str:
    """Return the struct's name with the namespace the registration stands in."""
    inner = mask(text)[: match.start()]
    spaces = [space.group(1) for space in _NAMESPACE.finditer(inner) if _open_at(inner, space.end() - 1)]
    return "::".join([*spaces, match.group(2)])


def tiling_declarations(text: str) -> Iterator[str]:
    """Yield the tiling structs of a host header, and the constants between them, each in its namespace."""
    code = mask(text)
    for match in _DECLARATION.finditer(code):
        inner = code[: match.start()]
        spaces = [space.group(1) for space in _NAMESPACE.finditer(inner) if _open_at(inner, space.end() - 1)]
        if inner.count("{") - inner.count("}") == len(spaces):  # not inside a class or function
            body = text[match.start() : match.end()]
            yield f"namespace {'::'.join(spaces)} {{ {body} }}" if spaces else body


def _open_at(code: str, brace: int) -> bool:
    """Whether the block that begins at a brace is still open at the end of the text."""
    return code.count("{", brace) > code.count("}", brace)


def op_params(text: str) -> Iterator[OpParam]:
    """Yield inputs and outputs of the operator definition in a host source."""
    if "OpDef" not in text:
        return
    for match in _OP_PARAM.finditer(text):
        types = _OP_DTYPES.search(match.group(3))
        names = re.findall(r"\bDT_\w+", types.group(1)) if types else []
        if names:
            yield OpParam(match.group(1).lower(), match.group(2), tuple(names))


def tiling_struct(project: Project, key: int | None) -> str | None:
    """Return the struct that GET_TILING_DATA means: the one registered for the key, else the operator's own."""
    keyed = next(
        (name for op, name in project.tiling_classes.items() if key is not None and op.endswith(f"_{key}")), None
    )
    plain = next((name for op, name in project.tiling_classes.items() if not re.search(r"_\d+$", op)), None)
    return keyed or plain or next(iter(project.tiling_classes.values()), None)


GE_TYPES: Mapping[str, tuple[str, str]] = {
    "float32": ("float", "DT_FLOAT"),
    "float16": ("half", "DT_FLOAT16"),
    "bfloat16": ("bfloat16_t", "DT_BF16"),
    "int8": ("int8_t", "DT_INT8"),
    "uint8": ("uint8_t", "DT_UINT8"),
    "int16": ("int16_t", "DT_INT16"),
    "int32": ("int32_t", "DT_INT32"),
    "int64": ("int64_t", "DT_INT64"),
    "bool": ("bool", "DT_BOOL"),
    "uint16": ("uint16_t", "DT_UINT16"),
    "uint32": ("uint32_t", "DT_UINT32"),
    "uint64": ("uint64_t", "DT_UINT64"),
    "float64": ("double", "DT_DOUBLE"),
}
"""dtype -> its name in kernels and its ge type."""


def dtype_of_ge(name: str) -> str:
    """Return the dtype a ge type name stands for, float32 for those a kernel has no type for."""
    return next((dtype for dtype, (_, ge) in GE_TYPES.items() if ge == name), "float32")


def chosen(candidates: Sequence[Entry], wanted: str | None, file: Path) -> Entry:
    """Return the entry of that name, or the only one. Raises LaunchError when that leaves a choice."""
    if wanted is not None:
        for entry in candidates:
            if entry.name == wanted:
                return entry
        raise LaunchError(
            f"{file} defines no kernel {wanted!r}; it has {', '.join(entry.name for entry in candidates)}"
        )
    if len(candidates) != 1:
        names = ", ".join(entry.name for entry in candidates) or "none that is defined here"
        raise LaunchError(
            f'{file} has several kernels or none ({names}); name one with "kernel" in the launch description'
        )
    return candidates[0]
