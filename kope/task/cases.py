"""The cases of a task.toml: shapes, dtypes, values and attributes of each, per input or for all inputs at once.

Only meaning is decided here. How values are drawn from a range is kope/evaluate/inputs.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kope.model import AttrValue, Case, CaseInput, TensorSpec, Values
from kope.task.fields import Fields, is_number, nearest

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
SPECIALS = ("nan", "inf", "zeros", "denormal")
_LIMITS = {
    "float16": (-65504, 65504),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**53), 2**53),
    "bool": (0, 1),
}
_CASE_KEYS = ("id", "shape", "dtype", "range", "special", "attrs")
_CASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class InputDecl:
    """One declared input: what its cases inherit when they do not say otherwise. dtype "": the case says."""

    name: str
    dtype: str = ""
    values: Values | None = None
    optional: bool = False


def read_inputs(fields: Fields) -> tuple[InputDecl, ...]:
    """Read the `inputs` table: name = { dtype, range, special, optional }, everything optional."""
    if not fields.table:
        fields.fail("", "no inputs; write inputs = { x = {} }")
    return tuple(_input(fields, name) for name in fields.table)


def _input(fields: Fields, name: str) -> InputDecl:
    if not name.isidentifier():
        fields.fail(name, "not a Python name; the reference takes it as a parameter")
    entry = fields.child(name)
    assert entry is not None
    entry.only("dtype", "range", "special", "optional")
    optional = entry.table.get("optional", False)
    if not isinstance(optional, bool):
        entry.fail("optional", f"{optional!r} is not true or false")
    dtype = _dtype(entry, entry.table["dtype"]) if "dtype" in entry.table else ""
    values = None
    if "range" in entry.table or "special" in entry.table:
        low, high = _range(entry, entry.table.get("range", [-1, 1]))
        values = Values(low, high, _special(entry, entry.table.get("special", "")))
    return InputDecl(name, dtype, values, optional)


def read_attrs(fields: Fields | None) -> dict[str, AttrValue]:
    """Read the `attrs` table of defaults: booleans, integers, floats and texts."""
    if fields is None:
        return {}
    for name, value in fields.table.items():
        if not name.isidentifier():
            fields.fail(name, "not a Python name; the reference takes it as a parameter")
        if not isinstance(value, bool | int | float | str):
            fields.fail(name, f"{value!r} is not a number, true/false or text; attributes are single values")
    return dict(fields.table)


def read_case(fields: Fields, number: int, inputs: tuple[InputDecl, ...], attrs: Mapping[str, AttrValue]) -> Case:
    """Read one [[cases]] entry. `number` counts from 1 and is the id when the entry gives none."""
    fields.only(*_CASE_KEYS)
    case_id = fields.text("id", str(number))
    if not _CASE_ID.fullmatch(case_id):
        fields.fail("id", f"{case_id!r} cannot name a file; use letters, digits, . _ -")
    spread = {key: _spread(fields, key, inputs) for key in ("shape", "dtype", "range", "special")}
    given = [{key: values.get(decl.name) for key, values in spread.items()} for decl in inputs]
    tensors = tuple(_case_input(fields, decl, own) for decl, own in zip(inputs, given, strict=True))
    return Case(case_id, tensors, _case_attrs(fields.child("attrs"), attrs))


def _spread(fields: Fields, key: str, inputs: tuple[InputDecl, ...]) -> dict[str, Any]:
    """A table gives a key per input. A plain shape holds for all; other plain values for inputs without own dtype."""
    value = fields.table.get(key)
    names = [decl.name for decl in inputs]
    if isinstance(value, Mapping):
        for name in value:
            if name not in names:
                fields.fail(f"{key}.{name}", f"no such input; {nearest(name, names)}")
        return dict(value)
    if value is None:
        return {}
    return {decl.name: value for decl in inputs if key == "shape" or not decl.dtype}


def _case_input(fields: Fields, decl: InputDecl, given: Mapping[str, Any]) -> CaseInput | None:
    if given["shape"] is None:
        if decl.optional:
            return None
        fields.fail("shape", f"missing for input {decl.name}; write shape = {{ {decl.name} = [1024] }}")
    dtype = _dtype(fields, given["dtype"] if given["dtype"] is not None else decl.dtype, decl.name)
    default = decl.values or Values()
    low, high = (default.low, default.high) if given["range"] is None else _range(fields, given["range"])
    special = default.special if given["special"] is None else _special(fields, given["special"])
    if special in ("nan", "inf", "denormal") and dtype not in FLOATS:
        fields.fail(
            "special", f'{decl.name} is {dtype} and has no {special}; name a float input: {{ x = "{special}" }}'
        )
    lowest, highest = _LIMITS.get(dtype, (low, high))
    if not lowest <= low <= high <= highest:
        if given["range"] is not None or decl.values is not None:
            fields.fail(
                "range", f"[{low:g}, {high:g}] does not fit {decl.name}, which is {dtype}; take [{lowest}, {highest}]"
            )
        low, high = 0.0, 1.0
    return CaseInput(TensorSpec(decl.name, _shape(fields, given["shape"]), dtype), Values(low, high, special))


def _case_attrs(fields: Fields | None, defaults: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    merged = dict(defaults)
    for name, value in (fields.table if fields else {}).items():
        assert fields is not None
        if name not in defaults:
            fields.fail(name, f"not declared in attrs; {nearest(name, defaults)}")
        default = defaults[name]
        if isinstance(default, float) and is_number(value):
            value = float(value)
        if type(value) is not type(default):
            fields.fail(name, f"{value!r} is not of the type of its default {default!r}; write the same type")
        merged[name] = value
    return merged


def _dtype(fields: Fields, value: Any, name: str = "") -> str:
    if value in DTYPES:
        return str(value)
    if not value:
        fields.fail("dtype", f'missing for input {name}; write dtype = "float32"')
    fields.fail("dtype", f"unknown dtype {value!r}; {nearest(str(value), DTYPES)}")


def _shape(fields: Fields, value: Any) -> tuple[int, ...]:
    good = isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in value)
    if not good or len(value) > 8:
        fields.fail("shape", f"{value!r} is not a list of up to 8 positive integers; write shape = [64, 4096]")
    return tuple(value)


def _range(fields: Fields, value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2 or not all(map(is_number, value)):
        fields.fail("range", f"{value!r} is not [low, high]; write range = [-1, 1]")
    low, high = float(value[0]), float(value[1])
    if not (-float("inf") < low <= high < float("inf")):
        fields.fail(
            "range", f"[{low:g}, {high:g}] is not a finite range with low <= high; for inf or nan use `special`"
        )
    return low, high


def _special(fields: Fields, value: Any) -> str:
    if value != "" and value not in SPECIALS:
        fields.fail("special", f"unknown special value {value!r}; {nearest(str(value), SPECIALS)}")
    return str(value)
