"""The native task format: a folder with task.toml and reference.py, read into a Task. Nothing of it is executed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from kope.errors import TaskError
from kope.model import AttrValue, Case, OutputDecl, Task, Tolerance
from kope.task.cases import DTYPES, InputDecl, read_attrs, read_case, read_inputs
from kope.task.digest import task_digest
from kope.task.fields import Fields, nearest
from kope.task.signature import check_signature
from kope.task.text_file import read_text

TASK_FILE = "task.toml"
DEFAULT_TOLERANCE = {
    "float32": Tolerance(rtol=1e-4, atol=1e-6),
    "float16": Tolerance(rtol=2.0**-9, atol=2.0**-16),
    "bfloat16": Tolerance(rtol=2.0**-7, atol=2.0**-13),
    "int8": Tolerance(0.0, 0.0),
    "uint8": Tolerance(0.0, 0.0),
    "int16": Tolerance(0.0, 0.0),
    "int32": Tolerance(0.0, 0.0),
    "int64": Tolerance(0.0, 0.0),
    "bool": Tolerance(0.0, 0.0),
}
"""Rounding the exact result to float16 costs at most a quarter of its tolerance, to bfloat16 half of it. float32: tight
enough that computing in half precision fails, loose enough for hardware exp and long sums. Integers are exact."""

_KEYS = (
    *("text", "tags", "inputs", "outputs", "attrs", "tolerance", "cases", "reference", "symbol", "framework"),
    *("native", "reduction", "fixed_shapes"),
)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def is_task_name(name: str) -> bool:
    """Whether a folder of this name can be a task: lower-case letters, digits and _, a letter first."""
    return _NAME.fullmatch(name) is not None


def load_task(folder: Path) -> Task:
    """Read a task folder; its name is the task's name. Raises TaskError: one line with file, key and next step."""
    folder = Path(folder).resolve()
    file = folder / TASK_FILE
    fields = Fields(_read_toml(file), file)
    fields.only(*_KEYS)
    if not is_task_name(folder.name):
        raise TaskError(f"{folder}: the folder's name is the task's; rename it to lower-case letters, digits and _")
    inputs = read_inputs(fields.child("inputs") or Fields({}, file, "inputs"))
    attrs = read_attrs(fields.child("attrs"))
    for name in attrs:
        if name in {decl.name for decl in inputs}:
            fields.fail(f"attrs.{name}", "is also an input; rename one of them")
    outputs = _outputs(fields, inputs)
    symbol, native = fields.text("symbol", "reference"), fields.text("native", "")
    reference = _reference(fields, folder, [name for name in (symbol, native) if name], inputs, attrs)
    cases = _cases(fields, inputs, attrs)
    parts = {
        "name": folder.name,
        "inputs": tuple(decl.name for decl in inputs),
        "outputs": outputs,
        "attrs": attrs,
        "reference": reference,
        "symbol": symbol,
        "framework": _framework(fields),
        "cases": cases,
        "tolerance": _tolerance(fields.child("tolerance")),
        "native": native,
        "reduction": _reduction(fields.child("reduction"), inputs, cases),
        "fixed_shapes": _fixed_shapes(fields),
    }
    text, tags = fields.text("text"), fields.words("tags", ())
    return Task(**parts, text=text, tags=tags, digest=task_digest(**parts), folder=folder)  # type: ignore[arg-type]


def _read_toml(file: Path) -> dict[str, object]:
    if not file.exists():
        raise TaskError(f"{file}: not found; a task is a folder with {TASK_FILE} and reference.py (kope task new)")
    try:
        return tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise TaskError(f"{file}: not valid TOML: {error}; correct that place") from error


def _reference(
    fields: Fields, folder: Path, symbols: Sequence[str], inputs: tuple[InputDecl, ...], attrs: Mapping[str, AttrValue]
) -> str:
    name = fields.text("reference", "reference.py")
    if not name.isprintable():
        fields.fail("reference", f"{name!r} is no name of a file; write one")
    file = (folder / name).resolve()
    if folder not in file.parents:
        fields.fail("reference", f"{file} is outside the task's folder; copy it in")
    source = read_text(file, remedy="write the reference there")
    for symbol in symbols:
        check_signature(source, file, symbol, [decl.name for decl in inputs], list(attrs))
    return source


