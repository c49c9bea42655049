"""One case of a CANN Bench operator: its row in cases.yaml as a Case, tensor lists flattened into inputs of their own.

Only shapes, dtypes, ranges and attributes are read here; the suite's rules for drawing values are in
kope/evaluate/cann_child.py, which gets the row as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kope.model import AttrValue, Case, CaseInput, Parameter, TensorSpec, Values
from kope.task.cases import DTYPES, FLOATS
from kope.task.fields import Fields, nearest
from kope.task.golden import Signature

ROW_KEYS = ("input_shape", "dtype", "value_range", "attrs")


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor of a row, still as the suite writes it. shape None: omitted."""

    shape: list[int] | None
    dtype: str | None
    range: Any


def case_number(fields: Fields) -> str:
    """Return the suite's case_id as text. Raises TaskError when there is none."""
    number = fields.table.get("case_id")
    if isinstance(number, bool) or not isinstance(number, int):
        fields.fail("case_id", f"{number!r} is not a whole number")
    return str(number)


def normal_row(fields: Fields) -> dict[str, Any]:
    """Return the part of a row that decides inputs and call, in the suite's own normal form (its loader's rules)."""
    table = fields.table
    shapes = table.get("input_shape") or []
    if not isinstance(shapes, list) or not shapes:
        fields.fail("input_shape", "is no list of shapes")
    if not isinstance(shapes[0], list) and shapes[0] is not None:
        shapes = [shapes]
    dtypes = table.get("dtype") or []
    dtypes = [dtypes] if isinstance(dtypes, str) else list(dtypes)
    if len(dtypes) == 1 and len(shapes) > 1:
        dtypes = dtypes * len(shapes)
    attrs = table.get("attrs") or {}
    if not isinstance(attrs, Mapping):
        fields.fail("attrs", f"{attrs!r} is no table")
    return {"input_shape": shapes, "dtype": dtypes, "value_range": table.get("value_range") or [], "attrs": dict(attrs)}


def tensors_of(fields: Fields, row: Mapping[str, Any]) -> list[TensorRow | list[TensorRow]]:
    """Return one entry per position of input_shape: a tensor, or a list of tensors."""
    shapes, ranges = row["input_shape"], row["value_range"]
    dtypes = [*row["dtype"], *row["dtype"][-1:] * (len(shapes) - len(row["dtype"]))]
    per_input = bool(ranges) and isinstance(ranges[0], list)
    ranges = [*ranges, *ranges[-1:] * (len(shapes) - len(ranges))] if per_input else [ranges or None] * len(shapes)
    found: list[TensorRow | list[TensorRow]] = []
    for shape, dtype, span in zip(shapes, dtypes, ranges, strict=False):
        if isinstance(shape, list) and shape and isinstance(shape[0], list):
            found.append(_list_rows(fields, shape, dtype, span))
        elif shape is None or (isinstance(shape, list) and None in shape):
            found.append(TensorRow(None, None, None))
        else:
            found.append(TensorRow(_shape(fields, shape), _one(dtype), span))
    return found


def _list_rows(fields: Fields, shapes: list[Any], dtype: Any, span: Any) -> list[TensorRow]:
    own = isinstance(span, list) and bool(span) and isinstance(span[0], list)
    rows = []
    for k, shape in enumerate(shapes):
        given = dtype[k] if isinstance(dtype, list) and k < len(dtype) else _one(dtype)
        rows.append(TensorRow(_shape(fields, shape), given, span[k] if own and k < len(span) else None))
    return rows


def _one(dtype: Any) -> str | None:
    one = dtype[0] if isinstance(dtype, list) and dtype else dtype
    return None if one is None else str(one)


def _shape(fields: Fields, shape: Any) -> list[int]:
    if not isinstance(shape, list) or not all(isinstance(extent, int) and extent >= 0 for extent in shape):
        fields.fail("input_shape", f"{shape!r} is no list of extents")
    return shape


