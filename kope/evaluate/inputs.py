"""Input values of a case: drawn from task name, case id, input name and a seed, so that everybody gets the same bytes.

The rules are in docs/tasks.md. Changing any of them means raising INPUT_RULES, which renews every cached case.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kope.evaluate.dtypes import FLOATS, file_dtype, smallest_normal
from kope.model import CaseInput

INPUT_RULES = 1
_BLOCK = 1 << 18
_WINDOW_SHARE = 8
_SPECIAL_SHARE = 16


def draw(task_name: str, case_id: str, given: CaseInput, seed: int = 0) -> NDArray[Any]:
    """Return one input as a flat array in its own dtype, `given.spec.numel` elements.

    Floats are uniform in [low, high] in float64 and rounded to the dtype, bfloat16 by way of float32; integers are
    uniform, both ends included.
    """
    spec, values = given.spec, given.values
    random = _generator(task_name, case_id, spec.name, seed)
    data = np.empty(spec.numel, file_dtype(spec.dtype))
    for start in range(0, data.size, _BLOCK):
        block = data[start : start + _BLOCK]
        if spec.dtype in FLOATS:
            numbers = random.random(block.size)
            numbers *= values.high - values.low
            numbers += values.low
            block[:] = _narrowed(numbers, block.dtype)
        else:
            block[:] = random.integers(int(values.low), int(values.high), block.size, dtype=np.int64, endpoint=True)
    if values.special:
        _place_special(data, spec.dtype, values.special, random)
    return data


def _narrowed(numbers: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round to a float type, bfloat16 by way of float32: libraries differ in whether they round once or twice."""
    return (numbers.astype(np.float32) if dtype.kind == "V" else numbers).astype(dtype)


def _generator(*identity: object) -> np.random.Generator:
    digest = hashlib.sha256("\0".join(map(str, identity)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


def _place_special(data: NDArray[Any], dtype: str, special: str, random: np.random.Generator) -> None:
    """Overwrite values in one window of an eighth of the tensor, so that most rows of a row operator stay ordinary.

    zeros and denormal fill the window; nan and inf take one element in 16 of it (at least one), inf with both signs.
    """
    length = max(1, data.size // _WINDOW_SHARE)
    start = int(random.integers(0, data.size - length, endpoint=True))
    window = data[start : start + length]
    if special == "zeros":
        window[:] = 0
        return
    if special == "denormal":
        bound = smallest_normal(dtype)
        window[:] = _narrowed(random.uniform(-bound, bound, length), data.dtype)
        return
    places = random.choice(length, max(1, length // _SPECIAL_SHARE), replace=False)
    window[places] = np.nan if special == "nan" else np.inf
    if special == "inf":
        window[places[1::2]] = -np.inf
