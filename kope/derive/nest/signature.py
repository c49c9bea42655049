"""The number by which a call is recognised as one of the cases a kernel was derived for.

The emitted host code computes the same number of shapes, dtypes and attributes (templates/skeletons/nests.asc.j2).
"""

from __future__ import annotations

import math
import struct
from typing import Any

from kope.model import Case, Task

DTYPE_NUMBERS = {
    "float32": 0, "float16": 1, "bfloat16": 2, "int8": 3, "uint8": 4, "int32": 5, "int64": 6, "bool": 7, "int16": 8,
}  # fmt: skip
_ABSENT = 1000
"""Stands for the dtype of a tensor that is left out or has no elements: neither has an address."""
_FNV_START, _FNV_PRIME, _WORD = 14695981039346656037, 1099511628211, (1 << 64) - 1


def varying_attrs(task: Task) -> list[str]:
    """Attributes that tell cases apart."""
    return [name for name in task.attrs if len({repr(_value(task, case, name)) for case in task.cases}) > 1]


def _value(task: Task, case: Case, name: str) -> Any:
    """An attribute as the call has it, None when it has none."""
    return (case.attrs or task.attrs).get(name)


def signature_of(task: Task, case: Case) -> int:
    """The number by which a call is recognised: what the emitted host code computes of it."""
    words: list[int] = []
    for item in case.inputs:
        if item is None:
            words += [_ABSENT, 0]
            continue
        dtype = DTYPE_NUMBERS[item.spec.dtype] if item.spec.numel else _ABSENT
        words += [dtype, len(item.spec.shape), *item.spec.shape]
    for name in varying_attrs(task):
        words += _attr_words(_value(task, case, name))
    made = _FNV_START
    for word in words:
        made = ((made ^ word) * _FNV_PRIME) & _WORD
    return made


def _attr_words(value: Any) -> list[int]:
    if value is None:
        return [_ABSENT]
    if isinstance(value, str):
        return [*value.encode(), 256]
    if isinstance(value, (list, tuple)):
        return [len(value), *(_bits(item) for item in value)]
    return [_bits(value)]


def _bits(value: float) -> int:
    """A number as the bits of a double; every NaN as the one that text says, whatever sign a parser gave it."""
    number = math.nan if math.isnan(value) else float(value)
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])