def parameters_of(signature: Signature, rows: Sequence[Sequence[TensorRow | list[TensorRow]]]) -> list[Parameter]:
    """Return the reference's parameters with the inputs that fill them, lists as long as the longest of any case."""
    positions = [name for name, kind in signature.kinds.items() if kind != "attr"]
    parameters = []
    for name, kind in signature.kinds.items():
        inputs: tuple[str, ...] = ()
        if kind == "tensor":
            inputs = (name,)
        elif kind == "list":
            at = positions.index(name)
            lengths = [len(row[at]) for row in rows if at < len(row) and isinstance(row[at], list)]  # type: ignore[arg-type]
            inputs = tuple(f"{name}_{k}" for k in range(max(lengths, default=0)))
        parameters.append(Parameter(name, kind, inputs))
    return parameters


def read_case(
    fields: Fields,
    case_id: str,
    row: Mapping[str, Any],
    tensors: Sequence[TensorRow | list[TensorRow]],
    parameters: Sequence[Parameter],
    defaults: Mapping[str, Any],
) -> Case:
    """Return a Case: one input for every input of every parameter, in order, None where the row omits it."""
    inputs: list[CaseInput | None] = []
    taking = [parameter for parameter in parameters if parameter.kind != "attr"]
    if len(tensors) > len(taking):
        fields.fail("input_shape", f"has {len(tensors)} entries, the reference takes {len(taking)} tensors")
    for at, parameter in enumerate(taking):
        given = tensors[at] if at < len(tensors) else TensorRow(None, None, None)
        if isinstance(given, list) != (parameter.kind == "list") and getattr(given, "shape", ()) is not None:
            fields.fail("input_shape", f"entry {at + 1} and parameter {parameter.name} are not both a list of tensors")
        members = given if isinstance(given, list) else [given]
        for k, name in enumerate(parameter.inputs):
            inputs.append(_case_input(fields, name, members[k]) if k < len(members) else None)
    return Case(case_id, tuple(inputs), _attrs(fields, row["attrs"], parameters, defaults))


def _case_input(fields: Fields, name: str, given: TensorRow) -> CaseInput | None:
    if given.shape is None:
        return None
    if given.dtype not in DTYPES:
        fields.fail("dtype", f"unknown dtype {given.dtype!r} of {name}; {nearest(str(given.dtype), DTYPES)}")
    return CaseInput(TensorSpec(name, tuple(given.shape), given.dtype), _values(given))


def _values(given: TensorRow) -> Values:
    """Return a range as people read it; which elements are special is the suite's rule."""
    plain = given.range if isinstance(given.range, list) and given.range else None
    if plain is None or isinstance(plain[0], list):
        return Values(0.0, 1.0) if given.dtype in FLOATS else Values(0.0, 1.0 if given.dtype == "bool" else 100.0)
    low, high = float(plain[0]), float(plain[-1])
    if given.dtype in FLOATS and not (math.isfinite(low) and math.isfinite(high)):
        return Values(-1.0, 1.0, "nan" if math.isnan(low) and math.isnan(high) else "inf")
    return Values(low, high)


def _attrs(
    fields: Fields, given: Mapping[str, Any], parameters: Sequence[Parameter], defaults: Mapping[str, Any]
) -> dict[str, AttrValue]:
    """Return the attributes a candidate is called with; one that is None is left out."""
    attrs: dict[str, AttrValue] = {}
    for parameter in parameters:
        value = given.get(parameter.name, defaults.get(parameter.name)) if parameter.kind == "attr" else None
        if value is not None:
            attrs[parameter.name] = attr_value(fields, parameter.name, value)
    return attrs


def attr_value(fields: Fields, name: str, value: Any) -> AttrValue:
    """Return an attribute as KOPE holds it: the suite reads text that is a number as that number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, int | float) for item in value):
        return tuple(value)
    fields.fail(f"attrs.{name}", f"{value!r} is no number, text, true/false or list of numbers")
