"""The dtype names of the model as NumPy dtypes: of a tensor's file, and of a reference's stored output."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from kope.model import TensorSpec

_BFLOAT16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
FLOATS = ("float32", "float16", "bfloat16")


def file_dtype(name: str) -> np.dtype[Any]:
    """Return the little-endian dtype of a tensor's raw file. A bool is read as uint8: bytes above 1 must show."""
    if name == "bfloat16":
        return _BFLOAT16
    plain = np.dtype("uint8" if name == "bool" else name)
    return plain.newbyteorder("<")


def want_dtype(name: str) -> np.dtype[Any]:
    """Return how a reference's output is stored: wider than its dtype, so that nothing is rounded twice.

    float32 is kept in float64, half and bfloat16 in float32 (13 and 16 more bits); integers as they are.
    """
    wider = {"float32": "<f8", "float16": "<f4", "bfloat16": "<f4"}.get(name)
    return file_dtype(name) if wider is None else np.dtype(wider)


def size_bytes(spec: TensorSpec) -> int:
    """Bytes of a tensor in its own dtype."""
    return spec.numel * file_dtype(spec.dtype).itemsize


def smallest_normal(name: str) -> float:
    """Return the smallest normal number of a float dtype; anything nearer to zero is denormal."""
    return float(_float_facts(name).smallest_normal)


def overflow_limit(name: str) -> float:
    """Return the smallest magnitude that round-to-nearest turns into inf: half a step above the largest number."""
    facts = _float_facts(name)
    largest = float(facts.max)
    return largest + 2.0 ** (int(np.floor(np.log2(largest))) - int(facts.nmant) - 1)


def _float_facts(name: str) -> Any:
    return ml_dtypes.finfo(file_dtype(name))  # type: ignore[no-untyped-call]
