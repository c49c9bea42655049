"""The C++ around a foreign kernel: type macros, tiling, and a kope_entry that launches it with the tensors of a call.

Text in, text out. What it launches with comes from a launch description, or from the project's own tiling function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kope.errors import LaunchError
from kope.target.twin.foreign.description import Description, Tensor
from kope.target.twin.foreign.includes import read_text
from kope.target.twin.foreign.project import (
    GE_TYPES,
    Entry,
    Parameter,
    Project,
    dtype_of_ge,
    tiling_declarations,
    tiling_struct,
)

_WORKSPACE = re.compile(r"(?i)(.*work_?space.*|usr_?work|ws(p)?|.*_ws)")
_TILING = re.compile(r"(?i).*tiling.*")
_TYPE_MACRO = re.compile(r"\b(?:ORIG_)?DTYPE_(\w+)\b")
_HOST_CLASSES = re.compile(
    r"TilingBaseClass|tiling_templates_registry|tiling_base\.h|\bclass\s+\w+\s*(?:final\s*)?[:{]"
)
_HOST_TYPES = re.compile(r"\b(gert|ge|platform_ascendc|AscendC)::")
_LITERAL = re.compile(r"[A-Za-z_][\w:]*|-?\d[\w.+-]*|true|false")


def host_glue(sources: Sequence[Path]) -> str:
    """Return the host half of an operator project: its sources with a tiling function, and the call to it."""
    lines = ['#include "kope_foreign/gert.h"']
    lines += [f'#include "{path}"' for path in sources]
    lines.append('#include "kope_foreign/host_main.h"')
    return "\n".join(lines) + "\n"


class KernelGlue:
    """One kernel of an operator project, or a kernel that stands alone, with what it is launched with.

    source: the kernel's file as the glue includes it. text: it and its own headers. given: None compiles the kernel
    with the first types its operator lists. asks_host: tiling comes from the project's own tiling function.
    """

    def __init__(
        self,
        entry: Entry,
        project: Project,
        source: str,
        text: str,
        given: Description | None,
        *,
        asks_host: bool = False,
        combination: int = 0,
    ) -> None:
        self._entry = entry
        self._project = project
        self._source = source
        self._text = text
        self._given = given or Description()
        self._described = given is not None
        self._asks_host = asks_host
        self._combination = combination

    def text(self) -> str:
        """Return the source to compile. Raises LaunchError when tensors and parameters do not fit."""
        lines = ['#include "kope_foreign/op_kernel.h"']
        lines += self._tiling_declarations()
        lines += [f"using {name};" for name in dict.fromkeys(self._project.structs) if "::" in name]
        lines.append('#include "kope_foreign/dtypes.h"')
        lines += [f"#define {name} {value}" for name, value in sorted(self._macros().items())]
        struct = tiling_struct(self._project, self._given.tiling_key)
        if struct and "REGISTER_TILING_DEFAULT" not in self._text:
            lines.append(f"using KopeTiling [[maybe_unused]] = {struct};")
        lines.append(f'#include "{self._source}"')
        lines += self._entry_code()
        return "\n".join(lines) + "\n"

    def _tiling_declarations(self) -> Iterator[str]:
        """Include the headers with tiling structs; of those that hold host classes too, only the structs."""
        for path in self._project.tiling_headers:
            text = read_text(path)
            if _HOST_CLASSES.search(text):
                yield from tiling_declarations(text)
            else:
                if _HOST_TYPES.search(text):
                    yield '#include "kope_foreign/tiling_api.h"'
                yield f'#include "{path}"'

    def _macros(self) -> dict[str, str]:
        """DTYPE_X, ORIG_DTYPE_X and FORMAT_X of every input and output, and what the description defines."""
        macros: dict[str, str] = {}
        for name, dtype in self._types().items():
            kernel_type, ge_type = GE_TYPES[dtype]
            upper = name.upper()
            macros |= {f"DTYPE_{upper}": kernel_type, f"ORIG_DTYPE_{upper}": ge_type, f"FORMAT_{upper}": "FORMAT_ND"}
        return macros | dict(self._given.defines)

    def _types(self) -> dict[str, str]:
        types: dict[str, str] = {}
        described = [tensor.flat[0].dtype for tensor in self._given.tensors]
        for place, param in enumerate(self._project.params):
            listed = dtype_of_ge(param.dtypes[min(self._combination, len(param.dtypes) - 1)])
            types[param.name] = described[place] if len(described) == len(self._project.params) else listed
        for tensor in self._given.tensors:
            types[tensor.name] = tensor.flat[0].dtype
        first = next(iter(types.values()), "float32")
        named = [parameter.name for parameter in self._entry.parameters if parameter.pointer]
        for name in [*named, *(match.lower() for match in _TYPE_MACRO.findall(self._text))]:
            if name.upper() not in {known.upper() for known in types}:
                types[name] = first
        return types

    def _template(self) -> str:
        if not self._entry.template:
            return ""
        given = self._given.template
        if given is not None:
            for value in given:
                if not _LITERAL.fullmatch(value):
                    raise LaunchError(f'template argument {value!r} is neither a type nor a number; fix "template"')
            return f"<{', '.join(given)}>"
        first = GE_TYPES[next(iter(self._types().values()), "float32")][0]
        values = [
            first if re.match(r"typename\b|class\b", part) else self._first_value(part) for part in self._entry.template
        ]
        return f"<{', '.join(values)}>"

    def _first_value(self, parameter: str) -> str:
        """Return a value for a template parameter that is no type: the first its template tiling declares, else 0."""
        name = re.sub(r"\s*=.*", "", parameter).split()[-1]
        declared = re.search(rf"ASCENDC_TPL_\w+_DECL\s*\(\s*{name}\s*,([^()]*)", self._text)
        numbers = re.findall(r"(?<![\w])\d+(?!\w)", declared.group(1)) if declared else []
        kind = parameter.split()[0]
        if kind == "bool":
            return "false" if not numbers or numbers[0] == "0" else "true"
        return f"static_cast<{' '.join(re.sub(r'=.*', '', parameter).split()[:-1])}>({numbers[-1] if numbers else 0})"

    def _entry_code(self) -> Iterator[str]:
        struct = self._tiling_type()
        yield "namespace kope_foreign {"
        yield "static Tiling& plan(const KopeCall* call)"
        yield "{"
        yield "    static Tiling tiling;"
        yield "    static bool made = false;"
        yield "    if (!made) {"
        yield "        made = true;"
        yield from (f"        {line}" for line in self._plan(struct))
        yield "    }"
        yield "    return tiling;"
        yield "}"
        yield "} // namespace kope_foreign"
        yield 'extern "C" size_t kope_workspace_bytes(const KopeCall* call)'
        yield "{"
        yield "    return ::kope_foreign::plan(call).workspace_bytes;"
        yield "}"
        yield 'extern "C" int kope_entry(const KopeCall* call)'
        yield "{"
        yield "    ::kope_foreign::Tiling& tiling = ::kope_foreign::plan(call);"
        yield "    if (tiling.blocks == 0) {"
        yield "        return 2;"
        yield "    }"
        yield "    ::kope_foreign::tiling_key = tiling.key;"
        yield from (f"    {line}" for line in self._lists())
        kernel = f"{self._entry.symbol}{self._template()}"
        arguments = ", ".join(self._argument(parameter) for parameter in self._entry.parameters)
        launched = f'"{self._entry.name}", {kernel}, tiling.blocks, nullptr, call->stream'
        yield f"    ::kope_twin::launch({launched})({arguments});"
        yield "    return 0;"
        yield "}"

    def _plan(self, struct: str | None) -> Iterator[str]:
        given = self._given
        if self._asks_host:
            lengths = ", ".join(str(len(tensor.flat)) for tensor in given.inputs)
            yield f"static const int lengths[] = {{{lengths or '0'}}};"
            yield f"if (host_tiling(call, lengths, {len(given.inputs)}, tiling) != 0) {{"
            yield "    tiling.blocks = 0;"
            yield "    return tiling;"
            yield "}"
        else:
            yield "(void)call;"
            yield f"tiling.workspace_bytes = {16 << 20}; // room for what the toolkit keeps in front of the user's part"
        if isinstance(given.tiling, Path):
            yield from _raw_tiling(given.tiling)
        elif given.tiling is not None:
            if struct is None:
                raise LaunchError('the kernel\'s tiling struct is not known; name it with "tiling_struct"')
            yield f"{struct} values{{}};"
            yield from assignments("values", given.tiling)
            yield "std::memcpy(tiling.data, &values, sizeof(values));"
        if given.blocks is not None:
            yield f"tiling.blocks = {given.blocks}U;"
        if given.tiling_key is not None:
            yield f"tiling.key = {given.tiling_key}ULL;"
        if given.workspace_bytes is not None:
            yield f"tiling.workspace_bytes = {given.workspace_bytes}ULL;"

    def _tiling_type(self) -> str | None:
        if self._given.tiling_struct:
            return self._given.tiling_struct
        by_value = [
            parameter.type
            for parameter in self._entry.parameters
            if _TILING.fullmatch(parameter.name) and not parameter.pointer
        ]
        if by_value:
            return re.sub(r"\bconst\b|&", "", by_value[0]).strip()
        named = re.search(r"REGISTER_TILING_DEFAULT\s*\(\s*([\w:<>]+)\s*\)", self._text) or re.search(
            r"GET_TILING_DATA(?:_PTR)?_WITH_STRUCT\s*\(\s*([\w:<>]+)\s*,", self._text
        )
        return named.group(1) if named else tiling_struct(self._project, self._given.tiling_key)

    def _lists(self) -> Iterator[str]:
        for role, tensors in (("inputs", self._given.inputs), ("outputs", self._given.outputs)):
            place = 0
            for tensor in tensors:
                if tensor.parts:
                    count = len(tensor.parts)
                    yield f"static ::kope_foreign::List list_{role}_{place};"
                    yield f"::kope_foreign::make_list(list_{role}_{place}, call->{role} + {place}, {count});"
                place += len(tensor.flat)

    def _argument(self, parameter: Parameter) -> str:
        if not parameter.pointer:
            return self._value(parameter)
        if _TILING.fullmatch(parameter.name):
            return _pointer(parameter, "tiling.data")
        tensors = self._places()
        if parameter.name in tensors:
            return _pointer(parameter, tensors[parameter.name])
        if _WORKSPACE.fullmatch(parameter.name):
            return _pointer(parameter, "call->workspace")
        if not self._described:
            return _pointer(parameter, "nullptr")
        names = ", ".join(tensor.name for tensor in self._given.tensors) or "none"
        raise LaunchError(
            f"kernel {self._entry.name} takes {parameter.name}, which no tensor of the launch description stands for"
            f" (it has {names}); name the tensors like the kernel's parameters, or give as many as it takes, in order"
        )

    def _value(self, parameter: Parameter) -> str:
        kernel_type = re.sub(r"\bconst\b|&", "", parameter.type).strip()
        if _TILING.fullmatch(parameter.name) or parameter.name == "":
            return f"*reinterpret_cast<{kernel_type}*>(tiling.data)"
        value = self._given.arguments.get(parameter.name)
        if value is None and self._described:
            raise LaunchError(
                f"kernel {self._entry.name} takes {parameter.name} by value; give it under arguments in the description"
            )
        return f"static_cast<{kernel_type}>({_number(value)})" if value is not None else f"{kernel_type}{{}}"

    def _places(self) -> dict[str, str]:
        """Return for every parameter that is a tensor where the call holds it: by name, else in order."""
        found: dict[str, str] = {}
        places = [*_expressions("inputs", self._given.inputs), *_expressions("outputs", self._given.outputs)]
        pointers = [
            parameter.name
            for parameter in self._entry.parameters
            if parameter.pointer and not _TILING.fullmatch(parameter.name)
        ]
        lowered = {name.lower(): name for name in pointers}
        given = {tensor.name.lower() for tensor in self._given.inputs}
        for at in range(len(self._given.inputs), len(places)):  # an output that updates an input is called X_ref
            updated = f"{places[at][0].lower()}_ref"
            if places[at][0].lower() in given and updated in lowered:
                places[at] = (updated, places[at][1])
        if all(name.lower() in lowered for name, _ in places):
            return {lowered[name.lower()]: expression for name, expression in places}
        tensors = [name for name in pointers if not _WORKSPACE.fullmatch(name)]
        if len(tensors) == len(places):
            found = {name: expression for name, (_, expression) in zip(tensors, places, strict=True)}
        return found


def _expressions(role: str, tensors: Sequence[Tensor]) -> Iterator[tuple[str, str]]:
    place = 0
    for tensor in tensors:
        whole = f"list_{role}_{place}.words" if tensor.parts else f"call->{role}[{place}].data"
        yield tensor.name, whole
        place += len(tensor.flat)


def _pointer(parameter: Parameter, expression: str) -> str:
    kernel_type = re.sub(r"\b(__gm__|__restrict__|__restrict|restrict)\b", "", parameter.type).strip()
    return f"({kernel_type})({expression})"


def assignments(target: str, values: Mapping[str, Any] | Sequence[Any]) -> Iterator[str]:
    """Yield C++ assignments of JSON values to the members of a struct."""
    items = values.items() if isinstance(values, Mapping) else enumerate(values)
    for key, value in items:
        if isinstance(values, Mapping) and not re.fullmatch(r"[A-Za-z_]\w*", str(key)):
            raise LaunchError(f'{key!r} is no member of a tiling struct; fix "tiling"')
        place = f"{target}.{key}" if isinstance(values, Mapping) else f"{target}[{key}]"
        if isinstance(value, (Mapping, list)):
            yield from assignments(place, value)
        else:
            yield f"{place} = static_cast<std::remove_reference_t<decltype({place})>>({_number(value)});"


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}ULL" if value >= 1 << 63 else f"{value}LL"
    if isinstance(value, float):
        return f"{value!r}" if value - value == 0.0 else "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    raise LaunchError(f"{value!r} is no number; tiling values and arguments are numbers")


def _raw_tiling(path: Path) -> Iterator[str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LaunchError(f"the tiling data {path} cannot be read ({error.strerror})") from None
    yield f"static const unsigned char raw[] = {{{', '.join(str(byte) for byte in data)}}};"
    yield "std::memcpy(tiling.data, raw, sizeof(raw));"