def _framework(fields: Fields) -> str:
    value = fields.text("framework", "numpy")
    if value not in ("numpy", "torch"):
        fields.fail("framework", f"unknown framework {value!r}; {nearest(value, ('numpy', 'torch'))}")
    return value


def _outputs(fields: Fields, inputs: tuple[InputDecl, ...]) -> tuple[OutputDecl, ...]:
    table = fields.child("outputs")
    if table is None or not table.table:
        fields.fail("outputs", 'missing; write outputs = { y = "same:x" }')
    sources = {f"same:{decl.name}": decl for decl in inputs}
    for name, dtype in table.table.items():
        if dtype not in DTYPES and dtype not in sources:
            table.fail(name, f"unknown dtype {dtype!r}; {nearest(str(dtype), (*DTYPES, *sources))}")
        if dtype in sources and sources[dtype].optional:
            table.fail(name, f"{dtype} is an optional input; take the dtype of one that is always there")
    return tuple(OutputDecl(name, dtype) for name, dtype in table.table.items())


def _tolerance(fields: Fields | None) -> dict[str, Tolerance]:
    rules = dict(DEFAULT_TOLERANCE)
    for dtype in fields.table if fields else ():
        assert fields is not None
        if dtype not in DTYPES:
            fields.fail(dtype, f"unknown dtype; {nearest(dtype, DTYPES)}")
        entry = fields.child(dtype)
        assert entry is not None
        entry.only("rtol", "atol")
        default = rules[dtype]
        rules[dtype] = Tolerance(entry.number("rtol", default.rtol, low=0), entry.number("atol", default.atol, low=0))
    return rules


def _reduction(
    fields: Fields | None, inputs: tuple[InputDecl, ...], cases: tuple[Case, ...]
) -> tuple[str, tuple[int, ...]] | None:
    """Read { x = [-1] }: the axes of one input whose elements are added up in each output element."""
    if fields is None:
        return None
    fields.only(*(decl.name for decl in inputs))
    if len(fields.table) != 1:
        fields.fail("", "names one input; write reduction = { x = [-1] }")
    ((name, axes),) = fields.table.items()
    if not isinstance(axes, list) or not axes or not all(type(axis) is int for axis in axes):
        fields.fail(name, f"{axes!r} is not a list of axes; write {name} = [-1]")
    for given in (given for case in cases for given in case.inputs if given is not None and given.spec.name == name):
        rank = len(given.spec.shape)
        if not all(-rank <= axis < rank for axis in axes):
            fields.fail(name, f"{axes!r} does not fit the shape {list(given.spec.shape)} of a case; name axes it has")
    return name, tuple(axes)


def _fixed_shapes(fields: Fields) -> bool:
    value = fields.table.get("fixed_shapes", False)
    if not isinstance(value, bool):
        fields.fail("fixed_shapes", f"{value!r} is not true or false")
    return value


def _cases(fields: Fields, inputs: tuple[InputDecl, ...], attrs: Mapping[str, AttrValue]) -> tuple[Case, ...]:
    entries = fields.table.get("cases")
    if not isinstance(entries, list) or not entries:
        fields.fail("cases", 'missing; write [[cases]] with shape = [1024] and dtype = "float32"')
    cases = []
    for number, entry in enumerate(entries, start=1):
        place = f"cases[{number}]"
        if not isinstance(entry, dict):
            fields.fail(place, f"{entry!r} is not a table; write [[cases]]")
        cases.append(read_case(Fields(entry, fields.file, place), number, inputs, attrs))
    seen: set[str] = set()
    for number, case in enumerate(cases, start=1):
        if case.id in seen:
            fields.fail(f"cases[{number}].id", f'"{case.id}" is taken by an earlier case; choose another')
        seen.add(case.id)
    return tuple(cases)
